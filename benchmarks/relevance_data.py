"""The relevance data, cut into a training and a held-out half, for `training.relevance` and `benchmarks.relevance`.

XQuAD is cut by article, the same way in its three languages, whose rows are translations of each other; ClapNQ by title. What a negative
quotes may stand in the other half, as a passage, never with its own question.
"""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "relevance"
LANGUAGES = ("en", "de", "es")
SEED = 3
"""Of the cut and of the draws of distractors."""


@dataclass(slots=True, frozen=True)
class Case:
    """A question with passages of each kind."""

    group: str
    """``en``, ``de``, ``es`` (XQuAD) or ``clapnq``."""
    id: str
    """The same for the translations of a question."""
    topic: str
    """Article or title: what the halves are cut by."""
    question: str
    positive: str
    """The passage that answers it; "" where ClapNQ has none."""
    hard: tuple[str, ...]
    """Passages of the same article that do not; for ClapNQ the one that came up for an unanswerable question."""
    easy: str
    """A passage of another article."""


def available() -> bool:
    """Whether the data is there."""
    return (FOLDER / "clapnq_dev.jsonl.gz").exists()


def load(*, held_out: bool) -> list[Case]:
    """The cases of one half."""
    return [case for case in (*_xquad(), *_clapnq()) if is_held_out(case.topic) == held_out]


def is_held_out(topic: str) -> bool:
    """Which half a topic belongs to."""
    if topic.startswith("xquad-"):
        return topic not in _training_articles()
    return zlib.crc32(topic.removeprefix("clapnq-").encode()) % 2 == 1


def distractors(cases: Sequence[Case], case: Case, count: int, source: random.Random) -> list[str]:
    """`count` different passages of other topics, in the case's language."""
    pool = sorted({p for c in cases if c.group == case.group and c.topic != case.topic for p in (c.positive, *c.hard) if p})
    return source.sample(pool, count)


@cache
def _training_articles() -> frozenset[str]:
    names = sorted({row["article"] for row in _rows("xquad_en")})
    random.Random(SEED).shuffle(names)
    return frozenset(f"xquad-{name}" for name in names[: len(names) // 2])


def _xquad() -> Iterator[Case]:
    for group in LANGUAGES:
        for row in _rows(f"xquad_{group}"):
            topic = f"xquad-{row['article']}"
            yield Case(group, row["id"], topic, row["question"], row["positive"], (row["hard_negative"],), row["easy_negative"])


def _clapnq() -> Iterator[Case]:
    rows = list(_rows("clapnq_dev"))
    source = random.Random(SEED)
    for row in rows:
        others = [r["passage"] for r in rows if r["title"] != row["title"] and _half(r) == _half(row)]
        easy = source.choice(others)
        positive, hard = (row["passage"], ()) if row["answerable"] else ("", (row["passage"],))
        yield Case("clapnq", row["id"], f"clapnq-{row['title']}", row["question"], positive, hard, easy)


def _half(row: dict[str, Any]) -> bool:
    return is_held_out(f"clapnq-{row['title']}")


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
