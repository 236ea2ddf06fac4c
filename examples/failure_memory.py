"""An agent's tool fails: the model is told so once, what it does about it is counted, and what goes on failing becomes a question.

Run it with ``python examples/failure_memory.py``. The policy is policies/memory.yaml in this folder; the agent knows nothing of it.
"""

from __future__ import annotations

import asyncio
import json

from scripted import HERE, Body, Proxy, proxy

LIMIT = {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}, "required": ["query"]}
TOOL = {"type": "function", "function": {"name": "search_docs", "description": "Searches the handbook.", "parameters": LIMIT}}


def step(number: int, limit: int, result: str) -> list[Body]:
    """A call of the agent's tool, and what came of it."""
    arguments = json.dumps({"query": "leave policy", "limit": limit})
    call = {"id": f"c{number}", "type": "function", "function": {"name": "search_docs", "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": result},
    ]


async def turn(groundwire: Proxy, what: str, talk: list[Body]) -> None:
    """Ask with the run as it stands, and say what the proxy made of it."""
    before = len(groundwire.calls)
    answer = await groundwire.ask(talk, tools=[TOOL])
    print(f"\n{what}: {answer.told('failures', 'warnings')}")
    if len(groundwire.calls) == before:
        print(f"  the model was not asked; the answer is: {answer.text}")
    elif "[Proxy's notes" in (last := groundwire.calls[-1]["messages"][-1]["content"]):
        print(f"  the model was told: {last.splitlines()[-2]}")
        # That it was told is remembered in the background; an agent's next call takes longer than that.
        await groundwire.operator("failures", until=lambda found: any(record["guided"] for record in found["data"]))
    else:
        print("  the model was told nothing")


async def main() -> None:
    """Two runs: one that gets over its failure, and one that does not."""
    async with proxy(HERE / "policies" / "memory.yaml") as groundwire:
        talk: list[Body] = [{"role": "user", "content": "How many days of leave do I have?"}]
        talk += step(1, 50, "Error: search_docs timed out after 30 s")
        await turn(groundwire, "50 results at once time out", talk)
        talk += step(2, 10, '{"hits": [{"title": "Leave", "text": "30 days a year."}]}')
        await turn(groundwire, "10 results come", talk)
        (record,) = (await groundwire.operator("failures"))["data"]
        fields = "signal_type code severity fingerprint step_id recommended_adjustment context_refs status helpful_count harmful_count"
        print("\nthe failure record, which holds no word of the conversation:")
        for name in fields.split():
            print(f"  {name}: {json.dumps(record[name])}")

        denied: list[Body] = [{"role": "user", "content": "Look up the leave policy, please."}]
        for number in (1, 2, 3):
            denied += step(number, 5, "Error: permission denied")
            await turn(groundwire, f"denied, {number}", denied)


if __name__ == "__main__":
    asyncio.run(main())
