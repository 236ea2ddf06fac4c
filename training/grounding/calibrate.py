"""Logits -> probabilities that mean what they say: temperature, bias and a small regression with features, by language.

Fitted on half of the development split (`data.in_calibration_half`; reported are the other half and held-out sources), with claims of
its own changed in one number, unit or negation: real rows hardly have a wrong unit, and without them its feature has no weight. Within a
source supported and not supported rows weigh the same, and every source weighs the same, answers of language models checked against
passages twice: so a probability of 0.5 means even odds in a context where half of the claims hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proxy.grounding.values.consistency import FEATURES, features
from training.grounding.data import SUPPORTED, Example

LIKE_ANSWERS = frozenset(
    (
        "attributionbench",
        "expertqa",
        "clapnq",
        "bump",
        "summedits",
        "halueval_summarization",
        "mtragun_reference",
        "begin",
        "scifact",
        "xquad_en",
    )
)
FEWEST_ROWS = 150
"""A language with fewer calibration rows gets English's regression and a temperature and bias of its own."""
RIDGE = 0.001
"""Pull of the features' weights towards none, and of the logits' weights towards one."""
Floats = NDArray[np.float64]


def odds(logits: Floats) -> Floats:
    """``(n, 2)``: log odds of supported and of contradicted against unsupported."""
    return np.stack([logits[:, 0] - logits[:, 1], logits[:, 2] - logits[:, 1]], 1).astype(np.float64)


def inputs_of(examples: Sequence[Example], logits: Floats) -> Floats:
    """``(n, 2 + len(FEATURES))``"""
    extra = np.array([features(e.claim, e.evidence, e.language) for e in examples], np.float64)
    return np.concatenate([odds(logits), extra.reshape(len(examples), len(FEATURES))], 1)


def weights_of(examples: Sequence[Example]) -> Floats:
    """Of each row; their mean is 1."""
    counts: dict[tuple[str, bool], int] = {}
    for e in examples:
        key = (e.source, e.target == SUPPORTED)
        counts[key] = counts.get(key, 0) + 1
    found = np.array([(2.0 if e.source in LIKE_ANSWERS else 1.0) / max(counts[e.source, e.target == SUPPORTED], 8) for e in examples])
    return found / found.mean()


def fit(x: Floats, targets: Floats, weights: Floats, base: tuple[Floats, Floats] | None = None) -> tuple[Floats, Floats]:
    """``(weights (3, k), bias (3,))`` of a multinomial regression with row 1 at zero, near the logits as they are (or `base`)."""
    k = x.shape[1]
    start = np.zeros((3, k)), np.zeros(3)
    start[0][0, 0] = start[0][2, 1] = 1.0
    w0, b0 = base or start
    free = torch.tensor(np.delete(w0, 1, 0), requires_grad=True)
    bias = torch.tensor(np.delete(b0, 1), requires_grad=True)
    anchor = free.detach().clone()
    xs, ys, ws = torch.tensor(x), torch.tensor(targets).long(), torch.tensor(weights)
    optimizer = torch.optim.LBFGS([free, bias], max_iter=300, line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        z = xs @ free.T + bias
        z = torch.stack([z[:, 0], torch.zeros(len(z), dtype=z.dtype), z[:, 1]], 1)
        logs = torch.log_softmax(z, 1)
        joined = torch.cat([logs, torch.logsumexp(logs[:, 1:], 1, keepdim=True)], 1)
        loss = -(ws * joined.gather(1, ys[:, None])[:, 0]).mean() + RIDGE * ((free - anchor) ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return np.insert(free.detach().numpy(), 1, 0.0, 0), np.insert(bias.detach().numpy(), 1, 0.0)


def calibrations(examples: Sequence[Example], logits: Floats) -> dict[str, dict[str, Any]]:
    """``languages`` of verifier.json."""
    x, w = inputs_of(examples, logits), weights_of(examples)
    y = np.array([e.target for e in examples], np.float64)
    names = ["logit_supported", "logit_contradicted", *FEATURES]
    at = {language: np.array([e.language == language for e in examples]) for language in sorted({e.language for e in examples})}
    base = fit(x[at["en"]], y[at["en"]], w[at["en"]])
    found: dict[str, dict[str, Any]] = {}
    for language, rows in at.items():
        own = base if language == "en" or rows.sum() < FEWEST_ROWS else fit(x[rows], y[rows], w[rows], base)
        found[language] = {
            "temperature": 1.0,
            "combination": {"inputs": names, "weights": own[0].round(5).tolist(), "bias": own[1].round(5).tolist()},
        }
    return found


def probabilities(examples: Sequence[Example], logits: Floats, languages: dict[str, dict[str, Any]]) -> Floats:
    """``(n, 3)`` as the product computes them."""
    x = inputs_of(examples, logits)
    z = np.stack(
        [
            np.array(languages[e.language]["combination"]["weights"]) @ row + languages[e.language]["combination"]["bias"]
            for e, row in zip(examples, x, strict=True)
        ]
    )
    z = np.exp(z - z.max(1, keepdims=True))
    return np.asarray(z / z.sum(1, keepdims=True))
