"""What tool calls taught, as a move of each tool's embedding towards the queries that it served.

After OATS (Chen et al., "Outcome-Aware Tool Selection for Semantic Routers", arXiv 2603.13426, 2026), which interpolates a tool's
embedding towards the centroid of its queries. Here the move is fitted: each tool's embedding goes where a softmax over all tools gives
its queries to it, so that it also leaves the queries of tools that resemble it. The move has a bounded length, a tool without outcomes
does not move, and the same outcomes always give the same move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SHARPNESS = 20.0
"""Of the softmax over inner products of unit vectors; the best of 10, 20, 30 on MetaTool's training part (`benchmarks.tools`)."""
MAX_MOVE = 40.0
"""Longest move, in units of 1/`SHARPNESS`: about twice the length of an embedding."""
PRECISION = 0.1
"""Of the Gaussian prior that a tool does not move: one outcome moves it by about 4, fifty by about 15. 0.05 to 0.2 are equally good on
MetaTool's training part, from ten outcomes to ten thousand; without it, few outcomes do harm."""
MAX_TOOLS = 512
"""In a larger catalogue only the tools that have outcomes compete for the queries, which bounds the time of a fit."""
LEAST_NEEDED = 0.5
"""Tools that outcomes alone may say are needed."""
_STEPS, _RATE, _BIAS_INPUT = 80, 0.3, 0.3


class Moves(Struct, frozen=True):
    """Of some tools of an index: positions ``(k,)``, ascending, their moves ``(k, d)``, and what each gains for every query ``(k,)``."""

    positions: NDArray[np.int64]
    vectors: Floats
    bias: Floats

    def gains(self, query: Floats, tools: int) -> Floats:
        """What every tool's log odds gain for the query ``(d,)``: ``(tools,)``, 0 where nothing was learned."""
        found = np.zeros(tools, np.float32)
        found[self.positions] = self.vectors @ query + self.bias
        return found

    def applied(self, logits: Floats, candidates: NDArray[np.int64], query: Floats, descriptions: Floats) -> Floats:
        """The candidates' log odds after what was learned; `logits` are those before, ``descriptions`` of all tools ``(n, d)``.

        The moves were fitted on top of the embedding's own scores, so these have half a say beside `logits`. A softmax knows only which
        tool is the better one: the result is lowered until as many tools are expected to be needed as before; or as the outcomes say, up
        to `LEAST_NEEDED`, where they know a query that no description is like.
        """
        gains = self.gains(query, len(descriptions))[candidates]
        most = max(_expected(logits), min(LEAST_NEEDED, _expected(logits + gains)))
        found: Floats = np.asarray((logits + SHARPNESS * (descriptions[candidates] @ query)) / 2 + gains, np.float32)
        low, high = 0.0, 40.0
        while _expected(found - np.float32(low)) > most and high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if _expected(found - np.float32(middle)) > most else (low, middle)
        lowered: Floats = found - np.float32(low)
        return lowered


def fit(descriptions: Floats, positions: NDArray[np.int64], queries: Floats, weights: Floats) -> Moves:
    """`positions` ``(m,)`` are the tools that served the `queries` ``(m, d)``, as often as `weights` ``(m,)`` say, all above 0."""
    served = np.unique(positions)
    competing = np.arange(len(descriptions)) if len(descriptions) <= MAX_TOOLS else served
    target = np.searchsorted(competing, positions)
    inputs = np.concatenate([queries, np.full((len(queries), 1), _BIAS_INPUT, np.float32)], axis=1)
    before = np.float32(SHARPNESS) * (queries @ descriptions[competing].T)
    total = np.float32(weights.sum())
    share = (weights / total)[:, None]
    moves = np.zeros((len(competing), inputs.shape[1]), np.float32)
    mean, square = np.zeros_like(moves), np.zeros_like(moves)
    for step in range(1, _STEPS + 1):  # Adam, Kingma and Ba 2015, over all outcomes at once
        chances = _softmax(np.asarray(before + inputs @ moves.T, np.float32))
        chances[np.arange(len(target)), target] -= 1
        slope = (chances * share).T @ inputs + np.float32(PRECISION) / total * moves
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope * slope
        rate = np.float32(_RATE * (1 - (step - 1) / _STEPS))
        moves -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    kept = moves[np.searchsorted(competing, served)]
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    kept *= np.minimum(1, MAX_MOVE / np.maximum(lengths, 1e-9))
    return Moves(served, kept[:, :-1], kept[:, -1] * _BIAS_INPUT)


def packed(vector: Floats) -> bytes:
    """A vector as it is stored: half precision, little endian."""
    return vector.astype("<f2").tobytes()


def unpacked(data: bytes) -> Floats:
    """The vector of `packed`."""
    return np.frombuffer(data, "<f2").astype(np.float32)


def _expected(logits: NDArray[np.floating[Any]]) -> float:
    """How many of these tools are needed, on average."""
    return float((1 / (1 + np.exp(-np.clip(logits, -30, 30)))).sum())


def _softmax(scores: Floats) -> Floats:
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
