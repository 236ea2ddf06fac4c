"""What an exchange has cost by the bundled list of prices, with the model named as its upstream names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proxy.config.settings import EmbeddedSettings, UpstreamSettings
from proxy.exchange import Usage
from proxy.ports import ModelInfo


def prices_of(upstreams: Mapping[str, UpstreamSettings], model: Callable[[str], ModelInfo]) -> Callable[[str, str, Usage], float | None]:
    """Upstream, model as the client named it, usage -> USD; None for a model of this machine, and where a price is not known."""

    def price(upstream: str, name: str, usage: Usage) -> float | None:
        settings = upstreams.get(upstream)
        if isinstance(settings, EmbeddedSettings):  # whatever the client calls its model
            return None
        found = model(getattr(settings, "model_prefix", "") + name)
        return found.cost_usd(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)

    return price
