"""Features of a query and a tool -> probability that the tool is needed.

A perceptron with one hidden layer, some six hundred numbers in ``tool_relevance.json``, made by ``python -m training.tool_relevance``
(the file says on what data). The features say nothing of which tool it is, so it serves catalogues that it has never seen.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from proxy.models.tools.index import FEATURES

Floats = NDArray[np.float32]
WEIGHTS = Path(__file__).with_name("tool_relevance.json")


class RelevanceModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of the file."""

    source: dict[str, Any]
    """Data, seed, measured calibration error: for people."""
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    hidden: tuple[tuple[float, ...], ...]
    """``(features, units)``"""
    hidden_bias: tuple[float, ...]
    output: tuple[float, ...]
    output_bias: float

    def __post_init__(self) -> None:
        if self.features != FEATURES:
            raise ValueError("trained on other features than the index makes: run python -m training.tool_relevance")


class ToolRelevance:
    """The model as arrays."""

    def __init__(self, model: RelevanceModel) -> None:
        self._mean, self._scale = np.array(model.mean, np.float32), np.array(model.scale, np.float32)
        self._hidden, self._hidden_bias = np.array(model.hidden, np.float32), np.array(model.hidden_bias, np.float32)
        self._output, self._output_bias = np.array(model.output, np.float32), np.float32(model.output_bias)

    def logits(self, features: Floats) -> Floats:
        """``(n, len(FEATURES))`` -> ``(n,)``: the log odds that each tool is needed."""
        units = np.maximum((features - self._mean) / self._scale @ self._hidden + self._hidden_bias, 0)
        found: Floats = units @ self._output + self._output_bias
        return found


@cache
def shipped() -> ToolRelevance:
    """The model in this package."""
    return ToolRelevance(msgspec.json.decode(WEIGHTS.read_bytes(), type=RelevanceModel))


def probability(logits: Floats) -> Floats:
    """The logistic function."""
    found: Floats = np.float32(1) / (np.float32(1) + np.exp(-np.clip(logits, -30, 30)))
    return found
