"""An LLM's summary that comes after its deadline: the conversation's compaction is stored once more with it, for the turns that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from msgspec.structs import replace

from proxy.context.compaction.conversation import keep
from proxy.context.compaction.parts import Part
from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Message
from proxy.ports import Ports


class LateSummaries:
    """Those of one exchange."""

    def __init__(self, exchange: Exchange, ports: Ports) -> None:
        self._exchange, self._ports = exchange, ports
        self._parts: Sequence[Part] = ()
        self._length = 0
        self._came: list[tuple[Message, Message]] = []

    async def came(self, used: Message, better: Message) -> None:
        """`better` should stand where `used` was sent."""
        self._came.append((used, better))
        await self._store()

    async def sent(self, parts: Sequence[Part], length: int) -> None:
        """What was sent in the end, and how many messages its compaction covers."""
        self._parts, self._length = parts, length
        await self._store()

    async def _store(self) -> None:
        parts = [replace(part, message=self._better(part)) for part in self._parts]
        if any(new.message is not old.message for new, old in zip(parts, self._parts, strict=True)):
            with contextlib.suppress(StoreUnavailable):  # later turns then go on with what was sent
                await keep(self._exchange, self._ports, parts, least=self._length, late=True)

    def _better(self, part: Part) -> Message:
        return next((better for used, better in self._came if part.made and used == part.message), part.message)
