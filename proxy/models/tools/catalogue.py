"""The vectors of a catalogue's texts: what another node has embedded comes from the store, what is new is embedded here and goes there.

So a new node, whose disk has no vectors yet, answers the first question about a catalogue as an old one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from proxy.offloop import run_in_thread_if_large
from proxy.ports import Embedder, SharedVectors

ROW_COST = 100
"""To copy a row takes about as long as a pass over so many characters."""
Rows = Mapping[str, NDArray[np.float32]]


class CatalogueTexts:
    """Embeds the texts of tools."""

    def __init__(self, embedder: Embedder, shared: SharedVectors | None = None) -> None:
        self._embedder, self._shared = embedder, shared

    async def known(self, texts: Sequence[str]) -> Rows:
        """What other nodes have embedded of them."""
        if self._shared is None:
            return {}
        found = await self._shared.get(texts)
        return await run_in_thread_if_large(len(found) * ROW_COST, _unpacked, found)

    async def unknown(self, texts: Sequence[str], known: Rows) -> int:
        """How many would have to be embedded."""
        return await self._embedder.unknown([text for text in texts if text not in known])

    async def vectors(self, texts: Sequence[str], known: Rows, *, bulk: bool) -> NDArray[np.float32]:
        """``(len(texts), d)``, unit length. Raises `ModelUnavailable`."""
        if self._shared is None:
            return await self._embedder.embed(texts, bulk=bulk, keep=True)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        made = await self._embedder.embed(missing, bulk=bulk, keep=True) if missing else ()
        rows, new = await run_in_thread_if_large(len(texts) * ROW_COST, _together, texts, known, missing, made)
        if new:
            self._shared.put(new)
        return rows


def _unpacked(found: Mapping[str, bytes]) -> Rows:
    return {text: np.frombuffer(row, "<f4").astype(np.float32) for text, row in found.items()}


def _together(
    texts: Sequence[str], known: Rows, missing: Sequence[str], made: Iterable[NDArray[np.float32]]
) -> tuple[NDArray[np.float32], dict[str, bytes]]:
    """The rows of all texts, and those that were missing as they are kept."""
    new = dict(zip(missing, made, strict=True))
    rows = {**known, **new}
    return np.stack([rows[text] for text in texts]), {text: row.astype("<f4").tobytes() for text, row in new.items()}
