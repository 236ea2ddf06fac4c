"""Makes the model that tells whether two statements clash: ``python -m training.clash_model``, twenty minutes on two idle CPU cores.

It starts from the verifier as `training.grounding` leaves it, and learns from short pairs only: what somebody wants with what is
proposed to them, what one speaker says earlier and later, sentence pairs of inference sets. "contradicted" is its word for a clash.

- ``training/clash_data``, `preferences.tsv` and `statements.tsv`: written for this,
- ``../shared/data/clash``: prosecco and daccord, train splits,
- ``../shared/data/grounding``: inference pairs of short sentences, train splits.

A tenth of the blocks of ``clash_data`` (by a hash) is kept back, and reported with the dev splits of prosecco and daccord. Writes
``proxy/models/clash_model``; after it the coefficients must be fitted again: ``python -m training.clash``.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from benchmarks import clash_data
from proxy.grounding.verdicts import ClaimPair
from proxy.language import language
from proxy.models.grounding_onnx import CLASH_FOLDER, OnnxVerifier, write_card
from training.clash import INFERENCE, MAX_CHARS, PREFERENCES, STATEMENTS
from training.grounding import train
from training.grounding.data import CONTRADICTED, NOT_CONTRADICTED, SUPPORTED, UNSUPPORTED, Example
from training.grounding.encoder import Encoder
from training.grounding.export import export

BLOCKS = Path(__file__).with_name("clash_data")
SEED = 5
RATE = 8e-5
TOKENS = 2_600_000
PASSES = {"blocks": 4, "preferences": 4, "statements": 4, "debates": 4, "inference": 1}
"""How often a row is shown."""
INFERENCE_ROWS = 1500
"""Of each inference source, at most."""
SWAPPED = 0.3
"""Of the pairs, shown the other way round: a wish may come after what it is at odds with."""
STRANGERS = 0.5
"""Blocks of which the wish is also shown with a proposal of another block."""


# ---- data ----


def blocks(held_out: bool) -> Iterator[tuple[str, str, list[tuple[str, bool]]]]:
    """``(language, what was said first, [(what came later, whether it clashes)])``"""
    for path in sorted(BLOCKS.glob("*.txt")):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            lines = [line.strip() for line in block.splitlines() if line.strip()]
            if not lines or not lines[0].startswith("P: "):
                continue
            said = lines[0][3:]
            if (int(hashlib.sha256(said.encode()).hexdigest()[:8], 16) % 10 == 0) is held_out:
                yield language(said, default="en"), said, [(line[2:].strip(), line[0] == "-") for line in lines[1:] if line[:1] in "+-"]


def block_examples(held_out: bool, rng: random.Random) -> list[Example]:
    """A block's pairs, and pairs of strangers."""
    found, every = [], list(blocks(held_out))
    for tongue, said, later in every:
        found += [pair(said, text, CONTRADICTED if clashes else NOT_CONTRADICTED, "blocks", tongue) for text, clashes in later]
        other = rng.choice(every)
        if other[0] == tongue and other[1] != said and not held_out and rng.random() < STRANGERS:
            found.append(pair(said, rng.choice(other[2])[0], UNSUPPORTED, "blocks", tongue))
    return found


def pair(older: str, newer: str, target: int, source: str, tongue: str) -> Example:
    """The newer statement is the claim."""
    return Example(newer, older, target, source, tongue, older)


def preference_examples() -> Iterator[Example]:
    """preferences.tsv"""
    for line in PREFERENCES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            tongue, said, good, bad = line.split("\t")
            for texts, target in ((good, NOT_CONTRADICTED), (bad, CONTRADICTED)):
                yield from (pair(said, text, target, "preferences", tongue) for text in texts.split("|"))


def statement_examples() -> Iterator[Example]:
    """statements.tsv"""
    for line in STATEMENTS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            tongue, clashes, older, newer = line.split("\t")
            yield pair(older, newer, CONTRADICTED if clashes == "1" else NOT_CONTRADICTED, "statements", tongue)


def debate_examples(split: str) -> Iterator[Example]:
    """prosecco and daccord."""
    for source in ("prosecco", "daccord"):
        for row in clash_data.rows(f"clash/{source}", split=split):
            target = CONTRADICTED if row["contradicts"] else NOT_CONTRADICTED
            yield pair(row["earlier"], row["later"], target, "debates" if split == "train" else source, row["lang"])


def inference_examples(rng: random.Random) -> Iterator[Example]:
    """Short sentence pairs, as many of each label as there are of the rarest, up to `INFERENCE_ROWS` in all."""
    targets = {"supported": SUPPORTED, "contradicted": CONTRADICTED, "unsupported": UNSUPPORTED}
    for source in INFERENCE:
        rows = [row for row in clash_data.rows(f"grounding/{source}", split="train") if len(row["context"]) < MAX_CHARS]
        rng.shuffle(rows)
        for label, target in targets.items():
            kept = [row for row in rows if row["label"] == label][: INFERENCE_ROWS // 3]
            yield from (pair(row["context"], row["claim"], target, "inference", row["lang"]) for row in kept)


def training_examples() -> list[Example]:
    """Everything, as often as `PASSES` says, some the other way round; shuffled."""
    rng = random.Random(SEED)
    once = [
        *block_examples(False, rng), *preference_examples(), *statement_examples(), *debate_examples("train"), *inference_examples(rng),
    ]  # fmt: skip
    found = [e for e in once for _ in range(PASSES[e.source])]
    rng.shuffle(found)
    return [swapped(e) if e.target != SUPPORTED and rng.random() < SWAPPED else e for e in found]


def swapped(e: Example) -> Example:
    """The other way round; what supports something need not be supported by it."""
    return Example(e.evidence, e.claim, e.target, e.source, e.language, e.group)


# ---- making ----


def report(verifier: OnnxVerifier) -> None:
    """AUROC of "contradicted" on what was kept back."""
    for e in (examples := [*block_examples(True, random.Random(SEED)), *debate_examples("dev")]):
        assert e.target in (CONTRADICTED, NOT_CONTRADICTED)
    said = verifier.judge([ClaimPair(e.claim, e.evidence, e.language) for e in examples])
    scores = np.array([answer.contradicted if answer else np.nan for answer in said])
    for source in sorted({(e.source, e.language) for e in examples}):
        at = [i for i, e in enumerate(examples) if (e.source, e.language) == source and not np.isnan(scores[i])]
        clash = np.array([examples[i].target == CONTRADICTED for i in at])
        if clash.all() or not clash.any():
            continue
        score = scores[at]
        auroc = np.mean([(a > b) + 0.5 * (a == b) for a in score[clash] for b in score[~clash]])
        limit = np.quantile(score[~clash], 0.95)
        print(
            f"{source[0]:12} {source[1]} n {len(at):4} AUROC {auroc:.3f}  recall at 5% false positives {np.mean(score[clash] > limit):.3f}"
        )


def written(out: Path, model: Encoder, tokenizer: Tokenizer) -> OnnxVerifier:
    """The three files; the regression of `training.clash` calibrates it."""
    out.mkdir(parents=True, exist_ok=True)
    size = export(model.cpu(), out / "model.onnx")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.save(str(out / "tokenizer.json"), pretty=False)
    write_card(out, card())
    print(f"{out}: {size / 1e6:.1f} MB")
    verifier = OnnxVerifier(out, threads=torch.get_num_threads())
    verifier.load()
    return verifier


def card() -> dict[str, object]:
    """What verifier.json says beside the checksums."""
    return {
        "name": "groundwire-clash",
        "version": "1",
        "labels": ["supported", "unsupported", "contradicted"],
        "max_tokens": 256,
        "claim_share": 0.6,
        "segments": True,
        "languages": {tongue: {} for tongue in ("en", "de", "es", "fr")},
        "made_from": "the verifier of training.grounding before calibration",
        "trained_on": "training/clash_data, prosecco, daccord, inference pairs; licences in NOTICE",
        "metrics_on": "python -m benchmarks.clash",
    }


def main() -> None:
    """Train, export, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=Path("benchmarks/results/training-clash"))
    parser.add_argument(
        "--start", type=Path, default=Path("benchmarks/results/training-grounding"), help="work folder of training.grounding"
    )
    parser.add_argument("--out", type=Path, default=CLASH_FOLDER)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    given = parser.parse_args()
    if not clash_data.available():
        raise SystemExit(f"no training data in {clash_data.FOLDER}")
    start = torch.load(given.start / "grown.pt", weights_only=True)
    tokenizer = Tokenizer.from_file(str(given.start / "grown.json"))
    model = Encoder(**start["config"])
    model.load_state_dict(torch.load(given.start / "phase3" / "checkpoint.pt", weights_only=True)["model"])
    encoded: Sequence[train.Encoded] = train.encode(training_examples(), tokenizer)
    print(f"{len(encoded):,} pairs, {sum(len(e.ids) for e in encoded):,} tokens", flush=True)
    train.train(model, encoded, given.work, train.Settings(given.tokens, rate=RATE, seed=SEED))
    report(written(given.out, model, tokenizer))


if __name__ == "__main__":
    main()
