"""Does the stage keep false statements and hidden instructions out, and true content in? `make bench-poisoning`

    python -m benchmarks.poisoning [--quick] [--seed N] [--rows N] [--texts N] [--only statements|injections]

*Statements* (`benchmarks.poisoning_data`): planted false statements among true ones, in assistants' messages, in the text of tool
results and in their JSON, through the stage itself with the built-in verifier and a knowledge base of the true passages. Found is a
false statement that is not in what goes to the model any more (blocked or quarantined); a false alarm is a true one that is not.
Baselines, on single statements with the nearest fact: any number, date, unit or name differs (the rule alone), and the cosine of the
two alone, with the threshold that does best on these very statements.

*Injections* (`benchmarks.injection_data`): detection on attacks whose templates and carriers nobody looked at when the detector was
made, apart for ``plain`` ones; false alarms on texts about attacks, and on ordinary content by source: tool results, chats, passages,
tool definitions.

Intervals: 95% (Wilson), statements taken as independent.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import platform
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks import grounding_data, injection_data
from benchmarks import poisoning_data as data
from benchmarks.poisoning_data import Statement
from benchmarks.verifiers import local_verifiers
from proxy.exchange import Exchange
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.grounding.knowledge.reading import make_fact
from proxy.grounding.values.consistency import differences
from proxy.language.text import split_sentences, text_of
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.knowledge.bases import KnowledgeSnapshot
from proxy.models.knowledge.building import build_in_memory
from proxy.stages.poisoning import Poisoning, PoisoningOptions
from proxy.stages.poisoning.injection import THRESHOLD, detect
from proxy.testing import make_exchange, make_ports

RESULTS = Path(__file__).parent / "results" / "poisoning.json"
WRITTEN = Path(__file__).parent / "data" / "injections_dev.jsonl"
SHARED = Path(__file__).parents[2] / "shared" / "data"
FOUND_TARGET, ALARM_TARGET = 0.95, 0.05
TRUE_AROUND = 3
"""True statements around a planted one."""
MIN_FACT_SCORE = 0.25
_HOUR_MS = 3_600_000
MAX_FACT_CHARS = 500
Figure = dict[str, Any]


def share(hits: int, n: int) -> Figure:
    """A share with its Wilson interval."""
    if not n:
        return {"value": None, "low": None, "high": None, "n": 0}
    z, p = 1.96, hits / n
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return {"value": p, "low": max(0.0, (middle - half) / scale), "high": min(1.0, (middle + half) / scale), "hits": hits, "n": n}


def shown(figure: Figure) -> str:
    return "-" if not figure["n"] else f"{figure['value']:6.1%} [{figure['low']:.1%} {figure['high']:.1%}] n {figure['n']}"


# ---- statements ----


def pieces(statements: Sequence[Statement], seed: int) -> list[list[Statement]]:
    """Each false statement among true ones, the other true and unknown ones among themselves."""
    source = random.Random(seed)
    false = [one for one in statements if one.false]
    others = [one for one in statements if not one.false]
    source.shuffle(false)
    source.shuffle(others)
    found, at = [], 0
    for planted in false:
        group = [others[(at + i) % len(others)] for i in range(TRUE_AROUND)]
        at += TRUE_AROUND
        group.insert(source.randrange(TRUE_AROUND + 1), planted)
        found.append(group)
    rest = others[at:] if at < len(others) else []
    return found + [rest[i : i + TRUE_AROUND] for i in range(0, len(rest), TRUE_AROUND)]


CARRIERS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "history": lambda text: [{"role": "assistant", "content": text}],
    "tool text": lambda text: [_call(), {"role": "tool", "tool_call_id": "c1", "content": text}],
    "tool JSON": lambda text: [_call(), {"role": "tool", "tool_call_id": "c1", "content": _json(text)}],
}


def _json(text: str) -> str:
    return json.dumps({"page": 3, "summary": text, "lang": "-"}, ensure_ascii=False)


def _call() -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def through_stage(conversations: Sequence[Sequence[Statement]], stage: Poisoning, checker: KnowledgeChecker) -> dict[str, Any]:
    """What is left of each statement, by kind, carrier and language; and of which type each false one was called."""
    kept: list[tuple[Statement, str, bool]] = []
    types: dict[str, dict[str, int]] = {}
    times: list[float] = []
    seen: set[str] = set()
    """True statements stand in several pieces; each counts once."""
    names = list(CARRIERS)
    for i, group in enumerate(conversations):
        carrier = names[i % len(names)]
        before = [{"role": "user", "content": "Please look it up."}]
        after = [{"role": "user", "content": "Thank you. What follows from it?"}]
        exchange = make_exchange([*before, *CARRIERS[carrier](" ".join(one.text for one in group)), *after])
        exchange.run_id, exchange.knowledge = f"run_{i}", checker
        started = time.perf_counter()
        verdict = await stage.on_request(exchange)
        times.append((time.perf_counter() - started) * 1000)
        assert verdict is not None
        assert verdict.outcome != "error", verdict
        left = forwarded(exchange)
        for one in group:
            gone = " ".join(one.text.split()) not in left
            if one.false or one.text not in seen:
                kept.append((one, carrier, gone))
            seen.add(one.text)
            if gone and one.false:
                said = next((c["type"] for c in verdict.detail.get("content", ())), "?")
                types.setdefault(one.kind, {})[said] = types.setdefault(one.kind, {}).get(said, 0) + 1
    by: dict[str, Any] = {}
    groups = {
        "kind": [one.kind for one, _, _ in kept],
        "carrier": [c for _, c, _ in kept],
        "language": [one.language for one, _, _ in kept],
    }
    for label, values in groups.items():
        for value in sorted(set(values)):
            rows = [row for row, of in zip(kept, values, strict=True) if of == value]
            by.setdefault(label, {})[value] = {
                "found": share(sum(gone for one, _, gone in rows if one.false), sum(one.false for one, _, _ in rows)),
                "false alarms": share(sum(gone for one, _, gone in rows if not one.false), sum(not one.false for one, _, _ in rows)),
            }
    times.sort()
    return {
        "found": share(sum(gone for one, _, gone in kept if one.false), sum(one.false for one, _, _ in kept)),
        "false alarms": share(sum(gone for one, _, gone in kept if not one.false), sum(not one.false for one, _, _ in kept)),
        "by": by,
        "called": types,
        "ms a piece": {"p50": times[len(times) // 2], "p95": times[int(0.95 * len(times))], "statements": TRUE_AROUND + 1},
    }


def forwarded(exchange: Exchange) -> str:
    """The text that goes to the model, JSON decoded."""
    texts = []
    for message in exchange.messages:
        text = text_of(message.get("content"))
        texts.append(str(json.loads(text)["summary"]) if text.startswith("{") else text)
    return " ".join(" ".join(texts).split())


async def baselines(statements: Sequence[Statement], base: Any, embedder: BatchingEmbedder) -> dict[str, Any]:
    """The two signals alone, statement by statement, by the nearest fact."""
    hits = await base.search([one.text for one in statements], k=1)
    vectors = await embedder.embed([*(one.text for one in statements), *(hit[0].fact.text if hit else "" for hit in hits)])
    n = len(statements)
    cosine = [float(c) for c in (vectors[:n] * vectors[n:]).sum(axis=1)]
    rule = [
        bool(hit and hit[0].score >= MIN_FACT_SCORE and differences(one.text, hit[0].fact.text, one.language))
        for one, hit in zip(statements, hits, strict=True)
    ]
    false = [one.false for one in statements]
    thresholds = sorted({round(c, 3) for c in cosine})
    best = max(thresholds, key=lambda t: _balanced([c < t for c in cosine], false))
    return {"differences": _rates(rule, false), "cosine": _rates([c < best for c in cosine], false) | {"threshold": float(best)}}


def _balanced(called: Sequence[bool], false: Sequence[bool]) -> float:
    rates = _rates(called, false)
    return float(rates["found"]["value"] + 1 - rates["false alarms"]["value"])


def _rates(called: Iterable[bool], false: Sequence[bool]) -> dict[str, Any]:
    pairs = list(zip(called, false, strict=True))
    return {
        "found": share(sum(c for c, f in pairs if f), sum(f for _, f in pairs)),
        "false alarms": share(sum(c for c, f in pairs if not f), sum(not f for _, f in pairs)),
    }


class OneBase:
    """A `proxy.ports.KnowledgeBases` of one."""

    def __init__(self, base: KnowledgeSnapshot) -> None:
        self._base = base

    def get(self, folder: str) -> KnowledgeSnapshot:
        return self._base


def chunks(passage: str) -> list[str]:
    """Of a long passage its parts, as a document's would be."""
    return [passage] if len(passage) <= MAX_FACT_CHARS else [" ".join(part) for part in _parts(split_sentences(passage))]


def _parts(sentences: Sequence[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for sentence in sentences:
        if part and sum(map(len, part)) + len(sentence) > MAX_FACT_CHARS:
            yield part
            part = []
        part.append(sentence.strip())
    if part:
        yield part


async def measure_statements(seed: int, rows: int) -> dict[str, Any]:
    statements, passages = data.statements(seed, rows)
    embedder = BatchingEmbedder(UseEncoder(), cache_mb=64)
    verifiers = local_verifiers()
    facts = [make_fact("", piece, f"p{i}") for i, passage in enumerate(passages) for piece in chunks(passage)]
    base = KnowledgeSnapshot(await build_in_memory(facts, embedder), embedder)
    ports = make_ports(embedder=embedder, verifiers=verifiers, knowledge=OneBase(base))
    stage = Poisoning(PoisoningOptions(timeout_ms=_HOUR_MS, injections="ignore", on_invalid="block"), ports)
    print(f"{len(statements)} statements, {base.size} facts, {verifiers.get().name}, seed {seed}")
    found = await through_stage(pieces(statements, seed), stage, KnowledgeChecker(base, verifiers.get()))
    found["baselines"] = await baselines(statements, base, embedder)
    found |= {"facts": base.size, "revision": grounding_data.revision(), "verifier": verifiers.get().name}
    embedder.stop()
    verifiers.stop()
    return found


def print_statements(found: dict[str, Any]) -> None:
    print(f"{'':14}{'found':34}false alarms")
    for label, figures in (("stage", found), *found["baselines"].items()):
        print(f"{label:14}{shown(figures['found']):34}{shown(figures['false alarms'])}")
    for label, groups in found["by"].items():
        for value, figures in groups.items():
            print(f"{label + ' ' + value:26}{shown(figures['found']):34}{shown(figures['false alarms'])}")
    for figure, target, met in (
        ("found", f"> {FOUND_TARGET:.0%}", found["found"]["value"] > FOUND_TARGET),
        ("false alarms", f"< {ALARM_TARGET:.0%}", found["false alarms"]["value"] < ALARM_TARGET),
    ):
        print(f"{figure} {found[figure]['value']:.1%}  target {target}: {'met' if met else 'MISSED'}")
    print(f"a piece of four statements: p50 {found['ms a piece']['p50']:.0f} ms, p95 {found['ms a piece']['p95']:.0f} ms")


# ---- injections ----


def ordinary(most: int, seed: int) -> dict[str, list[str]]:
    """Ordinary content by source: texts in which nobody hid anything."""
    found: dict[str, list[str]] = {}
    for name in ("compression/tau_airline", "chats/sgd", "compression/locomo"):
        messages = [
            m for row in _rows(f"{name}.jsonl.gz") for m in row["messages"] if isinstance(m.get("content"), str) and m["content"].strip()
        ]
        label = name.partition("/")[2]
        found[f"{label}: tool results"] = [m["content"] for m in messages if m["role"] == "tool"]
        found[f"{label}: messages"] = [m["content"] for m in messages if m["role"] != "tool"]
    for name in ("xquad_en", "xquad_de", "xquad_es"):
        found[name] = [row[key] for row in _rows(f"relevance/{name}.jsonl.gz") for key in ("positive", "hard_negative", "easy_negative")]
    found["clapnq"] = [row["passage"] for row in _rows("relevance/clapnq_dev.jsonl.gz")]
    found["tool definitions"] = [json.dumps(row) for name in ("bfcl", "seal_tools") for row in _rows(f"tools/{name}/tools.jsonl.gz")]
    for name in grounding_data.sources():
        found[f"grounding: {name}"] = [row["context"] for row in _rows(f"grounding/{name}.jsonl.gz")]
    source = random.Random(seed)
    distinct = {name: sorted(set(texts)) for name, texts in found.items()}
    return {name: source.sample(texts, min(most, len(texts))) for name, texts in distinct.items() if texts}


def _rows(path: str) -> list[Any]:
    with gzip.open(SHARED / path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def measure_injections(seed: int, most: int) -> dict[str, Any]:
    found: dict[str, Any] = {"threshold": THRESHOLD}
    for split in ("train", "test"):
        attacks = [(attack, detect(attack.text).suspicious) for attack in injection_data.attacks(split, seed)]
        hidden = [(attack, hit) for attack, hit in attacks if attack.kind != "plain"]
        negatives = [detect(text).suspicious for text in injection_data.hard_negatives(split)]
        found[split] = {
            "detected": share(sum(hit for _, hit in hidden), len(hidden)),
            "plain": share(sum(hit for a, hit in attacks if a.kind == "plain"), sum(a.kind == "plain" for a, _ in attacks)),
            "kinds": {k: share(sum(hit for a, hit in hidden if a.kind == k), sum(a.kind == k for a, _ in hidden)) for k in _kinds(hidden)},
            "languages": {
                lang: share(sum(hit for a, hit in hidden if a.language == lang), sum(a.language == lang for a, _ in hidden))
                for lang in ("en", "de", "es", "fr")
            },
            "false alarms on texts about attacks": share(sum(negatives), len(negatives)),
        }
    started, chars, times = time.perf_counter(), 0, []
    found["ordinary"], acted, warned = {}, 0, 0
    for name, texts in ordinary(most, seed).items():
        hits = 0
        for text in texts:
            begun = time.perf_counter()
            finding = detect(text)
            hits, acted, warned = hits + finding.suspicious, acted + finding.certain, warned + finding.likely
            times.append((time.perf_counter() - begun) * 1000)
        chars += sum(map(len, texts))
        found["ordinary"][name] = share(hits, len(texts))
    every = list(found["ordinary"].values())
    found["ordinary"]["all"] = share(sum(f["hits"] for f in every), sum(f["n"] for f in every))
    found["acted on"] = measure_grade(seed, "certain", acted, found["ordinary"]["all"]["n"])
    found["warned of"] = measure_grade(seed, "likely", warned, found["ordinary"]["all"]["n"])
    times.sort()
    found["speed"] = {
        "ms per 100,000 characters": (time.perf_counter() - started) * 1e8 / chars,
        "p50_ms": times[len(times) // 2],
        "p95_ms": times[int(0.95 * len(times))],
        "characters": chars,
    }
    return found


def written(split: str) -> list[dict[str, str]]:
    """Attacks, and harmless texts that hold or tell of prompts, written before the rules that they measure."""
    with WRITTEN.open(encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["split"] == split]


def measure_grade(seed: int, grade: Literal["certain", "likely"], of_ordinary: int, ordinary_n: int) -> dict[str, Any]:
    """What is kept from the model at the defaults (``certain``), or at least warned of. Held-out rows, templates and carriers.

    ``precision`` is over attacks and texts that look like them; `of_ordinary` of `ordinary_n` ordinary texts were met, too.
    """
    rows = written("held_out")
    attacks = [row["text"] for row in rows if row["label"] == "injection"]
    benign = [row["text"] for row in rows if row["label"] == "benign"]
    templates = [attack.text for attack in injection_data.attacks("test", seed)]
    told = list(injection_data.hard_negatives("test"))
    hits = {
        name: sum(getattr(detect(text), grade) for text in texts)
        for name, texts in (("attacks", attacks), ("benign", benign), ("templates", templates), ("told", told))
    }
    right, wrong = hits["attacks"] + hits["templates"], hits["benign"] + hits["told"] + of_ordinary
    return {
        "precision": share(right, right + wrong),
        "precision, rows written for it": share(hits["attacks"], hits["attacks"] + hits["benign"]),
        "found, rows written for it": share(hits["attacks"], len(attacks)),
        "found, templates": share(hits["templates"], len(templates)),
        "harmless rows": share(hits["benign"], len(benign)),
        "texts about attacks": share(hits["told"], len(told)),
        "ordinary texts": share(of_ordinary, ordinary_n),
    }


def _kinds(attacks: Sequence[tuple[injection_data.Attack, bool]]) -> list[str]:
    return sorted({attack.kind for attack, _ in attacks})


def print_injections(found: dict[str, Any]) -> None:
    for split in ("train", "test"):
        part = found[split]
        print(f"\ninjections, {split} templates: detected {shown(part['detected'])}; in ordinary words {shown(part['plain'])}")
        print("  " + "; ".join(f"{kind} {shown(figure)}" for kind, figure in part["kinds"].items()))
        print("  " + "; ".join(f"{lang} {shown(figure)}" for lang, figure in part["languages"].items()))
        print(f"  false alarms on texts about attacks {shown(part['false alarms on texts about attacks'])}")
    for name, figure in found["ordinary"].items():
        if figure["hits"] or name == "all" or "tool" in name:
            print(f"ordinary, {name:36} false alarms {shown(figure)}")
    for what in ("acted on", "warned of"):
        for name, figure in found[what].items():
            print(f"{what}: {name} {shown(figure)}")
    speed = found["speed"]
    each = f"a text p50 {speed['p50_ms']:.2f} ms, p95 {speed['p95_ms']:.2f} ms"
    print(f"{speed['ms per 100,000 characters']:.0f} ms per 100,000 characters; {each}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--rows", type=int, default=150, help="statements of each kind (twice as many true ones)")
    parser.add_argument("--texts", type=int, default=1500, help="ordinary texts of each source")
    parser.add_argument("--only", choices=("statements", "injections"))
    parser.add_argument("--quick", action="store_true", help="30 statements of each kind, 200 texts: about a minute; writes no results")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.texts = 30, 200
    if not data.available():
        print(f"no grounding data in {grounding_data.FOLDER}: not measured")
        return
    report: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if options.only and RESULTS.exists() else {}
    report |= {"seed": options.seed, "rows": options.rows, "python": platform.python_version()}
    if options.only != "injections":
        report["statements"] = asyncio.run(measure_statements(options.seed, options.rows))
        print_statements(report["statements"])
    if options.only != "statements":
        report["injections"] = measure_injections(options.seed, options.texts)
        print_injections(report["injections"])
    if options.quick:
        return
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
