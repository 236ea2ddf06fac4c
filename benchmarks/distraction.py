"""Does a long history distract a model, and what do the stage `history`'s two remedies make of it?

    python -m benchmarks.distraction [--conversations N] [--model GGUF] [--threads N] [--seed N]

Data: conversations of this seed, 50 messages and about 1,200 tokens, in which a user notes errands: a kind of number, a place, a value of
four digits ("The locker code in Lisbon is 4471."), with small talk before each. Each is asked six questions, two of a kind:

- *recent*: noted in the last ten messages, and nothing of the kind before;
- *changed*: noted early, and corrected in the last ten messages, so that the old value is the mistake to make;
- *old*: noted early only. What leaves the prompt can no longer be answered from it: the price of the remedy.

The same question is asked over the history as it is, over the last ten messages alone (a clean context: what the first two need, and
little else), and over what `history` forwards, by ``sliding_window`` and by ``summarize`` with the built-in summariser. The archive's
tool is not offered. The model is the one that `groundwire fetch-model` unpacks unless told, 135 million parameters, at temperature 0, in
llama.cpp; its answer is begun for it ("The locker code in Lisbon is now"), since alone it mostly repeats what was said last. It stands
for itself, not for models a thousand times its size. An answer is right where the first number of four digits in it is the one noted
last. *needle* is whether that value stands in what is forwarded, which no model decides; *seconds* are those of each conversation's first
question, which nothing is cached of.

Intervals are 95%, bootstrapped over conversations; differences to the history as it is are paired.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from proxy.config.settings import EmbeddedSettings
from proxy.exchange import Message
from proxy.language.text import text_of
from proxy.models.tokens.counter import TiktokenCounter
from proxy.pipeline import Pipeline
from proxy.ports.upstream import Call
from proxy.stages.history import Action, History, HistoryOptions
from proxy.testing import make_exchange, make_ports
from proxy.upstreams.embedded import EmbeddedUpstream

RESULTS = Path(__file__).parent / "results" / "distraction.json"
KINDS = ("recent", "changed", "old")
ARMS = ("as it is", "last ten alone", "sliding_window", "summarize")
MESSAGES, RECENT = 50, 10
_COUNTED_AS = "gpt-4o"
"""By whose tokenizer the stage counts."""
_RULES = "You are an assistant who keeps notes. Answer the last question with the number alone, as it was noted last."
_THINGS = ("locker code", "booking number", "gate code", "parcel number", "room code", "ticket number", "alarm code", "invoice number")
_PLACES = ("Lisbon", "Vienna", "Osaka", "Nairobi", "Quito", "Halifax", "Cork", "Turin", "Malmo", "Perth", "Lima", "Oslo")
_TALK = (
    "By the way, the weather was better than we had feared and the children liked the harbour very much.",
    "We took the early train because the later one is always crowded, and had breakfast on the way.",
    "My sister wants to come along next time, so we should look for a place with a second bedroom.",
    "The restaurant at the corner was closed, which was a pity, but the one by the river was open.",
    "I have not yet decided whether to take the car or to go by bus; tell me if you hear of roadworks.",
    "The museum had a fine exhibition of old maps, and we stayed until they closed the doors.",
)
_SAID = (
    "Thank you, I have put that into the notes.",
    "That is noted.",
    "I have written it down.",
    "Good, it is in your notes now.",
)


class Task(Struct, frozen=True):
    """A conversation and the value that its last message asks for."""

    kind: str
    messages: list[Message]
    start: str
    """How the answer begins."""
    value: str


def make_tasks(source: random.Random) -> list[Task]:
    """The questions of one conversation, two of each kind; no errand is noted twice but for those that change."""
    pairs = [(thing, place) for thing in _THINGS for place in _PLACES]
    source.shuffle(pairs)
    values = [str(number) for number in source.sample(range(1000, 9999), 60)]
    count = MESSAGES // 2 - 1
    notes = [(pair, value, "is") for pair, value in zip(pairs, values, strict=False)][:count]
    late = source.sample(range(count - RECENT // 2 + 1, count), 4)
    early = source.sample(range(2, count // 2), 4)
    for at, old in zip(late[2:], early[2:], strict=True):
        notes[at] = (notes[old][0], notes[at][1], "has changed: it is now")
    messages: list[Message] = [{"role": "system", "content": _RULES}]
    for (thing, place), value, verb in notes:
        messages.append({"role": "user", "content": f"{source.choice(_TALK)} The {thing} in {place} {verb} {value}."})
        messages.append({"role": "assistant", "content": source.choice(_SAID)})
    asked = zip((KINDS[0], KINDS[0], KINDS[1], KINDS[1], KINDS[2], KINDS[2]), (*late, *early[:2]), strict=True)
    found = []
    for kind, at in asked:
        (thing, place), value, _ = notes[at]
        question = {"role": "user", "content": f"What is the {thing} in {place} now?"}
        found.append(Task(kind, [*messages, question], f"The {thing} in {place} is now", value))
    return found


async def forwarded(task: Task, arm: str, tokens: TiktokenCounter) -> Sequence[Message]:
    """What the model gets."""
    if arm == "as it is":
        return task.messages
    if arm == "last ten alone":
        return [task.messages[0], *task.messages[-RECENT:]]
    action: Action = "summarize" if arm == "summarize" else "sliding_window"
    stage = History(HistoryOptions(action=action), make_ports(tokens=tokens))
    exchange = make_exchange(task.messages, model=_COUNTED_AS, tool_choice="none")
    await Pipeline([stage]).request(exchange)
    return exchange.messages


async def ask(model: EmbeddedUpstream, messages: Sequence[Message], start: str) -> tuple[str, float, int]:
    """The answer behind its `start`, seconds, tokens of the prompt."""
    begun = [*messages, {"role": "assistant", "content": start}]
    body = {"messages": begun, "temperature": 0, "max_tokens": 8}
    call = Call("POST", "/chat/completions", [("content-type", "application/json")], json.dumps(body).encode())
    started = time.perf_counter()
    reply = await model.send(call)
    answer = json.loads(await reply.read())
    await reply.close()
    return answer["choices"][0]["message"]["content"] or "", time.perf_counter() - started, answer["usage"]["prompt_tokens"]


def is_right(answer: str, value: str) -> bool:
    """Whether the first number of four digits is the value."""
    found = re.search(r"(?<!\d)\d{4}(?!\d)", answer)
    return found is not None and found[0] == value


async def measured(conversations: Sequence[Sequence[Task]], given: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each task and arm."""
    tokens = TiktokenCounter({})
    await asyncio.to_thread(tokens.load)
    settings = EmbeddedSettings(model_path=given.model, threads=given.threads, parallel=1, window=8192)
    model = EmbeddedUpstream("local", settings)
    await model.start()
    rows = []
    try:
        for number, tasks in enumerate(conversations):
            for arm in ARMS:
                for first, task in enumerate(tasks):
                    sent = await forwarded(task, arm, tokens)
                    answer, seconds, prompt_tokens = await ask(model, sent, task.start)
                    needle = task.value in " ".join(text_of(message.get("content")) for message in sent)
                    row = {"conversation": number, "kind": task.kind, "arm": arm, "prompt_tokens": prompt_tokens, "answer": answer}
                    row["seconds"] = None if first else seconds
                    rows.append({**row, "right": is_right(answer, task.value), "needle": needle})
            print(f"  {number + 1}/{len(conversations)}", end="\r", flush=True)
            write({"conversations": number + 1, "seed": given.seed, "table": table(rows, given.seed), "rows": rows})
    finally:
        await model.stop()
    return rows


def interval(values: Sequence[float], groups: Sequence[int], seed: int) -> tuple[float, float, float]:
    """Mean with its 95% bootstrap interval over groups."""
    names = sorted(set(groups))
    sums = np.array([sum(v for v, group in zip(values, groups, strict=True) if group == name) for name in names], np.float64)
    sizes = np.array([groups.count(name) for name in names], np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(names), (2000, len(names)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    return float(sums.sum() / sizes.sum()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def table(rows: Sequence[Mapping[str, Any]], seed: int) -> dict[str, dict[str, Any]]:
    """By kind and arm: accuracy, the difference to the history as it is, needle, tokens, seconds."""
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        plain = [row for row in rows if (row["kind"], row["arm"]) == (kind, ARMS[0])]
        groups = [row["conversation"] for row in plain]
        for arm in ARMS:
            mine = [row for row in rows if (row["kind"], row["arm"]) == (kind, arm)]
            timed = [row["seconds"] for row in rows if row["arm"] == arm and row["seconds"] is not None]
            found[f"{kind}: {arm}"] = {
                "n": len(mine),
                "accuracy": interval([row["right"] for row in mine], groups, seed),
                "difference": interval([a["right"] - b["right"] for a, b in zip(mine, plain, strict=True)], groups, seed),
                "needle": float(np.mean([row["needle"] for row in mine])),
                "prompt_tokens": float(np.median([row["prompt_tokens"] for row in mine])),
                "seconds": float(np.median(timed)),
            }
    return found


def show(found: Mapping[str, Mapping[str, Any]]) -> None:
    print(f"{'':24s} {'accuracy':22s} {'to as it is':24s} needle  tokens  seconds")
    for name, line in found.items():
        value, low, high = line["accuracy"]
        more, least, most = line["difference"]
        print(
            f"{name:24s} {value:.2f} [{low:.2f}, {high:.2f}]      {more:+.2f} [{least:+.2f}, {most:+.2f}]     "
            f"{line['needle']:.2f}   {line['prompt_tokens']:6.0f}  {line['seconds']:6.2f}"
        )


def write(report: Mapping[str, Any]) -> None:
    """Also after each task: a run takes long on a busy machine."""
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1), encoding="utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=20)
    parser.add_argument("--model", default="", help="a GGUF file; without it the model of groundwire fetch-model")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    source = random.Random(given.seed)
    rows = asyncio.run(measured([make_tasks(source) for _ in range(given.conversations)], given))
    model = Path(given.model).name or "the built-in one"
    print(f"{given.conversations} conversations of {MESSAGES} messages, 2 questions of each kind, seed {given.seed}; model: {model}")
    show(table(rows, given.seed))


if __name__ == "__main__":
    main()
