"""The store's ports in memory, for tests; `proxy.testing` gives them out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from proxy.ports import Compaction, ScratchpadItem, ToolOutcome, ToolRun


class MemoryScratchpad:
    """A `proxy.ports.Scratchpad` in memory."""

    def __init__(self) -> None:
        self.items: dict[str, ScratchpadItem] = {}
        """By id, in the order in which they were first put."""

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        """Keep it."""
        digest = hashlib.sha256(b"\0".join((client.encode(), run_id.encode(), content))).hexdigest()
        item = ScratchpadItem(f"sp_{digest[:32]}", client, run_id, media_type, len(content), 0.0, 0.0, content)
        self.items.setdefault(item.id, item)
        return item.id

    async def get(self, item_id: str, *, client: str | None = None) -> bytes | None:
        """Give it back."""
        item = self.items.get(item_id)
        return item.content if item is not None and client in (None, item.client) else None

    async def find(self, prefix: str, *, client: str) -> ScratchpadItem | None:
        """The one whose id begins so."""
        found = [item for item in self.items.values() if item.client == client and item.id.startswith(prefix)]
        return found[0] if len(found) == 1 and re.fullmatch("sp_[0-9a-f]{12,32}", prefix) else None


class MemoryCompactions:
    """A `proxy.ports.Compactions` in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Compaction] = {}
        """By client and what they cover."""

    async def find(self, covers: Sequence[str], *, client: str) -> Compaction | None:
        """The longest."""
        found = [self.kept[client, hash_] for hash_ in covers if (client, hash_) in self.kept]
        return max(found, key=lambda compaction: compaction.length, default=None)

    async def put(self, compaction: Compaction, *, client: str, run_id: str) -> Compaction:
        """Keep the first."""
        return self.kept.setdefault((client, compaction.covers), compaction)


class MemoryFirstSeen:
    """A `proxy.ports.FirstSeen` in memory, without bounds."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], dict[str, float]] = {}
        """Times by hash, by client and run."""

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        """Kept, or new."""
        known = self.runs.setdefault((client, run), {})
        return [known.setdefault(hash_, now) for hash_ in hashes]


class MemoryToolRuns:
    """A `proxy.ports.ToolRuns` in memory."""

    def __init__(self) -> None:
        self.runs: dict[tuple[str, str], ToolRun] = {}
        """By client and run."""

    async def get(self, run: str, *, client: str) -> ToolRun:
        """What is known."""
        return self.runs.get((client, run), ToolRun())

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        """Replace, if nobody else has."""
        if self.runs.get((client, run), ToolRun()).version != version:
            return False
        self.runs[client, run] = ToolRun(tuple(names), version + 1)
        return True


class MemoryToolOutcomes:
    """A `proxy.ports.ToolOutcomes` in memory, without bounds."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[ToolOutcome]] = {}
        """By client and embedder."""

    async def add(self, outcomes: Sequence[ToolOutcome], *, client: str, embedder: str) -> None:
        """Keep them."""
        self.rows.setdefault((client, embedder), []).extend(outcomes)

    async def load(self, *, client: str, embedder: str, tool_keys: Sequence[str] | None = None) -> list[ToolOutcome]:
        """Those of these tools, or all."""
        return [row for row in self.rows.get((client, embedder), []) if tool_keys is None or row.tool_key in tool_keys]

    async def version(self, client: str) -> int:
        """How many there are."""
        return sum(len(rows) for (owner, _), rows in self.rows.items() if owner == client)
