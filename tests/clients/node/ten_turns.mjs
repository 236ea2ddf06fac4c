// The ten-turn task by the AI SDK, as an application would run it: streamed, with tools for files, searches and a shell, and those of two
// MCP servers. Address, key, question and servers come in the environment, as scripts/ten_turns.py has them.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";

import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as Program } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAI } from "@ai-sdk/openai";
import { stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const { URL: url, KEY: apiKey, QUESTION: prompt, TIDES, PILOTS } = process.env;
const [command, ...args] = JSON.parse(TIDES);
const text = z.string();

function run(line) {
  const { stdout, stderr, status } = spawnSync("sh", ["-c", line], { encoding: "utf-8" });
  return `${stdout}${stderr}\nExit code: ${status}`;
}

const made = (description, fields, execute) => tool({ description, inputSchema: z.object(fields), execute });
const own = {
  read_file: made("A file's text.", { file_path: text }, ({ file_path }) => readFileSync(file_path, "utf-8")),
  write_file: made("Writes a file.", { file_path: text, content: text }, ({ file_path, content }) => {
    writeFileSync(file_path, content);
    return "Written.";
  }),
  replace: made(
    "Replaces a text of a file.",
    { file_path: text, old_string: text, new_string: text, instruction: text },
    ({ file_path, old_string, new_string }) => {
      writeFileSync(file_path, readFileSync(file_path, "utf-8").replace(old_string, new_string));
      return "Replaced.";
    },
  ),
  grep_search: made("Lines of a folder's files that have the pattern.", { pattern: text, dir_path: text }, ({ pattern, dir_path }) =>
    run(`cd ${dir_path} && grep -rn '${pattern}' notes src`),
  ),
  run_shell_command: made("Runs a command: its output and its exit code.", { command: text }, ({ command }) => run(command)),
};

const servers = [
  await createMCPClient({ transport: new Program({ command, args }) }),
  await createMCPClient({ transport: { type: "http", url: PILOTS } }),
];
const theirs = Object.assign({}, ...(await Promise.all(servers.map((server) => server.tools()))));
const model = createOpenAI({ baseURL: `${url}/v1`, apiKey })("gpt-5");
const result = streamText({ model, prompt, tools: { ...own, ...theirs }, stopWhen: stepCountIs(12) });
await result.consumeStream();
console.log(await result.text);
await Promise.all(servers.map((server) => server.close()));
process.exit(0);
