"""A low-rank difference to the shipped judge for pairs of turns: can both be true of one person now?

    python -m training.judge.clash pack       pairs, tokenised, and what the frozen lower layers make of them
    python -m training.judge.clash linear     the first baseline: a regression over the encoder's first token
    python -m training.judge.clash train      the difference (Hu et al. 2021, arXiv 2106.09685), resumable, with a learning curve
    python -m training.judge.clash export     the last checkpoint as ``clash.onnx``

The pairs are those of `training.judge.clash_pairs`, the difference that of `training.judge.low_rank`. The folder, ``groundwire/clash`` in
the user's cache, has the packs, ``checkpoint.pt`` and ``curve.jsonl``.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor, nn

from proxy.models.verifier.onnx import FOLDER as SHIPPED
from training.grounding.data import CONTRADICTED
from training.grounding.encoder import Encoder
from training.judge import chats, packed, start, turns
from training.judge.clash_pairs import ANSWERS, MADE, SEED, development_examples, training_examples
from training.judge.loop import fast_in_16_bits
from training.judge.low_rank import FIRST, RANK, export, losses, upper, with_difference

FOLDER = Path.home() / ".cache" / "groundwire" / "clash"
MAX_TOKENS = 160
RATE = 1e-3
BATCH_TOKENS = 3072
SHARES = {turns.TURNS: 1.0, MADE: 0.5, ANSWERS: 0.7, chats.CHATS: 0.3, "inference": 0.4, "statements": 0.7}
"""Share of each group that a pass shows."""
Floats = NDArray[np.float64]


# ---- what the lower layers make of pairs ----


def lower(model: Encoder, pack: packed.Pack, path: Path, first: int = FIRST) -> None:
    """Write it, 16 bits a number, ``(tokens, hidden)``."""
    out = np.lib.format.open_memmap(path, "w+", np.float16, (len(pack.ids), model.config["hidden"]))
    order = np.argsort(pack.lengths(), kind="stable")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast_in_16_bits("cpu")):
        for begin in range(0, len(order), 64):
            rows = order[begin : begin + 64]
            ids, mask, types = _inputs(pack, rows)
            x = model.norm(model.word(ids) + model.position(torch.arange(ids.shape[1]))[None] + model.segment(types))
            for layer in model.layers[:first]:
                x = layer(x, mask.bool()[:, None, None, :])
            for row, value in zip(rows, x.float().numpy().astype(np.float16), strict=True):
                out[pack.starts[row] : pack.starts[row + 1]] = value[: pack.starts[row + 1] - pack.starts[row]]
    out.flush()


def _inputs(pack: packed.Pack, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
    longest = int(pack.lengths()[rows].max())
    ids, mask, types = (np.zeros((len(rows), longest), np.int64) for _ in range(3))
    for i, row in enumerate(rows):
        example = pack[int(row)]
        ids[i, : len(example.ids)], mask[i, : len(example.ids)] = example.ids, 1
        types[i, example.claim_tokens : len(example.ids)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(types)


def _hidden(pack: packed.Pack, made: NDArray[np.float16], rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    longest = int(pack.lengths()[rows].max())
    x = np.zeros((len(rows), longest, made.shape[1]), np.float32)
    mask = np.zeros((len(rows), longest), np.int64)
    for i, row in enumerate(rows):
        part = made[pack.starts[row] : pack.starts[row + 1]]
        x[i, : len(part)], mask[i, : len(part)] = part, 1
    return torch.from_numpy(x), torch.from_numpy(mask)


# ---- figures ----


def figures(pack: packed.Pack, p: Floats) -> dict[str, dict[str, float]]:
    """By group of held-out pairs: AUROC of the contradiction, and what is found with 3 and 1 of 100 others taken for one.

    A pair's score is the less sure of the two ways round, or the mean of their log odds.
    """
    odds = np.log(p[:, CONTRADICTED] + 1e-9) - np.log1p(-p[:, CONTRADICTED] + 1e-9)
    truth = pack.targets[::2] == CONTRADICTED
    found: dict[str, dict[str, float]] = {}
    groups = {source: pack.sources[::2] == source for source in dict.fromkeys(pack.sources.tolist())}
    for kind, tongues in ((turns.TURNS, ("en", "de", "es", "fr")), (ANSWERS, ("en", "de", "es", "fr", "it", "pt"))):
        groups |= {f"{kind} {tongue}": (pack.languages[::2] == tongue) & groups[kind] for tongue in tongues}
    for name, mine in groups.items():
        line: dict[str, float] = {"n": int(mine.sum())}
        for how, score in (("least", np.minimum(odds[::2], odds[1::2])), ("mean", (odds[::2] + odds[1::2]) / 2)):
            good, bad = score[mine & truth], np.sort(score[mine & ~truth])
            line[f"auroc {how}"] = float((np.searchsorted(bad, good, "left") + np.searchsorted(bad, good, "right")).mean() / 2 / len(bad))
            line |= {f"at {100 * share:.0f}% {how}": float((good > np.quantile(bad, 1 - share)).mean()) for share in (0.03, 0.01)}
        found[name] = {key: round(value, 4) for key, value in line.items()}
    return found


def shown(found: dict[str, dict[str, float]]) -> str:
    """On a line a group."""
    return "\n".join(f"  {name:12}" + "  ".join(f"{key} {value:.3f}" for key, value in line.items()) for name, line in found.items())


# ---- steps ----


def make_pack() -> None:
    """``train.npz``, ``development.npz``, each with its ``.npy``."""
    torch.manual_seed(SEED)
    model, _ = start.shipped(SHIPPED)
    for name, examples in (("development", development_examples()), ("train", training_examples())):
        pack = packed.pack(examples, Tokenizer.from_file(str(SHIPPED / "tokenizer.json")), MAX_TOKENS)
        pack.save(FOLDER / f"{name}.npz")
        begun = time.monotonic()
        for group in dict.fromkeys(pack.sources.tolist()):
            mine = pack.sources == group
            clashing, size = int((pack.targets[mine] == CONTRADICTED).sum()), pack.lengths()[mine].sum()
            print(f"{name} {group}: {mine.sum()} pairs, {clashing} clash, {size:,} tokens")
        lower(model.eval(), pack, FOLDER / f"{name}.npy")
        print(f"{len(pack.ids):,} tokens in {time.monotonic() - begun:.0f} s", flush=True)


def read(name: str) -> tuple[packed.Pack, NDArray[np.float16]]:
    """A pack, and what the lower layers made of it."""
    return packed.Pack.load(FOLDER / f"{name}.npz"), np.load(FOLDER / f"{name}.npy", mmap_mode="r")


def probabilities(model: Encoder, pack: packed.Pack, made: NDArray[np.float16], part: Any = None) -> Floats:
    """``(n, 3)``, or what `part` makes of the first token."""
    order, found = np.argsort(pack.lengths(), kind="stable"), []
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast_in_16_bits("cpu")):
        for begin in range(0, len(order), 64):
            x, mask = _hidden(pack, made, order[begin : begin + 64])
            if part is None:
                found.append(torch.softmax(upper(model, x, mask).float(), -1).double().numpy())
            else:
                for layer in model.layers[FIRST:]:
                    x = layer(x, mask.bool()[:, None, None, :])
                found.append(part(x, mask))
    out = np.zeros((len(pack), found[0].shape[1]))
    out[order] = np.concatenate(found)
    return out


def linear() -> None:
    """The shipped verifier, and heads over its last layer."""
    model, _ = start.shipped(SHIPPED)
    model.eval()
    (train, train_made), (held, held_made) = read("train"), read("development")
    print(f"shipped\n{shown(figures(held, probabilities(model, held, held_made)))}", flush=True)
    chosen = np.sort(np.random.default_rng(SEED).choice(len(train), 16_000, replace=False))
    keep = np.zeros(len(train), bool)
    keep[chosen] = True
    rows = np.repeat(keep, train.lengths())
    part = train.where(keep)

    def pooled(x: Tensor, mask: Tensor) -> Floats:
        mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return torch.cat([x[:, 0], torch.tanh(model.pooler(x[:, 0])), mean], -1).double().numpy()

    seen = probabilities(model, part, train_made[rows], pooled)
    unseen = probabilities(model, held, held_made, pooled)
    middle, spread = seen.mean(0), seen.std(0) + 1e-6
    given, asked = (torch.tensor((each - middle) / spread, dtype=torch.float32) for each in (seen, unseen))
    targets = torch.tensor(part.targets.astype(np.int64))
    for name, head in (
        ("linear", nn.Linear(given.shape[1], 3)),
        ("two layers", nn.Sequential(nn.Linear(given.shape[1], 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 3))),
    ):
        optimizer = torch.optim.AdamW(head.parameters(), lr=1e-3, weight_decay=0.05)
        for _ in range(12):
            for rows_ in torch.randperm(len(given)).split(256):
                optimizer.zero_grad()
                losses(head(given[rows_]), targets[rows_]).mean().backward()
                optimizer.step()
        head.eval()
        p = torch.softmax(head(asked), -1).detach().double().numpy()
        print(f"{name}\n{shown(figures(held, p))}", flush=True)


def batches(pack: packed.Pack, number: int) -> list[NDArray[np.int64]]:
    """A pass: of each group its share, pairs of about one length together."""
    rng = np.random.default_rng((SEED, number))
    kept = rng.random(len(pack)) < np.array([SHARES[source] for source in pack.sources.tolist()])
    order = rng.permutation(np.flatnonzero(kept))
    lengths, made = pack.lengths(), []
    for begin in range(0, len(order), 3000):
        pool = order[begin : begin + 3000]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        cuts, size = [], 0
        for i, row in enumerate(pool):
            if (size + 1) * lengths[row] > BATCH_TOKENS:
                cuts.append(i)
                size = 0
            size += 1
        made += np.split(pool, cuts)
    return [made[i] for i in rng.permutation(len(made))]


def train(tokens: int, measure_tokens: int, rank: int, rate: float) -> None:
    """Until so many `tokens` are seen, the rate falling over all of them; a checkpoint at each measurement, and at SIGTERM."""
    torch.manual_seed(SEED)
    (pack, made), (held, held_made) = read("train"), read("development")
    model, _ = start.shipped(SHIPPED)
    with_difference(model, rank=rank)
    heads = [*model.pooler.parameters(), *model.head.parameters()]
    pairs = [p for p in model.parameters() if p.requires_grad and all(p is not each for each in heads)]
    optimizer = torch.optim.AdamW(
        [{"params": pairs, "top": rate}, {"params": heads, "top": rate / 4}], lr=rate, weight_decay=0.01, betas=(0.9, 0.98)
    )
    state = {"tokens": 0, "pass": 0, "batch": 0}
    path = FOLDER / "checkpoint.pt"
    if path.exists():
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["trained"], strict=False)
        optimizer.load_state_dict(saved["optimizer"])
        state = saved["state"]
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stop.append(number))
    measured, begun = state["tokens"], time.monotonic()
    while state["tokens"] < tokens and not stop:
        order = batches(pack, state["pass"])
        for i in range(state["batch"], len(order)):
            rows = order[i]
            share = state["tokens"] / tokens
            for group in optimizer.param_groups:
                group["lr"] = group["top"] * min(1.0, share / 0.03 + 0.01, 1.0 - share + 1e-3)
            x, mask = _hidden(pack, made, rows)
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=fast_in_16_bits("cpu")):
                logits = upper(model, x, mask)
            loss = losses(logits, torch.tensor(pack.targets[rows].astype(np.int64))).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_([*pairs, *heads], 1.0)
            optimizer.step()
            state |= {"tokens": state["tokens"] + int(pack.lengths()[rows].sum()), "batch": i + 1}
            if i % 20 == 0:
                print(f"{state} loss {float(loss):.3f} {time.monotonic() - begun:.0f} s", flush=True)
            if state["tokens"] - measured >= measure_tokens or state["tokens"] >= tokens or stop:
                measured = state["tokens"]
                trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
                torch.save({"trained": trained, "optimizer": optimizer.state_dict(), "state": state}, path.with_suffix(".tmp"))
                path.with_suffix(".tmp").replace(path)
                found = figures(held, probabilities(model, held, held_made))
                with (FOLDER / "curve.jsonl").open("a") as out:
                    print(json.dumps({"tokens": measured, "figures": found}), file=out)
                print(f"{measured:,} tokens\n{shown(found)}", flush=True)
            if state["tokens"] >= tokens or stop:
                break
        else:
            state |= {"pass": state["pass"] + 1, "batch": 0}


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("pack", "linear", "train", "export"))
    parser.add_argument("--tokens", type=int, default=2_500_000)
    parser.add_argument("--measure-tokens", type=int, default=250_000)
    parser.add_argument("--rank", type=int, default=RANK)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.step == "train":
        train(given.tokens, given.measure_tokens, given.rank, given.rate)
    elif given.step == "export":
        export(FOLDER / "checkpoint.pt", given.out)
    else:
        {"pack": make_pack, "linear": linear}[given.step]()


if __name__ == "__main__":
    main()
