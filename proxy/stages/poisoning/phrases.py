"""What a text says to a model: the phrases of ``phrases.toml``, found in folded text.

Two ways of saying it are looked for. A *phrase* is a fixed way ("ignore all previous instructions", a fake turn), tried only around its
hints, so that ordinary text costs little. An *order* has three parts, whatever their words: a machine is spoken to (called by name,
greeted, sent a note, told that it must), in an imperative or a duty, and what is asked for serves somebody else: to keep something quiet,
to send what it can read to an address, to praise one thing only, to claim something, to delete, to pay. An assistant or agent that may be
a person makes an order doubtful, and so does what owners of code give to tools as well, unless it is to be done behind somebody's back.

What attacks look like is known from Perez and Ribeiro 2022 (arXiv:2211.09527), Greshake et al. 2023 (arXiv:2302.12173), InjecAgent
(arXiv:2403.02691) and AgentDojo (arXiv:2406.13352). A phrase without which no attack of `benchmarks.injection_data` is lost is not kept.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from proxy.language.patterns import LazyPattern
from proxy.offloop import each

Category = Literal[
    "override", "role", "addressee", "exfiltration", "concealment", "fake_turn", "command", "authority", "pressure", "hidden"
]
AROUND_CHARS = 320
"""How far from a hint a phrase may begin or end."""
BEFORE_CHARS, BEHIND_CHARS = 70, 220
"""How far around a reader's name the words that make it an addressee may stand, and how far behind it the order."""
SURE, DOUBTFUL = 0.5, 0.295
"""Strengths of orders; by the lower one alone nothing is certain (`proxy.stages.poisoning.injection.MIN_STRENGTH`)."""
_PART = re.compile(r"\(\?&(\w+)\)")
_WORD_BEGINS = LazyPattern(r"(?<![^\W_])[^\W_].", re.S)
_MODEL = "MODEL"


class Phrase(NamedTuple):
    """Words to a model, with their place in folded text."""

    start: int
    end: int
    category: Category
    strength: float


class _Signal(Struct, frozen=True):
    """One way of saying it."""

    category: Category
    strength: float
    hints: tuple[tuple[str, ...], ...]
    """Of each group, one stands within `AROUND_CHARS` of what matches."""
    pattern: LazyPattern


class _Order(Struct, frozen=True):
    """What a machine may be told to do."""

    category: Category
    against: bool
    """Whether it is against somebody whatever else is said."""
    pattern: LazyPattern


@cache
def _words() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("phrases.toml").read_text(encoding="utf-8"))


def _pattern(written: str) -> LazyPattern:
    """An expression with its lines joined and its parts in place."""
    parts, text = _words()["parts"], "".join(written.splitlines())
    while _PART.search(text):
        text = _PART.sub(lambda part: "".join(parts[part[1]].splitlines()), text)
    return LazyPattern(text)


@cache
def patterns(table: str) -> Mapping[str, LazyPattern]:
    """The expressions of a table of ``phrases.toml``."""
    return {name: _pattern(written) for name, written in _words()[table].items()}


@cache
def model_names() -> LazyPattern:
    """Any name of a language model, at its beginning."""
    return _pattern(r"\b(?&AI)")


@cache
def _signals() -> tuple[_Signal, ...]:
    return tuple(
        _Signal(
            row["category"],
            row["strength"],
            tuple(tuple("".join(group.splitlines()).split("/")) for group in row["hints"]),
            _pattern(row["pattern"]),
        )
        for row in _words()["phrase"]
    )


@cache
def _orders() -> tuple[_Order, ...]:
    return tuple(_Order(row["category"], row["against"], _pattern(row["pattern"])) for row in _words()["order"])


@cache
def _hints_by_beginning() -> tuple[Mapping[str, Sequence[tuple[str, int]]], Sequence[tuple[str, int]]]:
    """The hints of signals' first groups, each with its signal's number: beginnings of words, by two letters, and marks."""
    words: dict[str, list[tuple[str, int]]] = {}
    marks: list[tuple[str, int]] = []
    for i, signal in enumerate(_signals()):
        for hint in signal.hints[0]:
            (words.setdefault(hint[:2], []) if hint[0].isalnum() else marks).append((hint, i))
    return words, marks


def prepare() -> None:
    """Compile every expression now, some 50 ms, and not at its first use."""
    tables = [pattern for table in ("reader", "mention", "material") for pattern in patterns(table).values()]
    for pattern in (*(one.pattern for one in _signals()), *(one.pattern for one in _orders()), model_names(), *tables):
        pattern.search("")


def find_phrases(text: str) -> Iterator[Phrase]:
    """What folded `text` says to a model, in no order."""
    signals = _signals()
    for i, places in _hint_places(text).items():
        signal = signals[i]
        for start, end in _windows(places, len(text)):
            if all(any(text.find(hint, start, end) >= 0 for hint in group) for group in signal.hints[1:]):
                for match in signal.pattern.finditer(text, start, end):
                    yield Phrase(*match.span(), signal.category, signal.strength)
    yield from _find_orders(text)


def _hint_places(text: str) -> dict[int, list[int]]:
    """Where a signal's first group has a hint, by the signal's number."""
    words, marks = _hints_by_beginning()
    found: dict[int, list[int]] = {}
    for begin in _WORD_BEGINS.finditer(text):
        for hint, i in words.get(begin[0], ()):
            if text.startswith(hint, begin.start()):
                found.setdefault(i, []).append(begin.start())
    for name in model_names().finditer(text):
        for hint, i in words[_MODEL[:2]]:
            if hint == _MODEL:
                found.setdefault(i, []).append(name.start())
    for hint, i in each(marks):
        at = text.find(hint)
        while at >= 0:
            found.setdefault(i, []).append(at)
            at = text.find(hint, at + len(hint))
    return {i: sorted(places) for i, places in found.items()}


def _windows(places: Sequence[int], length: int) -> list[tuple[int, int]]:
    """The stretches of a text of `length` characters around these places."""
    found: list[tuple[int, int]] = []
    for at in places:
        start, end = max(0, at - AROUND_CHARS), min(length, at + AROUND_CHARS)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


# ---- orders ----


def _find_orders(text: str) -> Iterator[Phrase]:
    """The addressees in `text` that are told to do something against somebody, and what; nothing of the others."""
    words, at = patterns("reader"), 0
    for reader in words["called"].finditer(text):
        if reader.start() < at:
            continue
        machine = reader["machine"] is not None
        if end := _addressee_end(text, reader):
            found = list(_orders_behind(text, reader.start(), end, least=1 if machine else None))
        elif (duty := words["duty"].match(text, reader.end())) is not None:  # one duty of machines may be a rule for all of them
            found = list(_orders_behind(text, reader.start(), duty.end(), least=2))
        else:
            continue
        at = max((one.end for one in found), default=at)
        yield from found
    for system in words["system"].finditer(text):
        yield from _orders_behind(text, system.start(), system.end(), least=1, by="fake_turn")


def _addressee_end(text: str, reader: re.Match[str]) -> int:
    """Where the addressee ends; 0 where it is only spoken of."""
    words, before = patterns("reader"), text[max(0, reader.start() - BEFORE_CHARS) : reader.start()]
    if words["before"].search(before) is not None:
        return reader.end()
    colon = words["colon"].match(text, reader.end())
    return colon.end() if colon is not None and words["alone"].search(before) is not None else 0


def _orders_behind(text: str, start: int, at: int, *, least: int | None, by: Category = "addressee") -> Iterator[Phrase]:
    """The addressee at ``text[start:at]`` and what it is told, if anything. Sure with `least` orders, never for None."""
    end = text.find("\n\n", at, at + BEHIND_CHARS)
    end = end if end >= 0 else at + BEHIND_CHARS
    found = [(order, match.end()) for order in _orders() if (match := order.pattern.search(text, at, end)) is not None]
    if not found:
        return
    sure = least is not None and len(found) >= least and (len(found) > 1 or found[0][0].against)
    yield Phrase(start, at, by, SURE if least is not None else DOUBTFUL)
    for order, stop in found:
        yield Phrase(start, stop, order.category, SURE if sure else DOUBTFUL)
