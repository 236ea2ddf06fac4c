"""Which of a request's tools are needed: implements `proxy.stage.ToolRanker`."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.exchange import Tool
from proxy.stage import Embedder, ToolRanking


class EmbeddingToolRanker:
    """Similarity of query and description."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """Never None."""
        texts = [f"{t['function'].get('name')}: {t['function'].get('description', '')}" for t in tools]
        vectors = await self._embedder.embed([query, *texts])
        return ToolRanking(tuple(float(x) for x in vectors[1:] @ vectors[0]))

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        """Nothing yet."""
