"""One score for an answer: how far it can be relied upon, from the parts that could be measured of it.

The quality is the weighted mean of these parts, each 0 to 1 and higher the better, the weights shared out over those that are there:

| part | weight | what |
| --- | --- | --- |
| `faithfulness` | 0.40 | expected share of supported claims: mean calibrated probability that the evidence supports each checkable one |
| `consistency` | 0.15 | 1 less the share of checkable claims that the evidence contradicts: a wrong claim costs more than a bare one |
| `citation_precision` | 0.10 | share of citations that are relevant to their sentence |
| `citation_recall` | 0.10 | share of the sentences that need support which their citations support |
| `calibration` | 0.10 | 1, or where the answer rates itself higher than its claims carry, the share of the promise that they do carry |
| `context_use` | 0.10 | 1 for an answer that admits to not knowing or has a citation that holds; else its faithfulness |
| `relevance` | 0.05 | calibrated relevance of the context to the question |

A mean with fixed positive weights: it is between 0 and 1, and raising a part never lowers it. Relevance and the use of context alone say
nothing of what an answer states: there is no quality until some of that was measured. The weights are a judgement of what misleads a
reader most, not fitted to data. Exchange -> `facts.quality`, `facts.quality_parts`.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.exchange import Exchange
from proxy.exchange.judgements import share_labelled

WEIGHTS: Mapping[str, float] = {
    "faithfulness": 0.40,
    "consistency": 0.15,
    "citation_precision": 0.10,
    "citation_recall": 0.10,
    "calibration": 0.10,
    "context_use": 0.10,
    "relevance": 0.05,
}
_SAYS_NOTHING = frozenset(("relevance", "context_use"))
"""Parts that alone say nothing of what an answer states."""


def quality(parts: Mapping[str, float]) -> float | None:
    """The score of the parts that are there; None when nothing of the answer itself is."""
    if not parts.keys() - _SAYS_NOTHING:
        return None
    weighed = sum(WEIGHTS[name] * value for name, value in parts.items())
    return min(1.0, weighed / sum(WEIGHTS[name] for name in parts))


def refresh(exchange: Exchange, measured: Mapping[str, float | None] | None = None) -> None:
    """Set `facts.quality` and its parts anew: from the other facts, the judgements, and what was `measured` now.

    Earlier measured parts stay; None takes one back.
    """
    facts = exchange.facts
    judged = [judgement for found in exchange.judgements.values() for judgement in found]
    known: dict[str, float | None] = {**(facts.quality_parts or {})}
    known["faithfulness"], known["relevance"] = facts.faithfulness, facts.relevance
    known["consistency"] = None if (share := share_labelled("contradicted", judged)) is None else 1.0 - share
    known.update(measured or {})
    parts = {name: round(value, 4) for name in WEIGHTS if (value := known.get(name)) is not None}
    facts.quality_parts = parts or None
    facts.quality = quality(parts)
