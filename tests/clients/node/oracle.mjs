// The Vercel AI SDK as an oracle: a line of JSON in for each answer that waits at an address, a line out with what was shown of it.
import process from "node:process";
import { createInterface } from "node:readline";

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;
const MARK = /q[b-df-hj-np-tv-xz]{4}a|(?<![0-9])8[0-9]{6}3(?![0-9])/;
const HIDDEN = new Set(["request", "headers", "body", "rawValue", "error"]); // raw bytes, and what is thrown
const TIMEOUT_MS = 4_000;
const tools = { look_up: tool({ description: "Looks it up.", inputSchema: z.object({ path: z.string() }) }) };

function model({ api, url }) {
  const given = { baseURL: `${url}/v1`, apiKey: "k" };
  if (api === "messages") return createAnthropic(given)("claude-sonnet-4-6");
  return api === "chat" ? createOpenAI(given).chat("gpt-4o") : createOpenAI(given).responses("gpt-5");
}

function look(value, shown, path = "", depth = 0) {
  if (typeof value === "string" || typeof value === "number") {
    if (MARK.test(String(value))) shown.strings.set(String(value), path);
  } else if (Array.isArray(value)) {
    for (const one of value) look(one, shown, `${path}[]`, depth + 1);
  } else if (value && typeof value === "object" && depth < 12) {
    for (const [key, one] of Object.entries(value)) {
      if (HIDDEN.has(key)) continue;
      look(key, shown, `${path}{}`, depth + 1);
      look(one, shown, `${path}.${key}`, depth + 1);
    }
  }
}

/** The SDK asks for one choice and mixes those of an answer with more. */
const say = (ask, shown, name, text) => {
  if (ask.choices === 1 && typeof text === "string") shown.texts[name] = (shown.texts[name] ?? "") + text;
};

const asked = (ask) => ({
  model: model(ask),
  prompt: "Where is it?",
  maxRetries: 0,
  abortSignal: AbortSignal.timeout(TIMEOUT_MS),
  ...(ask.tools ? { tools } : {}),
});

async function whole(ask, shown) {
  const got = await generateText(asked(ask));
  for (const name of ["text", "reasoningText", "content", "toolCalls", "sources", "files", "providerMetadata", "finishReason", "warnings"]) {
    look(got[name], shown, name);
  }
  say(ask, shown, "text", got.text);
}

async function streamed(ask, shown) {
  const got = streamText({ ...asked(ask), onError: () => {} });
  for await (const part of got.fullStream) {
    look(part, shown, part.type);
    if (part.type === "text-delta") say(ask, shown, "text", part.text);
    if (part.type === "error") shown.error = String(part.error);
  }
  say(ask, shown, "final text", await got.text);
}

/** Some promises of the SDK are never kept where a stream has no end. */
const late = () => new Promise((_, refuse) => setTimeout(() => refuse(new Error("never came to an end")), TIMEOUT_MS));
process.on("unhandledRejection", () => {});
setInterval(() => {}, 1 << 30); // a promise that is never kept does not keep the process

console.log(JSON.stringify("ready"));
for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  const shown = { texts: {}, strings: new Map(), error: "" };
  try {
    await Promise.race([(ask.streamed ? streamed : whole)(ask, shown), late()]);
  } catch (error) {
    shown.error = String(error);
  }
  const strings = [...shown.strings].map(([text, path]) => [path, text]);
  const name = ask.streamed ? "ai_sdk_stream" : "ai_sdk_whole";
  console.log(JSON.stringify({ [name]: { ...shown, strings } }));
}
process.exit();
