"""One score for an answer: how far it can be relied upon, from the parts that could be measured of it.

The quality is the weighted mean of these parts, each 0 to 1 and higher the better, the weights shared out over those that are there:

| part | weight | what |
| --- | --- | --- |
| `faithfulness` | 0.40 | share of checkable claims that the evidence supports |
| `consistency` | 0.15 | 1 less the share of checkable claims that the evidence contradicts: a wrong claim costs more than a bare one |
| `citation_precision` | 0.10 | share of citations that are relevant to their sentence |
| `citation_recall` | 0.10 | share of the sentences that need support which their citations support |
| `calibration` | 0.10 | 1, or where the answer rates itself higher than its claims carry, the share of the promise that they do carry |
| `context_use` | 0.10 | 1 for an answer that admits to not knowing or has a citation that holds; else the mean support of its claims |
| `relevance` | 0.05 | calibrated relevance of the context to the question |

A mean with fixed positive weights: it is between 0 and 1, and raising a part never lowers it. Relevance alone says nothing of an
answer: there is no quality until something of the answer was measured. The weights are a judgement of what misleads a reader most, not
fitted to data. Exchange -> `facts.quality`, `facts.quality_parts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from proxy.exchange import Exchange
from proxy.exchange.judgements import Judgement

WEIGHTS: Mapping[str, float] = {
    "faithfulness": 0.40,
    "consistency": 0.15,
    "citation_precision": 0.10,
    "citation_recall": 0.10,
    "calibration": 0.10,
    "context_use": 0.10,
    "relevance": 0.05,
}
CHECKED = ("supported", "contradicted", "unsupported")
"""Labels of claims that were checked and found to be one or the other; what nobody is sure of counts neither way."""


def quality(parts: Mapping[str, float]) -> float | None:
    """The score of the parts that are there; None when nothing of the answer itself is."""
    if not parts.keys() - {"relevance"}:
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
    known["consistency"] = None if (share := contradicted(judged)) is None else 1.0 - share
    known.update(measured or {})
    parts = {name: round(value, 4) for name in WEIGHTS if (value := known.get(name)) is not None}
    facts.quality_parts = parts or None
    facts.quality = quality(parts)


def contradicted(judgements: Iterable[Judgement]) -> float | None:
    """Contradicted claims / claims that were checked; None where none was."""
    labels = [judgement.label for judgement in judgements if judgement.label in CHECKED]
    return labels.count("contradicted") / len(labels) if labels else None


def support(judgements: Iterable[Judgement]) -> float | None:
    """Mean calibrated probability that the evidence supports a claim, over the claims that were checked; None where none was.

    A claim for which there was no evidence at all, so that nothing was asked, counts 0.
    """
    scores = [_support(judgement) for judgement in judgements if judgement.label in CHECKED]
    return sum(scores) / len(scores) if scores else None


def _support(judgement: Judgement) -> float:
    """1 for what stands in the evidence, or was worked out of it, whatever a verifier thinks."""
    return 1.0 if judgement.label == "supported" and judgement.decided_by in ("literal", "recomputed") else judgement.score or 0.0
