"""A clause of a statement within a table: the rows and columns that it speaks of, and how much else it says.

Between `proxy.grounding.records.binding` and the checks (`values`, `states`, `naming`, `aggregates`, `comparisons`), which return
`Finding`s. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct

from proxy.grounding.records.binding import Bound, Statement, names_column
from proxy.grounding.records.cells import MAX_VALUE_CHARS, Row, State, Table, concepts_of, lexicon, listed, names_any, tokens
from proxy.grounding.records.objects import MAX_ROWS
from proxy.grounding.records.reading import read
from proxy.grounding.values.arithmetic import asked_for
from proxy.language.dates import Date, date_agrees
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import Quantities, Quantity, agrees, read_quantities, unit_of
from proxy.language.text import knows_negations

_TEXTS = phrases(Path(__file__).parent)

MAX_NAMED_ROWS = 3
"""A value of more rows than so many is not compared: the statement may speak of others."""
NAMED = 1.0
"""How plainly a column must be spoken of (`binding.names_column`) by its own name."""
NAMED_BY_MEANING = 0.8
"""The same by another word that means it."""
MAX_EXTRA, MAX_EXTRA_WEAK = 3, 2
"""Words of a clause that name nothing in the table, up to which its values are compared; where the column is less plain."""
_BOUNDS = LazyPattern(_TEXTS.BOUNDS)


class Finding(Struct, frozen=True):
    """One value of a statement beside the cell that it is of."""

    right: bool
    claim: str
    evidence: str
    row: int
    words: frozenset[int] = frozenset()
    """Positions of the statement's words that it explains."""
    kind: str = ""


class Clause:
    """A clause within a table, with what it says of columns."""

    def __init__(
        self,
        statement: Statement,
        bound: Bound,
        records: Records,
        mentioned: frozenset[int] = frozenset(),
        whole: Statement | None = None,
    ) -> None:
        self.statement, self.bound, self.table, self.records = statement, bound, bound.table, records
        self.whole = whole or statement
        self.mentioned = mentioned | bound.rows
        """Rows that any clause of the statement names."""
        self.alone = whole is None
        """Whether the clause is the whole statement."""
        self.satisfied: set[int] = set()
        """Columns of which the clause gives the row's value."""

    @cached_property
    def columns(self) -> dict[int, tuple[float, frozenset[int]]]:
        """The columns that it speaks of, with how plainly, and by which words."""
        found = {c: names_column(self.statement, column, self.table, self.bound.used) for c, column in enumerate(self.table.columns)}
        return {c: score for c, score in found.items() if score[0]}

    @cached_property
    def words(self) -> list[str]:
        """Its folded words."""
        return [word.text for word in self.statement.words]

    @cached_property
    def rows(self) -> list[tuple[int, Row]]:
        """The rows that it speaks of; none where these are too many."""
        if len(self.bound.rows) > MAX_NAMED_ROWS:
            return []
        return [(r, self.table.rows[r]) for r in sorted(self.bound.rows)]

    @cached_property
    def is_understood(self) -> bool:
        """Whether words for "not", "below" or "formerly" would be seen: its language is known, or it has no words but the table's."""
        if knows_negations(self.statement.language):
            return True
        cells = {token for _, row in self.rows for value in row.values.values() for token in tokens(value)}
        return all(word in cells or word in self.table.name_words or not any(map(str.isalpha, word)) for word in self.words)

    @cached_property
    def names_other_rows(self) -> bool:
        """Whether it may be about another row: "at Elm, the service begins", where Oak is "out of service"."""
        bound = self.bound
        return not self.of_one_row or (bool(self.mentioned - bound.rows) and not any(span.whole for span in bound.spans))

    @cached_property
    def of_one_row(self) -> bool:
        """Whether all values that it names are those of its rows."""
        return all(any(rows & self.bound.rows for rows in span.rows.values()) for span in self.bound.spans)

    @cached_property
    def extra(self) -> int:
        """Words that name nothing: no value, column, number, unit or state."""
        named = self.bound.used.union(*(by for _, by in self.columns.values()), *self.statement.values_at)
        known = lexicon().states.keys() | listed("fillers") | listed("none") | listed("every") | listed("only") | self.table.common
        left = [self.statement.words[i].text for i in self.statement.content() if i not in named]
        return sum(
            word not in known and not word.isdigit() and unit_of(word) is None and not names_any(word, self.table.title_words)
            for word in left
        )

    def says_more(self, most: int, apart: int = 0) -> bool:
        """Whether it has more words that name nothing than so many; than `apart`, where it is a clause among others."""
        return self.extra > (most if self.alone else apart)

    @property
    def hedged(self) -> bool:
        """Whether its statement is (`Statement.hedged`): then what it names need not be what it says something of."""
        return self.whole.hedged

    @cached_property
    def ordinal(self) -> bool:
        """Whether it speaks of a first, last or most."""
        of_columns = {i for _, by in self.columns.values() for i in by}
        free = {word for i, word in enumerate(self.words) if i + 1 not in of_columns or word not in listed("ordinals")}  # "last modified"
        return bool(free & (listed("most") | listed("least") | (listed("either") - listed("ordinals")) | listed("ordinals")))

    @cached_property
    def bounded(self) -> bool:
        """Whether it says that something is before, after, or up to a value."""
        return _BOUNDS.search(" ".join(self.words)) is not None

    @cached_property
    def pronoun(self) -> bool:
        """Whether it is about something that was named before."""
        return any(word in listed("pronouns") for word in self.words[:3])

    @cached_property
    def computed(self) -> bool:
        """Whether its number may be worked out of others, or two things are compared."""
        return self.compares or self.adds

    @cached_property
    def compares(self) -> bool:
        """Whether it says that something is more or less."""
        compares = set(self.words) & (listed("more") | listed("less"))
        return bool(compares - listed("placing") if len(self.mentioned) == 1 and self.statement.than is None else compares)

    @cached_property
    def adds(self) -> bool:
        """Whether it says that something is a sum, a difference or a mean."""
        of_columns = {i for _, by in self.columns.values() for i in by}  # "Total" may be a column's name
        said = " ".join(self.statement.text[w.start : w.end] for i, w in enumerate(self.statement.words) if i not in of_columns)
        operations = asked_for(said)
        left = any("stock" in concepts_of(column.words) for column in self.table.columns)  # "there are 24 left"
        return operations.sums or (operations.differences and not left) or operations.means

    @cached_property
    def numbers(self) -> list[Quantity]:
        """Its numbers that are no names of rows."""
        return [q for q in self.statement.quantities.numbers if not self.statement.at(q.start, q.end) & self.bound.used]

    def says_only(self, found: Sequence[Finding]) -> bool:
        """Whether it says what was found right of one row, and nothing else: each value is one of them, and no word is left."""
        bound = self.bound
        explained = bound.used.union(*(finding.words for finding in found))
        if any(not at & explained for at in self.statement.values_at) or self.extra or len(self.rows) != 1 or not bound.groups:
            return False
        if self.hedged or self.ordinal or self.bounded or self.pronoun or self.statement.denies or (self.computed and self.numbers):
            return False
        kinds = {finding.kind for finding in found}
        strong = bool(kinds - {"relation", "boolean"}) or ("relation" in kinds and all(span.whole or span.sure for span in bound.spans))
        return self.of_one_row and strong

    def named(self, fits: Callable[[int], bool]) -> list[int]:
        """The columns that fit and are spoken of most plainly."""
        scores = {c: score for c, (score, _) in self.columns.items() if fits(c)}
        best = max(scores.values(), default=0.0)
        return [c for c, score in scores.items() if score >= best - 0.01]

    def score(self, column: int) -> float:
        """How plainly it speaks of a column."""
        return self.columns.get(column, (0.0, frozenset()))[0]


def is_name(table: Table, column: int) -> bool:
    """Whether a column's numbers name things, as those of orders do."""
    return bool(listed("name_columns") & set(table.columns[column].words))


def spoken_states(statement: Statement) -> Iterator[tuple[int, frozenset[State]]]:
    """The positions of words that are states, with these."""
    known = lexicon().states
    for i, word in enumerate(statement.words):
        found = known.get(word.text, frozenset())
        if i + 1 < len(statement.words):
            found = known.get(f"{word.text}-{statement.words[i + 1].text}", found)
        ends = i + 1 == len(statement.words) or statement.text[word.end : word.end + 1] in ".,;"
        if found and (ends or word.text not in listed("weak_states")):
            yield i, found


# ---- evidence ----


MAX_TABLES = 60
MAX_CELLS = 8_000
"""Of all tables: the others' are text."""
MAX_LOOSE_CHARS = 40_000
MAX_TOKEN_CHARS = 120_000


class Place(Struct, frozen=True):
    """Where a table stands."""

    text: int
    """Position of its text."""
    table: Table
    outdated: bool = False
    """Whether its rows may be others by now: they show what is right, and decide nothing."""


class Records:
    """The tables of `texts`; of those that are `outdated` it is known, if any are."""

    def __init__(self, texts: Sequence[str], outdated: Sequence[bool] = ()) -> None:
        self.texts = tuple(texts)
        self._numbers: dict[tuple[object, ...], bool] = {}
        old = {i for i, is_old in enumerate(outdated) if is_old}
        every = (Place(i, table, i in old) for i, text in enumerate(texts) for table in read(text))
        self.places: list[Place] = []
        cells = 0
        for place in every:
            size = len(place.table.rows) * len(place.table.columns)
            if len(place.table.rows) <= MAX_ROWS and cells + size <= MAX_CELLS and len(self.places) < MAX_TABLES:
                self.places.append(place)
                cells += size

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
        return "\n".join(parts)

    @cached_property
    def whole(self) -> bool:
        """Whether all of the other text is looked at: where it is not, any value may stand in it."""
        return len(self.loose_text) <= MAX_LOOSE_CHARS

    @cached_property
    def loose(self) -> Quantities:
        """Its numbers, dates and times."""
        return read_quantities(self.loose_text[:MAX_LOOSE_CHARS], any_language=True)

    @cached_property
    def loose_tokens(self) -> frozenset[str]:
        """Its words."""
        return frozenset(tokens(self.loose_text[:MAX_LOOSE_CHARS]))

    @cached_property
    def tokens(self) -> frozenset[str]:
        """All words of all texts."""
        return frozenset(token for text in self.texts for token in tokens(text[:MAX_TOKEN_CHARS]))

    def has_number(self, q: Quantity) -> bool:
        """Whether the other text has a number, in whatever form. It is looked for once, however many tables a statement is held against."""
        key = q.values, q.unit, q.step, q.relation
        if key not in self._numbers:
            self._numbers[key] = (
                not self.whole
                or any(agrees(q, other) for other in self.loose.numbers)
                or any(q.values[0] == year for date in self.loose.dates for year, _, _ in date.readings)
            )
        return self._numbers[key]

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
