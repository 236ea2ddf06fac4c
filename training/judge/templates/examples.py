"""Made documents as the judge is shown them: each statement beside what retrieval finds for it, or beside what decides and little else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from proxy.exchange import Evidence
from proxy.grounding.evidence.gathering import EvidenceBase
from training.grounding.data import UNSUPPORTED, Example
from training.judge.templates import reading, tables, topics
from training.judge.templates.reading import MadeDocument, Statement

FOUND, NEAR = "templates/found", "templates/near"
"""Ways of showing a statement, which stand as sources of their own."""
SOURCES = (FOUND, NEAR)
DOCUMENTS = 4500, 3500
"""Of tables and of topics: some 150,000 statements, 17 million tokens."""
HELD_OUT_DOCUMENTS = 120, 100
_NEAR_SHARE = 0.45
_BESIDE = (0, 1, 2)
"""How many pieces stand beside the deciding ones."""
_NEAR_CHARS = 900


def training(rng: random.Random) -> list[Example]:
    """Of the templates that are not held out."""
    return [example for document in _made(rng, DOCUMENTS, apart=False) for example in examples_of(document, rng)]


def development() -> list[Example]:
    """Of those that are, as retrieval finds their evidence; the same each time."""
    rng = random.Random(15)
    return [example for document in _made(rng, HELD_OUT_DOCUMENTS, apart=True) for example in examples_of(document, rng, near=0.0)]


def _made(rng: random.Random, documents: tuple[int, int], *, apart: bool) -> Iterator[MadeDocument]:
    of_tables, of_topics = reading.read()
    own, prose, shown = reading.parts(of_tables, apart=apart), reading.parts(of_topics, apart=apart), topics.Shown()
    yield from (tables.filled(rng.choice(own), rng) for _ in range(documents[0]))
    yield from (topics.filled(rng.choice(prose), rng, shown) for _ in range(documents[1]))


def examples_of(document: MadeDocument, rng: random.Random, near: float = _NEAR_SHARE) -> Iterator[Example]:
    """Its statements, a share `near` of them beside the deciding pieces and at most two others."""
    base = EvidenceBase([Evidence(document.text)])
    name = f"{document.name} {rng.random():.9f}"  # a template's documents are others each time
    for statement in document.statements:
        deciding = _deciding(statement, base.sentences)
        selection = base.search(statement.text)
        way, text = FOUND, selection.text
        if deciding and rng.random() < near:
            chosen = set(deciding)
            others = [i for i in base.by_terms(statement.text, range(len(base))) if i not in chosen]
            way, text = NEAR, base.text([*chosen, *others[: rng.choice(_BESIDE)]])
        elif statement.target != UNSUPPORTED and not set(deciding) & set(selection.positions):
            continue  # retrieval has lost what decides
        if text and len(text) <= _NEAR_CHARS:
            contrast = f"{name}/{statement.contrast}"
            yield Example(statement.text, text, statement.target, way, document.language, name, contrast)


def _deciding(statement: Statement, pieces: Sequence[str]) -> list[int]:
    """The positions of the pieces that have the cells, or the sentences, that decide."""
    return [
        i
        for i, piece in enumerate(pieces)
        if any(name in piece and value in piece for name, value in statement.cells)
        or any(said in piece or piece.strip() in said for said in statement.sentences)
    ]
