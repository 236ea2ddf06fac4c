"""What a search brought: which chunks its result holds, and how well they fit by its own word. Pure.

A chunk of a JSON list is named by its own id (``chunk_id``, ``id``, and a position in the document if it has one), or by its document and
position. Any other passage is named by its text: a document's id alone says nothing about which part of it was returned, and ids that
only count the results (1, 2, 3) say nothing at all.

The threshold of scores is the retriever's own, where its result or the call names one (``min_score``, ``score_threshold``, …). Else it is
the policy's, which goes for scores that are shares of 1, best first: a distance grows, a BM25 score knows no 1, and reciprocal rank fusion
gives its best about 1/61 for each list that has it. Those are left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import orjson
from msgspec import Struct

from proxy.context.passages import result_passages
from proxy.language.json.fingerprint import normalised_text

OWN_IDS = ("chunk_id", "chunkId", "id", "_id")
DOCUMENT_IDS = ("doc_id", "docId", "document_id", "source", "url", "uri", "path", "file", "filename")
POSITIONS = ("position", "chunk_index", "chunk", "page", "section", "offset", "start", "part", "line", "start_line")
MIN_PASSAGE_CHARS = 40
"""A passage that is shorter and has no id ("OK", "no entry") names nothing."""
MAX_JSON_CHARS = 1_000_000
MAX_SCORED_CHARS = 200_000
"""Of a result; a longer one is not read for scores."""
MAX_PASSAGE_CHARS = 20_000
"""A longer result is not taken apart into passages: it is one chunk."""
MAX_DEPTH = 6
MAX_CHUNKS = 200
_SCORES = ("score", "relevance", "relevancescore", "similarity", "similarityscore", "confidence")
THRESHOLD_KEYS = frozenset(("threshold", "cutoff", *(f"min{name}" for name in _SCORES), *(f"{name}threshold" for name in _SCORES)))
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
    if len(result) > MAX_SCORED_CHARS:
        return None
    return score_of([passage.score for passage in result_passages(result)], threshold_in(_json(result)))


def threshold_in(named: object) -> float | None:
    """The threshold that a call's arguments or a result's own fields name."""
    for name, value in named.items() if isinstance(named, Mapping) else ():
        folded = str(name).lower().replace("_", "").replace("-", "")
        if folded in THRESHOLD_KEYS and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def chunks_of(text: str) -> frozenset[str]:
    """The chunks' names, hexadecimal; none where the result is empty, an error, or too short to tell."""
    ids = list(islice(_listed(_json(text), MAX_DEPTH), MAX_CHUNKS + 1))
    ranks = {f"{n} " for n in range(len(ids) + 1)}
    if ids and all(ids) and len(ids) <= MAX_CHUNKS and not ranks.issuperset(ids):
        return frozenset(_hash(name) for name in ids)
    if len(text) > MAX_PASSAGE_CHARS:
        return frozenset((_hash(text),))
    passages = [passage.content for passage in result_passages(text)]
    return frozenset(_hash(normalised_text(content)) for content in passages if len(content.strip()) >= MIN_PASSAGE_CHARS)


def _json(text: str) -> Any:
    if len(text) > MAX_JSON_CHARS or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def _listed(value: Any, depth: int) -> Iterator[str]:
    """For each object of the outermost lists the name of its chunk; "" for one that has no id."""
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, Mapping)]
        yield from (_name(item) for item in objects)
        if objects and len(objects) < len(value):
            yield ""
    elif isinstance(value, Mapping) and depth:
        for nested in value.values():
            if isinstance(nested, Mapping | list):
                yield from _listed(nested, depth - 1)


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    layers = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    own, document, position = (_first(layers, names) for names in (OWN_IDS, DOCUMENT_IDS, POSITIONS))
    return f"{own} {position}" if own else f"{document} {position}" if document and position else ""


def _first(layers: tuple[Mapping[str, Any], ...], names: tuple[str, ...]) -> str:
    values = (layer.get(name) for layer in layers for name in names)
    return next((f"{value}" for value in values if isinstance(value, str | int) and not isinstance(value, bool) and value != ""), "")


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
