"""German, Spanish and French words for an English encoder: each gets the vector of the English words that mean the same.

After WECHSEL (Minixhofer et al. 2022, arXiv 2112.06598), with sentence encoders in place of aligned word vectors: a new word's vector
is the mean of those of the `NEIGHBOURS` English words nearest in meaning, weighted by how near they are. The encoder then reads a
German sentence as a gloss in English words, and learns the rest from rows in these languages. Word lists: wordfreq 3.1.1 (Speer 2022).
"""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from training.grounding.encoder import Encoder

LANGUAGES = {"de": 9000, "es": 7000, "fr": 7000}
"""Most frequent words that are added, those that English has left out."""
GERMAN_ENDINGS = 2000
"""Most frequent German nouns of at least five letters that are also added as the end of a compound."""
NEIGHBOURS = 8
TEMPERATURE = 0.05
_WORD = re.compile(r"[^\W\d_]{2,}$")
Floats = NDArray[np.float32]


def frequent(folder: Path, language: str, count: int) -> list[str]:
    """The `count` most frequent words of wordfreq's large list as the tokenizer sees them: lower case, without diacritics."""
    bins = msgspec.msgpack.decode(gzip.decompress((folder / f"large_{language}.msgpack.gz").read_bytes()))
    found: dict[str, None] = {}
    for words in bins[1:]:
        for word in words:
            if _WORD.match(word):
                found.setdefault(word)
        if len(found) > count * 2:
            break
    return list(found)


def plain(word: str) -> str:
    """As BERT's uncased normalizer leaves it."""
    return "".join(c for c in unicodedata.normalize("NFD", word.lower()) if unicodedata.category(c) != "Mn")


def extended(model: Encoder, tokenizer: Tokenizer, lists: Path, embed: Callable[[Sequence[str]], Floats]) -> tuple[Encoder, Tokenizer]:
    """`model` and `tokenizer` with the new words. `embed` turns a list of words into unit vectors ``(n, d)``."""
    spec = json.loads(tokenizer.to_str())
    vocabulary: dict[str, int] = spec["model"]["vocab"]
    english = [word for word in vocabulary if re.fullmatch(r"[a-z]{2,}", word)]
    new: dict[str, str] = {}  # token -> the word as it is written, with its diacritics
    for language, count in LANGUAGES.items():
        added = 0
        for word in frequent(lists, language, count):
            token = plain(word)
            if token not in vocabulary and token not in new:
                new[token] = word
                added += 1
            if added == count:
                break
        if language == "de":
            endings = [w for w in frequent(lists, language, count) if len(w) >= 5][:GERMAN_ENDINGS]
            new |= {"##" + plain(w): w for w in endings if "##" + plain(w) not in vocabulary}
    vectors = _neighbours(list(new.values()), english, embed, model.word.weight.detach().numpy()[[vocabulary[w] for w in english]])
    for i, token in enumerate(new):
        vocabulary[token] = model.word.num_embeddings + i
    grown = Encoder(**{**model.config, "vocabulary": model.word.num_embeddings + len(new)})
    state = model.state_dict()
    state["word.weight"] = torch.cat([state["word.weight"], torch.from_numpy(vectors)])
    grown.load_state_dict(state)
    return grown, Tokenizer.from_str(json.dumps(spec))


def _neighbours(words: Sequence[str], english: Sequence[str], embed: Callable[[Sequence[str]], Floats], table: Floats) -> Floats:
    known, wanted = embed(english), embed(words)
    found = np.zeros((len(words), table.shape[1]), np.float32)
    for start in range(0, len(words), 1000):
        close = wanted[start : start + 1000] @ known.T
        near = np.argpartition(-close, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
        score = np.take_along_axis(close, near, 1)
        weight = np.exp((score - score.max(1, keepdims=True)) / TEMPERATURE)
        weight /= weight.sum(1, keepdims=True)
        found[start : start + 1000] = np.einsum("nk,nkd->nd", weight, table[near])
    return found
