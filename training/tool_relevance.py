"""Makes ``proxy/models/tools/tool_relevance.json``: which features of a query and a tool say that the tool is needed.

Run ``python -m training.tool_relevance`` (some minutes on two cores; needs ``../shared/data/tools``).

``tool_data`` has the tools of twenty-three MCP servers with requests written for them; the thirty that `benchmarks.tools` measures are
others.

Examples are queries of the catalogues' training parts over catalogues drawn from theirs at many sizes, some without the
tool that is needed, some with no word in common (as a query in another language would have), and queries for which every tool at hand
is known not to fit. Every feature is one that `ToolIndex` computes in the proxy, by the proxy's own code.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tool_data import Catalogue, catalogues, mcp_servers_to_train_on, queries_that_fit_nothing
from proxy.models.tools.index import FEATURES, WEIGHTS, Query, ToolIndex

Floats = NDArray[np.float32]

SEED = 20261121
SIZES = (35, 60, 120, 250, 600, 5000)
"""Tools in a drawn catalogue."""
QUERIES_OF_A_DRAW = 25
DRAWS = 150
"""Catalogues drawn of each source."""
WITHOUT_NEEDED = 0.25
"""Share of draws that lack what is needed."""
WITHOUT_WORDS = 0.2
"""Share of queries of which no word is known."""
UNITS, MEMBERS = 16, 4
"""Hidden units of each of so many perceptrons whose log odds are averaged, written as one: a single one is sure of what it has not seen."""
PASSES, QUERIES_OF_A_STEP, RATE, DECAY = 16, 16, 0.003, 1e-4


def draw(catalogue: Catalogue, random: np.random.Generator, queries: NDArray[np.int64]) -> tuple[ToolIndex, dict[str, int]]:
    """An index of some tools of `catalogue`, with what the `queries` need or without it."""
    size = min(int(random.choice(SIZES)), len(catalogue.tools))
    needed = {name for i in queries for name in catalogue.train[i].needed}
    others = [i for i, name in enumerate(catalogue.names) if name not in needed]
    chosen = list(random.permutation(others)[:size])
    if random.random() >= WITHOUT_NEEDED:
        chosen += [i for i, name in enumerate(catalogue.names) if name in needed]
    return catalogue.index(sorted(chosen)), {catalogue.names[i]: position for position, i in enumerate(sorted(chosen))}


class Examples:
    """Candidates of many queries, one after the other."""

    def __init__(self) -> None:
        self.features: list[Floats] = []
        self.labels: list[Floats] = []

    def add(self, features: Floats, labels: Floats) -> None:
        """Those of one query."""
        self.features.append(features)
        self.labels.append(labels)


def draw_examples(found: Examples, catalogue: Catalogue, random: np.random.Generator) -> None:
    """Every candidate of every query of some drawn catalogues."""
    for _ in range(DRAWS):
        queries = random.choice(len(catalogue.train), min(QUERIES_OF_A_DRAW, len(catalogue.train)), replace=False)
        index, position = draw(catalogue, random, queries)
        for i in queries:
            asked = catalogue.train_query(i)
            if random.random() < WITHOUT_WORDS:
                known = asked.words if random.random() < 0.5 else asked.words[:0]
                asked = Query("", asked.vector, asked.segments, known, asked.words_of_segments if len(known) else ())
            candidates, features = index.features(asked)
            needed = [position[name] for name in catalogue.train[i].needed if name in position]
            found.add(features, np.isin(candidates, needed).astype(np.float32))


def misfits(found: Examples, random: np.random.Generator) -> None:
    """Candidates of queries whose own tools are known not to fit; no others are judged."""
    for asked, index, judged in queries_that_fit_nothing("train", random):
        candidates, features = index.features(asked)
        kept = features[np.isin(candidates, judged)]
        if len(kept):
            found.add(kept, np.zeros(len(kept), np.float32))


class Perceptron:
    """One hidden layer of rectified units, trained by Adam (Kingma and Ba 2015) on the cross-entropy of each candidate, so that what it
    says is a probability. A ranking loss beside it made the ranking no better and the probabilities worse."""

    def __init__(self, inputs: int, random: np.random.Generator) -> None:
        shapes = (
            random.normal(0, np.sqrt(2 / inputs), (inputs, UNITS)),
            np.zeros(UNITS),
            random.normal(0, UNITS**-0.5, UNITS),
            np.array([-3.0]),
        )
        self.values = [value.astype(np.float32) for value in shapes]
        self._mean = [np.zeros_like(value) for value in self.values]
        self._square = [np.zeros_like(value) for value in self.values]
        self._steps = 0

    def step(self, features: Floats, labels: Floats, rate: float) -> None:
        """One, over the candidates of some queries."""
        hidden, hidden_bias, output, bias = self.values
        units = np.maximum(features @ hidden + hidden_bias, 0)
        slope = (1 / (1 + np.exp(-np.clip(units @ output + bias, -30, 30))) - labels) / QUERIES_OF_A_STEP
        into = slope[:, None] * output * (units > 0)
        self._steps += 1
        for i, gradient in enumerate((features.T @ into, into.sum(axis=0), slope @ units, slope.sum(keepdims=True))):
            self._mean[i] = 0.9 * self._mean[i] + 0.1 * gradient
            self._square[i] = 0.999 * self._square[i] + 0.001 * gradient * gradient
            move = self._mean[i] / (1 - 0.9**self._steps) / (np.sqrt(self._square[i] / (1 - 0.999**self._steps)) + 1e-8)
            self.values[i] = (self.values[i] - rate * (move + DECAY * self.values[i])).astype(np.float32)


def trained(found: Examples, mean: Floats, scale: Floats, random: np.random.Generator) -> Perceptron:
    """On all examples, `PASSES` times."""
    model = Perceptron(len(mean), random)
    steps = PASSES * (len(found.features) // QUERIES_OF_A_STEP)
    for number in range(steps):
        chosen = random.integers(0, len(found.features), QUERIES_OF_A_STEP)
        features = (np.concatenate([found.features[i] for i in chosen]) - mean) / scale
        model.step(features, np.concatenate([found.labels[i] for i in chosen]), RATE * (1 - number / steps))
    return model


def averaged(members: Sequence[Perceptron]) -> tuple[Floats, Floats, Floats, Floats]:
    """Hidden weights and biases, output weights and bias of the one perceptron whose log odds are the members' mean."""
    hidden, hidden_bias, output, bias = zip(*(member.values for member in members), strict=True)
    share = np.float32(1 / len(members))
    return np.concatenate(hidden, axis=1), np.concatenate(hidden_bias), np.concatenate(output) * share, np.sum(bias, axis=0) * share


def main() -> None:
    """Train and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--leave-out", default="", help="a catalogue to leave out, to see how the model does on one it has never seen")
    options = parser.parse_args()
    random = np.random.default_rng(SEED)
    every_source = [*catalogues(), mcp_servers_to_train_on(), mcp_servers_to_train_on(prefixed=False)]
    sources = [c for c in every_source if not options.leave_out or not c.name.startswith(options.leave_out)]
    found = Examples()
    for source in sources:
        draw_examples(found, source, random)
    misfits(found, random)
    every = np.concatenate(found.features)
    mean, scale = every.mean(axis=0), np.maximum(every.std(axis=0), 1e-6)
    hidden, hidden_bias, output, bias = averaged([trained(found, mean, scale, random) for _ in range(MEMBERS)])
    needed = int(sum(labels.sum() for labels in found.labels))
    written = {
        "source": {
            "made_by": "python -m training.tool_relevance",
            "seed": SEED,
            "examples": len(every),
            "needed": needed,
            "catalogues": [c.name for c in sources],
        },
        "features": FEATURES,
        "mean": rounded(mean),
        "scale": rounded(scale),
        "hidden": [rounded(row) for row in hidden],
        "hidden_bias": rounded(hidden_bias),
        "output": rounded(output),
        "output_bias": float(f"{bias[0]:.5g}"),
    }
    options.out.write_text(json.dumps(written) + "\n")
    print(f"{options.out}: {len(every)} examples, {needed} needed")


def rounded(values: Floats) -> list[float]:
    """Five digits are enough and keep the file small."""
    return [float(f"{value:.5g}") for value in values]


if __name__ == "__main__":
    main()
