"""Hard pairs written for this project (``../shared/data/judge``, ``training/data``) as examples: each row in several views of its document.

A row names the piece that decides. So a view can be made short (that piece beside others), can be what retrieval finds (where that has
the piece), can be the whole document, or the document without the piece: then nothing supports the statement any more, whatever the
words that the two share (FactCG's and MiniCheck's recipe: the label follows from what was deleted).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proxy.grounding.evidence.pieces import cut
from proxy.grounding.evidence.retrieval import Index
from proxy.grounding.evidence.structured import EvidencePiece
from training.grounding import negatives
from training.grounding.data import CONTRADICTED, NOT_SUPPORTED, SUPPORTED, UNSUPPORTED, Example
from training.judge import neutral

OWN = Path(__file__).parents[1] / "data" / "judge_written.jsonl.gz"
FILES = (Path("../shared/data/judge/written.jsonl.gz"), OWN)
TARGETS = {"supported": SUPPORTED, "unsupported": UNSUPPORTED, "contradicted": CONTRADICTED}
NEAR, FOUND, WHOLE, WITHOUT, QUOTED, CHANGED = (f"written/{view}" for view in ("near", "found", "whole", "without", "quoted", "changed"))
"""Views of a row, which stand as sources of their own: the deciding piece among others, retrieval's evidence, all of it, the rest of it; a
sentence of the document as a claim; a supported claim with one thing changed."""
FOUND_EVEN, NEAR_EVEN = f"{FOUND}, even", f"{NEAR}, even"
"""Views of rows of `OWN` that are held out, as many supported ones as others at each degree of likeness."""
_JOINS = " [...] "
_OTHERS = (1, 2, 3)
"""How many pieces stand beside the deciding ones in `NEAR`."""
_FEW = (0, 1, 2)
"""The same in the held-out short views, and for quoted sentences."""
_WITHOUT_EVERY = 2
"""One row in so many, of those with a deciding piece, is also shown without it."""
_QUOTED = 6
"""Sentences of a document that are claims too."""
_ATTRIBUTED = 0.3
"""Share of these that say where they are from."""
_CHANGED = 0.5
"""Share of the supported rows that are also shown with one thing changed: the writers' wrong claims seldom reckon wrongly."""
_MOST = 1.6
"""How many times as many of one side there may be at a degree of likeness: in the public sources what is like is supported."""
_TOGETHER = {NEAR: "near", QUOTED: "near", CHANGED: "near", FOUND: "found", WITHOUT: "found", WHOLE: "whole"}
"""Views of about the same length, in which together the labels are made even."""
_HELD_OUT_EVERY = {"es": 8}
"""One document in so many is held out too in a language that has none of the development documents of the first file."""
_HELD_OUT_PERCENT = 12
"""Of the documents of a file without a split."""


@dataclass(slots=True, frozen=True)
class Row:
    """One pair."""

    document: str
    context: str
    claim: str
    language: str
    target: int
    deciding: tuple[str, ...]
    """Texts of the context that decide; none for an unsupported claim."""
    held_out: bool
    own: bool
    """Of a file without a split, where likeness of words tells the label: see `training.judge.neutral`."""


def rows(files: Sequence[Path] = FILES) -> list[Row]:
    """All of them. Raises `SystemExit` with a sentence where a file is missing."""
    found = []
    for path in files:
        if not path.exists():
            raise SystemExit(f"{path} is missing: the judge is trained on the pairs in it")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found += [_row(json.loads(line)) for line in lines]
    return found


def held_out(given: dict[str, str]) -> bool:
    """Whether a row's document is kept from training: as its file says, else by a hash of the document's name."""
    hashed = int(hashlib.sha1(given["doc"].encode(), usedforsecurity=False).hexdigest()[:8], 16)
    if "split" not in given:
        return hashed % 100 < _HELD_OUT_PERCENT
    every = _HELD_OUT_EVERY.get(given["lang"], 0)
    return given["split"] != "train" or (every > 0 and hashed % every == 0)


def _row(given: dict[str, str]) -> Row:
    return Row(
        given["doc"],
        given["context"],
        given["claim"],
        given["lang"],
        TARGETS[given["label"]],
        tuple(part for part in given["evidence"].split(_JOINS) if part),
        held_out(given),
        "split" not in given,
    )


def training(found: Sequence[Row], rng: random.Random) -> list[Example]:
    """Every view of the rows whose documents are not held out (a document with one row held out is held out).

    Supported ones and others are about as many at each degree of likeness, which alone would tell the label (`training.judge.neutral`).
    """
    apart = {row.document for row in found if row.held_out}
    own = [row for row in found if row.document not in apart]
    shown = [example for row in own for example in views(row, rng)]
    shown += [example for row in _one_of_each_document(own) for example in quoted(row, rng)]
    return neutral.even(shown, rng, lambda e: f"{e.language} {_TOGETHER[e.source]}", frozenset((WITHOUT,)), _MOST)


def _one_of_each_document(found: Sequence[Row]) -> Iterator[Row]:
    """A row of each, in the language of most of its statements: that is the document's."""
    documents: dict[str, list[Row]] = {}
    for row in found:
        documents.setdefault(row.document, []).append(row)
    for own in documents.values():
        language = Counter(row.language for row in own).most_common(1)[0][0]
        yield next(row for row in own if row.language == language)


def quoted(row: Row, rng: random.Random) -> Iterator[Example]:
    """Sentences of the row's document, as they stand or nearly so, each beside a few pieces."""
    index = Index([piece.shown for piece in cut(row.context)])
    claims = [(i, claim) for i, text in enumerate(index.sentences) if (claim := neutral.claim_of(text))]
    for i, claim in rng.sample(claims, min(_QUOTED, len(claims))):
        shown = replace(row, claim=claim, target=SUPPORTED)
        example = _example(shown, index, _near(shown, index, {i}, rng, _FEW), QUOTED)
        said = negatives.attributed(claim, row.language, rng) if rng.random() < _ATTRIBUTED else claim
        yield replace(example, claim=said)


def development(found: Sequence[Row]) -> list[Example]:
    """Rows of documents that are held out, in three views: `FOUND`, `WHOLE`, and (short, for a quick look) `NEAR`.

    Those of `OWN` are evened, under the names `FOUND_EVEN` and `NEAR_EVEN`.
    """
    apart = {row.document for row in found if row.held_out}
    rng = random.Random(len(apart))
    made, uneven = [], []
    for row in found:
        if row.document not in apart:
            continue
        pieces = cut(row.context)
        index = Index([piece.shown for piece in pieces])
        near = _near(row, index, places(row, pieces), rng, _FEW)
        (uneven if row.own else made).append(_example(row, index, index.best(row.claim), FOUND_EVEN if row.own else FOUND))
        (uneven if row.own else made).append(_example(row, index, near, NEAR_EVEN if row.own else NEAR))
        made.append(_example(row, index, range(len(index.sentences)), WHOLE))
    return [*made, *neutral.even(uneven, rng, lambda e: e.language + e.source)]


def views(row: Row, rng: random.Random) -> Iterator[Example]:
    """The row's examples; a view in which the deciding piece is lost has no example, but for that which leaves it out."""
    pieces = cut(row.context)
    index = Index([piece.shown for piece in pieces])
    deciding = places(row, pieces)
    if row.target != UNSUPPORTED and not deciding:
        return
    best = index.best(row.claim)
    if deciding <= set(best):
        yield _example(row, index, best, FOUND)
    yield _example(row, index, range(len(pieces)), WHOLE)
    near = _example(row, index, _near(row, index, deciding, rng, _OTHERS), NEAR)
    yield near
    if row.target == SUPPORTED and rng.random() < _CHANGED and (made := changed(near, rng)):
        yield made
    if deciding and len(deciding) < len(pieces) and rng.randrange(_WITHOUT_EVERY) == 0:
        rest = Index(index.sentences, leave_out=deciding)
        if shown := rest.best(row.claim):
            yield _example(row, rest, shown, WITHOUT, UNSUPPORTED)


def changed(given: Example, rng: random.Random) -> Example | None:
    """The supported example with another number, word, name or role in its claim, or without its "not"; None where none of it is there."""
    for change in rng.sample(negatives.CORRUPTIONS, len(negatives.CORRUPTIONS)):
        made = change(given.claim, given.evidence, given.language, rng)
        clumsy = change is negatives.negation and made is not None and len(made[0]) > len(given.claim)
        if made is not None and made[0] != given.claim and not clumsy:
            return replace(given, claim=made[0], target=NOT_SUPPORTED, source=CHANGED)
    return None


def places(row: Row, pieces: Sequence[EvidencePiece]) -> set[int]:
    """Positions of the pieces that decide; none where a deciding text is not found as it stands."""
    found: set[int] = set()
    for text in row.deciding:
        start = row.context.find(text)
        at = {i for i, piece in enumerate(pieces) if start >= 0 and piece.start < start + len(text) and piece.end > start}
        if not at:
            return set()
        found |= at
    return found


def _near(row: Row, index: Index, deciding: set[int], rng: random.Random, beside: Sequence[int]) -> list[int]:
    """The deciding pieces (where none decides, the one most alike the claim) and as many others as one of `beside` says.

    Half of these are those most alike the claim, half any.
    """
    wanted = rng.choice(beside)
    nearest = index.nearest(row.claim, len(index.sentences))
    chosen = set(deciding) or set(nearest[:1])
    others = [i for i in nearest if i not in chosen]
    rest = [i for i in range(len(index.sentences)) if i not in chosen and i not in others]
    rng.shuffle(rest)
    first = len(chosen)
    while (len(chosen) < first + wanted or not chosen) and (others or rest):
        chosen.add(others.pop(0) if others and (not rest or rng.random() < 0.5) else rest.pop())
    return sorted(chosen)


def _example(row: Row, index: Index, positions: Sequence[int], source: str, target: int | None = None) -> Example:
    return Example(row.claim, index.joined(positions), row.target if target is None else target, source, row.language, row.document)
