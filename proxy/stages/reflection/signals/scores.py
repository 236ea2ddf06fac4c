"""How well a search fits by its own word: the scores of its passages -> the best of them, and whether that is too little. Pure.

The threshold is the retriever's own, where its result or the call names one (``min_score``, ``score_threshold``, …). Else it is the
policy's, which goes for scores that are shares of 1, best first: a distance grows, a BM25 score knows no 1, and reciprocal rank fusion
gives its best about 1/61 for each list that has it. Those are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from proxy.context.passages import result_passages

MAX_CHARS = 200_000
"""Of a result; a longer one is not read for scores."""
_SCORES = ("", "score", "relevance", "relevancescore", "similarity", "similarityscore", "confidence")
THRESHOLD_KEYS = frozenset(
    {"threshold", "cutoff", *(f"min{name}" for name in _SCORES if name), *(f"{name}threshold" for name in _SCORES if name)}
)
"""Names of a threshold, in lower case without what stands between words."""
RANK_FUSION = (1 / 62, 0.05)
"""Best scores of reciprocal rank fusion with its usual constant of 60, over one to three lists."""


class RetrievalScore(Struct, frozen=True):
    """Of one search."""

    best: float
    threshold: float | None = None
    """That its result names."""
    comparable: bool = True
    """Whether its scores are shares of 1, best first."""

    def short_of(self, asked: float | None, otherwise: float) -> float | None:
        """The threshold that the best score does not reach; None where it does. `asked` is the call's, `otherwise` the policy's."""
        stated = asked if asked is not None else self.threshold
        threshold = stated if stated is not None else otherwise
        usable = stated is not None or (self.comparable and not RANK_FUSION[0] <= self.best <= RANK_FUSION[1])
        return threshold if usable and self.best < threshold else None


def score_of(scores: Sequence[float | None], threshold: float | None = None) -> RetrievalScore | None:
    """Of passages in their order; None where one has no score."""
    given = [score for score in scores if score is not None]
    if not given or len(given) < len(scores):
        return None
    shares = all(0 <= score <= 1 for score in given)
    return RetrievalScore(max(given), threshold, shares and given[0] == max(given))


def score_in(result: str) -> RetrievalScore | None:
    """Of a retrieval tool's result; None where its passages have no scores."""
    if len(result) > MAX_CHARS:
        return None
    return score_of([passage.score for passage in result_passages(result)], threshold_in(_json(result)))


def threshold_in(named: object) -> float | None:
    """The threshold that a call's arguments or a result's own fields name."""
    for name, value in named.items() if isinstance(named, Mapping) else ():
        folded = str(name).lower().replace("_", "").replace("-", "")
        if folded in THRESHOLD_KEYS and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _json(text: str) -> Any:
    if text.lstrip()[:1] != "{":
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None
