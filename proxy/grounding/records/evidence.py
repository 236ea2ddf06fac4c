"""All tables of a request's evidence, and what its other text says in numbers, dates and times: a value that stands there may be meant.

Made once for all statements of an answer. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from msgspec import Struct

from proxy.grounding.records.cells import MAX_VALUE_CHARS, Table, tokens
from proxy.grounding.records.reading import read
from proxy.language.dates import Date, date_agrees
from proxy.language.quantities import Quantities, Quantity, agrees, read_quantities
from proxy.language.text import split_sentences

MAX_TABLES = 60
MAX_LOOSE_CHARS = 40_000
MAX_TOKEN_CHARS = 120_000
MAX_SENTENCES = 1_000


class Place(Struct, frozen=True):
    """Where a table stands."""

    text: int
    """Position of its text."""
    table: Table


class Records:
    """The tables of `texts`."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self.places = [Place(i, table) for i, text in enumerate(texts) for table in read(text)][:MAX_TABLES]

    @cached_property
    def loose_text(self) -> str:
        """What stands in no cell of a few words."""
        parts: list[str] = []
        for i, text in enumerate(self.texts):
            tables = [place.table for place in self.places if place.text == i]
            spans = sorted(_spans(tables))
            at = 0
            for start, end in spans:
                parts.append(text[at : max(at, start)])
                at = max(at, end)
            parts.append(text[at:])
        for place in self.places:
            for row in place.table.rows:
                parts += [v for c, v in row.values.items() if is_text(place.table, c, v)]
        return "\n".join(parts)[:MAX_LOOSE_CHARS]

    @cached_property
    def loose(self) -> Quantities:
        """Its numbers, dates and times."""
        return read_quantities(self.loose_text, any_language=True)

    @cached_property
    def sentences(self) -> list[str]:
        """Its sentences."""
        return [sentence for sentence in split_sentences(self.loose_text) if sentence.strip()][:MAX_SENTENCES]

    @cached_property
    def loose_tokens(self) -> frozenset[str]:
        """Its words."""
        return frozenset(tokens(self.loose_text))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """All words of all texts."""
        return frozenset(token for text in self.texts for token in tokens(text[:MAX_TOKEN_CHARS]))

    def has_number(self, q: Quantity) -> bool:
        """Whether the other text has a number, in whatever form."""
        return any(agrees(q, other) for other in self.loose.numbers) or any(
            q.values[0] == year for date in self.loose.dates for year, _, _ in date.readings
        )

    def has_date(self, date: Date) -> bool:
        """Whether the other text has a date."""
        return any(date_agrees(date, other) or date_agrees(other, date) for other in self.loose.dates)

    def has_time(self, minutes: tuple[int, ...]) -> bool:
        """Whether the other text has a time of day."""
        return any(set(minutes) & set(other.minutes) for other in self.loose.times)


def _spans(tables: Sequence[Table]) -> list[tuple[int, int]]:
    """What the tables take up: row by row where these are lines, else all of it."""
    found = []
    for table in tables:
        whole = table.rows and (table.start, table.end) != (table.rows[0].start, max(row.end for row in table.rows))
        found += [(table.start, table.end)] if whole else [(row.start, row.end) for row in table.rows]
    return found


def is_text(table: Table, column: int, value: str) -> bool:
    """Whether a cell is a text rather than a value."""
    if not table.columns[column].name and len(table.columns) > 1:  # a line whose values have columns of their own
        return False
    return len(value) > MAX_VALUE_CHARS or len(value.split()) > 6 or not table.columns[column].name
