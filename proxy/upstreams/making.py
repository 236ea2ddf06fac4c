"""The upstream that a part of config.yaml describes, and the models that upstreams bring with them."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.config.decisions import DecisionApi, decision_api
from proxy.config.settings import (
    AnthropicSettings,
    EmbeddedSettings,
    LiteLLMSettings,
    ModelSettings,
    OpenAISettings,
    Settings,
    UpstreamSettings,
)
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


def model_settings(settings: Settings) -> Mapping[str, ModelSettings]:
    """config.yaml's models, and the embedded ones with their windows."""
    found = dict(settings.models)
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, EmbeddedSettings):
            found.setdefault(make_upstream(name, upstream).catalogue_name(""), ModelSettings(window=upstream.window))
    return found


def decision_apis(settings: Settings) -> Mapping[str, DecisionApi]:
    """Of the upstreams that may answer decision models' questions, what each offers; Anthropic's API does where config.yaml says so."""
    found = {}
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, OpenAISettings) and (upstream.decisions or not isinstance(upstream, AnthropicSettings)):
            found[name] = decision_api(upstream.base_url, upstream.decisions)
    return found
