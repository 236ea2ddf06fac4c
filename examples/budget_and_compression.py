"""A conversation grows towards its window of 8,192 tokens: a warning at 70%, shorter at 80 and 90%, refused where it cannot fit.

Run it with ``python examples/budget_and_compression.py``. The policy is policies/window.yaml in this folder.
"""

from __future__ import annotations

import asyncio
import re
import time

from scripted import HERE, Body, Proxy, proxy

WINDOW_TOKENS = 8192
TURN_TOKENS, REST_TOKENS = 85, 1130
"""Of a question with its answer, and of everything else."""
DECISION = "We decided to take the Hotel Lutetia for 150 USD a night, booking KX-4471."
REFERENCE = re.compile(r"sp_[0-9a-f]+")


def conversation(share: float) -> list[Body]:
    """About that share of the window, the first fifth of it two hours old, with a tool's long result in the middle."""
    turns = round((share * WINDOW_TOKENS - REST_TOKENS) / TURN_TOKENS)
    talk: list[Body] = [{"role": "system", "content": f"You plan a trip of {turns} days."}]
    for day in range(turns):
        said = DECISION if day == 3 else f"What is there to see on day {day}, on foot, near the river and away from the crowds?"
        age_s = 7200 if day < turns // 5 else 300
        hint = {"groundwire": {"timestamp": time.time() - age_s}}
        seen = f"On day {day} see the quays, the market hall and the small museum behind it; then rest in the gardens until late. " * 2
        talk += [{"role": "user", "content": f"Of {turns} days: {said}", **hint}, {"role": "assistant", "content": seen, **hint}]
        if day == turns // 2:
            call = {"id": "c1", "type": "function", "function": {"name": "list_hotels", "arguments": "{}"}}
            talk.append({"role": "assistant", "content": None, "tool_calls": [call]})
            found = "\n".join(f"Hotel {number}, {90 + number} USD, {number % 5 + 1} stars" for number in range(90))
            talk.append({"role": "tool", "tool_call_id": "c1", "content": found})
    return [*talk, {"role": "user", "content": "Which hotel did we take?"}]


async def grow(groundwire: Proxy) -> None:
    """From 60% to 92% of the window."""
    for share in (0.60, 0.72, 0.82, 0.92):
        sent = conversation(share)
        answer = await groundwire.ask(sent, model="gpt-4")
        got = groundwire.calls[-1]["messages"]
        print(f"\nabout {share:.0%} of the window: {len(sent)} messages, of which the model got {len(got)}")
        print(f"  {answer.told('context', 'compression', 'warnings')}")
        if len(got) < len(sent):
            print(f"  the decision is still in the prompt: {any('KX-4471' in str(message['content']) for message in got)}")


async def read_back(groundwire: Proxy) -> None:
    """What left the prompt, as an operator gets it; the model has the tool groundwire_read_archive for that."""
    for id_ in dict.fromkeys(REFERENCE.findall(str(groundwire.calls[-1]["messages"]))):
        kept = await groundwire.operator(f"scratchpad/{id_}")
        print(f"  {id_}: {len(kept)} characters, from {kept[:60]!r} on")


async def main() -> None:
    """Everything in order."""
    async with proxy(HERE / "policies" / "window.yaml") as groundwire:
        await grow(groundwire)
        print("\nwhat left the prompt can be read back, byte for byte:")
        await read_back(groundwire)
        document = [{"role": "system", "content": "Chapter and verse. " * 2000}, {"role": "user", "content": "What is it about?"}]
        refused = await groundwire.ask(document, model="gpt-4")
        print(f"\na system message that cannot be shortened: {refused.status} {refused.body['error']['code']}\n  {refused.text}")
        counters = (await groundwire.operator("metrics"))["counters"]
        for name in ("usage_warning_count", "compression_triggered_count", "critical_alerts_count", "compression_failures"):
            print(f"  context.{name}: {counters.get(f'context.{name}', 0):.0f}")


if __name__ == "__main__":
    asyncio.run(main())
