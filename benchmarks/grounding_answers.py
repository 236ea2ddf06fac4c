"""Answers of several sentences over long contexts, made of single claims by a seeded rule, for `benchmarks.grounding`.

An answer joins two to six claims of rows that are measured on. Its context joins the claims' own contexts with passages of other rows,
300 to 3,000 tokens in random order. Half of the answers are positive: one claim, or two of five or more, is one that its context does
not support. A passage never joins that could support such a claim, as far as shared words can tell: it must hold less than half of
its longer words; and claims that have one label here and another there are not used.
"""

from __future__ import annotations

import math
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchmarks.grounding_data import Pair, measured
from benchmarks.grounding_metrics import Span
from proxy.language.text import split_sentences

SOURCES = ("attributionbench", "expertqa", "clapnq", "mtragun_reference", "bump", "summedits", "halueval_summarization", "wice")
SENTENCES = (2, 6)
CONTEXT_TOKENS = (300, 3000)
JOINT = "\n\n"
ATTEMPTS = 60
"""Draws for one answer's claims; in the second half of them its context may grow beyond the size drawn for it."""
_LONG_WORD = re.compile(r"\w{5,}")


@dataclass(slots=True, frozen=True)
class Part:
    """One claim in an answer."""

    start: int
    end: int
    positive: bool


@dataclass(slots=True, frozen=True)
class Answer:
    """An answer, its context, and what each of its parts is."""

    text: str
    context: str
    parts: tuple[Part, ...]
    group: str
    """What is resampled together; composed answers share single rows only, so each is its own."""
    source: str = "composed"
    language: str = "en"

    @property
    def positive(self) -> bool:
        """Whether any part is not supported."""
        return any(part.positive for part in self.parts)

    @property
    def gold(self) -> list[Span]:
        """Characters that are not supported."""
        return [(part.start, part.end) for part in self.parts if part.positive]


def usable(pairs: Iterable[Pair]) -> list[Pair]:
    """Single sentences, each with one label everywhere: supported answers and summaries are split, others must be one sentence."""
    found: dict[tuple[str, str], Pair] = {}
    labels: defaultdict[str, set[bool]] = defaultdict(set)
    for pair in pairs:
        cut = [text.strip() for text in split_sentences(pair.claim) if text.strip()]
        labels[pair.claim].add(pair.positive)
        if len(cut) > 1 and (pair.positive or pair.source == "summedits"):
            continue  # the source does not say which of them is wrong
        for text in cut:
            if len(text.split()) > 4 and not text.endswith("?"):
                labels[text].add(pair.positive)
                found[text, pair.context] = replace(pair, claim=text if text[-1] in '.!…"”' else text + ".")
    return [pair for (text, _), pair in found.items() if len(labels[text]) == 1]


class Pool:
    """Claims to draw from, by what they are."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = list(pairs)
        self._by_source: defaultdict[tuple[bool, str], list[Pair]] = defaultdict(list)
        self._by_context: defaultdict[tuple[bool, str], list[Pair]] = defaultdict(list)
        for pair in pairs:
            self._by_source[pair.positive, pair.source].append(pair)
            if pair.source != "summedits":  # its claims of one context are one text with small edits
                self._by_context[pair.positive, pair.context].append(pair)
        self._sources = {kind: sorted(s for k, s in self._by_source if k == kind) for kind in (True, False)}

    def draw(self, chosen: Sequence[Pair], rng: random.Random, *, positive: bool) -> Pair | None:
        """A claim of the wanted kind: often of a context that is there already, otherwise of a source drawn first."""
        near = [pair for context in {c.context: None for c in chosen} for pair in self._by_context.get((positive, context), ())]
        tried = rng.choice(near if near and rng.random() < 0.6 else self._by_source[positive, rng.choice(self._sources[positive])])
        return None if any(tried.claim == pair.claim for pair in chosen) else tried


def composed(count: int, seed: int, tokens: Callable[[str], int], pairs: Sequence[Pair] | None = None) -> list[Answer]:
    """`count` answers, the same for the same seed; every other one is positive."""
    pool = Pool(usable(pair for source in SOURCES for pair in measured(source)) if pairs is None else pairs)
    rng = random.Random(f"answers {seed}")
    return [_joined(*_draw(pool, rng, positive=i % 2 == 0, tokens=tokens), f"composed {i}") for i in range(count)]


def _draw(pool: Pool, rng: random.Random, *, positive: bool, tokens: Callable[[str], int]) -> tuple[list[Pair], list[str]]:
    """Claims and passages of one answer; what does not fit into the size drawn for the context may fill it up to the highest."""
    low, high = CONTEXT_TOKENS
    size = round(math.exp(rng.uniform(math.log(low), math.log(high))))
    wanted = rng.randint(*SENTENCES)
    planted = (2 if wanted >= 5 else 1) if positive else 0
    chosen: list[Pair] = []
    passages: dict[str, int] = {}
    for attempt in range(ATTEMPTS):
        if len(chosen) == wanted:
            break
        if tried := pool.draw(chosen, rng, positive=len(chosen) < planted):
            length = 0 if tried.context in passages else tokens(tried.context)
            room = (size if attempt < ATTEMPTS // 2 else high) - sum(passages.values())
            if length <= room and _apart(tried, chosen, passages):
                chosen.append(tried)
                passages.setdefault(tried.context, length)
    for _ in range(ATTEMPTS):  # distractors
        other = rng.choice(pool.pairs).context
        room = size - sum(passages.values())
        if room <= 0:
            break
        if other not in passages and tokens(other) <= room and _harmless(other, chosen):
            passages[other] = tokens(other)
    order = list(passages)
    rng.shuffle(order)
    rng.shuffle(chosen)
    return chosen, order


def _apart(tried: Pair, chosen: Sequence[Pair], passages: Iterable[str]) -> bool:
    """Whether neither the new claim nor those there are supported by a passage that is not their own."""
    if any(tried.group == pair.group and tried.context != pair.context for pair in chosen):
        return False
    mine = not tried.positive or all(_harmless(passage, [tried]) for passage in passages)
    return mine and _harmless(tried.context, chosen)


def _harmless(passage: str, chosen: Sequence[Pair]) -> bool:
    """Whether `passage` holds less than half of the longer words of every unsupported claim that it is not the context of."""
    there = set(_LONG_WORD.findall(passage.casefold()))
    for pair in chosen:
        if pair.positive and pair.context != passage:
            words = set(_LONG_WORD.findall(pair.claim.casefold()))
            if len(words & there) >= 0.5 * len(words):
                return False
    return True


def _joined(chosen: Sequence[Pair], passages: Sequence[str], group: str) -> Answer:
    text, parts = "", []
    for pair in chosen:
        text += " " if text else ""
        parts.append(Part(len(text), len(text) + len(pair.claim), pair.positive))
        text += pair.claim
    return Answer(text, JOINT.join(passages), tuple(parts), group)


def whole(pairs: Sequence[Pair]) -> list[Answer]:
    """Claims of several sentences as they are: positive or not as a whole."""
    return [
        Answer(pair.claim, pair.context, (Part(0, len(pair.claim), pair.positive),), pair.group, pair.source, pair.language)
        for pair in pairs
    ]
