"""Questions of the proxy's own to a configured upstream: implements `proxy.stage.ChatModel`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.errors import InternalError
from proxy.exchange import Message
from proxy.upstreams.resilience import Resilient


class UpstreamChat:
    """Asks one of `upstreams`."""

    def __init__(self, upstreams: Mapping[str, Resilient]) -> None:
        self._upstreams = upstreams

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """Implements `proxy.stage.ChatModel`."""
        raise InternalError("not there yet")
