"""The models that config.yaml describes. Their modules are imported when they are made, and nothing is loaded before its first use: neither
numpy nor FAISS is imported before.

`proxy.app` calls `load` at start where a route's own policy has a stage that embeds; a policy that only some requests ask for makes them
with its first request.

And the built-in embedder and verifier outside of a proxy, for the libraries (`proxy.context_quality`, `proxy.clash`): one of each, in one
event loop, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from proxy.config.settings import Settings
from proxy.errors import ModelUnavailable
from proxy.exchange import Tool
from proxy.models.verifier.verifier import LocalVerifiers, PairModel, WithFallback
from proxy.ports import Embedder, SharedVectors, ToolOutcomes, ToolRanking, Verifier

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from proxy.models.embedding.embedder import BatchingEmbedder
    from proxy.models.tools.ranker import EmbeddingToolRanker


def make_models(
    settings: Settings, outcomes: ToolOutcomes, shared: Callable[[Callable[[], str]], SharedVectors]
) -> tuple[BatchingEmbedder, EmbeddingToolRanker]:
    """What compares texts; the model itself is loaded later. `shared` makes what the store has of a model's version."""
    from proxy.models.tools.ranker import EmbeddingToolRanker

    embedder = make_embedder(settings)
    return embedder, EmbeddingToolRanker(embedder, outcomes, shared(embedder.version))


def make_embedder(settings: Settings) -> BatchingEmbedder:
    """The embedder that ``embeddings:`` describes; its model is loaded by `load`, or by the first text."""
    from proxy.models.embedding.embedder import BatchingEmbedder, Encoder
    from proxy.models.embedding.encoders import SentenceTransformersEncoder, UseEncoder

    given = settings.embeddings
    folder = Path(settings.folder) / given.model
    encoder: Encoder = UseEncoder(given.threads)
    if given.kind == "sentence-transformers":
        encoder = SentenceTransformersEncoder(str(folder) if folder.is_dir() else given.model, given.threads or 1)
    return BatchingEmbedder(encoder)


def make_verifiers(settings: Settings) -> LocalVerifiers:
    """The verifiers that ``grounding:`` describes; nothing is loaded yet."""
    return LocalVerifiers(lambda name: make_pair_model(settings, name))


def make_pair_model(settings: Settings, name: str) -> PairModel:
    """The verifier's model in the folder `name`, or the built-in one for ""; called in its thread, where it may take its time to import.

    Languages that a folder's model does not know are the built-in one's. Raises `ModelUnavailable`.
    """
    from proxy.models.embedding.encoders import available_cores
    from proxy.models.verifier.onnx import FOLDER, OnnxVerifier

    given = settings.grounding
    threads = given.threads or min(2, available_cores())
    own = name or given.model
    folder = Path(settings.folder) / own if own else FOLDER
    if name and not folder.is_dir():
        advice = "a model of a hub is asked through an upstream: judge: {upstream: …, model: …, kind: decisions}"
        raise ModelUnavailable(f"judge.model names no folder with a verifier ({name}); {advice}")
    found = OnnxVerifier(folder, threads, decides=bool(name))
    return WithFallback(found, OnnxVerifier(FOLDER, threads)) if own else found


class DeferredModels:
    """Makes both once, in a thread."""

    def __init__(self, make: Callable[[], tuple[BatchingEmbedder, EmbeddingToolRanker]]) -> None:
        self._make = make
        self._making: asyncio.Task[tuple[BatchingEmbedder, EmbeddingToolRanker]] | None = None
        self._awaited, self._made_at = False, -math.inf

    @property
    def name(self) -> str:
        """Implements `proxy.ports.Embedder`. Raises `ModelUnavailable` before the first use."""
        return self._made.name

    @property
    def dimensions(self) -> int:
        """Implements `proxy.ports.Embedder`. Raises `ModelUnavailable` before the first use."""
        return self._made.dimensions

    @property
    def problem(self) -> str | None:
        """Why it cannot embed, for ``/ready``; None when it can, or when it is read at its first use and none was."""
        if self._making is None or not self._making.done():
            return "still loading" if self._awaited else None
        return str(self._making.exception()) if self._making.exception() else self._made.problem

    def reading_since(self, moment: float) -> bool:
        """Whether one of the models was being made or read at some time after `moment`, in `time.perf_counter`'s seconds."""
        if self._making is None:
            return False
        if not self._making.done():
            return True
        return self._making.exception() is None and (self._made_at > moment or self._made.reading_since(moment))

    async def load(self) -> None:
        """Make them, and load the embedding model. A failure is logged there, and shown by `problem`."""
        self._awaited = True
        embedder, _ = await self._both()
        await embedder.load()

    async def stop(self) -> None:
        """End what runs."""
        if self._making is not None and self._making.done() and not self._making.exception():
            embedder, ranker = self._making.result()
            await ranker.stop()
            embedder.stop()

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        """Implements `proxy.ports.Embedder`."""
        embedder, _ = await self._both()
        return await embedder.embed(texts, bulk=bulk, together=together)

    async def unknown(self, texts: Sequence[str]) -> int:
        """Implements `proxy.ports.Embedder`."""
        embedder, _ = await self._both()
        return await embedder.unknown(texts)

    async def rough(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Implements `proxy.ports.Embedder`."""
        embedder, _ = await self._both()
        return await embedder.rough(texts)

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """Implements `proxy.ports.ToolRanker`."""
        _, ranker = await self._both()
        return await ranker.rank(tools, query, context=context, client=client)

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        """Implements `proxy.ports.ToolRanker`."""
        _, ranker = await self._both()
        await ranker.learn(tools, query, called, context=context, client=client)

    async def _both(self) -> tuple[BatchingEmbedder, EmbeddingToolRanker]:
        if self._making is None:
            self._making = asyncio.create_task(asyncio.to_thread(self._make))
            self._making.add_done_callback(self._note_end)
        return await asyncio.shield(self._making)

    def _note_end(self, _: object) -> None:
        self._made_at = time.perf_counter()

    @property
    def _made(self) -> BatchingEmbedder:
        if self._making is None or not self._making.done():
            raise ModelUnavailable("the embedding model has not been used yet")
        return self._making.result()[0]


T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What `work` comes to, run in the models' event loop while the caller waits."""
    return asyncio.run_coroutine_threadsafe(work, _loop()).result()


async def elsewhere(work: Coroutine[Any, Any, T]) -> T:
    """The same for a running event loop; cancelling it ends the work."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, _loop()))


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop that the models belong to; its thread ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="built-in models", daemon=True).start()
    return loop


@cache
def embedder() -> Embedder:
    """The built-in one."""
    from proxy.models.embedding.embedder import BatchingEmbedder
    from proxy.models.embedding.encoders import UseEncoder

    return BatchingEmbedder(UseEncoder())


@cache
def verifier() -> Verifier:
    """The built-in one."""
    from proxy.models.embedding.encoders import available_cores
    from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
    from proxy.models.verifier.verifier import BatchingVerifier

    return BatchingVerifier(lambda: OnnxVerifier(FOLDER, min(2, available_cores())), "builtin")
