"""What tool calls taught, as a move of each tool's embedding towards the queries that it served.

After OATS (Chen et al., "Outcome-Aware Tool Selection for Semantic Routers", arXiv 2603.13426, 2026), which interpolates a tool's
embedding towards the centroid of its queries. Here the move is fitted: each tool's embedding goes where a softmax over all tools gives
its queries to it, so that it also leaves the queries of tools that resemble it. The move has a bounded length, a tool without outcomes
does not move, and the same outcomes always give the same move.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float32]

SHARPNESS = 20.0
"""Of the softmax over inner products of unit vectors; the best of 10, 20, 30 on MetaTool's training part (`benchmarks.tools`)."""
MAX_MOVE = 25.0
"""Longest move, in units of 1/`SHARPNESS`: about the length of an embedding itself."""
MAX_TOOLS = 512
"""In a larger catalogue only the tools that have outcomes compete for the queries, which bounds the time of a fit."""
_STEPS, _RATE, _DECAY, _BIAS_INPUT = 80, 0.3, 5e-6, 0.3


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


def fit(descriptions: Floats, positions: NDArray[np.int64], queries: Floats, weights: Floats) -> Moves:
    """`positions` ``(m,)`` are the tools that served the `queries` ``(m, d)``, as much as `weights` ``(m,)`` say; m is at least 1."""
    served = np.unique(positions)
    competing = np.arange(len(descriptions)) if len(descriptions) <= MAX_TOOLS else served
    target = np.searchsorted(competing, positions)
    inputs = np.concatenate([queries, np.full((len(queries), 1), _BIAS_INPUT, np.float32)], axis=1)
    before = np.float32(SHARPNESS) * (queries @ descriptions[competing].T)
    share = (weights / np.abs(weights).sum())[:, None]
    moves = np.zeros((len(competing), inputs.shape[1]), np.float32)
    mean, square = np.zeros_like(moves), np.zeros_like(moves)
    for step in range(1, _STEPS + 1):  # Adam, Kingma and Ba 2015, over all outcomes at once
        chances = _softmax(np.asarray(before + inputs @ moves.T, np.float32))
        chances[np.arange(len(target)), target] -= 1
        slope = (chances * share).T @ inputs + _DECAY * moves
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope * slope
        moves -= _RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
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


def _softmax(scores: Floats) -> Floats:
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
