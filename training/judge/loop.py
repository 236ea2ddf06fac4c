"""The judge's training: bfloat16 where that is faster, one thread or a GPU, resumable at any step, budget open.

The learning rate warms up, stays, and falls to nothing over the last part of the token budget (warm-up, stable, decay; Hu et al. 2024,
arXiv 2404.06395): a budget that turns out larger or smaller is told with the next call and wastes nothing of what is done. What is
measured and used is a running average of the weights, which while the rate is high is worth most of what its fall is worth (Hägele et al.
2024, arXiv 2405.18392): a training that is stopped anywhere has a model. Stops at SIGTERM, SIGINT, or when its minutes are over, with a
checkpoint each time.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.grounding.encoder import Encoder
from training.grounding.train import collate, losses_of
from training.judge import curve, start
from training.judge.packed import Pack, Rounds
from training.judge.soft import Soft

ROUND_TOKENS = 120_000
ROWS, LENGTHS = 4, 16
"""What the rows of a batch, and the tokens of a row, are filled up to a multiple of."""
LOG_STEPS = 10
WARM_UP_TOKENS = 120_000
RATE = 1e-4
MEASURE_MINUTES = 25.0
DECAY = 0.3
TEACHERS_SHARE = 0.6
"""Of the loss, where the teacher has an opinion."""
AVERAGED_STEPS = 60
"""The average of the weights forgets by so many steps: early ones are a tenth as many, so that it does not drag the start along."""
Floats = NDArray[np.float64]


@dataclass(slots=True, frozen=True)
class Settings:
    """What a call of the training can be told."""

    tokens: int
    """Budget of all calls together, padding not counted."""
    rate: float = RATE
    batch_tokens: int = 4096
    freeze: int = 0
    """Layers that stay as they are in the start; the embeddings always do."""
    dropout: float = 0.0
    """Of what each trained layer adds, the share that a step leaves out (Srivastava et al. 2014)."""
    seed: int = 18
    minutes: float = 0.0
    """How long this call may take; 0: until the budget is used up."""
    decay: float = DECAY
    """Share of the budget, at its end, over which the rate falls."""
    measure_minutes: float = MEASURE_MINUTES
    checkpoint_minutes: float = 8.0
    device: str = "cpu"


class Training:
    """A model on its way. `folder` has ``checkpoint.pt``, ``log.jsonl`` (steps), ``curve.jsonl`` (held-out figures) and ``pid``."""

    def __init__(
        self,
        model: Encoder,
        rounds: Rounds,
        data: Pack,
        development: Pack,
        folder: Path,
        settings: Settings,
        soft: Soft | None = None,
    ) -> None:
        """`soft`: a teacher's probabilities of each example of `data`, NaN where there is none."""
        self._model, self._rounds, self._data, self._development = model.to(settings.device), rounds, data, development
        self._soft = np.full((len(data), 3), np.nan, np.float16) if soft is None else soft
        self._folder, self._settings = folder, settings
        model.freeze(settings.freeze, settings.dropout)  # the words stay: few are seen often enough to be learnt here
        self._weights = [p for p in model.parameters() if p.requires_grad]
        groups = [
            {"params": [p for p in self._weights if p.ndim > 1], "weight_decay": 0.01},
            {"params": [p for p in self._weights if p.ndim <= 1], "weight_decay": 0.0},
        ]
        self._average = self._copied()
        self._optimizer = torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98), eps=1e-6)
        self._state = {"tokens": 0, "step": 0, "round": 0, "batch": 0, "examples": len(data)}
        self._stop = False
        self._losses: list[float] = []

    def run(self) -> str:
        """Train; why it ended: ``budget``, ``minutes`` or ``signal``. Raises `SystemExit` where another process trains in the folder."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._claim_folder()
        before = {number: signal.signal(number, self._asked_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            return self._run()
        finally:
            (self._folder / "pid").unlink()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _run(self) -> str:
        self._resume()
        begun = measured = kept = logged = time.monotonic()
        if not self._state["step"]:
            self._measure()
        self._model.train()
        while (why := self._why_to_stop(begun)) is None:
            logged = self._step(logged)
            now = time.monotonic()
            if now - kept > self._settings.checkpoint_minutes * 60:
                self._save()
                kept = now
            if now - measured > self._settings.measure_minutes * 60:
                self._measure()
                measured = logged = time.monotonic()
        self._save()
        if why != "signal":
            self._measure()
        return why

    def _why_to_stop(self, begun: float) -> str | None:
        if self._stop:
            return "signal"
        if self._state["tokens"] >= self._settings.tokens:
            return "budget"
        over = self._settings.minutes and time.monotonic() - begun >= self._settings.minutes * 60
        return "minutes" if over else None

    def _asked_to_stop(self, number: int, frame: Any) -> None:
        self._stop = True

    def _claim_folder(self) -> None:
        path = self._folder / "pid"
        other = path.read_text().strip() if path.exists() else ""
        if other and Path(f"/proc/{other}").exists():
            raise SystemExit(f"process {other} trains in {self._folder}: stop it with kill -TERM, or name another --folder")
        path.write_text(f"{os.getpid()}\n")

    def _step(self, logged: float) -> float:
        batches = list(self._rounds.batches(self._state["round"], self._settings.batch_tokens))
        places = batches[self._state["batch"]]
        chosen = [self._data[i] for i in places]
        for group in self._optimizer.param_groups:
            group["lr"] = rate_at(self._state["tokens"], self._settings)
        targets = torch.tensor([e.target for e in chosen], device=self._settings.device)
        torch.manual_seed(self._settings.seed + self._state["step"])  # what is left out is the same after a stop
        soft = torch.tensor(self._soft[places].astype(np.float32), device=self._settings.device)
        loss = distilled(logits(self._model, chosen, self._settings.device), targets, soft)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._weights, 1.0)
        self._optimizer.step()
        self._average_in()
        self._losses.append(float(loss.detach()))
        size = sum(len(e.ids) for e in chosen)
        self._state["tokens"] += size
        self._state["step"] += 1
        self._state["batch"] += 1
        if self._state["batch"] == len(batches):
            self._state["round"], self._state["batch"] = self._state["round"] + 1, 0
        if self._state["step"] % LOG_STEPS:
            return logged
        now = time.monotonic()
        self._log(
            "log.jsonl",
            {
                **self._state,
                "loss": round(float(np.mean(self._losses)), 4),
                "rate": group["lr"],
                "seconds": round(now - logged, 1),
                "tokens_of_last_step": size,
            },
        )
        self._losses.clear()
        return now

    def _copied(self) -> dict[str, Tensor]:
        return {name: weight.detach().clone() for name, weight in self._model.named_parameters() if weight.requires_grad}

    @torch.no_grad()
    def _average_in(self) -> None:
        weights = dict(self._model.named_parameters())
        share = 1 / averaged_over(self._state["step"])
        for name, mean in self._average.items():
            mean.lerp_(weights[name], share)

    @torch.no_grad()
    def _swap(self) -> None:
        """The average in the place of the weights, or back."""
        weights = dict(self._model.named_parameters())
        for name, mean in self._average.items():
            held = weights[name].clone()
            weights[name].copy_(mean)
            mean.copy_(held)

    def _measure(self) -> None:
        started = time.monotonic()
        self._swap()
        found = curve.point(self._development, probabilities(self._model, self._development, self._settings.device))
        self._swap()
        self._model.train()
        self._log("curve.jsonl", {"tokens": self._state["tokens"], "seconds": round(time.monotonic() - started, 1), "figures": found})
        print(f"{self._state['tokens']:,} tokens, AUROC/balanced accuracy: {curve.line(found)}", flush=True)

    def _log(self, name: str, given: dict[str, Any]) -> None:
        with (self._folder / name).open("a") as out:
            print(json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%S"), **given}), file=out)
        if name == "log.jsonl":
            print(json.dumps(given), flush=True)

    def _save(self) -> None:
        path = self._folder / "checkpoint.pt"
        state = {
            "model": self._model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "state": self._state,
            "average": self._average,
        }
        torch.save(state, path.with_suffix(".tmp"))
        path.with_suffix(".tmp").replace(path)

    def _resume(self) -> None:
        path = self._folder / "checkpoint.pt"
        if not path.exists():
            return
        saved = torch.load(path, map_location=self._settings.device, weights_only=True)
        self._model.load_state_dict(saved["model"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._average = saved.get("average") or self._copied()
        self._state = saved["state"]
        if self._state.get("examples") != len(self._data):  # packed anew with more rows: the round that was begun is another one now
            self._state |= {"examples": len(self._data), "batch": 0}
        print(f"goes on at step {self._state['step']}, {self._state['tokens']:,} tokens", flush=True)


def trained(folder: Path, start_share: float = 0.0) -> Encoder:
    """The averaged model of the folder's checkpoint; else of the pieces in ``weights/``; else its start.

    `start_share` of each weight is the start's, the rest of it the trained one's.
    """
    model = start.load(folder / "pack" / "start.npz")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    if (folder / "weights").is_dir():
        start.read_pieces(model, folder / "weights")
    if (folder / "checkpoint.pt").exists():
        saved = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
        model.load_state_dict({**saved["model"], **saved.get("average", {})})
    if start_share:
        after = model.state_dict()
        model.load_state_dict({k: w.lerp(before[k], start_share) if w.is_floating_point() else w for k, w in after.items()})
    return model


def rate_at(tokens: int, settings: Settings) -> float:
    """The learning rate after so many tokens."""
    left = (settings.tokens - tokens) / (settings.decay * settings.tokens)
    return settings.rate * min(1.0, (tokens + 1000) / WARM_UP_TOKENS, max(left, 0.0))


def averaged_over(step: int) -> float:
    """How many steps the average of the weights is of, about, after so many steps."""
    return min(AVERAGED_STEPS, 1 + step / 10)


def distilled(logits: Tensor, targets: Tensor, soft: Tensor) -> Tensor:
    """`losses_of` in the mean; where a row of `soft`, ``(n, 3)``, is not NaN, `TEACHERS_SHARE` of it is to agree with that."""
    asked = ~soft[:, 0].isnan()
    share = TEACHERS_SHARE * asked.float()
    away = -(torch.where(asked[:, None], soft, torch.zeros_like(soft)) * torch.log_softmax(logits, -1)).sum(-1)
    return ((1 - share) * losses_of(logits, targets) + share * away).mean()


def logits(model: Encoder, chosen: list[Any], device: str) -> Tensor:
    """``(n, 3)`` in 32 bits. In few shapes: a CPU's products are compiled anew for each, which took a third of the teacher's time."""
    filled = [*chosen, *chosen[:1] * (-len(chosen) % ROWS)]
    with torch.autocast(device, dtype=torch.bfloat16, enabled=fast_in_16_bits(device)):
        found: Tensor = model(*collate(filled, segments=True, device=device, multiple=LENGTHS))
    return found.float()[: len(chosen)]


@cache
def fast_in_16_bits(device: str) -> bool:
    """Whether products in bfloat16 pay: on a GPU, and on a CPU where they do when tried (several times as fast as 32 bits with AMX,
    2.5 times with AVX-512's own, 0.7 times without either).
    """
    if device != "cpu":
        return True
    layer, given = torch.nn.Linear(384, 1536), torch.randn(2048, 384)
    return _seconds(layer, given, in_16_bits=True) < _seconds(layer, given, in_16_bits=False)


def _seconds(layer: torch.nn.Linear, given: Tensor, *, in_16_bits: bool) -> float:
    """Processor time of a step there and back, the least of a few: other processes may have the core for a while."""
    took = []
    for _ in range(4):
        begun = time.process_time()
        with torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=in_16_bits):
            layer(given).float().sum().backward()
        took.append(time.process_time() - begun)
    return min(took[1:])


def probabilities(model: Encoder, data: Pack, device: str, batch: int = 16) -> Floats:
    """``(n, 3)`` of every example, in their order."""
    model.eval()
    found = np.zeros((len(data), 3))
    order = np.argsort(data.lengths(), kind="stable")
    with torch.no_grad():
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            found[rows] = torch.softmax(logits(model, [data[int(i)] for i in rows], device), -1).double().cpu().numpy()
    return found
