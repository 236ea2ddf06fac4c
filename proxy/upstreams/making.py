"""The upstream that a part of config.yaml describes."""

from __future__ import annotations

from proxy.config.settings import AnthropicSettings, LiteLLMSettings, OpenAISettings, UpstreamSettings
from proxy.ports.upstream import Upstream
from proxy.upstreams.anthropic import AnthropicUpstream
from proxy.upstreams.openai import OpenAIUpstream


def make_upstream(name: str, settings: UpstreamSettings) -> Upstream:
    """The upstream that `settings` describe; heavy libraries are imported by the kinds that need them, when they start."""
    if isinstance(settings, AnthropicSettings):
        return AnthropicUpstream(name, settings)
    if isinstance(settings, OpenAISettings):
        return OpenAIUpstream(name, settings)
    if isinstance(settings, LiteLLMSettings):
        from proxy.upstreams.litellm import LiteLLMUpstream

        return LiteLLMUpstream(name, settings)
    from proxy.upstreams.embedded import EmbeddedUpstream

    return EmbeddedUpstream(name, settings)
