"""What words mean, for `training.grounding.vocabulary`: multilingual-e5-small and the multilingual Universal Sentence Encoder together.

The first knows more words, the second keeps translations closer than look-alikes. In: words. Out: unit rows whose products are the mean
of both cosines.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from proxy.models.embedding.encoders import UseEncoder
from training.grounding import starts

Floats = NDArray[np.float32]
_BATCH = 256


class Meaning:
    """Embeds words; E5's vectors are centred on the mean of the first words it is given, since they all lie close together."""

    def __init__(self, e5: Path, threads: int) -> None:
        self._model, self._tokenizer = starts.e5(e5)
        self._model.eval()
        self._use = UseEncoder(threads)
        self._use.load()
        self._mean: Floats | None = None

    def __call__(self, words: Sequence[str]) -> Floats:
        """``(n, 896)`` float32, unit length."""
        first = self._e5(words)
        if self._mean is None:
            self._mean = first.mean(0)
        second = np.concatenate([self._use.encode(list(words[i : i + _BATCH])) for i in range(0, len(words), _BATCH)])
        return np.concatenate([_unit(first - self._mean), _unit(second)], 1) / np.float32(np.sqrt(2))

    def _e5(self, words: Sequence[str]) -> Floats:
        encoded = [e.ids for e in self._tokenizer.encode_batch([f"query: {word}" for word in words])]
        order = sorted(range(len(words)), key=lambda i: len(encoded[i]))
        found = np.zeros((len(words), self._model.config["hidden"]), np.float32)
        for start in range(0, len(order), _BATCH):
            part = order[start : start + _BATCH]
            longest = max(len(encoded[i]) for i in part)
            ids = torch.tensor([encoded[i] + [1] * (longest - len(encoded[i])) for i in part])
            mask = torch.tensor([[1] * len(encoded[i]) + [0] * (longest - len(encoded[i])) for i in part])
            with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
                hidden = self._model.hidden(ids, mask, torch.zeros_like(ids))
            summed = (hidden.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            found[part] = _unit(summed.numpy())
        return found


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)
