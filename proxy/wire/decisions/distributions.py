"""What a server says of one question -> an `Answer`: probabilities that can be used, or why there are none. Nothing is guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from proxy.ports.decisions import YES_NO, Answer, Question

_ROUNDING = 0.005
"""Of one probability with two decimals, as OpenRouter passes them on; what is not rounded is far nearer."""
_LEAST, _MOST = 0.02, 0.05
"""How far a sum may lie from one, whatever the number of options."""
_SHOWN = 80
"""Characters of a server's value that a problem quotes."""

REFUSED, MISSING = Answer(problem="refused"), Answer(problem="missing")


def answer(question: Question, found: Mapping[str, Any]) -> Answer:
    """Of a choice or a score, from what the server has for each option; the probabilities are brought to a sum of exactly one."""
    options = question.options
    if unknown := [name for name in found if name not in options]:
        return Answer(problem=f"wrong names: {_shown(unknown[0])}")
    if absent := [name for name in options if name not in found]:
        return Answer(problem=f"wrong names: nothing for {_shown(absent[0])}")
    for name in options:
        if not _is_probability(found[name]):
            return Answer(problem=f"not a number: {_shown(found[name])} for {_shown(name)}")
    total = math.fsum(found.values())
    if abs(total - 1) > min(_MOST, max(_LEAST, _ROUNDING * len(options))):
        return Answer(problem=f"does not sum to one: {total:.4g}")
    return Answer({name: found[name] / total for name in options})


def predicate(probability: Any) -> Answer:
    """Of a predicate, from the probability that it holds."""
    if not _is_probability(probability):
        return Answer(problem=f"not a number: {_shown(probability)}")
    yes, no = YES_NO
    return Answer({yes: float(probability), no: 1.0 - probability})


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1  # NaN lies nowhere


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
