"""Anthropic's API, or a server that speaks it, byte for byte: the same HTTP as `proxy.upstreams.openai`, with another key header.

The operator's key goes as ``x-api-key``; to the paths that Anthropic has in OpenAI's form (``/chat/completions``) as ``Authorization``. A
client that sends no ``anthropic-version``, as one of another API does, gets the one that this was written for.
"""

from __future__ import annotations

from proxy.config.settings import AnthropicSettings
from proxy.ports.upstream import Call
from proxy.upstreams.openai import OpenAIUpstream

VERSION = "2023-06-01"
_CHAT = "/chat/"


class AnthropicUpstream(OpenAIUpstream):
    """Implements `proxy.ports.upstream.Upstream`."""

    def __init__(self, name: str, settings: AnthropicSettings) -> None:
        super().__init__(name, settings)
        own = settings.api_key if settings.api_key != "forward" else ""
        self._key = own
        self._own_headers = [(key, value) for key, value in self._own_headers if key != "authorization" or not own]

    def _headers(self, call: Call) -> list[tuple[str, str]]:
        headers = super()._headers(call)
        chat = call.path.startswith(_CHAT)
        if self._key:
            headers.append(("authorization", f"Bearer {self._key}") if chat else ("x-api-key", self._key))
        if not chat and not any(name == "anthropic-version" for name, _ in headers):
            headers.append(("anthropic-version", VERSION))
        return headers
