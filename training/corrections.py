"""Makes ``proxy/stages/reflection/signals/correction_model.json``: by which words a user's message corrects the agent.

    python -m training.corrections            # half a minute on one core
    python -m training.corrections --check    # cross-validation alone, writes nothing

Trained on training/corrections.jsonl, messages that language models wrote for this project in English, German, Spanish and French, with
what the assistant had said before, labelled ``rejected``, ``override`` or neither, more than half of them negatives, most as hard as life
makes them; on the benchmark's rows that the rules were made with; and on what users said in the chats of ../shared/data that may be
trained on (`CHATS`), nearly all of it negatives as they mostly come. Every feature is one that `correction_model` computes in the proxy.
The threshold is the lowest at which, in cross-validation, at most `FALSE_ALARMS` of either sort of negatives are flagged.
``python -m benchmarks.reflection_corrections`` measures the result on messages that play no part here.
"""

from __future__ import annotations

import argparse
import base64
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.reflection_corrections import SHARED, TOOLS, messages
from benchmarks.reflection_corrections import rows as judged
from proxy.stages.reflection.signals.correction_model import BUCKETS, WEIGHTS, features
from proxy.stages.reflection.signals.corrections import prepared

DATA = Path(__file__).with_name("corrections.jsonl")
KINDS = ("", "rejected", "override")
CHATS = ("compression/tau_airline", "chats/sgd")
"""MIT, CC BY-SA 4.0."""
SPLITS = ("dev", "test", "fresh", "blind")
"""Of the benchmark's rows those that have been used before."""
FALSE_ALARMS = {"written": 0.03, "chats": 0.002}
FOLDS = 5
SEED = 20261122
STEPS, RATE, DECAY = 400, 0.3, 0.1
"""Adam's steps and rate, the rate falling to a twentieth; `DECAY` divided by the number of rows is the weight of the squares."""
Floats = NDArray[np.float64]


def written() -> list[dict[str, str]]:
    """The messages made for this, and those that the rules were made with; each a conversation of its own."""
    rows = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    rows += [row for row in judged() if row["split"] in SPLITS]
    return [row | {"sort": "written", "group": str(i)} for i, row in enumerate(rows)]


def chats() -> list[dict[str, str]]:
    """Users' messages of real chats, with the labels of those that were judged; `group` is the conversation."""
    labels = {row["id"]: row["label"] for row in judged() if row["split"] == "wild"}
    return [
        {"text": text, "said": said, "label": labels.get(id_, ""), "sort": "chats", "group": id_.rpartition("/")[0]}
        for source in CHATS
        for id_, text, said, _ in messages(source)
    ]


class Rows:
    """Messages as sparse rows of unit length."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        found = [sorted(features(*prepared(row["text"], TOOLS, row.get("said", "")))) for row in rows]
        self.sizes = np.array([len(buckets) for buckets in found])
        self.buckets = np.concatenate([np.array(buckets) for buckets in found])
        self.row = np.repeat(np.arange(len(rows)), self.sizes)
        self.values = np.repeat(1 / np.sqrt(self.sizes), self.sizes)
        self.kinds = np.array([KINDS.index(row["label"]) for row in rows])

    def logits(self, weights: Floats, bias: Floats) -> Floats:
        """``(n, 3)``."""
        sums = [np.bincount(self.row, weights[self.buckets, k] * self.values, len(self.sizes)) for k in range(3)]
        return np.stack(sums, 1) + bias

    def probabilities(self, weights: Floats, bias: Floats) -> Floats:
        """``(n, 3)``, each row's sum 1."""
        logits = self.logits(weights, bias)
        raised = np.exp(logits - logits.max(1, keepdims=True))
        found: Floats = raised / raised.sum(1, keepdims=True)
        return found

    def gradient(self, probabilities: Floats) -> tuple[Floats, Floats]:
        """Of the mean cross-entropy, by weight and by bias."""
        error = (probabilities - np.eye(3)[self.kinds]) / len(self.sizes)
        by_weight = [np.bincount(self.buckets, error[self.row, k] * self.values, BUCKETS) for k in range(3)]
        return np.stack(by_weight, 1), error.sum(0)


class Adam:
    """Kingma and Ba 2015, https://arxiv.org/abs/1412.6980."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._mean, self._square, self._step = np.zeros(shape), np.zeros(shape), 0

    def step(self, gradient: Floats, rate: float) -> Floats:
        """What to take off."""
        self._step += 1
        self._mean = 0.9 * self._mean + 0.1 * gradient
        self._square = 0.999 * self._square + 0.001 * gradient**2
        mean, square = self._mean / (1 - 0.9**self._step), self._square / (1 - 0.999**self._step)
        found: Floats = rate * mean / (np.sqrt(square) + 1e-8)
        return found


def fit(rows: Rows) -> tuple[Floats, Floats]:
    """Weights ``(BUCKETS, 3)`` and bias ``(3,)``."""
    weights, bias = np.zeros((BUCKETS, 3)), np.zeros(3)
    of_weights, of_bias = Adam(weights.shape), Adam(bias.shape)
    for step in range(STEPS):
        by_weight, by_bias = rows.gradient(rows.probabilities(weights, bias))
        rate = RATE * (1 - 0.95 * step / STEPS)
        weights -= of_weights.step(by_weight + DECAY / len(rows.sizes) * weights, rate)
        bias -= of_bias.step(by_bias, rate / 3)
    return weights, bias


def cross_validated(rows: list[dict[str, str]]) -> Floats:
    """For each row the probability of a correction, by a model that has not seen it."""
    groups = sorted({row["group"] for row in rows})
    fold_of = dict(zip(groups, np.random.default_rng(SEED).permutation(len(groups)) % FOLDS, strict=True))
    fold = np.array([fold_of[row["group"]] for row in rows])
    found = np.zeros(len(rows))
    for number in range(FOLDS):
        held = np.flatnonzero(fold == number)
        weights, bias = fit(Rows([rows[i] for i in np.flatnonzero(fold != number)]))
        found[held] = 1 - Rows([rows[i] for i in held]).probabilities(weights, bias)[:, 0]
    return found


def packed(column: Floats, scale: float) -> str:
    """Signed bytes in base64."""
    steps = np.clip(np.round(column / scale), -127, 127).astype(np.int8)
    return base64.b64encode(steps.tobytes()).decode()


def main() -> None:
    """Train, and say how well it does on rows that it has not seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="cross-validation alone, writes nothing")
    check = parser.parse_args().check
    if not all((SHARED / f"{source}.jsonl.gz").exists() for source in CHATS):
        raise SystemExit(f"this needs the chats {', '.join(CHATS)} in {SHARED}")
    rows = [*written(), *chats()]
    corrects, likely = np.array([row["label"] != "" for row in rows]), cross_validated(rows)
    measured: dict[str, dict[str, float]] = {}
    sorts = np.array([row["sort"] for row in rows])
    lowest = [np.quantile(likely[~corrects & (sorts == sort)], 1 - share, method="higher") for sort, share in FALSE_ALARMS.items()]
    threshold = round(float(max(lowest)) + 0.0005, 3)
    for sort in FALSE_ALARMS:
        flagged, mine = likely >= threshold, sorts == sort
        right, wrong = int((flagged & mine & corrects).sum()), int((flagged & mine & ~corrects).sum())
        measured[sort] = {"rows": int(mine.sum()), "corrections": int((mine & corrects).sum()), "found": right, "false alarms": wrong}
        print(f"{sort}, cross-validated at {threshold}: {measured[sort]}")
    if check:
        return
    weights, bias = fit(Rows(rows))
    weights, bias = weights - weights[:, :1], bias - bias[0]  # against "neither", whose logit is 0
    scale = float(np.quantile(np.abs(weights[weights[:, 1] != 0, 1:]), 0.999)) / 127
    source = {
        "made by": "python -m training.corrections",
        "chats": list(CHATS),
        "seed": SEED,
        "cross-validated": measured,
    }
    model = {
        "source": source,
        "buckets": BUCKETS,
        "threshold": threshold,
        "scale": scale,
        "bias": [round(float(b), 5) for b in bias[1:]],
        "rejected": packed(weights[:, 1], scale),
        "override": packed(weights[:, 2], scale),
    }
    WEIGHTS.write_text(json.dumps(model, indent=1) + "\n", "utf-8")
    print(f"{WEIGHTS}: {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
