"""The templates as they were written, and values as a statement may write them.

A table has names of rows, and attributes: headings, values, and sentences that say a value of a row (``{e}`` the row, ``{v}`` the value,
``{f}`` another row). A topic has sentences of a document with what follows from each, what goes against it, and what does neither;
``{n}`` is a value of a slot, ``{n!}`` another one. The file's makers, counts and checks: ``training/data/README.md``.
"""

from __future__ import annotations

import gzip
import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

FILE = Path(__file__).parents[2] / "data" / "judge_templates.jsonl.gz"
_HELD_OUT_PERCENT = 15
"""Of the tables and topics, by a hash of the name."""
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
}
_DAY = {"de": "{d}. {m} {y}", "es": "{d} de {m} de {y}", "pt": "{d} de {m} de {y}"}
_TIME = {"de": "{h}.{m} Uhr", "fr": "{h}h{m}", "it": "{h}.{m}", "es": "{h}.{m}", "pt": "{h}h{m}"}
_CLOCK = re.compile(r"(\d\d?):(\d\d)")
_ISO = re.compile(r"(\d{4})-(0\d|1[0-2])-(\d\d)")
_COUNT = re.compile(r"[^\d-]*(-?\d+(?:[.,]\d+)?)(?!\d)[^\d]*")
_NOON = 12
_YEARS = range(1500, 2101)
"""Numbers that are written without a mark: they may be years."""

Kind = Literal["number", "time", "date", "name", "state", "text"]


class Attribute(Struct, frozen=True):
    """A column of a table."""

    key: str
    columns: tuple[str, ...]
    """What it may be called."""
    type: Kind
    values: tuple[str, ...]
    says: tuple[str, ...]
    """True of a row with that value, false of one with another."""
    denies: tuple[str, ...] = ()
    """True of a row without the value."""
    means: dict[str, tuple[str, ...]] = {}
    """Sentences that say a value in other words."""
    more: tuple[str, ...] = ()
    """``{e}``'s value is the larger, or later, one."""
    most: tuple[str, ...] = ()
    least: tuple[str, ...] = ()


class TableTemplate(Struct, frozen=True):
    """A kind of table."""

    table: str
    lang: str
    label: tuple[str, ...]
    """What the column of the rows' names may be called."""
    rows: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    absent: tuple[str, ...] = ()
    """Sentences on a row that no attribute decides."""
    seen: bool = False
    """Whether exact rules were made with it in view."""

    @property
    def name(self) -> str:
        """What it is of."""
        return self.table


class Item(Struct, frozen=True):
    """A sentence of a topic's documents."""

    doc: str
    yes: tuple[str, ...]
    no: tuple[str, ...]
    maybe: tuple[str, ...]
    slots: dict[str, tuple[str, ...]] = {}


class TopicTemplate(Struct, frozen=True):
    """What documents of prose are about."""

    topic: str
    lang: str
    items: tuple[Item, ...]

    @property
    def name(self) -> str:
        """What it is of."""
        return self.topic


Template = TypeVar("Template", TableTemplate, TopicTemplate)


@dataclass(slots=True, frozen=True)
class Statement:
    """What is said of a made document."""

    text: str
    target: int
    """As in `training.grounding.data`."""
    contrast: str
    """Right and wrong forms of one sentence share it."""
    cells: tuple[tuple[str, str], ...] = ()
    """Names and values of the rows that decide."""
    sentences: tuple[str, ...] = ()
    """Sentences of the document that decide."""


@dataclass(slots=True, frozen=True)
class MadeDocument:
    """A document with statements about it."""

    name: str
    language: str
    form: str
    text: str
    statements: tuple[Statement, ...]


def read(path: Path = FILE) -> tuple[list[TableTemplate], list[TopicTemplate]]:
    """All tables and topics. Raises `msgspec.ValidationError` for a row that is neither."""
    tables: list[TableTemplate] = []
    topics: list[TopicTemplate] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if '"attributes":' in line:
                tables.append(msgspec.json.decode(line, type=TableTemplate))
            else:
                topics.append(msgspec.json.decode(line, type=TopicTemplate))
    return tables, topics


def held_out(template: TableTemplate | TopicTemplate) -> bool:
    """Whether no training may see it."""
    return int(hashlib.sha1(template.name.encode(), usedforsecurity=False).hexdigest()[:8], 16) % 100 < _HELD_OUT_PERCENT


def parts(templates: Sequence[Template], *, apart: bool) -> list[Template]:
    """Those that are held out, or the others."""
    return [template for template in templates if held_out(template) == apart]


def order_of(value: str, kind: Kind) -> float | None:
    """A value as a number by which rows are ordered; None for one that has no order."""
    if kind == "time" and (clock := _CLOCK.fullmatch(value)):
        return int(clock[1]) * 60.0 + int(clock[2])
    if kind == "date" and (date := _ISO.fullmatch(value)):
        return int(date[1]) * 372.0 + int(date[2]) * 31 + int(date[3])
    if kind == "number" and (count := _COUNT.fullmatch(value)):
        return float(count[1].replace(",", "."))
    return None


def reworded(value: str, kind: Kind, language: str, rng: random.Random) -> str:
    """`value` in a statement: as it is, or sometimes as people write times, dates and large numbers in `language`."""
    if kind == "time" and (clock := _CLOCK.fullmatch(value)) and rng.random() < 0.35:
        hour, minute = int(clock[1]), clock[2]
        if language == "en":
            shown = (hour - 1) % _NOON + 1
            return f"{shown}{'' if minute == '00' else f':{minute}'} {'am' if hour < _NOON else 'pm'}"
        return _TIME[language].format(h=hour, m=minute)
    if kind == "date" and (date := _ISO.fullmatch(value)) and rng.random() < 0.5:
        month = _MONTHS[language].split()[int(date[2]) - 1]
        said = _DAY.get(language, "{d} {m} {y}").format(d=int(date[3]), m=month, y=date[1])
        return said if rng.random() < 0.6 else re.sub(r"(?: de)? \d{4}$", "", said)
    if kind == "number" and re.fullmatch(r"\d{4,}", value) and int(value) not in _YEARS and rng.random() < 0.5:
        return f"{int(value):,}".replace(",", {"en": ",", "fr": " "}.get(language, "."))
    return value
