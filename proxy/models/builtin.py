"""The built-in embedder and verifier outside of a proxy, for the libraries: one of each, in one event loop, in a thread of its own.

`proxy.context_quality` and `proxy.clash` use it. The models are loaded when they are first asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from proxy.ports import Embedder, Verifier

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
    from proxy.models.embedding.use import UseEncoder

    return BatchingEmbedder(UseEncoder())


@cache
def verifier() -> Verifier:
    """The built-in one."""
    from proxy.models.embedding.use import available_cores
    from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
    from proxy.models.verifier.verifier import BatchingVerifier

    return BatchingVerifier(lambda: OnnxVerifier(FOLDER, min(2, available_cores())), "builtin")
