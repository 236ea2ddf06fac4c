"""A table filled in: a document in one of ten forms, and statements on its cells, right and wrong ones in pairs.

Wrong ones have another row's value, or another of the column's; they deny what is so, compare the wrong way round, or name the wrong row as
the most. What is said of a column or a row that is not there, or of what no column has, has nothing to rest on. In: a template and a random
generator. Out: a `MadeDocument`.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from training.grounding.data import CONTRADICTED, SUPPORTED, UNSUPPORTED
from training.judge.templates.reading import Attribute, MadeDocument, Statement, TableTemplate, order_of, reworded

_ANOTHER_ROWS = 0.65
"""Share of the wrong values that are another row's, where there is one."""
_STATEMENTS = 14

Cells = dict[tuple[str, str], str]
"""By the row's name and the attribute's key."""


def filled(table: TableTemplate, rng: random.Random) -> MadeDocument:
    """A table of two to eight rows, with up to fourteen statements."""
    names = rng.sample(table.rows, min(len(table.rows) - 1, rng.randrange(2, 9)))
    attributes = rng.sample(table.attributes, len(table.attributes))
    missing = attributes.pop() if len(attributes) > 3 and rng.random() < 0.5 else None
    cells = {(name, one.key): rng.choice(one.values) for name in names for one in attributes}
    maker = _Maker(table.lang, names, attributes, cells, rng)
    form = rng.choices(list(_FORMS), [weight for weight, _ in _FORMS.values()])[0]
    text = _FORMS[form][1](table, maker)
    if rng.random() < 0.5:
        text = f"{table.table[:1].upper()}{table.table[1:]}:\n{text}"
    statements = [*maker.values(), *maker.orders()]
    statements += [*_together(statements, rng), *maker.undecided(table, missing)]
    rng.shuffle(statements)
    return MadeDocument(table.table, table.lang, form, text, tuple(statements[:_STATEMENTS]))


class _Maker:
    """Makes statements on the cells of one table."""

    def __init__(self, language: str, names: list[str], attributes: list[Attribute], cells: Cells, rng: random.Random) -> None:
        self.language, self.names, self.attributes, self.cells, self._rng = language, names, attributes, cells, rng

    def say(self, template: str, attribute: Attribute, name: str, value: str = "", other: str = "") -> str:
        """`template` of a row and a value."""
        shown = reworded(value, attribute.type, self.language, self._rng)
        return template.replace("{e}", name).replace("{f}", other).replace("{v}", shown)

    def values(self) -> Iterator[Statement]:
        """Three cells: their value and a wrong one, in the same sentence each time; the value in other words; what it is not."""
        rng = self._rng
        for number in range(3):
            name, one = rng.choice(self.names), rng.choice(self.attributes)
            value = self.cells[name, one.key]

            def made(text: str, target: int, contrast: str = f"value {number}", cell: tuple[str, str] = (name, value)) -> Statement:
                return Statement(text, target, contrast, (cell,))

            templates = rng.sample(one.says, min(2, len(one.says)))
            wordings = [other for other in one.means if other != value and one.means[other]]
            if one.means.get(value) and wordings and rng.random() < 0.85:
                yield made(self.say(rng.choice(one.means[value]), one, name), SUPPORTED)
                yield made(self.say(rng.choice(one.means[rng.choice(wordings)]), one, name), CONTRADICTED)
                templates = templates[:1]
            for template in templates:
                yield made(self.say(template, one, name, value), SUPPORTED)
                yield made(self.say(template, one, name, self._other(name, one)), CONTRADICTED)
            if one.denies and rng.random() < 0.4:
                template = rng.choice(one.denies)
                yield made(self.say(template, one, name, self._other(name, one)), SUPPORTED)
                yield made(self.say(template, one, name, value), CONTRADICTED)

    def _other(self, name: str, one: Attribute) -> str:
        own = self.cells[name, one.key]
        others = [value for other in self.names if (value := self.cells[other, one.key]) != own]
        if others and self._rng.random() < _ANOTHER_ROWS:
            return self._rng.choice(others)
        return self._rng.choice([value for value in one.values if value != own])

    def orders(self) -> Iterator[Statement]:
        """Which of two rows has more, and which has the most and the least, by one attribute that has an order."""
        rng = self._rng
        ordered = [
            (one, values)
            for one in self.attributes
            if (one.more or one.most or one.least) and (values := self._ordered(one)) is not None and len(values) > 2
        ]
        if not ordered:
            return
        one, values = rng.choice(ordered)
        more, less = rng.sample(self.names, 2)
        if values[more] < values[less]:
            more, less = less, more
        if one.more and values[more] > values[less] and rng.random() < 0.6:
            template = rng.choice(one.more)
            cells = ((more, self.cells[more, one.key]), (less, self.cells[less, one.key]))
            yield Statement(self.say(template, one, more, other=less), SUPPORTED, "more", cells)
            yield Statement(self.say(template, one, less, other=more), CONTRADICTED, "more", cells)
        for way, templates, best in (("most", one.most, max(values.values())), ("least", one.least, min(values.values()))):
            first, *others = sorted(self.names, key=lambda name, best=best: (values[name] != best, rng.random()))
            if templates and sum(value == best for value in values.values()) == 1 and rng.random() < 0.6:
                template, wrong = rng.choice(templates), rng.choice(others)
                cells = tuple((name, self.cells[name, one.key]) for name in (first, wrong))
                yield Statement(self.say(template, one, first), SUPPORTED, way, cells)
                yield Statement(self.say(template, one, wrong), CONTRADICTED, way, cells)

    def _ordered(self, one: Attribute) -> dict[str, float] | None:
        values = {name: order_of(self.cells[name, one.key], one.type) for name in self.names}
        known = {name: value for name, value in values.items() if value is not None}
        return known if len(known) == len(values) else None

    def undecided(self, table: TableTemplate, missing: Attribute | None) -> Iterator[Statement]:
        """What no cell decides: of something else, of a column that is left out, of a row that is not there."""
        rng = self._rng
        absent = [name for name in table.rows if name not in self.names]
        for number in range(2):
            way, text = rng.random(), ""
            if way < 0.3 and table.absent:
                text = rng.choice(table.absent).replace("{e}", rng.choice(self.names))
            elif way < 0.6 and missing is not None:
                text = self.say(rng.choice(missing.says), missing, rng.choice(self.names), rng.choice(missing.values))
            elif way < 0.8:
                one = rng.choice(self.attributes)
                text = self.say(rng.choice(one.says), one, rng.choice(absent), rng.choice(one.values))
            if text:
                yield Statement(text, UNSUPPORTED, f"undecided {number}")


def _together(statements: Sequence[Statement], rng: random.Random) -> Iterator[Statement]:
    """Sometimes two of them in one: right where both are."""
    if len(statements) < 4 or rng.random() < 0.5:
        return
    for _ in range(2):
        one, two = rng.sample(statements, 2)
        text = f"{one.text.rstrip('.')}; {two.text}" if rng.random() < 0.5 else f"{one.text} {two.text}"
        yield replace(one, text=text, target=max(one.target, two.target), contrast="together", cells=(*one.cells, *two.cells))


# ---- forms ----


def _grid(table: TableTemplate, maker: _Maker, rng: random.Random) -> tuple[list[str], list[list[str]]]:
    """Headings and rows; in a quarter of the tables the rows' names are not the first column."""
    head = [rng.choice(table.label), *(rng.choice(one.columns) for one in maker.attributes)]
    rows = [[name, *(maker.cells[name, one.key] for one in maker.attributes)] for name in maker.names]
    order = list(range(len(head)))
    if rng.random() < 0.25:
        rng.shuffle(order)
    return [head[i] for i in order], [[row[i] for i in order] for row in rows]


def _markdown(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows))


def _separated(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=rng.choice((",", ",", ",", ";", "\t")), lineterminator="\n").writerows([head, *rows])
    return out.getvalue().rstrip()


def _json(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    keys = [re.sub(r"\W+", "_", name.lower()).strip("_") or name for name in head]
    objects = [
        {key: int(cell) if re.fullmatch(r"[1-9]\d{0,8}", cell) else cell for key, cell in zip(keys, row, strict=True)} for row in rows
    ]
    if rng.random() < 0.25:
        return "\n".join(json.dumps(one, ensure_ascii=False) for one in objects)
    shown = objects if rng.random() < 0.6 else {rng.choice(("items", "results", "data")): objects}
    return json.dumps(shown, ensure_ascii=False, indent=rng.choice((None, 2)))


def _yaml(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    return "\n".join("- " + "\n  ".join(f"{name}: {cell}" for name, cell in zip(head, row, strict=True)) for row in rows)


def _form(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    return "\n\n".join("\n".join(f"{name[:1].upper()}{name[1:]}: {cell}" for name, cell in zip(head, row, strict=True)) for row in rows)


def _log(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    lines = []
    for row in rows:
        stamp = f"2026-0{rng.randrange(1, 10)}-{rng.randrange(1, 28):02} {rng.randrange(24):02}:{rng.randrange(60):02}"
        fields = (
            f"{name.lower().replace(' ', '_')}={json.dumps(cell) if ' ' in cell else cell}" for name, cell in zip(head, row, strict=True)
        )
        lines.append(f"{stamp} INFO {' '.join(fields)}")
    return "\n".join(lines)


def _bullets(head: list[str], rows: list[list[str]], rng: random.Random) -> str:
    return "\n".join(f"- {row[0]}: " + ", ".join(f"{name} {cell}" for name, cell in zip(head[1:], row[1:], strict=True)) for row in rows)


def _of_grid(write: Callable[[list[str], list[list[str]], random.Random], str]) -> Callable[[TableTemplate, _Maker], str]:
    return lambda table, maker: write(*_grid(table, maker, maker._rng), maker._rng)


def _prose(table: TableTemplate, maker: _Maker) -> str:
    """A paragraph for each row."""
    rng = maker._rng
    paragraphs = []
    for name in maker.names:
        said = []
        for one in maker.attributes:
            value = maker.cells[name, one.key]
            said.append(maker.say(rng.choice([*one.says, *one.means.get(value, ())]), one, name, value))
        rng.shuffle(said)
        paragraphs.append(" ".join(said))
    return rng.choice(("\n", "\n\n", " ")).join(paragraphs)


_FORMS: dict[str, tuple[int, Callable[[TableTemplate, _Maker], str]]] = {
    "markdown": (22, _of_grid(_markdown)),
    "separated": (14, _of_grid(_separated)),
    "json": (18, _of_grid(_json)),
    "yaml": (9, _of_grid(_yaml)),
    "form": (9, _of_grid(_form)),
    "log": (8, _of_grid(_log)),
    "bullets": (6, _of_grid(_bullets)),
    "prose": (14, _prose),
}
"""How often each comes, and how it is written."""
