"""A coding agent: it reads a file, changes a line and runs the tests; its turns are one run, and each has its record.

Run it with ``python examples/coding_agent.py``. The policy is the shipped one, policies/agent.yaml; the model's steps are prepared.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from scripted import POLICIES, Body, proxy

from proxy.testing import completion, reply

SOURCE = "def area(width, height):\n    return width + height\n"
STEPS = (
    ("read_file", {"path": "shapes.py"}),
    ("run_tests", {}),
    ("edit_file", {"path": "shapes.py", "old": "width + height", "new": "width * height"}),
    ("run_tests", {}),
)
FIELDS: dict[str, list[str]] = {"read_file": ["path"], "edit_file": ["path", "old", "new"], "run_tests": []}


def described(name: str) -> Body:
    """A tool, as the model gets it."""
    schema = {"type": "object", "properties": {field: {"type": "string"} for field in FIELDS[name]}, "required": FIELDS[name]}
    return {"type": "function", "function": {"name": name, "description": name.replace("_", " "), "parameters": schema}}


def tools(folder: Path) -> dict[str, Callable[..., str]]:
    """What the agent can do."""

    def run() -> str:
        test = "from shapes import area; assert area(3, 4) == 12, area(3, 4)"
        done = subprocess.run([sys.executable, "-c", test], cwd=folder, capture_output=True, text=True, check=False)
        return done.stderr.strip().splitlines()[-1] if done.returncode else "1 passed"

    def edit(path: str, old: str, new: str) -> str:
        return f"{(folder / path).write_text((folder / path).read_text().replace(old, new))} characters written"

    return {"read_file": lambda path: (folder / path).read_text(), "edit_file": edit, "run_tests": run}


def asks_for(number: int, name: str, arguments: Body) -> Body:
    """The model's answer that calls a tool."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    body = completion("")
    body["choices"][0] |= {"message": {"role": "assistant", "content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    return body


async def main() -> None:
    """The loop of any agent: ask, do what it says, tell it what came of it."""
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name)).joinpath("shapes.py").write_text(SOURCE)
        able, talk = tools(folder), [{"role": "user", "content": "The area of shapes.py is wrong. Mend it and run the tests."}]
        async with proxy(POLICIES / "agent.yaml") as groundwire:
            groundwire.will_say(*(reply(asks_for(n, *step)) for n, step in enumerate(STEPS)), "area multiplies now, and its test passes.")
            message: Body = {"tool_calls": True}
            while message.get("tool_calls"):
                answer = await groundwire.ask(talk, tools=[*map(described, FIELDS)], extra_headers={"x-groundwire-run-id": "mend-area"})
                message = answer.body["choices"][0]["message"]
                talk.append(message)
                for call in message.get("tool_calls") or []:
                    result = able[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
                    talk.append({"role": "tool", "tool_call_id": call["id"], "content": result})
                    print(f"\n{call['function']['name']}: {answer.told('context', 'failures')}\n  {result.splitlines()[0]}")
            turns = await groundwire.operator("records?run_id=mend-area", until=lambda found: len(found["data"]) > len(STEPS))
            print(f"\n{answer.text}\n  {len(turns['data'])} turns of one run: /dashboard/runs/mend-area")


if __name__ == "__main__":
    asyncio.run(main())
