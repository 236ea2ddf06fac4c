"""Makes ``proxy/models/tools/tool_relevance.json``: which features of a query and a tool say that the tool is needed.

Run ``python -m training.tool_relevance`` (about ten minutes on two cores; needs ``../shared/data/tools`` and scikit-learn).

Examples are queries of three catalogues' training parts (`parts`) over catalogues drawn from theirs at many sizes, some without the
tool that is needed, some with no word in common (as a query in another language would have), and queries for which every tool at hand
is known not to fit. Every feature is one that `ToolIndex` computes in the proxy, by the proxy's own code.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.tool_data import Catalogue, catalogues, queries_that_fit_nothing
from proxy.models.tools.index import FEATURES, Query, ToolIndex
from proxy.models.tools.relevance import WEIGHTS

SEED = 20261121
SIZES = (35, 60, 120, 250, 600, 5000)
"""Tools in a drawn catalogue."""
QUERIES_OF_A_DRAW = 25
DRAWS = 60
"""Catalogues drawn of each source."""
WITHOUT_NEEDED = 0.25
"""Share of draws that lack what is needed."""
WITHOUT_WORDS = 0.2
"""Share of queries of which no word is known."""
UNITS = 32


def draw(catalogue: Catalogue, random: np.random.Generator, queries: NDArray[np.int64]) -> tuple[ToolIndex, dict[str, int]]:
    """An index of some tools of `catalogue`, with what the `queries` need or without it."""
    size = min(int(random.choice(SIZES)), len(catalogue.tools))
    needed = {name for i in queries for name in catalogue.train[i].needed}
    others = [i for i, name in enumerate(catalogue.names) if name not in needed]
    chosen = list(random.permutation(others)[:size])
    if random.random() >= WITHOUT_NEEDED:
        chosen += [i for i, name in enumerate(catalogue.names) if name in needed]
    return catalogue.index(sorted(chosen)), {catalogue.names[i]: position for position, i in enumerate(sorted(chosen))}


def examples(catalogue: Catalogue, random: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features and labels of every candidate of every query."""
    rows, labels = [], []
    for _ in range(DRAWS):
        queries = random.choice(len(catalogue.train), min(QUERIES_OF_A_DRAW, len(catalogue.train)), replace=False)
        index, position = draw(catalogue, random, queries)
        for i in queries:
            asked = catalogue.train_query(i)
            if random.random() < WITHOUT_WORDS:
                asked = Query("", asked.vector, asked.segments)
            candidates, features = index.features(asked)
            needed = {position[name] for name in catalogue.train[i].needed if name in position}
            rows.append(features)
            labels.append(np.isin(candidates, list(needed)).astype(np.float32))
    return np.concatenate(rows), np.concatenate(labels)


def misfits(random: np.random.Generator) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Candidates of queries whose own tools are known not to fit; no others are judged."""
    rows = []
    for asked, index, judged in queries_that_fit_nothing("train", random):
        candidates, features = index.features(asked)
        rows.append(features[np.isin(candidates, judged)])
    features = np.concatenate(rows)
    return features, np.zeros(len(features), np.float32)


def main() -> None:
    """Train and write the file."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    parser.add_argument("--leave-out", default="", help="a catalogue to leave out, to see how the model does on one it has never seen")
    options = parser.parse_args()
    random = np.random.default_rng(SEED)
    sources = [c for c in catalogues() if not options.leave_out or not c.name.startswith(options.leave_out)]
    parts = [examples(c, random) for c in sources]
    parts.append(misfits(random))
    features, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    scaler = StandardScaler().fit(features)
    model = MLPClassifier(
        (UNITS,), alpha=1e-3, early_stopping=True, n_iter_no_change=5, max_iter=60, batch_size=512, random_state=SEED % 2**31
    )
    model.fit(scaler.transform(features), labels)
    written = {
        "source": {
            "made_by": "python -m training.tool_relevance",
            "seed": SEED,
            "examples": len(labels),
            "needed": int(labels.sum()),
            "catalogues": [c.name for c in sources],
        },
        "features": FEATURES,
        "mean": rounded(scaler.mean_),
        "scale": rounded(scaler.scale_),
        "hidden": [rounded(row) for row in model.coefs_[0]],
        "hidden_bias": rounded(model.intercepts_[0]),
        "output": rounded(model.coefs_[1][:, 0]),
        "output_bias": float(f"{model.intercepts_[1][0]:.5g}"),
    }
    options.out.write_text(json.dumps(written) + "\n")
    print(f"{options.out}: {len(labels)} examples, {int(labels.sum())} needed, loss {model.best_validation_score_:.4f} (accuracy)")


def rounded(values: NDArray[np.float64]) -> list[float]:
    """Five digits are enough and keep the file small."""
    return [float(f"{value:.5g}") for value in values]


if __name__ == "__main__":
    main()
