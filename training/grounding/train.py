"""The training loop: seeded, resumable from its last checkpoint, on CPU (bfloat16 where it has it) or GPU.

Batches hold about the same number of tokens and examples of about the same length; the learning rate warms up and falls to zero over
the token budget, so that a shorter budget is a whole training too.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from training.grounding.data import Example
from training.grounding.encoder import Encoder

MAX_TOKENS = 256
_CHECKPOINT_S = 240


@dataclass(slots=True, frozen=True)
class Settings:
    """What a training can be told."""

    tokens: int
    """Budget of all phases together, padding not counted: the learning rate falls to zero over it."""
    rate: float = 1.2e-4
    batch_tokens: int = 4096
    freeze: int = 0
    """Layers that stay as they are; the embeddings always do."""
    seed: int = 1
    warmup: float = 0.04


@dataclass(slots=True)
class Encoded:
    """An example as the model reads it."""

    ids: NDArray[np.int32]
    claim_tokens: int
    """Tokens up to and with the separator behind the claim: segment 0."""
    target: int
    example: Example


def encode(examples: Sequence[Example], tokenizer: Tokenizer, max_tokens: int = MAX_TOKENS) -> list[Encoded]:
    """Claim and evidence as one input of at most `max_tokens`; the evidence is cut first."""
    tokenizer.enable_truncation(max_tokens, strategy="only_second")
    found: list[Encoded] = []
    for start in range(0, len(examples), 2048):
        part = examples[start : start + 2048]
        pairs = [(e.claim[:700], e.evidence or "-") for e in part]
        for e, encoded in zip(part, tokenizer.encode_batch(pairs), strict=True):
            ids = np.array(encoded.ids[:max_tokens], np.int32)
            second = next((i for i, s in enumerate(encoded.sequence_ids) if s == 1), len(ids))
            found.append(Encoded(ids, second, e.target, e))
    tokenizer.no_truncation()
    return found


def batches(data: Sequence[Encoded], batch_tokens: int, rng: random.Random) -> Iterator[list[Encoded]]:
    """One pass in random order, sorted by length within pools of 4,000."""
    order = list(range(len(data)))
    rng.shuffle(order)
    for start in range(0, len(order), 4000):
        pool = sorted((data[i] for i in order[start : start + 4000]), key=lambda e: len(e.ids))
        made: list[list[Encoded]] = []
        batch: list[Encoded] = []
        for e in pool:
            if batch and (len(batch) + 1) * len(e.ids) > batch_tokens:
                made.append(batch)
                batch = []
            batch.append(e)
        made.append(batch)
        rng.shuffle(made)
        yield from made


def collate(batch: Sequence[Encoded], segments: bool, device: str = "cpu", multiple: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """``(ids, mask, types)``, each ``(batch, longest)``, where `longest` is made a multiple of so many tokens."""
    longest = -(-max(len(e.ids) for e in batch) // multiple) * multiple
    ids = np.zeros((len(batch), longest), np.int64)
    mask = np.zeros_like(ids)
    types = np.zeros_like(ids)
    for row, e in enumerate(batch):
        n = len(e.ids)
        ids[row, :n], mask[row, :n] = e.ids, 1
        if segments:
            types[row, e.claim_tokens : n] = 1
    return tuple(torch.from_numpy(a).to(device) for a in (ids, mask, types))  # type: ignore[return-value]


def loss_of(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean of `losses_of`."""
    return losses_of(logits, targets).mean()


def losses_of(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy of each row; where a target is `NOT_SUPPORTED`, that of unsupported and contradicted together."""
    logs = F.log_softmax(logits.float(), dim=-1)
    joined = torch.cat([logs, torch.logsumexp(logs[:, 1:], dim=-1, keepdim=True)], dim=-1)
    return -joined.gather(1, targets[:, None])[:, 0]


def train(
    model: Encoder,
    data: Sequence[Encoded],
    out: Path,
    settings: Settings,
    *,
    first: int = 0,
    until: int = 0,
    segments: bool = True,
    device: str = "cpu",
) -> None:
    """Train `model` in place on one phase: from `first` tokens of the budget `until` so many (all, by default).

    ``out/checkpoint.pt`` and ``out/log.jsonl`` are written on the way, and read again when it goes on.
    """
    until = until or settings.tokens
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(settings.seed)
    model.to(device).train()
    model.freeze(settings.freeze)
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in weights if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in weights if p.ndim <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98), eps=1e-6)
    done = step = 0
    checkpoint = out / "checkpoint.pt"
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done, step = saved["done"], saved["step"]
        print(f"goes on at step {step}, {done:,} tokens", flush=True)
    started = last = time.monotonic()
    begun, recent = done, []
    seen = first
    epoch = 0
    with (out / "log.jsonl").open("a") as log:
        while done < until:
            for batch in batches(data, settings.batch_tokens, random.Random(f"{settings.seed}.{first}.{epoch}")):
                size = sum(len(e.ids) for e in batch)
                seen += size
                if seen <= done:
                    continue  # an earlier session has had it
                share = min(1.0, done / settings.tokens)
                rate = settings.rate * min(1.0, (share + 1e-4) / settings.warmup) * 0.5 * (1 + math.cos(math.pi * share))
                for group in optimizer.param_groups:
                    group["lr"] = rate
                with torch.autocast(device, dtype=torch.bfloat16):
                    logits = model(*collate(batch, segments, device))
                loss = loss_of(logits, torch.tensor([e.target for e in batch], device=device))
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(weights, 1.0)
                optimizer.step()
                done, step = done + size, step + 1
                recent.append(float(loss.detach()))
                if step % 50 == 0:
                    now = time.monotonic()
                    speed = (done - begun) / (now - started)
                    line = {
                        "step": step,
                        "tokens": done,
                        "loss": round(sum(recent) / len(recent), 4),
                        "rate": rate,
                        "tokens_per_s": round(speed),
                        "left_min": round((settings.tokens - done) / speed / 60, 1),
                    }
                    print(json.dumps(line), file=log, flush=True)
                    print(json.dumps(line), flush=True)
                    recent = []
                if time.monotonic() - last > _CHECKPOINT_S or done >= until:
                    last = time.monotonic()
                    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done, "step": step}
                    torch.save(state, checkpoint.with_suffix(".tmp"))
                    checkpoint.with_suffix(".tmp").replace(checkpoint)
                if done >= until:
                    break
            epoch += 1
    model.eval()


def by_source(examples: Sequence[Example], supported: NDArray[np.floating[Any]]) -> dict[str, dict[str, float]]:
    """Balanced accuracy at 0.5 and AUROC of `supported`, the probability ``(n,)``, by source."""
    found: dict[str, dict[str, float]] = {}
    for source in sorted({e.source for e in examples}):
        at = [i for i, e in enumerate(examples) if e.source == source]
        true = np.array([examples[i].target == 0 for i in at])
        said = supported[at]
        if true.all() or not true.any():
            found[source] = {"n": len(at), "recall": float((said >= 0.5).mean())}
            continue
        recall, refused = float((said[true] >= 0.5).mean()), float((said[~true] < 0.5).mean())
        ranks = said.argsort().argsort() + 1.0
        auroc = (ranks[true].sum() - true.sum() * (true.sum() + 1) / 2) / (true.sum() * (~true).sum())
        found[source] = {"n": len(at), "balanced": (recall + refused) / 2, "recall": recall, "refused": refused, "auroc": float(auroc)}
    return found
