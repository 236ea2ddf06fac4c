// Runs a script's cases and writes what each of them got, or its error, as JSON into the file named by the first argument.
// The address and the key come as an application would get them: OPENAI_BASE_URL and OPENAI_API_KEY.
import { writeFileSync } from "node:fs";
import process from "node:process";

export const HI = "Hi";
export const QUESTION = "How is the weather in Zürich and in Oslo?";
export const WEATHER = { Zürich: "21.5 °C in Zürich", Oslo: "4 °C in Oslo" };
export const TOO_LONG = "word ".repeat(9000);
export const INLINE = { headers: { "x-groundwire-inline": "1" } };

/** The proxy's response headers. */
export const groundwire = (headers) => Object.fromEntries([...headers].filter(([name]) => name.startsWith("x-groundwire-")));

/** What an application reads off the error that `call` must end with. */
export async function raised(call) {
  try {
    await call();
  } catch (error) {
    const kinds = [];
    for (let kind = error.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) kinds.push(kind.name);
    const retryAfter = error.headers?.get?.("retry-after") ?? null;
    const id = error.headers?.get?.("x-groundwire-id") ?? null;
    return { kinds, status: error.status ?? null, code: error.code ?? null, message: error.message, retryAfter, id };
  }
  throw new Error("nothing was raised");
}

async function run(cases, ...given) {
  const results = {};
  for (const [name, one] of Object.entries(cases)) {
    try {
      results[name] = { value: await one(...given) };
    } catch (error) {
      results[name] = { error: error.stack ?? String(error) };
    }
  }
  return results;
}

const write = (results) => writeFileSync(process.argv[2], JSON.stringify(results));

export const main = async (cases) => write(await run(cases));

/** Runs the cases with the address of each route, which ROUTES has by name. */
export async function mainByRoute(cases) {
  const results = {};
  for (const [route, url] of Object.entries(JSON.parse(process.env.ROUTES))) results[route] = await run(cases, url);
  write(results);
}
