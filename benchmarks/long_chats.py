"""Planted facts of long chats: how many of fifteen are still in the prompt, by how full the window was.

``benchmarks/data/long_chats.jsonl``: four chats of working life (code, laboratory, event, payroll; two English, two German; two with an
agent's tools, two with pasted tables) of 6,000 to 7,000 tokens, each with fifteen facts that were planted when it was written: decisions,
constraints, identifiers, numbers, open tasks. They were written before the summariser's rules were made, and are not tuned on;
``training/chat_data`` holds those that are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

MEASURED = Path(__file__).parent / "data" / "long_chats.jsonl"
SHARES = (0.79, 0.81, 0.89, 0.91)
"""Of the window that a chat fills: below compression, above it, below the aggressive one, above it."""
_NEAR_CHARS = 200


class LongChat(Struct, frozen=True):
    """A chat with what was planted in it."""

    chat: str
    language: str
    messages: list[dict[str, Any]]
    facts: list[list[str]]
    """The words that each must keep, near each other."""


def long_chats(path: Path = MEASURED) -> list[LongChat]:
    with path.open(encoding="utf-8") as lines:
        return [LongChat(**json.loads(line)) for line in lines]


def facts_in(facts: Sequence[Sequence[str]], text: str) -> int:
    """How many stand in `text`, each with all its words within a few lines."""
    return sum(_stands(words, text) for words in facts)


def _stands(words: Sequence[str], text: str) -> bool:
    start = text.find(words[0])
    while start >= 0:
        around = text[max(0, start - _NEAR_CHARS) : start + len(words[0]) + _NEAR_CHARS]
        if all(word in around for word in words):
            return True
        start = text.find(words[0], start + 1)
    return False
