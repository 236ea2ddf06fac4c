"""What does counting cost? Time against bare tiktoken on the same texts in the same run, memory, and how far estimates are off.

    python -m benchmarks.tokens [--rounds N] [--seed N]

Data: a conversation of 200 messages, about 50,000 tokens, made of this seed from a vocabulary of common English words; no download.
Baseline: ``len(encoding.encode_ordinary(text))`` for each message's text. Ratios are of paired, interleaved rounds; their 95%
interval is a bootstrap of the median. Warm rounds count freshly parsed messages, so that only content can be recognised.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from proxy.exchange.answers import OutputRequirements
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tokens.encodings import ESTIMATE, Encodings
from requirements.bundled import source, vocabulary

RESULTS = Path(__file__).parent / "results" / "tokens.json"
COMMON = """
time year people way day man thing woman life child world school state family student group country problem hand part place case
week company system program question work government number night point home water room mother area money story fact month lot
right study book eye job word business issue side kind head house service friend father power hour game line end member law car
city community name president team minute idea kid body information back parent face others level office door health person art
"""
WORDS = COMMON.split()
SENTENCES = {
    "English": "The committee met on Tuesday to discuss the budget, and nobody objected when the chair proposed a second reading.",
    "German": "Der Ausschuss trat am Dienstag zusammen, um den Haushalt zu besprechen, und niemand widersprach dem Vorschlag.",
    "Russian": "Комитет собрался во вторник, чтобы обсудить бюджет, и никто не возразил против предложения председателя.",
    "Arabic": "اجتمعت اللجنة يوم الثلاثاء لمناقشة الميزانية ولم يعترض أحد على اقتراح الرئيس.",
    "Hindi": "समिति ने मंगलवार को बजट पर चर्चा की और किसी ने अध्यक्ष के प्रस्ताव का विरोध नहीं किया।",
    "Thai": "คณะกรรมการประชุมกันในวันอังคารเพื่อหารือเรื่องงบประมาณ",
    "Chinese": "委员会星期二开会讨论预算，主席建议再次审阅报告时没有人反对。",
    "Japanese": "委員会は火曜日に予算について話し合い、議長が報告書の再審議を提案したとき、誰も反対しなかった。",
    "Python": "def add(self, key: str, value: int = 0) -> None:\n    if key not in self._items:\n        self._items[key] = []\n",
    "JSON": '{"id": 4711, "name": "Ada", "tags": ["x", "y"], "price": 12.50, "active": true}',
    "emoji": "😀🎉👍 great 🚀🚀",
}


def conversation(seed: int, messages: int = 200, words: int = 222) -> bytes:
    """A conversation as JSON; about 1.12 tokens a word."""
    source = random.Random(seed)
    roles = ["system"] + ["user", "assistant"] * messages
    texts = [". ".join(" ".join(source.choices(WORDS, k=12)).capitalize() for _ in range(words // 12)) for _ in range(messages)]
    return json.dumps([{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]).encode()


def tools(seed: int, count: int) -> bytes:
    """Tools as JSON."""
    source = random.Random(seed)
    return json.dumps(
        [
            {
                "type": "function",
                "function": {
                    "name": f"{source.choice(WORDS)}_{i}",
                    "description": " ".join(source.choices(WORDS, k=15)),
                    "parameters": {
                        "type": "object",
                        "properties": {w: {"type": "string", "description": w} for w in source.sample(WORDS, 3)},
                    },
                },
            }
            for i in range(count)
        ]
    ).encode()


def milliseconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def median_interval(values: list[float], seed: int, draws: int = 2000) -> tuple[float, float]:
    source = random.Random(seed)
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def measure(name: str, rounds: int, seed: int, prepare: Callable[[], Callable[[], Any]], baseline: Callable[[], Any]) -> dict[str, Any]:
    """Interleaved rounds of a prepared count and of the baseline. Only the count itself is timed."""
    ours, bare = [], []
    for _ in range(rounds):
        work = prepare()
        gc.collect(0)
        bare.append(milliseconds(baseline))
        ours.append(milliseconds(work))
    ratios = [one / other for one, other in zip(ours, bare, strict=True)]
    low, high = median_interval(ratios, seed)
    row = {"name": name, "n": rounds, "p50_ms": percentile(ours, 0.5), "p95_ms": percentile(ours, 0.95)}
    row |= {"bare_p50_ms": percentile(bare, 0.5), "ratio": statistics.median(ratios), "ratio_95": [low, high]}
    print(
        f"{name:34} n={rounds:<5} p50 {row['p50_ms']:8.3f} ms  p95 {row['p95_ms']:8.3f} ms  "
        f"bare {row['bare_p50_ms']:8.3f} ms  ratio {row['ratio']:7.3f} [{low:.3f}, {high:.3f}]"
    )
    return row


def times(rounds: int, seed: int) -> list[dict[str, Any]]:
    encodings = Encodings()
    encodings.load("o200k_base")
    import tiktoken

    bare = tiktoken.get_encoding("o200k_base").encode_ordinary
    long, tools_body = conversation(seed), tools(seed, 500)
    texts = [message["content"] for message in json.loads(long)]
    short = [{"role": "user", "content": "What is the capital of France?"}]
    warm = TiktokenCounter({})
    model = warm.model("gpt-4o")
    loop = asyncio.new_event_loop()

    def counting(counter: TiktokenCounter, messages: Any, offered: Any = ()) -> Callable[[], Any]:
        return lambda: loop.run_until_complete(counter.count_request(messages, offered, OutputRequirements(), model))

    def cold(messages: bytes) -> Callable[[], Any]:
        counter = TiktokenCounter({})
        counter.load("o200k_base")
        return counting(counter, json.loads(messages))

    total = counting(warm, json.loads(long))().used_tokens
    counting(warm, short, json.loads(tools_body))()
    print(f"conversation: {len(texts)} messages, {sum(map(len, texts))} characters, {total} tokens; 500 tools: {len(tools_body)} bytes")

    def bare_long() -> int:
        return sum(len(bare(text)) for text in texts)

    def next_turn() -> Callable[[], Any]:
        return counting(warm, [*json.loads(long), {"role": "user", "content": f"And then? {random.random()}"}])

    return [
        measure("short prompt, cold", rounds * 5, seed, lambda: cold(json.dumps(short).encode()), lambda: bare(short[0]["content"])),
        measure("50,000 tokens, cold", rounds, seed, lambda: cold(long), bare_long),
        measure("50,000 tokens, warm", rounds * 2, seed, lambda: counting(warm, json.loads(long)), bare_long),
        measure("50,000 tokens, next turn", rounds * 2, seed, next_turn, bare_long),
        measure("500 tools, warm", rounds * 2, seed, lambda: counting(warm, short, json.loads(tools_body)), bare_long),
    ]


def loading() -> dict[str, Any]:
    """Time and resident memory of each part, in a process of its own."""
    program = """
import json, time
def rss(): return int(open('/proc/self/statm').read().split()[1]) * 4096 / 1e6
from proxy.models.tokens.counter import TiktokenCounter
c = TiktokenCounter({}); out = {}
for name, work in (("model list", c._catalogue.bundled), ("o200k_base", lambda: c._encodings.load("o200k_base")),
                   ("cl100k_base", lambda: c._encodings.load("cl100k_base"))):
    before, started = rss(), time.perf_counter()
    work()
    out[name] = {"ms": 1000 * (time.perf_counter() - started), "mb": rss() - before}
out["process"] = {"mb": rss()}
print(json.dumps(out))
"""
    if not Path("/proc/self/statm").exists():
        return {}
    found: dict[str, Any] = json.loads(subprocess.check_output([sys.executable, "-c", program]))
    for name, cost in found.items():
        print(f"loading {name:14} " + "  ".join(f"{value:.1f} {unit}" for unit, value in cost.items()))
    return found


def estimates() -> dict[str, Any]:
    """Estimate over true count, for the one other tokenizer at hand (Claude 2's). Needs the package tokenizers."""
    try:
        from tokenizers import Tokenizer

        other = Tokenizer.from_file(str(vocabulary(source(), "anthropic_tokenizer.json")))
    except (ImportError, OSError):
        print("estimates: not measured, litellm is not installed")
        return {}
    encodings = Encodings()
    rows = {}
    for language, text in SENTENCES.items():
        true = len(other.encode(text).ids)
        base, estimate = encodings.count(text, "o200k_base").tokens, encodings.count(text, ESTIMATE).tokens
        rows[language] = {"true": true, "o200k_base": base, "estimate": estimate}
        print(
            f"estimate {language:9} true {true:4}  o200k_base {base:4} ({base / true:.2f})  estimate {estimate:4} ({estimate / true:.2f})"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"python {platform.python_version()}, tiktoken {version('tiktoken')}, seed {options.seed}")
    report = {"seed": options.seed, "python": platform.python_version(), "tiktoken": version("tiktoken"), "loading": loading()}
    report |= {"times": times(options.rounds, options.seed), "estimates": estimates()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
