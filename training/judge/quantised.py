"""What is left of a judge in 8 bits: size, time of a pair on one thread, held-out figures beside those of the model it was made of."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proxy.models.verifier.onnx import session_options
from training.judge import curve
from training.judge.packed import Pack

Floats = NDArray[np.float64]


def run(path: Path, data: Pack) -> tuple[Floats, Floats]:
    """Probabilities ``(n, 3)`` of every example by the model in `path`, one at a time, and the milliseconds that each took."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), session_options(onnxruntime), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]
    found, took = np.zeros((len(data), 3)), np.zeros(len(data))
    for i in range(len(data)):
        example = data[i]
        ids = example.ids.astype(np.int64)[None]
        rows = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": (np.arange(ids.shape[1]) >= example.claim_tokens)}
        begun = time.perf_counter()
        (logits,) = session.run(None, {name: rows[name].reshape(ids.shape).astype(np.int64) for name in names})
        took[i] = 1000 * (time.perf_counter() - begun)
        powers = np.exp(logits[0].astype(np.float64) - logits[0].max())
        found[i] = powers / powers.sum()
    return found, took


def report(path: Path, data: Pack, before: Floats) -> str:
    """Sentences of size, time and figures; `before` are the probabilities in full precision."""
    after, took = run(path, data)
    lengths = data.lengths()
    return "\n".join(
        (
            f"{path}: {path.stat().st_size / 2**20:.1f} MiB",
            f"{np.median(took):.0f} ms a pair of {np.median(lengths):.0f} tokens (medians; p90 {np.quantile(took, 0.9):.0f} ms)",
            f"in full:   {curve.line(curve.point(data, before))}",
            f"in 8 bits: {curve.line(curve.point(data, after))}",
            f"the same label: {(before.argmax(1) == after.argmax(1)).mean():.3f}; mean difference of P(supported) "
            f"{np.abs(before - after)[:, 0].mean():.3f}",
        )
    )
