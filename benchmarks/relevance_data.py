"""The relevance data, cut into a training and a held-out half, for `training.relevance` and the benchmarks of relevance.

XQuAD is cut by article, the same way in its three languages, whose rows are translations of each other; ClapNQ by title; MLQA, HaluEval's
questions (``short``) and dialogues (``follow-up``), and questions over tool results, tables and logs (``records``) by passage. Sentences
under indirect questions (``indirect``), written for this, are two files. What a negative quotes may stand in the other half, as a passage,
never with its own question.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from proxy.exchange import Message

DATA = Path(__file__).parents[2] / "shared" / "data"
FOLDER = DATA / "relevance"
LANGUAGES = ("en", "de", "es")
"""Of XQuAD."""
GROUPS = (*LANGUAGES, "clapnq", "mlqa-de", "mlqa-es", "short", "follow-up", "records", "indirect")
MOST = 400
"""Cases of a group in a half."""
SEED = 3
"""Of the cut and of the draws of distractors."""
_INDIRECT = {
    False: Path(__file__).parents[1] / "training" / "relevance_pairs.tsv",
    True: Path(__file__).parent / "data/relevance_pairs.tsv",
}
"""Language, passage, question, and the question before it."""


@dataclass(slots=True, frozen=True)
class Case:
    """A question with passages of each kind."""

    group: str
    """One of `GROUPS`; ``en``, ``de`` and ``es`` are XQuAD's."""
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
    language: str
    """Of question and passages."""
    before: tuple[str, ...] = ()
    """What user and assistant said before, in turn; the last is the assistant's."""

    @property
    def messages(self) -> list[Message]:
        """The conversation up to the question."""
        first = len(self.before) % 2
        said = [{"role": ("user", "assistant")[(i + first) % 2], "content": text} for i, text in enumerate(self.before)]
        return [*said, {"role": "user", "content": self.question}]


def available() -> bool:
    """Whether the data is there."""
    return (FOLDER / "clapnq_dev.jsonl.gz").exists()


def load(*, held_out: bool) -> list[Case]:
    """The cases of one half, at most `MOST` of a group."""
    found: dict[str, list[Case]] = {group: [] for group in GROUPS}
    for case in (*_xquad(), *_clapnq(), *_mlqa(), *_short(), *_follow_ups(), *_records()):
        if is_held_out(case.topic) == held_out:
            found[case.group].append(case)
    found["indirect"] = list(_indirect(held_out=held_out))
    source = random.Random(SEED)
    return [case for cases in found.values() for case in (cases if len(cases) <= MOST else source.sample(cases, MOST))]


def is_held_out(topic: str) -> bool:
    """Which half a topic belongs to."""
    if topic.startswith("xquad-"):
        return topic not in _training_articles()
    return zlib.crc32(topic.removeprefix("clapnq-").encode()) % 2 == 1


def distractors(cases: Sequence[Case], case: Case, count: int, source: random.Random) -> list[str]:
    """`count` different passages of other topics, in the case's language."""
    alike = [c for c in cases if c.group == case.group and c.language == case.language and c.topic != case.topic]
    pool = sorted({p for c in alike for p in (c.positive, *c.hard) if p})
    return source.sample(pool, min(count, len(pool)))


@cache
def _training_articles() -> frozenset[str]:
    names = sorted({row["article"] for row in _rows("xquad_en")})
    random.Random(SEED).shuffle(names)
    return frozenset(f"xquad-{name}" for name in names[: len(names) // 2])


def _xquad() -> Iterator[Case]:
    for group in LANGUAGES:
        for row in _rows(f"xquad_{group}"):
            topic = f"xquad-{row['article']}"
            yield Case(group, row["id"], topic, row["question"], row["positive"], (row["hard_negative"],), row["easy_negative"], group)


def _clapnq() -> Iterator[Case]:
    rows = list(_rows("clapnq_dev"))
    source = random.Random(SEED)
    for row in rows:
        others = [r["passage"] for r in rows if r["title"] != row["title"] and _half(r) == _half(row)]
        easy = source.choice(others)
        positive, hard = (row["passage"], ()) if row["answerable"] else ("", (row["passage"],))
        yield Case("clapnq", row["id"], f"clapnq-{row['title']}", row["question"], positive, hard, easy, "en")


def _mlqa() -> Iterator[Case]:
    for tongue in ("de", "es"):
        rows = [(row["id"], *_asked(row), row["context"]) for row in _rows(f"mlqa_{tongue}", "grounding") if row["label"] == "supported"]
        yield from _crossed(f"mlqa-{tongue}", [(name, question, (), text, tongue) for name, question, answer, text in rows if answer])


def _short() -> Iterator[Case]:
    rows = [(row["id"], *_asked(row), row["context"]) for row in _rows("halueval_qa", "grounding") if row["label"] == "supported"]
    yield from _crossed("short", [(name, question, (), text, "en") for name, question, answer, text in rows if answer])


def _asked(row: dict[str, Any]) -> tuple[str, str]:
    """A claim's question and answer, as the sets of questions write them."""
    question, _, answer = row["claim"].partition("? ")
    return question + "?", answer


def _follow_ups() -> Iterator[Case]:
    """The last turn of HaluEval's dialogues where it asks, with what was said before."""
    found = {}
    for row in _rows("halueval_dialogue", "grounding"):
        knowledge, _, talk = row["context"].removeprefix("Knowledge: ").partition("\nDialogue: ")
        turns = [turn.strip() for turn in re.split(r"\[(?:Human|Assistant)\]:", talk) if turn.strip()]
        if turns and turns[-1].endswith("?"):
            found[talk] = (row["id"], turns[-1], tuple(turns[:-1]), knowledge, "en")
    yield from _crossed("follow-up", list(found.values()))


def _records() -> Iterator[Case]:
    found = {row["doc"]: (row["doc"], row["question"], (), row["context"], row["lang"]) for row in _rows("answers", "judge")}
    yield from _crossed("records", list(found.values()))


def _indirect(*, held_out: bool) -> Iterator[Case]:
    rows = []
    for i, line in enumerate(_INDIRECT[held_out].read_text(encoding="utf-8").splitlines()):
        tongue, passage, question, before = (*line.split("\t"), "")[:4]
        rows.append((f"{tongue}-{i}", question, (before, "…") if before else (), passage, tongue))
    yield from _crossed("indirect", rows)


def _crossed(group: str, rows: Sequence[tuple[str, str, tuple[str, ...], str, str]]) -> Iterator[Case]:
    """Cases of (id, question, before, passage, language), each with another's passage of its language and half."""
    source, by_half = random.Random(SEED), dict[tuple[str, bool], list[str]]()
    topics = [f"{group}-{passage[:60]}" for *_, passage, _ in rows]
    for topic, (*_, passage, tongue) in zip(topics, rows, strict=True):
        by_half.setdefault((tongue, is_held_out(topic)), []).append(passage)
    for topic, (name, question, before, passage, tongue) in zip(topics, rows, strict=True):
        others = [text for text in by_half[tongue, is_held_out(topic)] if text[:60] != passage[:60]]
        if others:
            yield Case(group, name, topic, question, passage, (), source.choice(others), tongue, before)


def _half(row: dict[str, Any]) -> bool:
    return is_held_out(f"clapnq-{row['title']}")


def _rows(name: str, folder: str = "relevance") -> Iterator[dict[str, Any]]:
    with gzip.open(DATA / folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)
