"""The upstream that a part of config.yaml describes, and the models that upstreams bring with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from proxy.config.sections import DecisionApi, decision_api
from proxy.config.settings import (
    AnthropicSettings,
    BuiltinSettings,
    EmbeddedSettings,
    GeminiSettings,
    LiteLLMSettings,
    LocalSettings,
    ModelSettings,
    OpenAISettings,
    Settings,
    UpstreamSettings,
)
from proxy.ledger import Ledger
from proxy.ports import Counters, TokenCounter, UpstreamFigures
from proxy.ports.upstream import Upstream
from proxy.upstreams.builtin import MAX_STATEMENTS
from proxy.upstreams.openai import AnthropicUpstream, GeminiUpstream, OpenAIUpstream
from proxy.upstreams.resilience import Resilient, SharedPlaces, Slots
from proxy.upstreams.translating import Translating, is_openai


def make_upstream(name: str, settings: UpstreamSettings) -> Upstream:
    """The upstream that `settings` describe; heavy libraries are imported by the kinds that need them, when they start."""
    if isinstance(settings, AnthropicSettings):
        return AnthropicUpstream(name, settings)
    if isinstance(settings, GeminiSettings):
        return GeminiUpstream(name, settings)
    if isinstance(settings, OpenAISettings):
        return OpenAIUpstream(name, settings)
    if isinstance(settings, LiteLLMSettings):
        from proxy.upstreams.litellm import LiteLLMUpstream

        return LiteLLMUpstream(name, settings)
    if isinstance(settings, BuiltinSettings):
        raise TypeError("the built-in judge is made of the application's verifiers")
    from proxy.upstreams.embedded import EmbeddedUpstream

    return EmbeddedUpstream(name, settings)


def model_prefixes(settings: Settings) -> dict[str, str | None]:
    """What each upstream puts before a model's name in the list of prices; None for one of this machine, which costs nothing."""
    return {name: None if isinstance(one, LocalSettings) else one.model_prefix for name, one in settings.upstreams.items()}


def make_resilient(
    upstream: Upstream,
    settings: UpstreamSettings,
    tokens: TokenCounter,
    ledger: Ledger,
    counters: Counters,
    figures: UpstreamFigures,
    max_answer_bytes: int,
    places: SharedPlaces | None = None,
) -> Resilient:
    """`upstream` for clients of every API, with what `settings` say of its places, its retries and its fallbacks."""
    slots = Slots(settings.max_concurrency, settings.max_queue, wait_s=settings.timeouts.queue_s, ledger=ledger)
    translating = Translating(
        upstream,
        settings.spoken,
        newest=isinstance(settings, OpenAISettings) and is_openai(settings.base_url),
        limit_of=lambda model: tokens.model(upstream.catalogue_name(model)).max_output_tokens,
        dropped=settings.drop_fields,
        max_bytes=max_answer_bytes,
        decides="only" if isinstance(settings, BuiltinSettings) else "also" if _decision_api(settings) else "",
    )
    most, total_s = settings.max_concurrency_everywhere, settings.timeouts.total_s
    everywhere = partial(places.take, upstream.name, most, settings.timeouts.queue_s) if places is not None and most else None
    forwards = getattr(settings, "api_key", "") == "forward"
    return Resilient(
        translating,
        settings.retries,
        slots,
        settings.fallback,
        counters,
        total_s,
        figures,
        translating.takes,
        everywhere,
        forwards=forwards,
    )


def model_settings(settings: Settings) -> Mapping[str, ModelSettings]:
    """config.yaml's models, and the embedded ones with their windows."""
    found = dict(settings.models)
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, EmbeddedSettings):
            found.setdefault(make_upstream(name, upstream).catalogue_name(""), ModelSettings(window=upstream.window))
    return found


def decision_apis(settings: Settings) -> Mapping[str, DecisionApi]:
    """Of the upstreams that may answer decision models' questions, what each offers; Anthropic's API does where config.yaml says so."""
    found = ((name, _decision_api(upstream)) for name, upstream in settings.upstreams.items())
    return {name: api for name, api in found if api is not None}


def _decision_api(settings: UpstreamSettings) -> DecisionApi | None:
    if isinstance(settings, BuiltinSettings):
        return DecisionApi(max_questions=MAX_STATEMENTS, usd_per_million_tokens=0.0)
    if isinstance(settings, OpenAISettings) and (settings.decisions or not isinstance(settings, AnthropicSettings | GeminiSettings)):
        return decision_api(settings.base_url, settings.decisions)
    return None
