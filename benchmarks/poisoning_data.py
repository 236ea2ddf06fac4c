"""True and false statements about a knowledge base of true passages, from ``../shared/data/grounding``, for `benchmarks.poisoning`.

The knowledge base holds the passages of development rows (the half that calibration has not seen, `benchmarks.grounding_data`) as they
are. Taken are rows whose passage names what the claim is about: FEVER's evidence has lost its titles, and of "He was born in 1950" no
knowledge base can tell whose birth it is; and of fever_symmetric, half of whose passages were edited to contradict the other half,
none.

*True* statements are supported claims. *False* ones are claims that the source calls contradicted (written by people), and supported
claims in which a seeded rule exchanges one number, date, name or place for another that the passage does not have. *Unknown* statements
are true, but of things that the knowledge base does not speak of.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks import grounding_data
from benchmarks.grounding_data import Pair
from proxy.grounding.claims.claims import claims_of
from proxy.language.names import name_words, read_names
from proxy.language.quantities import read_quantities

KNOWN = ("fever_dev", "fool_me_twice", "dialfact_sample", "rte3_german", "rte3_french")
ELSEWHERE = ("scifact", "semiauto_wiki", "wice")
"""What *unknown* statements are taken from."""
MAX_CLAIM_CHARS = 200
_PLACED = re.compile(r"\b(?:in|at|near|from|aus|à|en|dans)\s$")
_MONTHS = "January February March April May June July August September October November December".split()  # noqa: SIM905


@dataclass(slots=True, frozen=True)
class Statement:
    """One sentence, and what is known of it."""

    text: str
    kind: str
    """``true``, ``unknown``, ``contradicted`` or the kind of exchange: ``number``, ``date``, ``name``, ``place``."""
    language: str
    source: str
    passage: str

    @property
    def false(self) -> bool:
        return self.kind not in ("true", "unknown")


def available() -> bool:
    return grounding_data.available()


def statements(seed: int, most: int) -> tuple[list[Statement], list[str]]:
    """At most `most` statements of each kind, and the passages of the knowledge base."""
    source = random.Random(seed)
    pairs = [pair for name in KNOWN for pair in grounding_data.rows(name, "all" if name == "dialfact_sample" else "dev") if _usable(pair)]
    source.shuffle(pairs)
    supported = [pair for pair in pairs if pair.label == "supported"]
    found: dict[str, list[Statement]] = {"true": [], "contradicted": [], "number": [], "date": [], "name": [], "place": [], "unknown": []}
    found["true"] = [_statement(pair, pair.claim, "true") for pair in supported]
    found["contradicted"] = [_statement(pair, pair.claim, "contradicted") for pair in pairs if pair.label == "contradicted"]
    names = _names(supported)
    for pair in supported:
        for kind, text in _exchanged(pair, names, source):
            found[kind].append(_statement(pair, text, kind))
    others = [p for name in ELSEWHERE for p in grounding_data.rows(name, "dev") if p.label == "supported" and _is_sentence(p.claim)]
    source.shuffle(others)
    found["unknown"] = [_statement(pair, pair.claim, "unknown") for pair in others]
    chosen = [one for name, group in found.items() for one in _distinct(group)[: 4 * most if name == "true" else most]]
    passages = list(dict.fromkeys(pair.context for pair in pairs))
    return chosen, passages


def _statement(pair: Pair, text: str, kind: str) -> Statement:
    return Statement(text if text.rstrip()[-1:] in ".!?" else text.rstrip() + ".", kind, pair.language, pair.source, pair.context)


def _usable(pair: Pair) -> bool:
    """A whole statement whose passage names its subject."""
    if pair.label not in ("supported", "contradicted") or not _is_sentence(pair.claim):
        return False
    names = read_names(pair.claim, pair.language, every_capital=True)
    return bool(names) and set(names[0].words) <= name_words(pair.context).words


def _is_sentence(text: str) -> bool:
    claims = claims_of(text)
    return len(text) <= MAX_CLAIM_CHARS and '"' not in text and len(claims) == 1 and claims[0].checkable


def _distinct(group: Sequence[Statement]) -> list[Statement]:
    return list({one.text: one for one in group}.values())


def _names(pairs: Sequence[Pair]) -> dict[tuple[str, bool], list[str]]:
    """Names that can stand for each other: by language, and whether they follow "in" or the like."""
    found: dict[tuple[str, bool], list[str]] = {}
    for pair in pairs:
        for name in read_names(pair.claim, pair.language):
            placed = _PLACED.search(pair.claim[: name.start]) is not None
            found.setdefault((pair.language, placed), []).append(name.text)
    return found


def _exchanged(pair: Pair, names: dict[tuple[str, bool], list[str]], source: random.Random) -> Iterator[tuple[str, str]]:
    """The claim with one thing in it exchanged, of each kind that it has; never the subject, or it would be about something else."""
    claim, said = pair.claim, read_names(pair.claim, pair.language, every_capital=True)
    subject_end = said[0].end if said else len(claim)
    yield from _other_values(pair, subject_end, source)
    here = name_words(pair.context).words
    for name in read_names(claim, pair.language)[-1:]:
        placed = _PLACED.search(claim[: name.start]) is not None
        pool = [other for other in names.get((pair.language, placed), ()) if (" " in other) == (" " in name.text)]
        others = [other for other in pool if not set(other.lower().split()) & here]
        if others and name.start > subject_end and set(name.words) <= here:
            yield "place" if placed else "name", claim[: name.start] + source.choice(others) + claim[name.end :]


def _other_values(pair: Pair, subject_end: int, source: random.Random) -> Iterator[tuple[str, str]]:
    """Another number, of at least half as much again; another year or month."""
    claim = pair.claim
    quantities = read_quantities(claim, pair.language)
    for number in [n for n in quantities.numbers if n.start > subject_end][:1]:
        digits = re.match(r"\d{1,4}(?![\d.,])", claim[number.start :])
        if digits is not None and (new := str(round(int(digits[0]) * source.choice((1.5, 2, 3)) + 2))) not in pair.context:
            yield "number", claim[: number.start] + new + claim[number.start + digits.end() :]
    for date in [d for d in quantities.dates if d.start > subject_end][:1]:
        year = re.search(r"\b(1[5-9]|20)\d\d\b", date.text)
        month = re.search("|".join(_MONTHS), date.text)
        if year is not None and (new := str(int(year[0]) + source.choice((-13, -4, 3, 8, 21)))) not in pair.context:
            yield "date", claim[: date.start] + date.text.replace(year[0], new, 1) + claim[date.end :]
        elif month is not None and (new := source.choice([m for m in _MONTHS if m not in pair.context])):
            yield "date", claim[: date.start] + date.text.replace(month[0], new, 1) + claim[date.end :]
