"""How likely a message corrects the agent, by its words: for wording that no rule of `correction_words` expects.

A logistic regression over hashed words, pairs and triples of them, pieces of words, and what the assistant had said: what survives another
author's wording, typing errors and inflection. ``correction_model.json`` holds its weights, a signed byte for each bucket and kind;
``python -m training.corrections`` makes it and says on what. In: a message and what was said before it, folded as `corrections` folds
them. Out: a probability of each kind. Standard library only: numpy would be most of a small server's memory.
"""

from __future__ import annotations

import base64
import itertools
import math
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct

WEIGHTS = Path(__file__).with_name("correction_model.json")
BUCKETS = 1 << 15
MAX_WORDS = 80
"""Of a message that are looked at, marks included."""
_PIECES = (4, 5)
"""Lengths of the pieces of a word, its edges marked."""
_MAX_WORD_CHARS = 24
_WORD = re.compile(r"\ue000+|[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[?!.,:;]")
_PAUSES = frozenset(".,:;")
_LONG = 5
"""From so many characters on a word is likely to be about the subject."""


class CorrectionModel(Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of the file."""

    source: dict[str, Any]
    """Data, seed, what was measured: for people."""
    buckets: int
    threshold: float
    """From this probability on a message counts as a correction."""
    scale: float
    """What one step of a weight is."""
    bias: tuple[float, float]
    rejected: str
    """Weights, base64 of signed bytes."""
    override: str

    def __post_init__(self) -> None:
        if self.buckets != BUCKETS:
            raise ValueError("made for other features: run python -m training.corrections")


class CorrectionLikelihood(Struct, frozen=True):
    """Probabilities; what is left of 1 is that the message corrects nothing."""

    rejected: float
    override: float

    @property
    def correction(self) -> float:
        """Of either kind."""
        return self.rejected + self.override


def likelihood(text: str, said: str) -> CorrectionLikelihood:
    """Of a message `text` behind an assistant's turn that ended with `said`, both folded, names of tools marked."""
    model, rejected, override = _shipped()
    buckets = features(text, said)
    step = model.scale / math.sqrt(len(buckets))
    logits = [model.bias[i] + step * sum(map(weights.__getitem__, buckets)) for i, weights in enumerate((rejected, override))]
    top = max(0.0, *logits)
    none, *kinds = (math.exp(logit - top) for logit in (0.0, *logits))
    return CorrectionLikelihood(*(kind / (none + sum(kinds)) for kind in kinds))


def threshold() -> float:
    """The shipped model's."""
    return _shipped()[0].threshold


def features(text: str, said: str) -> set[int]:
    """The buckets of what the message is made of. At least one."""
    raw = _WORD.findall(text)[:MAX_WORDS]
    marked = ["0" if word.isdigit() else word[:1] if word[0] == "\ue000" else word for word in raw]
    words = [word for word in marked if word not in _PAUSES]
    found: set[int] = set()
    for word in words:
        found |= _of_word(word)
    bounded = ["^", *marked, "$"]
    pairs = [f"{first} {second}" for first, second in itertools.pairwise(bounded)]
    found.update(_bucket("2", pair) for pair in pairs)
    found.update(_bucket("3", f"{pair} {third}") for pair, third in zip(pairs, bounded[2:], strict=False))
    found.update(_bucket("^", word) for word in words[:2])
    found.update(_bucket("mark", mark) for mark in "?!" if mark in marked)
    if marked[-1:] == ["?"]:
        found.add(_bucket("end", "?"))
    found.add(_bucket("length", str(len(words).bit_length())))
    return found | _of_turn(set(raw), words, said)


def _of_turn(mine: set[str], words: list[str], said: str) -> set[int]:
    """How the message stands to what was said before it."""
    before = _WORD.findall(said)[:MAX_WORDS]
    asked = "asked" if said.rstrip().endswith("?") else "told"
    found = {_bucket("said", asked), _bucket(asked, words[0] if words else ""), *(_bucket("by", word) for word in before[:3])}
    theirs = set(before)
    numbers, known = {word for word in mine if word.isdigit()}, {word for word in theirs if word.isdigit()}
    if known and numbers - known:
        found.add(_bucket("number", "other"))
    if numbers & known:
        found.add(_bucket("number", "same"))
    shared = sum(len(word) >= _LONG for word in mine & theirs)
    return found | {_bucket("shared", str(min(shared, 3)))}


@lru_cache(maxsize=16384)
def _of_word(word: str) -> frozenset[int]:
    edged = f"<{word[:_MAX_WORD_CHARS]}>"
    pieces = {edged[i : i + n] for n in _PIECES for i in range(len(edged) - n + 1)}
    return frozenset((_bucket("1", word), *(_bucket("piece", piece) for piece in pieces)))


def _bucket(kind: str, value: str) -> int:
    return crc32(f"{kind} {value}".encode("utf-8", "surrogatepass")) % BUCKETS


@cache
def _shipped() -> tuple[CorrectionModel, memoryview, memoryview]:
    model = msgspec.json.decode(WEIGHTS.read_bytes(), type=CorrectionModel)
    rejected, override = (memoryview(base64.b64decode(column)).cast("b") for column in (model.rejected, model.override))
    if not len(rejected) == len(override) == BUCKETS:
        raise ValueError(f"{WEIGHTS.name}: expected {BUCKETS} weights of each kind")
    return model, rejected, override
