// The Vercel AI SDK with a provider of either API, as an application would use it.
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

import { HI, mainByRoute, QUESTION, WEATHER } from "./cases.mjs";

const ENDS = { maxRetries: 0, stopWhen: stepCountIs(4) };
const tools = {
  get_weather: tool({
    description: "The weather of a city, now.",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => WEATHER[city],
  }),
};
const report = Output.object({ schema: z.object({ city: z.string(), degrees: z.number() }) });

/** The model of the route's API. */
function model(url) {
  const baseURL = `${url}/v1`;
  return url.includes("messages")
    ? createAnthropic({ baseURL, apiKey: process.env.ANTHROPIC_API_KEY })("claude-sonnet-4-6")
    : createOpenAI({ baseURL, apiKey: process.env.OPENAI_API_KEY })("gpt-5");
}

/** Calls, results and the last word of all steps. */
const told = (steps, text) => ({
  calls: steps.flatMap((step) => step.toolCalls).map((call) => [call.toolName, call.input]),
  results: steps.flatMap((step) => step.toolResults).map((result) => result.output),
  text,
});

await mainByRoute({
  async whole(url) {
    const { text, finishReason, usage } = await generateText({ model: model(url), prompt: HI, ...ENDS });
    return { text, finishReason, tokens: [usage.inputTokens, usage.outputTokens] };
  },

  async stream(url) {
    const deltas = [];
    const result = streamText({ model: model(url), prompt: HI, ...ENDS });
    for await (const delta of result.textStream) deltas.push(delta);
    return deltas.join("");
  },

  async tools(url) {
    const { steps, text } = await generateText({ model: model(url), prompt: QUESTION, tools, ...ENDS });
    return told(steps, text);
  },

  async streamTools(url) {
    const result = streamText({ model: model(url), prompt: QUESTION, tools, ...ENDS });
    await result.consumeStream();
    return told(await result.steps, await result.text);
  },

  async structured(url) {
    return (await generateText({ model: model(url), prompt: HI, output: report, ...ENDS })).output;
  },
});
