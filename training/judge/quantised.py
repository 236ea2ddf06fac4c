"""What is left of a judge in 8 bits: size, time of a pair on one thread, held-out figures beside those of the model it was made of."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from proxy.models.verifier.onnx import session_options
from training.grounding.encoder import Encoder
from training.judge import curve, loop
from training.judge.packed import Pack

_SEED, _LOOKED_AT = 18, 32
Floats = NDArray[np.float64]


def outliers(model: Encoder, data: Pack, most: int) -> dict[str, NDArray[np.int64]]:
    """By matrix of `model` the `most` inputs that become largest on a few examples of `data`: one scale for all would be theirs alone.

    A trained encoder has a few that are twenty to forty times the others (Dettmers et al. 2022, arXiv 2208.07339).
    """
    widest: dict[str, Tensor] = {}

    def seen(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def keep(_: nn.Module, given: tuple[Tensor, ...]) -> None:
            now = given[0].detach().float().abs().amax((0, 1))
            widest[name] = torch.maximum(now, widest.get(name, now))

        return keep

    matrices = [(name, part) for name, part in model.named_modules() if isinstance(part, nn.Linear) and name.startswith("layers.")]
    hooks = [part.register_forward_pre_hook(seen(name)) for name, part in matrices]
    chosen = np.zeros(len(data), bool)
    chosen[np.random.default_rng(_SEED).choice(len(data), min(_LOOKED_AT, len(data)), replace=False)] = True
    loop.probabilities(model, data.where(chosen), "cpu")
    for hook in hooks:
        hook.remove()
    return {name: np.sort(torch.topk(value, min(most, len(value))).indices.numpy()).astype(np.int64) for name, value in widest.items()}


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
