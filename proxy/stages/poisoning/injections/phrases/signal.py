"""One way of saying it, and the words that several patterns share."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from msgspec import Struct

Category = Literal[
    "override", "role", "addressee", "exfiltration", "concealment", "fake_turn", "command", "authority", "pressure", "hidden"
]


class Signal(Struct, frozen=True):
    """One way of saying it."""

    category: Category
    strength: float
    hints: tuple[tuple[str, ...], ...]
    """Of each group, one stands within a few words of what matches; `MODEL` is any of the words for a language model."""
    expression: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """Compiled at its first use: all of them take some 100 ms."""
        return _compiled(self.expression)


_compiled = cache(re.compile)


def signal(category: Category, strength: float, hints: str, expression: str) -> Signal:
    """A signal; `hints` are groups joined by " & ", each of alternatives joined by "/"."""
    return Signal(category, strength, tuple(tuple(group.split("/")) for group in hints.split(" & ")), expression)


GAP2 = r"(?:[^\w\n.!?]{1,3}[\w'’-]{1,20}){0,2}?[^\w\n.!?]{1,3}"
"""Up to two words."""
GAP4 = r"(?:[^\w\n.!?]{1,3}[\w'’-]{1,20}){0,4}?[^\w\n.!?]{1,3}"
GAP8 = r"(?:[^\w\n.!?]{1,3}[\w'’-]{1,24}){0,8}?[^\w\n.!?]{1,3}"
AI = (
    r"(?:a\.?i\.?(?![\w.])(?! (?:research|engineer|develop|expert|enthusiast|compan|student|startup|profession|"
    r"practition|scien|special|vendor|provider|polic|safety|ethic))|llms?\b|(?:large )?language models?\b|(?:ai|virtual|"
    r"automated|digital|llm)[ -](?:\w{2,12} )?(?:assistants?|agents?|models?|"
    r"systems?|bots?)\b|chat ?bots?\b|chat ?gpt\b|gpt-?\w{0,4}\b|claude\b|gemini\b|copilot\b|grok\b|llama\b|"
    r"kunstliche intelligenz|ki\b|ki[ -](?:assisten\w{2,5}|agent\w{0,3}|modell\w{0,2}|system\w{0,2})|sprachmodell\w{0,2}|"
    r"ia\b|inteligencia artificial|modelo de (?:lenguaje|ia)|asistente (?:de ia|virtual)|intelligence artificielle|modele de langage|"
    r"assistant (?:ia|virtuel)|agent ia)"
)
AI_WORD = (
    r"\b(?:(?:ai|ki|ia)(?!\w)|a\.i|llm|large|language|virtual|automated|digital|chat|gpt|claude|gemini|copilot|grok|llama|kunstliche|"
    r"sprachmodell|inteligencia|modelo|asistente|intelligence|modele|assistant|agent)"
)
"""How the first word of each name in `AI` begins."""

MODEL = "MODEL"
MODEL_WORDS = re.compile(rf"\b{AI}")
