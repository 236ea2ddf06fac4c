"""Rough vectors of texts from the built-in embedding model's table alone, at a twentieth of its work: to find candidates by.

The sum of a text's piece vectors, each of unit length and weighted by how rare the piece is in the vocabulary's own text. The table knows
sixteen languages, so a question finds what its words do not.

Arora et al. 2017, A Simple but Tough-to-Beat Baseline for Sentence Embeddings, https://openreview.net/forum?id=SyK00v5xx
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from groundwire_encoder.forward import TokenRows
    from groundwire_encoder.tokens import UseTokenizer

    Floats = NDArray[np.float32]

_SMOOTHING = 1e-4
"""The paper's ``a``, from its range: of 1e-3 and 1e-4 the one whose 32 candidates hold more needed tools (0.93 for 0.92 over all
catalogues of `benchmarks.tools`)."""
_TEXTS = 64
"""Summed at once: a few MB."""


class RoughVectors:
    """Threads may share one."""

    def __init__(self, tokenizer: UseTokenizer, rows: TokenRows, scores: NDArray[np.float64]) -> None:
        self._tokenizer, self._embeddings = tokenizer, rows.embeddings
        self._weights = (_SMOOTHING / (_SMOOTHING + np.exp(scores))).astype(np.float32)

    def of(self, texts: Sequence[str]) -> Floats:
        """``(len(texts), 512)`` of unit length."""
        tokens = [np.unique(self._tokenizer.encode(text)[1:-1]) for text in texts]
        distinct, places = np.unique(np.concatenate(tokens), return_inverse=True)
        weighted = self._embeddings(distinct)
        weighted *= (self._weights[distinct] / np.maximum(np.linalg.norm(weighted, axis=1), 1e-6))[:, None]
        ends = np.cumsum([len(some) for some in tokens])
        starts = ends - [len(some) for some in tokens]
        found = np.empty((len(texts), weighted.shape[1]), np.float32)
        for at in range(0, len(texts), _TEXTS):
            here = slice(at, at + _TEXTS)
            first = starts[at]
            np.add.reduceat(weighted[places[first : ends[here][-1]]], starts[here] - first, axis=0, out=found[here])
        found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-6)
        return found
