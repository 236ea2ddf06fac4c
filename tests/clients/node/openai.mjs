// openai-node, as an application would use it.
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { groundwire, HI, INLINE, main, QUESTION, raised, TOO_LONG, WEATHER } from "./cases.mjs";

const client = new OpenAI({ maxRetries: 0 });
const chat = client.chat.completions;
const HELLO = { model: "gpt-4o", messages: [{ role: "user", content: HI }] };
const ASK = { model: "gpt-4o", messages: [{ role: "user", content: QUESTION }] };
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const tool = { type: "function", function: { name: "get_weather", description: "The weather of a city, now.", parameters } };
const runnable = { ...tool, function: { ...tool.function, parse: JSON.parse, function: ({ city }) => WEATHER[city] } };
const report = zodResponseFormat(z.object({ city: z.string(), degrees: z.number() }), "report");

async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const text = (chunks, index = 0) =>
  chunks.flatMap((chunk) => chunk.choices).filter((choice) => choice.index === index).map((choice) => choice.delta.content ?? "").join("");
const asked = (message) => message.tool_calls.map((call) => [call.id, call.function.name, call.function.arguments]);

await main({
  async whole() {
    const { data, response, request_id } = await chat.create(HELLO).withResponse();
    const { message, finish_reason } = data.choices[0];
    return { text: message.content, finish: finish_reason, total: data.usage.total_tokens, requestId: request_id, headers: groundwire(response.headers) };
  },

  async stream() {
    const { data, response } = await chat.create({ ...HELLO, stream: true }).withResponse();
    const chunks = await collect(data);
    return { text: text(chunks), role: chunks[0].choices[0].delta.role, finish: chunks.at(-1).choices[0].finish_reason, headers: groundwire(response.headers) };
  },

  async streamWithUsage() {
    const chunks = await collect(await chat.create({ ...HELLO, stream: true, stream_options: { include_usage: true } }));
    const last = chunks.at(-1);
    return { choices: last.choices.length, total: last.usage.total_tokens, others: chunks.slice(0, -1).filter((chunk) => chunk.usage).length };
  },

  async tools() {
    const { message } = (await chat.create({ ...ASK, tools: [tool] })).choices[0];
    const results = message.tool_calls.map((call) => {
      const content = WEATHER[JSON.parse(call.function.arguments).city];
      return { role: "tool", tool_call_id: call.id, content };
    });
    const final = await chat.create({ ...ASK, messages: [...ASK.messages, message, ...results], tools: [tool] });
    return { calls: asked(message), text: final.choices[0].message.content };
  },

  // The library runs the tools itself, over a streamed conversation.
  async runTools() {
    const runner = chat.runTools({ ...ASK, stream: true, tools: [runnable] });
    const final = await runner.finalContent();
    return { calls: asked(runner.messages.find((message) => message.tool_calls)), text: final };
  },

  async runToolsWhole() {
    const runner = chat.runTools({ ...ASK, tools: [runnable] });
    return { text: await runner.finalContent(), results: runner.messages.filter((m) => m.role === "tool").map((m) => m.content) };
  },

  async interleavedTools() {
    const calls = [];
    for (const chunk of await collect(await chat.create({ ...ASK, model: "interleaver", tools: [tool], stream: true }))) {
      for (const part of chunk.choices[0].delta.tool_calls ?? []) {
        calls[part.index] ??= [part.id, part.function.name, ""];
        calls[part.index][2] += part.function.arguments;
      }
    }
    return calls;
  },

  async twoChoices() {
    const whole = await chat.create({ ...HELLO, n: 2 });
    const chunks = await collect(await chat.create({ ...HELLO, n: 2, stream: true }));
    return { whole: whole.choices.map((choice) => choice.message.content), stream: [text(chunks, 0), text(chunks, 1)] };
  },

  async parsed() {
    const whole = await chat.parse({ ...HELLO, response_format: report });
    const streamed = await chat.stream({ ...HELLO, response_format: report }).finalChatCompletion();
    return { whole: whole.choices[0].message.parsed, stream: streamed.choices[0].message.parsed, raw: streamed.choices[0].message.content };
  },

  async inline() {
    const whole = await chat.create(HELLO, INLINE);
    const chunks = await collect(await chat.create({ ...HELLO, stream: true }, INLINE));
    const last = chunks.at(-1);
    return { whole: [whole.choices[0].message.content, whole.groundwire.verdict], stream: text(chunks), last: [last.choices.length, last.groundwire.verdict] };
  },

  // The library's own accumulator meets the chunk that carries the verdict.
  async inlineHelper() {
    const streamed = await chat.stream({ ...HELLO, response_format: report }, INLINE).finalChatCompletion();
    return streamed.choices[0].message.parsed;
  },

  async many() {
    const one = async (i) => {
      const messages = [{ role: "user", content: `Echo ${i}. Number ${i} said. It ends, ${i}.` }];
      return text(await collect(await chat.create({ model: "gpt-4o", messages, stream: true })));
    };
    return Promise.all(Array.from({ length: 16 }, (_, i) => one(i)));
  },

  async leaves() {
    const stream = await chat.create({ ...HELLO, stream: true });
    let role;
    for await (const chunk of stream) {
      role = chunk.choices[0].delta.role;
      break;
    }
    return { role, then: (await chat.create(HELLO)).choices[0].message.content };
  },

  async otherPaths() {
    const models = (await collect(await client.models.list())).map((model) => model.id);
    const { data } = await client.embeddings.create({ model: "text-embedding-3-small", input: ["a", "b"] });
    return { models, vectors: data.map((item) => [...item.embedding]) };
  },

  async errors() {
    const stranger = new OpenAI({ apiKey: "wrong", maxRetries: 0 });
    const long = { ...HELLO, messages: [{ role: "user", content: TOO_LONG }] };
    return {
      wrongKey: await raised(() => stranger.chat.completions.create(HELLO)),
      tooLong: await raised(() => chat.create({ ...long, stream: true })),
      limited: await raised(() => chat.create({ ...HELLO, model: "limited" })),
      refused: await raised(() => chat.create({ ...HELLO, model: "refused" })),
      breaks: await raised(async () => collect(await chat.create({ ...HELLO, model: "breaks", stream: true }))),
      fails: await raised(async () => collect(await chat.create({ ...HELLO, model: "fails", stream: true }))),
    };
  },
});
