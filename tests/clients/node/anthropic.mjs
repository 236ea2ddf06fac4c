// anthropic-node, as an application would use it.
import Anthropic from "@anthropic-ai/sdk";

import { HI, INLINE, mainByRoute, QUESTION, raised, WEATHER } from "./cases.mjs";

const HELLO = { model: "claude-sonnet-4-6", max_tokens: 4000, messages: [{ role: "user", content: HI }] };
const input_schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "get_weather", description: "The weather of a city, now.", input_schema, cache_control: { type: "ephemeral" } }];
const ASK = { ...HELLO, tools, messages: [{ role: "user", content: QUESTION }] };
const THINK = { thinking: { type: "enabled", budget_tokens: 2000 } };

const client = (baseURL, options = {}) => new Anthropic({ baseURL, maxRetries: 0, ...options });
const messages = (baseURL, options) => client(baseURL, options).messages;
const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const calls = (message) => message.content.filter((block) => block.type === "tool_use").map((block) => [block.name, block.input]);

/** A question, the calls that it leads to, and the answer to their results. */
async function rounds(ask) {
  const asked = await ask(ASK.messages);
  const results = asked.content
    .filter((block) => block.type === "tool_use")
    .map((block) => ({ type: "tool_result", tool_use_id: block.id, content: WEATHER[block.input.city] }));
  const final = await ask([...ASK.messages, { role: "assistant", content: asked.content }, { role: "user", content: results }]);
  return { calls: calls(asked), kinds: asked.content.map((block) => block.type), text: text(final) };
}

await mainByRoute({
  async whole(url) {
    const message = await messages(url).create(HELLO);
    return { text: text(message), stop: message.stop_reason, tokens: [message.usage.input_tokens, message.usage.output_tokens] };
  },

  async stream(url) {
    const deltas = [];
    const stream = messages(url).stream(HELLO).on("text", (delta) => deltas.push(delta));
    const final = await stream.finalMessage();
    return { deltas: deltas.join(""), text: text(final) };
  },

  tools: (url) => rounds((said) => messages(url).create({ ...ASK, messages: said })),

  streamToolsWithThinking: (url) => rounds((said) => messages(url).stream({ ...ASK, ...THINK, messages: said }).finalMessage()),

  /** The library's own loop, which begins on a thread. */
  async toolRunner(url) {
    const run = ({ city }) => WEATHER[city];
    return text(await client(url).beta.messages.toolRunner({ ...ASK, tools: [{ ...tools[0], run, parse: (input) => input }] }).runUntilDone());
  },

  async countTokens(url) {
    return (await messages(url).countTokens({ model: ASK.model, messages: ASK.messages, tools })).input_tokens;
  },

  async inline(url) {
    let last;
    for await (const event of await messages(url).create({ ...HELLO, stream: true }, INLINE)) last = event;
    return [(await messages(url).create(HELLO, INLINE)).groundwire.verdict, last.groundwire.verdict];
  },

  async errors(url) {
    const wrongKey = await raised(() => messages(url, { apiKey: "wrong" }).create(HELLO));
    const limited = await raised(() => messages(url).create({ ...HELLO, model: "limited" }));
    const bad = await raised(() => messages(url).create({ ...HELLO, messages: "Hi" }));
    const thread = await raised(() => client(url).beta.messages.thread({ model: HELLO.model, max_tokens: 4000 }).send(HELLO.messages));
    return { wrongKey, limited, bad, thread };
  },
});
