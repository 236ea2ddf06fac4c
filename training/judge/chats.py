"""What most pairs of turns in a chat are like: they have nothing to do with each other.

``training/data/judge_chats.txt.gz``: a user's messages in chats written for this project, in four languages; nothing in them contradicts,
but for two marked messages in every fifth. Without them a model that has only seen pairs about one thing takes "Yes, that works" for a word
against whatever came before. Beside them: an earlier turn of `training.judge.turns` with a later one that belongs to another.
"""

from __future__ import annotations

import gzip
import hashlib
import random
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from training.grounding.data import CONTRADICTED, UNSUPPORTED, Example
from training.judge.turns import Row

FILE = Path(__file__).parents[1] / "data" / "judge_chats.txt.gz"
CHATS = "chats"
"""The source of these examples, and their group."""
_HELD_OUT_PERCENT = 25
"""More than of the pairs of turns: there are few chats."""
_MOST = 400
"""Pairs of chats that are held out, for the learning curve."""


class Chat(NamedTuple):
    """A user's messages, and which two contradict each other."""

    language: str
    messages: tuple[str, ...]
    clash: tuple[int, ...]
    """Two positions, or none."""

    @property
    def held_out(self) -> bool:
        """Whether it is kept from training."""
        return int(hashlib.sha1(self.messages[0].encode(), usedforsecurity=False).hexdigest()[:8], 16) % 100 < _HELD_OUT_PERCENT


def chats(path: Path = FILE) -> list[Chat]:
    """All of them. Raises `SystemExit` with a sentence where the file is missing."""
    if not path.exists():
        raise SystemExit(f"{path} is missing: the judge is trained on the chats in it")
    with gzip.open(path, "rt", encoding="utf-8") as text:
        return [_chat(block.splitlines()) for block in text.read().strip().split("\n\n")]


def _chat(lines: Sequence[str]) -> Chat:
    said = [line.split(": ", 1) for line in lines[1:]]
    return Chat(lines[0].removeprefix("# "), tuple(text for _, text in said), tuple(i for i, (mark, _) in enumerate(said) if mark == "U*"))


def training(found: Sequence[Chat], rows: Sequence[Row], rng: random.Random) -> list[Example]:
    """Pairs of chats and of turns that are not held out."""
    return [*(example for chat in found if not chat.held_out for example in pairs(chat, rng)), *strangers(rows, rng)]


def development(found: Sequence[Chat], rng: random.Random) -> list[Example]:
    """Some pairs of the chats that are held out, with all that contradict."""
    own = [example for chat in found if chat.held_out for example in pairs(chat, rng)]
    clashing = [example for example in own if example.target == CONTRADICTED]
    others = [example for example in own if example.target != CONTRADICTED]
    return [*clashing, *rng.sample(others, min(_MOST, len(others)))]


def pairs(chat: Chat, rng: random.Random) -> Iterator[Example]:
    """Every two messages, whichever came first as the claim; of what contradicts, both ways round."""
    for places in combinations(range(len(chat.messages)), 2):
        earlier, later = (chat.messages[i] for i in places)
        if places == chat.clash:
            yield _example(chat, earlier, later, CONTRADICTED)
            yield _example(chat, later, earlier, CONTRADICTED)
        else:
            claim, evidence = rng.sample((earlier, later), 2)
            yield _example(chat, claim, evidence, UNSUPPORTED)


def _example(chat: Chat, claim: str, evidence: str, target: int) -> Example:
    return Example(claim, evidence, target, CHATS, chat.language, chat.messages[0])


def strangers(rows: Sequence[Row], rng: random.Random) -> Iterator[Example]:
    """Each later turn that is not held out beside the earlier one of another group, in its language."""
    by_language: dict[str, list[Row]] = {}
    for row in rows:
        if not row.held_out:
            by_language.setdefault(row.language, []).append(row)
    for language, own in by_language.items():
        for row in own:
            other = rng.choice(own)
            if other.group != row.group:
                yield Example(row.newer, other.older, UNSUPPORTED, CHATS, language, row.group)
