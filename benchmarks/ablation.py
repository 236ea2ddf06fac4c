"""What is each pack of rules worth? Each is switched off by itself, and measured on data that it was not written from.

    python -m benchmarks.ablation [--area clash|corrections|results|answers|instructions] [--only PREFIX]

*clash*: by rules alone, the pairs of `benchmarks.clash_turns`, decode_pairs, prosecco and daccord, whole chats (sgd), and what is acted on
in conversations that were set aside (`benchmarks.clash_actions`). *corrections*: messages by others (`benchmarks.reflection_corrections`),
tools and numbers of those set aside, real chats. *results*: what `benchmarks.reflection_signals` set aside, tau-bench, and other text.
*answers*: `benchmarks.actions_answers`, with the built-in verifier, whose verdicts are kept from one pack to the next.
*instructions*: held-out templates, rows and conversations of `benchmarks.poisoning` and `benchmarks.harmless`, and harmless tool results.

A figure is ``hits/n``, its interval Wilson's, 95%, of the figure with the pack. Only figures that move are printed; ``OUT`` marks one that
leaves its interval. A pack of which none does is not worth its lines, unless an acceptance scenario needs it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
import random
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks import actions_answers, clash_actions, clash_data, clash_turns, harmless_data, injection_data, poisoning
from benchmarks import reflection_corrections as messages
from benchmarks import reflection_signals as signals
from benchmarks.clash import found_in, through
from benchmarks.load.statistics import wilson
from benchmarks.verifiers import local_verifiers
from proxy.grounding.judging.grounder import Grounder
from proxy.language.text import text_of
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.stages.poisoning.injection import InjectionFinding, detect
from proxy.stages.poisoning.phrases import _signals

Figures = dict[str, tuple[int, int]]
CLASHES = "proxy.grounding.clashes."
VALUES, REFLECTION = "proxy.grounding.values.", "proxy.stages.reflection."
INSTRUCTIONS = "proxy.stages.poisoning."
NEVER = re.compile(r"(?!x)x")


@dataclass(slots=True, frozen=True)
class Pack:
    """Rules that one switch turns off."""

    area: str
    name: str
    module: str
    switches: Mapping[str, Any]
    """Names in the module, and what stands in their place: a pattern, another function, or what a function then returns."""
    whole: bool = False
    """Whether the module is the pack, so that all of its lines count."""

    @property
    def lines(self) -> int:
        """Of the module, or of the functions that are switched off."""
        module = importlib.import_module(self.module)
        parts = [module] if self.whole else [value for name in self.switches if inspect.isfunction(value := getattr(module, name))]
        return sum(len(inspect.getsource(part).splitlines()) for part in parts)


def each(area: str, module: str, **off: Any) -> list[Pack]:
    """A pack for each name."""
    return [Pack(area, name, module, {name: value}) for name, value in off.items()]


def but(signals: Sequence[Any], i: int) -> Sequence[Any]:
    """All but one."""
    return (*signals[:i], *signals[i + 1 :])


SIGNALS = _signals()
PACKS: Sequence[Pack] = (
    Pack("clash", "plain sentences", CLASHES + "plain", {"declared": ()}, whole=True),
    Pack("clash", "places", CLASHES + "values", {"are_apart": str.__ne__, "can_be_in_both": str.__eq__}),
    *each(
        "clash", CLASHES + "reading", is_first_person=True, _is_of_another=False, _PAST=NEVER, speaks_in_earnest=True, is_hypothetical=False
    ),
    *each("clash", CLASHES + "deciding", _declared=None, _made=None, _something_new=False),
    *each("clash", CLASHES + "reading", is_staged=False),
    *each("corrections", REFLECTION + "corrections", _override=None, _rejected=None, TASK=NEVER, _HIDDEN=NEVER),
    *each("results", REFLECTION + "result_text", _SHELL=NEVER, _HTTP_ERROR=NEVER, _BUILD=NEVER, _HTTP_LINE=NEVER),
    *each("results", REFLECTION + "result_text", _thrown=None, _traced=None, _LABEL=NEVER, _EXCEPTION_LINE=NEVER),
    *each("results", REFLECTION + "results", _process=None, _is_envelope=False, _is_validation=False),
    *each("answers", VALUES + "calculation", calculation=None),
    *each("answers", VALUES + "stated", follows=False),
    *each("answers", VALUES + "slots", swaps=[]),
    *(
        Pack("instructions", f"{signal.category}: {signal.pattern.pattern[:60]}", INSTRUCTIONS + "phrases", {"_signals": but(SIGNALS, i)})
        for i, signal in enumerate(SIGNALS)
    ),
    *each("instructions", INSTRUCTIONS + "phrases", _find_orders=()),
    *each("instructions", INSTRUCTIONS + "hidden", _tag_characters=(), _comments=(), _groups=(), _encoded=()),
    *each("instructions", INSTRUCTIONS + "certainty", is_no_order=False, weight=1.0, _is_material=False, _is_quoted=False),
)


@contextmanager
def without(pack: Pack) -> Iterator[None]:
    """The pack off, in every module that has taken its names; what functions have kept is forgotten."""
    undo = []
    for name, off in pack.switches.items():
        old = getattr(importlib.import_module(pack.module), name)
        new = off if off is NEVER or callable(off) else (lambda *_, off=off, **__: off)
        for module in [module for key, module in sys.modules.items() if key.startswith(("proxy.", "benchmarks."))]:
            for key, value in list(vars(module).items()):
                if value is old:
                    undo.append((module, key, old))
                    setattr(module, key, new)
    _forget()
    try:
        yield
    finally:
        for module, key, old in undo:
            setattr(module, key, old)
        _forget()


def _forget() -> None:
    values = [value for key, module in sys.modules.items() if key.startswith("proxy.") for value in vars(module).values()]
    for clear in [value.cache_clear for value in values if hasattr(value, "cache_clear")]:
        clear()


def count(figures: Figures, name: str, hit: bool) -> None:
    hits, n = figures.get(name, (0, 0))
    figures[name] = hits + hit, n + 1


async def clash() -> Figures:
    """Found, false and acted on, by data."""
    stage, figures = through(None), Figures()
    lines = [line.split("\t") for line in clash_turns.PAIRS.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    cases = [clash_actions.Case(f"turns {line[0]}", (line[3], line[4]), line[2] != "none") for line in lines]
    cases += [case for case in clash_actions.given() if case.data in ("prosecco", "daccord", "decode_pairs")]
    for number, case in enumerate([*cases, *clash_actions.written("held_out")]):
        said: list[dict[str, Any]] = [{"role": "system", "content": f"## User memory\n{case.memory}\n"}] if case.memory else []
        for turn in case.turns:
            said += [{"role": "user", "content": turn}, {"role": "assistant", "content": "Noted."}]
        _, found = await found_in(stage, said, str(number))
        if case.data == "written":
            count(figures, f"set aside, acted on {'rightly' if case.clashes else 'wrongly'}", any(one.certain for one in found))
        else:
            count(figures, f"{case.data}, {'found' if case.clashes else 'false'}", bool(found))
    for row in clash_data.rows("chats/sgd"):
        count(figures, "chats, false", bool((await found_in(stage, row["messages"], row["id"]))[1]))
    return figures


async def corrections() -> Figures:
    """Recall, false alarms, and what overrides ask for."""
    figures = Figures()
    labels = {row["id"]: row["label"] for row in messages.rows() if row["split"] == "wild"}
    for row in messages.rows():
        if row["split"] in ("unseen", "more", "last"):
            count(figures, f"{row['split']}, {'found' if row['label'] else 'false'}", messages.detector(row) is not None)
        if row["split"] in ("test", "unseen") and row["label"] == "override":
            count(figures, f"{row['split']}, tools and numbers", messages._parameters(messages.detector(row)) == messages._expected(row))
    for source in messages.SOURCES:
        for id_, text, tools in messages.messages(source):
            found = messages.read_correction(text, tools) is not None
            count(figures, "chats, found" if labels.get(id_) else "chats, false", found)
    return figures


async def results() -> Figures:
    """Failing tool results that are found, and others."""
    figures = Figures()
    for name, rows in signals._splits(signals.labelled()):
        for row in rows if name.startswith("test") else ():
            if row["label"] != "empty_result":
                count(figures, f"{name}, {'found' if row['label'] else 'false'}", signals.detected(row) is not None)
    tau = signals.measure_trajectories()["detector"]
    figures["tau-bench, found"] = tau["recall"]["hits"], tau["recall"]["n"]
    for _, texts in signals.ordinary(250, 7):
        for text in texts:
            count(figures, "other text, false", signals.read_result(text) is not None)
    return figures


def answers() -> Callable[[], Awaitable[Figures]]:
    """Claims called contradicted; the verifier is the same for all packs."""
    verifiers = local_verifiers(1_000_000)
    grounder = Grounder(verifiers.get(), embedder=BatchingEmbedder(UseEncoder()), only_certain=True)
    planted = actions_answers.data.planted(actions_answers.data.rows(400, 1), 1)
    rows = [*actions_answers.data.rows(60, 1), *random.Random(1).sample(planted, min(500, len(planted)))]

    async def measure() -> Figures:
        figures = Figures()
        for one in await actions_answers.judge(rows, grounder):
            if one.blocked:
                count(figures, "contradicted, rightly", one.rightly_blocked)
            if one.row.planted:
                count(figures, "planted, found", one.blocked)
            if one.row.label == "supported":
                count(figures, "supported, blocked", one.blocked)
                count(figures, "supported, kept", "supported" in one.labels)
        return figures

    return measure


def tool_results(conversation: harmless_data.Conversation) -> list[str]:
    """Its texts."""
    return [text_of(message.get("content")) for message in conversation.messages if message.get("role") in ("tool", "user")]


async def instructions() -> Figures:
    """Attacks that count as such and that are acted on, and harmless texts."""
    figures, seed = Figures(), 6
    attacks = [("templates", [attack.text]) for attack in injection_data.attacks("test", seed) if attack.kind != "plain"]
    rows = poisoning.written("held_out")
    attacks += [("rows", [row["text"]]) for row in rows if row["label"] == "injection"]
    others = [("rows", [row["text"]]) for row in rows if row["label"] == "benign"]
    others += [("texts about attacks", [text]) for text in injection_data.hard_negatives("test")]
    for suite in harmless_data.SUITES.values():
        harmful = [one for one in harmless_data.load(suite["harmful"]) if one.harm is not None and one.harm.type == "injection"]
        attacks += [("conversations", tool_results(one)) for one in harmful]
        others += [("conversations", tool_results(one)) for one in harmless_data.load(suite["harmless"])]
    for attack, cases in ((True, attacks), (False, others)):
        for name, texts in cases:
            found = [finding for text in texts if (finding := detect(text)) != InjectionFinding()]
            for grade in ("suspicious", "likely", "certain"):
                count(figures, f"{name}, {'found' if attack else 'false'} {grade}", any(getattr(one, grade) for one in found))
    return figures


async def run(area: str, only: str) -> None:
    """Print one area: its figures, then by pack those that move."""
    packs = [pack for pack in PACKS if pack.area == area and pack.name.startswith(only)]
    areas = {"clash": clash, "corrections": corrections, "results": results, "instructions": instructions}
    measure = answers() if area == "answers" else areas[area]
    whole = await measure()
    print(f"\n{area}: " + "  ".join(f"{name} {hits}/{n}" for name, (hits, n) in whole.items()), flush=True)
    for pack in packs:
        with without(pack):
            left = await measure()
        moved = [
            f"{name} {hits}/{n} [{low:.1%}, {high:.1%}] -> {now[0]}/{now[1]}" + ("" if low <= now[0] / max(1, now[1]) <= high else " OUT")
            for name, (hits, n) in whole.items()
            if (now := left.get(name, (0, 0))) != (hits, n)
            for low, high in [wilson(hits, n)]
        ]
        print(f"  {pack.name} ({pack.lines} lines): " + ("; ".join(moved) or "nothing moves"), flush=True)


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--area", choices=dict.fromkeys(pack.area for pack in PACKS), help="only this one")
    parser.add_argument("--only", default="", help="packs whose name begins so")
    options = parser.parse_args()
    if not clash_data.available():
        raise SystemExit(f"no data in {clash_data.FOLDER}")
    for area in [options.area] if options.area else list(dict.fromkeys(pack.area for pack in PACKS)):
        asyncio.run(run(area, options.only))


if __name__ == "__main__":
    main()
