"""What an exchange has cost by the bundled list of prices, with the model named as its upstream names it. For `recording`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from proxy.exchange import Usage
from proxy.ports import ModelInfo

Price = Callable[[str, str, Usage], float | None]
"""Upstream, model as the client named it, usage -> USD, where that is known."""


def prices_of(prefixes: Mapping[str, str | None], model: Callable[[str], ModelInfo]) -> Price:
    """`prefixes` is what each upstream puts before a model's name; None for one that costs nothing, as a model of this machine."""

    def price(upstream: str, name: str, usage: Usage) -> float | None:
        prefix = prefixes.get(upstream, "")
        if prefix is None:  # whatever the client calls its model
            return None
        return model(prefix + name).cost_usd(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)

    return price
