// @openai/agents on the Responses API, its default, as an application would use it.
import { Agent, OpenAIResponsesModel, run, setTracingDisabled, tool } from "@openai/agents";
import OpenAI from "openai";
import { z } from "zod";

import { HI, mainByRoute, QUESTION, WEATHER } from "./cases.mjs";

setTracingDisabled(true);

const weather = tool({
  name: "get_weather",
  description: "The weather of a city, now.",
  parameters: z.object({ city: z.string() }),
  execute: ({ city }) => WEATHER[city],
});
const agent = (url, options = {}) =>
  new Agent({ name: "weather", model: new OpenAIResponsesModel(new OpenAI({ baseURL: `${url}/v1`, maxRetries: 0 }), "gpt-5"), ...options });

/** Calls that the model asked for, the results that went back, and the last word. */
function told(result) {
  const items = result.newItems;
  return {
    calls: items.filter((item) => item.type === "tool_call_item").map(({ rawItem }) => [rawItem.name, JSON.parse(rawItem.arguments)]),
    results: items.filter((item) => item.type === "tool_call_output_item").map((item) => item.output),
    text: result.finalOutput,
  };
}

await mainByRoute({
  async stream(url) {
    const result = await run(agent(url), HI, { stream: true });
    const deltas = [];
    for await (const delta of result.toTextStream()) deltas.push(delta);
    await result.completed;
    return { deltas: deltas.join(""), text: result.finalOutput };
  },

  tools: async (url) => told(await run(agent(url, { tools: [weather] }), QUESTION)),

  async streamTools(url) {
    const result = await run(agent(url, { tools: [weather] }), QUESTION, { stream: true });
    await result.completed;
    return told(result);
  },

  async handoff(url) {
    const triage = Agent.create({ name: "triage", model: agent(url).model, handoffs: [agent(url, { tools: [weather] })] });
    const result = await run(triage, QUESTION);
    return { last: result.lastAgent.name, ...told(result) };
  },

  async structured(url) {
    return (await run(agent(url, { outputType: z.object({ city: z.string(), degrees: z.number() }) }), HI)).finalOutput;
  },
});
