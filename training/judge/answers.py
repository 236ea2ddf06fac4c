"""Sentences of answers as the product asks about them: each beside what retrieval finds for it, originals and edits together.

``../shared/data/judge/answers.jsonl.gz`` and ``training/data/judge_answers.jsonl.gz``: documents of working life, half of them tables,
records and logs, with a question, an answer, and for each of its sentences a paraphrase and two edits. Which label a form has follows from
how it was made. The forms of one sentence are a contrast set: they stay in one batch, and the curve says how often a right one ranks above
an edit.

A sentence is shown in three ways. `ALONE`: as the product gives it to the verifier today. `NEAR`: the same beside what decides and little
else, for training. `AFTER`: behind the question and the sentence before it, by which "it" and "there" resolve, and a mark (`presented`).
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

from proxy.exchange import Evidence
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from training.grounding.data import CONTRADICTED, SUPPORTED, UNSUPPORTED, Example
from training.judge.written import TARGETS, held_out

OWN = Path(__file__).parents[1] / "data" / "judge_answers.jsonl.gz"
FILES = (Path("../shared/data/judge/answers.jsonl.gz"), OWN)
ALONE, NEAR, AFTER = "answers/alone", "answers/near", "answers/after"
"""Ways of showing a sentence, which stand as groups of their own."""
STRUCTURED, PROSE = "structured", "prose"
SOURCES = tuple(f"{way}/{form}" for way in (ALONE, NEAR, AFTER) for form in (STRUCTURED, PROSE))
"""Of the examples made here."""
_BESIDE = 2
"""Most pieces beside the deciding ones in `NEAR`."""
MARK = " » "
"""Between what a sentence follows and the sentence itself."""
QUESTION_CHARS = 160
BEFORE_CHARS = 240
"""The end of each is shown, as a claim has little room."""
_WORD = re.compile(r"\w+(?:[.,:/-]\w+)*|[^\w\s]")
_VALUE_WORDS = 3
_VALUE_CHARS = 4
"""What changes places has at most so many words, and at least so many characters where it has no figure: shorter words say how things are
related."""
_OFTEN = 6
"""A value that stands more often in its document than this is not one."""
_PROSE = frozenset(("prose", "chat", "email", "ticket"))


@dataclass(slots=True, frozen=True)
class Row:
    """One form of a sentence of an answer."""

    document: str
    context: str
    question: str
    before: tuple[str, ...]
    claim: str
    language: str
    target: int
    sentence: str
    structured: bool
    deciding: tuple[str, ...]
    """Texts of the context that decide; none for an unsupported form."""
    held_out: bool


def rows(files: Sequence[Path] = FILES) -> list[Row]:
    """All of them. Raises `SystemExit` with a sentence where a file is missing."""
    found = []
    for path in files:
        if not path.exists():
            raise SystemExit(f"{path} is missing: the judge is trained on the answers in it")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for given in map(json.loads, lines):
                what = {name: given[name] for name in ("context", "question", "claim")}
                whose = {"document": given["doc"], "language": given["lang"], "sentence": str(given["sentence"])}
                known = {"target": TARGETS[given["label"]], "structured": given["shape"] not in _PROSE, "held_out": held_out(given)}
                found.append(Row(**what, **whose, **known, before=tuple(given["before"]), deciding=tuple(given["evidence"])))
    return found


def presented(row: Row) -> str:
    """The sentence behind the question and the sentence before it."""
    follows = [row.question[-QUESTION_CHARS:], *(said[-BEFORE_CHARS:] for said in row.before[-1:])]
    return " ".join(text for text in follows if text) + MARK + row.claim


def training(found: Sequence[Row]) -> list[Example]:
    """Every row that is not held out in all ways, and what is `mirrored`; where retrieval loses what decides, that stands first in its
    evidence.
    """
    shown: list[Example] = []
    decides: dict[tuple[str, str], set[int]] = {}
    own = list(_searchable([*found, *mirrored(found)], apart=False))
    for row, base in own:
        decides.setdefault((row.context, row.sentence), set()).update(places(row, base))
    for number, (row, base) in enumerate(own):
        shown += _examples(row, base, whole=True)
        if deciding := decides[row.context, row.sentence]:  # an edit that nothing decides stands beside what its sentence is about
            others = [i for i in base.by_terms(row.claim, range(len(base))) if i not in deciding]
            text = base.text([*deciding, *others[: number % (_BESIDE + 1)]])
            form = STRUCTURED if row.structured else PROSE
            contrast = f"{row.document}/{row.sentence}"
            shown.append(Example(row.claim, text, row.target, f"{NEAR}/{form}", row.language, row.document, contrast))
    return shown


def mirrored(found: Sequence[Row]) -> list[Row]:
    """The edits that put one value in another's place, and what they are edits of, beside a document in which both values have changed
    places: there the edit is right and its origin wrong. Whoever has learnt by heart which sentence is wrong is wrong about these. None of
    documents whose writer has changed them so already.
    """
    made: list[Row] = []
    sets: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        sets.setdefault((row.document, row.sentence), []).append(row)
    for forms in sets.values():
        if len({row.context for row in forms}) > 1:
            continue
        for edit in (row for row in forms if row.target == CONTRADICTED):
            origins = ((row, _exchanged(row, edit)) for row in forms if row.target == SUPPORTED)
            for origin, values in origins:
                if values:
                    context, deciding = (_swapped(text, *values) for text in (origin.context, "\0".join(origin.deciding)))
                    other = replace(origin, context=context, deciding=tuple(deciding.split("\0")))
                    made += [replace(other, target=CONTRADICTED), replace(other, claim=edit.claim)]
                    break
    return made


def _exchanged(origin: Row, edit: Row) -> tuple[str, str] | None:
    """The value of `origin` and the one in its place in `edit`; None where more differs, or the document has no such value."""
    spans = [[match.span() for match in _WORD.finditer(row.claim)] for row in (origin, edit)]
    before, after = ([row.claim[a:b] for a, b in own] for row, own in zip((origin, edit), spans, strict=True))
    changes = [change for change in SequenceMatcher(None, before, after, autojunk=False).get_opcodes() if change[0] != "equal"]
    if len(changes) != 1 or changes[0][0] != "replace":
        return None
    _, i, j, k, end = changes[0]
    old, new = origin.claim[spans[0][i][0] : spans[0][j - 1][1]], edit.claim[spans[1][k][0] : spans[1][end - 1][1]]
    short = min(len(old), len(new)) < _VALUE_CHARS and not re.search(r"\d", old + new)
    if max(j - i, end - k) > _VALUE_WORDS or short or not any(_standing(old).search(text) for text in origin.deciding):
        return None
    return (old, new) if len(_standing(old).findall(origin.context)) <= _OFTEN else None


def _standing(value: str) -> re.Pattern[str]:
    """Where a value stands by itself, not as a part of a word or a number."""
    return re.compile(rf"(?<!\w)(?<!\d[.,:/-]){re.escape(value)}(?!\w)(?![.,:/-]\d)")


def _swapped(text: str, one: str, other: str) -> str:
    longer, shorter = sorted((one, other), key=len, reverse=True)
    either = re.compile(f"{_standing(longer).pattern}|{_standing(shorter).pattern}")
    return either.sub(lambda match: other if match[0] == one else one, text)


def measured(path: Path, languages: Sequence[str]) -> list[Example]:
    """The sentences of a file alone, with what retrieval finds: all of them, of a file that training reads those that are held out."""
    found = [row for row in rows([path]) if row.language in languages]
    every = (_searchable(found, apart=apart) for apart in ((True,) if path in FILES else (True, False)))
    examples = (example for one in every for row, base in one for example in _examples(row, base, whole=False))
    return [example for example in examples if example.source.startswith(ALONE)]


def development(found: Sequence[Row]) -> list[Example]:
    """Those that are held out, with what retrieval finds."""
    return [example for row, base in _searchable(found, apart=True) for example in _examples(row, base, whole=False)]


def _searchable(found: Sequence[Row], *, apart: bool) -> Iterator[tuple[Row, EvidenceBase]]:
    """The rows that are held `apart`, or those that are not, each with its document."""
    bases: dict[str, EvidenceBase] = {}
    for row in found:
        if row.held_out == apart:
            if row.context not in bases:
                bases[row.context] = EvidenceBase([Evidence(row.context)])
            yield row, bases[row.context]


def _examples(row: Row, base: EvidenceBase, *, whole: bool) -> Iterator[Example]:
    deciding = places(row, base)
    form = STRUCTURED if row.structured else PROSE
    for way, claim in ((ALONE, row.claim), (AFTER, presented(row))):
        selection = base.search(claim)
        if whole and not deciding and row.target != UNSUPPORTED and len(selection.positions) < base.distinct:
            continue
        lost = whole and not deciding <= set(selection.positions)
        text = _with(base, deciding, selection.positions) if lost else selection.text
        yield Example(claim, text, row.target, f"{way}/{form}", row.language, row.document, f"{row.document}/{row.sentence}")


def places(row: Row, base: EvidenceBase) -> set[int]:
    """Positions of the pieces that decide; none where a deciding text is not found as it stands."""
    spans = [base.span(i) for i in range(len(base))]
    found: set[int] = set()
    for text in row.deciding:
        start = row.context.find(text)
        at = {i for i, span in enumerate(spans) if start >= 0 and span.start < start + len(text) and span.end > start}
        if not at:
            return set()
        found |= at
    return found


def _with(base: EvidenceBase, deciding: set[int], others: Sequence[int]) -> str:
    """The deciding pieces and as many others as there is room for."""
    chosen = sorted(deciding)
    for i in others:
        if i not in deciding and len(base.text([*chosen, i])) <= EVIDENCE_CHARS:
            chosen.append(i)
    return base.text(chosen)
