"""Stands for the embedder and the tool ranker where no stage in use asks for them: neither model nor numpy is loaded then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proxy.errors import ModelUnavailable
from proxy.exchange import Tool
from proxy.stage import ToolRanking

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Absent:
    """Implements `proxy.stage.Embedder` and `proxy.stage.ToolRanker` by refusing."""

    name = "none"
    dimensions = 0
    problem: str | None = None

    async def load(self) -> None:
        """There is nothing to load."""

    def stop(self) -> None:
        """There is nothing to end."""

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> NDArray[np.float32]:
        """Raise `ModelUnavailable`."""
        raise _refusal()

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """Raise `ModelUnavailable`."""
        raise _refusal()

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        """Raise `ModelUnavailable`."""
        raise _refusal()


def _refusal() -> ModelUnavailable:
    return ModelUnavailable("no embedding model was loaded: a stage that uses one sets `embeds = True`")
