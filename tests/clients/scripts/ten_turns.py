"""The ten-turn task by a library, named by the first argument, as an application would run it: streamed, with tools for files, searches and
a shell, and those of two MCP servers. Writes the last word as its last line.

Address, key, question and MCP servers come in the environment: URL, KEY, QUESTION, TIDES (a command as JSON) and PILOTS (a URL).
"""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

URL, KEY, QUESTION, PILOTS = (os.environ[name] for name in ("URL", "KEY", "QUESTION", "PILOTS"))
COMMAND, *ARGUMENTS = json.loads(os.environ["TIDES"])
TURNS = 12
"""Two more than the task takes."""


def read_file(file_path: str) -> str:
    """A file's text."""
    return Path(file_path).read_text(encoding="utf-8")


def write_file(file_path: str, content: str) -> str:
    """Writes a file."""
    Path(file_path).write_text(content, encoding="utf-8")
    return "Written."


def replace(file_path: str, old_string: str, new_string: str, instruction: str = "") -> str:
    """Replaces a text of a file."""
    before = read_file(file_path)
    write_file(file_path, before.replace(old_string, new_string))
    return f"{before.count(old_string)} places changed."


def grep_search(pattern: str, dir_path: str) -> str:
    """Lines of a folder's files that have the pattern."""
    return run_shell_command(f"cd {dir_path} && grep -rn '{pattern}' notes src")


def run_shell_command(command: str) -> str:
    """Runs a command: its output and its exit code."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
    return f"{done.stdout}{done.stderr}\nExit code: {done.returncode}"


TOOLS = [read_file, write_file, replace, grep_search, run_shell_command]


async def mcp_functions(stack):
    """The servers' tools as functions over the official client, for libraries that take no MCP server, or none of its version."""
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    program = stdio_client(StdioServerParameters(command=COMMAND, args=ARGUMENTS))
    tides, pilots = [await stack.enter_async_context(Client(server)) for server in (program, PILOTS)]

    async def tide_table(port: str) -> str:
        """When the water is high in a port."""
        return (await tides.call_tool("tide_table", {"port": port})).content[0].text

    async def order_pilot(ship: str) -> str:
        """Orders a pilot for a ship."""
        return (await pilots.call_tool("order_pilot", {"ship": ship})).content[0].text

    return [tide_table, order_pilot]


async def google_genai(stack):
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=KEY, http_options={"base_url": URL})
    tools = [*TOOLS, *await mcp_functions(stack)]
    limit = types.AutomaticFunctionCallingConfig(maximum_remote_calls=TURNS)
    config = types.GenerateContentConfig(tools=tools, automatic_function_calling=limit)
    said = ""
    async for chunk in await client.aio.models.generate_content_stream(model="gemini-2.5-flash", contents=QUESTION, config=config):
        parts = chunk.candidates[0].content.parts or []
        said = "" if any(part.function_call for part in parts) else said + "".join(part.text or "" for part in parts if not part.thought)
    return said


async def agents_sdk(stack):
    from agents import Agent, OpenAIResponsesModel, Runner, function_tool
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
    from openai import AsyncOpenAI

    servers = [
        MCPServerStdio({"command": COMMAND, "args": ARGUMENTS}, name="tides", client_session_timeout_seconds=60),
        MCPServerStreamableHttp({"url": PILOTS}, name="pilots", client_session_timeout_seconds=60),
    ]
    for server in servers:
        await stack.enter_async_context(server)
    model = OpenAIResponsesModel(model="gpt-5", openai_client=AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY))
    agent = Agent(name="harbour", model=model, tools=[function_tool(tool) for tool in TOOLS], mcp_servers=servers)
    result = Runner.run_streamed(agent, QUESTION, max_turns=TURNS)
    async for _ in result.stream_events():
        pass
    return result.final_output


async def pydantic_ai(stack):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{URL}/v1", api_key=KEY))
    agent = Agent(model, tools=[*TOOLS, *await mcp_functions(stack)])
    async with agent.run_stream(QUESTION) as result:
        return await result.get_output()


async def langgraph(stack):
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    tools = [tool(function) for function in [*TOOLS, *await mcp_functions(stack)]]
    model = ChatOpenAI(model="gpt-4o", base_url=f"{URL}/v1", api_key=KEY).bind_tools(tools)

    async def think(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    last = ""
    options = {"recursion_limit": 2 * TURNS}
    async for message, _ in graph.compile().astream({"messages": [("user", QUESTION)]}, options, stream_mode="messages"):
        last = last + message.text if message.type == "AIMessageChunk" else ""
    return last


async def main():
    async with AsyncExitStack() as stack:
        print(await globals()[sys.argv[1]](stack))


asyncio.run(main())
