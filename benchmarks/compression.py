"""What is left of a conversation after compression, how much smaller it is, and what it costs.

    python -m benchmarks.compression [--quick | --chats] [--seed N]

Data, ``../shared/data/compression``: LoCoMo (five long dialogues with questions; evaluation only) and tau-bench's airline trajectories
(an agent's tool calls). The stages `budget` and `compression` run as in the proxy, with the extractive summariser and no network; the
window is set so that a prompt fills 85% of it, the target so that the ratio comes out. *Kept in the prompt*, and *readable*: in the
prompt or in the archive, one call of the model's away.

Dialogues: answers (that stand in the dialogue word for word) and evidence (the longest sentence of each evidence turn), the question
asked at the end. Trajectories are cut at 60%: the identifiers, dates and amounts that later calls use and that had come up before. The
ratio is that of all messages but the system's. Baselines with as many tokens: the last messages, random ones; the system message too.
Intervals are 95% bootstrap over conversations (dialogues: questions). Long chats (`benchmarks.long_chats`; `--chats`: nothing else,
written nowhere): the shipped defaults but for the target.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.long_chats import SHARES, facts_in, long_chats
from proxy.context.conversation import blocks_of, problems
from proxy.context.summaries import SummariserOptions
from proxy.exchange import ContextUse, Exchange
from proxy.exchange.answers import OutputRequirements
from proxy.language.text import split_sentences, text_of
from proxy.models.tokens.counter import TiktokenCounter
from proxy.ports import Ports
from proxy.stages.budget import Budget, BudgetOptions
from proxy.stages.compression import Compression
from proxy.stages.compression.options import CompressionOptions
from proxy.testing import MemoryScratchpad, make_exchange, make_ports

DATA = Path(__file__).parents[2] / "shared" / "data" / "compression"
RESULTS = Path(__file__).parent / "results" / "compression.json"
FULL = 0.85
READER_TOKENS = 225
"""Of the tool that reads the archive."""
TARGETS = (0.60, 0.35, 0.20)
"""Shares of the window that long chats are brought down to: the default, that of the policy `agent`, and a lower one."""
KEEP = 2
"""Blocks at the end that stay."""
MODEL = "gpt-4o"
Messages = list[dict[str, Any]]


class Compressed:
    """A prompt after compression."""

    def __init__(self, exchange: Exchange, scratchpad: MemoryScratchpad, ms: float) -> None:
        before, after = exchange.facts.context_before, exchange.facts.context
        assert before is not None
        assert after is not None
        self.messages, self.ms = list(exchange.messages), ms
        self.before_tokens, self.after_tokens = before.used_tokens, after.used_tokens
        self.ratio = history(before) / max(1, history(after))
        self.prompt = said(self.messages)
        self.readable = self.prompt + "\n".join(item.content.decode("utf-8", "replace") for item in scratchpad.items.values())
        self.broken = problems(self.messages)


def history(use: ContextUse) -> int:
    """Tokens of all messages but the system's; the tool that reads the archive (about 225) is none of them."""
    return use.used_tokens - use.components.get("system_instructions", 0) - use.components.get("tool_descriptions", 0)


async def compressed(tokens: TiktokenCounter, messages: Messages, ratio: float, **options: Any) -> Compressed:
    """`messages` where they fill 85% of the window, brought down to a `ratio`-th."""
    scratchpad = MemoryScratchpad()
    ports: Ports = make_ports(tokens=tokens, scratchpad=scratchpad)
    exchange = make_exchange(messages, model=MODEL)
    use = await tokens.count_request(exchange.messages, (), OutputRequirements(), tokens.model(MODEL))
    window = int(use.used_tokens / FULL)
    await Budget(BudgetOptions(window=window), ports).on_request(exchange)
    fixed = use.components.get("system_instructions", 0)
    room = (use.used_tokens - fixed) / ratio
    recent = sum(tokens.count_text(said([m]), tokens.model(MODEL)) for b in blocks_of(messages)[-KEEP:] for m in messages[b.start : b.end])
    target = min(0.79, (fixed + room + READER_TOKENS) / window)
    settings: dict[str, Any] = {"at": 0.8, "aggressive_at": 0.999, "target": target, "keep_recent": KEEP}
    stage = Compression(CompressionOptions(**settings, max_summary_tokens=max(100, int(room - recent)), **options), ports)
    started = time.perf_counter()
    await stage.on_request(exchange)
    return Compressed(exchange, scratchpad, (time.perf_counter() - started) * 1000)


async def last_messages(tokens: TiktokenCounter, messages: Messages, most: int) -> str:
    """The text of the last messages that fit into `most` tokens, the very last always."""
    return await _fitting(tokens, messages, most, range(len(messages) - 2, -1, -1))


async def random_messages(tokens: TiktokenCounter, messages: Messages, most: int, source: random.Random) -> str:
    order = list(range(len(messages) - 1))
    source.shuffle(order)
    return await _fitting(tokens, messages, most, order)


async def _fitting(tokens: TiktokenCounter, messages: Messages, most: int, order: Sequence[int]) -> str:
    model = tokens.model(MODEL)
    sizes = [tokens.count_text(said([message]), model) + 4 for message in messages]
    kept = {len(messages) - 1, *(i for i, message in enumerate(messages) if message["role"] == "system")}
    left = most - sum(sizes[i] for i in kept)
    for i in order:
        if i in kept:
            continue
        if sizes[i] > left:
            break
        kept.add(i)
        left -= sizes[i]
    return said([messages[i] for i in sorted(kept)])


def said(messages: Sequence[Any]) -> str:
    """All text, with the arguments of calls."""
    parts = []
    for message in messages:
        parts.append(text_of(message.get("content")))
        parts += [call["function"]["arguments"] for call in message.get("tool_calls") or ()]
    return "\n".join(parts)


# ---- what must survive ----


def dialogues(questions: int, source: random.Random) -> Iterator[tuple[Messages, str, list[str], list[str]]]:
    """Messages with the question at the end, kind of fact, and the facts: answers, evidence turns."""
    for row in rows("locomo.jsonl.gz"):
        messages = [{"role": m["role"], "content": f"{m['name']} ({m['date_time']}): {m['content']}"} for m in row["messages"]]
        turns = {m["turn_id"]: m["content"] for m in row["messages"]}
        whole = normal(said(messages))
        asked = [q for q in row["qa"] if q.get("answer") and q["category"] in (1, 2, 4)]
        for q in source.sample(asked, min(questions, len(asked))):
            answer = normal(str(q["answer"]))
            evidence = [longest_sentence(turns[turn]) for turn in q["evidence"] if turn in turns]
            yield [*messages, {"role": "user", "content": q["question"]}], q["question"], [answer] if answer in whole else [], evidence


def trajectories() -> Iterator[tuple[Messages, list[str]]]:
    """Messages up to 60% of a run, and what later calls use of it."""
    for row in rows("tau_airline.jsonl.gz"):
        messages = row["messages"]
        borders = [b.end for b in blocks_of(messages) if b.kind == "tools"]
        cut = next((end for end in borders if end >= 0.6 * len(messages)), None)
        if cut is None or cut == len(messages):
            continue
        before = said(messages[:cut])
        later = [v for m in messages[cut:] for c in m.get("tool_calls") or () for v in values(json.loads(c["function"]["arguments"]))]
        facts = [v for v in dict.fromkeys(later) if v in before]
        if facts:
            yield messages[:cut], facts


def values(arguments: Any) -> Iterator[str]:
    """Identifiers, dates and amounts in a call's arguments."""
    if isinstance(arguments, dict | list):
        for inner in arguments.values() if isinstance(arguments, dict) else arguments:
            yield from values(inner)
    elif not isinstance(arguments, bool) and arguments is not None:
        text = str(arguments)
        if any(c.isdigit() for c in text) and len(text) > 2 and " " not in text.strip():
            yield text


def longest_sentence(turn: str) -> str:
    return normal(max(split_sentences(turn), key=len, default=""))


def normal(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def rows(name: str) -> list[Any]:
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is missing: this needs the development data, which is not part of the repository")
    with gzip.open(DATA / name, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


# ---- the tables ----


def interval(found: Sequence[tuple[int, int]], seed: int) -> tuple[float, float, float]:
    """Share of kept facts, with its 95% bootstrap interval; pairs are kept and all."""
    pairs = np.array([pair for pair in found if pair[1]], np.float64)
    source = np.random.default_rng(seed)
    means = []
    for _ in range(400):
        drawn = pairs[source.integers(0, len(pairs), len(pairs))]
        means.append(drawn[:, 0].sum() / drawn[:, 1].sum())
    return float(pairs[:, 0].sum() / pairs[:, 1].sum()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def kept(facts: Sequence[str], text: str) -> tuple[int, int]:
    return sum(fact in text for fact in facts), len(facts)


async def texts_of(tokens: TiktokenCounter, messages: Messages, done: Compressed, source: random.Random) -> dict[str, str]:
    """What is left of `messages`: ours, and the baselines' with as many tokens."""
    return {
        "groundwire, prompt": done.prompt,
        "groundwire, readable": done.readable,
        "last messages": await last_messages(tokens, messages, done.after_tokens),
        "random messages": await random_messages(tokens, messages, done.after_tokens, source),
    }


async def on_dialogues(tokens: TiktokenCounter, ratio: float, questions: int, seed: int, report: dict[str, Any], **options: Any) -> None:
    source = random.Random(seed)
    table: dict[str, list[tuple[int, int]]] = {}
    ratios, ms, broken = [], [], 0
    for messages, _, answers, evidence in dialogues(questions, source):
        done = await compressed(tokens, messages, ratio, **options)
        ratios.append(done.ratio)
        ms.append(done.ms)
        broken += bool(done.broken)
        for name, text in (await texts_of(tokens, messages, done, source)).items():
            table.setdefault(f"answers: {name}", []).append(kept(answers, normal(text)))
            table.setdefault(f"evidence: {name}", []).append(kept(evidence, normal(text)))
    show(f"dialogues, {ratio:g}x", table, ratios, ms, broken, seed, report)


async def on_trajectories(tokens: TiktokenCounter, ratio: float, most: int, seed: int, report: dict[str, Any], **options: Any) -> None:
    source = random.Random(seed)
    table: dict[str, list[tuple[int, int]]] = {}
    ratios, ms, broken = [], [], 0
    for messages, facts in list(trajectories())[:most]:
        done = await compressed(tokens, messages, ratio, **options)
        ratios.append(done.ratio)
        ms.append(done.ms)
        broken += bool(done.broken)
        for name, text in (await texts_of(tokens, messages, done, source)).items():
            table.setdefault(f"facts of later calls: {name}", []).append(kept(facts, text))
    show(f"trajectories, {ratio:g}x", table, ratios, ms, broken, seed, report)


def show(
    title: str,
    table: dict[str, list[tuple[int, int]]],
    ratios: list[float],
    ms: list[float],
    broken: int,
    seed: int,
    report: dict[str, Any],
) -> None:
    p50, p95 = (float(np.quantile(ms, q)) for q in (0.5, 0.95))
    print(f"\n{title}: n {len(ms)}, ratio {np.mean(ratios):.2f}, p50 {p50:.0f} ms, p95 {p95:.0f} ms, refused by the API's rules {broken}")
    found = report[title] = {"n": len(ms), "ratio": float(np.mean(ratios)), "p50_ms": p50, "p95_ms": p95, "broken": broken, "kept": {}}
    for name, pairs in table.items():
        if any(total for _, total in pairs):
            value = found["kept"][name] = interval(pairs, seed)
            print(f"  {name:44s} {value[0]:.3f} [{value[1]:.3f}, {value[2]:.3f}]")


class SlowChat:
    """A `proxy.ports.ChatModel` that does not answer in time."""

    async def complete(self, *_: Any, **__: Any) -> str:
        await asyncio.sleep(5)
        return ""


async def as_shipped(tokens: TiktokenCounter, report: dict[str, Any]) -> None:
    """The stage's own defaults on long dialogues that fill 85%, or 92%, of the window; ratio of the whole prompt, latency, speed."""
    print()
    for full, title in ((0.85, "defaults at 85%"), (0.92, "defaults at 92%, aggressive")):
        ratios, ms, counted = [], [], 0
        for messages in (m for row in rows("locomo.jsonl.gz") for m in spans(row["messages"], 300)):
            exchange, taken = await once(tokens, messages, full, CompressionOptions())
            before, after = exchange.facts.context_before, exchange.facts.context
            assert before is not None
            assert after is not None
            ratios.append(before.used_tokens / after.used_tokens)
            ms.append(taken)
            counted += before.used_tokens
        found = {"n": len(ms), "ratio": float(np.mean(ratios)), "p50_ms": float(np.median(ms)), "p95_ms": float(np.quantile(ms, 0.95))}
        report[title] = found | {"tokens_per_s": counted / sum(ms) * 1000}
        print(f"{title}: " + ", ".join(f"{name} {value:,.2f}" for name, value in report[title].items()))


async def with_a_slow_llm(tokens: TiktokenCounter, report: dict[str, Any]) -> None:
    """A summariser that misses a deadline of 800 ms."""
    ms = []
    for row in rows("locomo.jsonl.gz")[:4]:
        for messages in list(spans(row["messages"], 300))[:2]:
            options = CompressionOptions(
                strategies=("summarize",), summariser=SummariserOptions(upstream="slow", model="slow", deadline_ms=800)
            )
            ms.append((await once(tokens, messages, FULL, options, chat=SlowChat()))[1])
    report["llm that misses its deadline"] = {"n": len(ms), "p50_ms": float(np.median(ms)), "p95_ms": float(np.quantile(ms, 0.95))}
    print(f"an LLM that misses its deadline: p50 {np.median(ms):.0f} ms, p95 {np.quantile(ms, 0.95):.0f} ms, n {len(ms)}")


async def once(
    tokens: TiktokenCounter, messages: Messages, full: float, options: CompressionOptions, **parts: Any
) -> tuple[Exchange, float]:
    """One request that fills `full` of the window; milliseconds of the stage."""
    ports = make_ports(tokens=tokens, **parts)
    exchange = make_exchange(messages, model=MODEL)
    use = await tokens.count_request(exchange.messages, (), OutputRequirements(), tokens.model(MODEL))
    await Budget(BudgetOptions(window=int(use.used_tokens / full), reserve_output_tokens=0), ports).on_request(exchange)
    stage = Compression(options, ports)
    started = time.perf_counter()
    await stage.on_request(exchange)
    taken = (time.perf_counter() - started) * 1000
    await stage.stop()
    return exchange, taken


def spans(messages: Sequence[Any], length: int) -> Iterator[Messages]:
    """Pieces of a dialogue, each with a user's message at its end."""
    for start in range(0, len(messages) - length, length):
        piece = [{"role": m["role"], "content": f"{m['name']}: {m['content']}"} for m in messages[start : start + length]]
        yield [{"role": "system", "content": "You are a helpful assistant."}, *piece, {"role": "user", "content": "What did we agree on?"}]


async def planted(tokens: TiktokenCounter, seed: int, report: dict[str, Any]) -> None:
    """Of the facts planted in each long chat how many are still in the prompt, by the share of the window that it fills, and by target."""
    chats = long_chats()
    print(f"\nlong chats: n {len(chats)}, {len(chats[0].facts)} facts planted in each, in the prompt by target of compression")
    for target, share in product(TARGETS, SHARES):
        found, ratios = [], []
        for chat in chats:
            exchange, _ = await once(tokens, chat.messages, share, CompressionOptions(target=target))
            found.append((facts_in(chat.facts, said(exchange.messages)), len(chat.facts)))
            before, after = exchange.facts.context_before, exchange.facts.context
            assert before is not None
            assert after is not None
            ratios.append(before.used_tokens / after.used_tokens)
        mean, low, high = (len(chats[0].facts) * value for value in interval(found, seed))
        counts = {chat.chat: count for chat, (count, _) in zip(chats, found, strict=True)}
        name, ratio = f"at {share:.0%} down to {target:.0%}", float(np.mean(ratios))
        report[f"long chats {name}"] = {"kept": counts, "mean": mean, "interval": [low, high], "ratio": ratio}
        print(f"  {name}: {mean:.2f} [{low:.2f}, {high:.2f}], ratio {ratio:.2f}, {counts}")


async def prefix_stability(tokens: TiktokenCounter, turns: int, report: dict[str, Any]) -> None:
    """A chat of so many turns through the stage in a window of 8,192: the share of forwarded tokens that repeat the turn before."""
    row, ports, model = rows("locomo.jsonl.gz")[0]["messages"], make_ports(tokens=tokens), tokens.model(MODEL)
    budget, stage = Budget(BudgetOptions(window=8192), ports), Compression(CompressionOptions(), ports)
    messages: Messages = [{"role": "system", "content": "You are a helpful assistant."}]
    before: list[Any] = []
    repeated = sent = crossings = 0
    for turn in range(turns):
        said_now = " ".join(m["content"] for m in row[turn * 5 : turn * 5 + 5])
        messages = [*messages, {"role": "user", "content": said_now}]
        exchange = make_exchange(messages, model=MODEL)
        await budget.on_request(exchange)
        await stage.on_request(exchange)
        now = list(exchange.messages)
        same = next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
        worked = exchange.facts.compression is not None and set(exchange.facts.compression.strategies) - {"stored"}
        if worked:
            crossings += 1
        elif before:
            sizes = [tokens.count_text(said([m]), model) for m in now]
            repeated, sent = repeated + sum(sizes[:same]), sent + sum(sizes)
        before = now
        messages = [*messages, {"role": "assistant", "content": " ".join(m["content"] for m in row[turn * 5 + 300 : turn * 5 + 305])}]
    report["prefix_stability"] = {"turns": turns, "crossings": crossings, "share": repeated / sent}
    print(f"prefix_stability over {turns} turns, {crossings} crossings left out: {repeated / sent:.3f}")


def encodings() -> TiktokenCounter:
    tokens = TiktokenCounter({})
    tokens.load()
    return tokens


async def run(quick: bool, seed: int) -> None:
    tokens = encodings()
    report: dict[str, Any] = {"seed": seed}
    for ratio in (2, 3, 5):
        await on_dialogues(tokens, ratio, 4 if quick else 20, seed, report, strategies=("summarize",))
    for ratio in (2, 3, 5):
        await on_trajectories(tokens, ratio, 20 if quick else 100, seed, report, strategies=("summarize", "archive"))
    await planted(tokens, seed, report)
    await as_shipped(tokens, report)
    await with_a_slow_llm(tokens, report)
    await prefix_stability(tokens, 60, report)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four questions a dialogue, twenty trajectories")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--chats", action="store_true", help="only the facts planted in long chats, written nowhere")
    options = parser.parse_args()
    asyncio.run(planted(encodings(), options.seed, {}) if options.chats else run(options.quick, options.seed))


if __name__ == "__main__":
    main()
