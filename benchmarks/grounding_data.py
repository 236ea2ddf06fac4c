"""Rows of ``../shared/data/grounding`` as pairs of a claim and its context, for `benchmarks.grounding`.

A source that was trained on gives the half of its development split that calibration has not seen, one
that was held out (`training.grounding.data.HELD_OUT`) all its rows.
What thresholds of baselines are fitted on comes from the training split of the former.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from training.grounding.data import HELD_OUT, evidence_for, in_calibration_half

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "grounding"
WHOLE_ANSWERS = ("halueval_summarization", "mtrag_human_eval", "clapnq")
"""Sources whose claims are answers of several sentences."""
LENGTHS = (300, 1000)
"""Tokens of context (o200k_base) between which short, middle and long contexts are told apart."""


@dataclass(slots=True, frozen=True)
class Pair:
    """A claim with all that it may rest on."""

    claim: str
    context: str
    language: str = "en"
    label: str = "supported"
    """``supported``, ``unsupported`` or ``contradicted``."""
    source: str = ""
    kinds: tuple[str, ...] = ()
    """Kinds of error, where the source tells them."""

    @property
    def positive(self) -> bool:
        """Whether it is not supported."""
        return self.label != "supported"

    @property
    def group(self) -> str:
        """What is resampled together: rows of the same source and context, ClapNQ's by title (their contexts are cut differently)."""
        return f"{self.source} {self.context.partition(chr(10))[0] if self.source == 'clapnq' else self.context}"

    @property
    def held_out(self) -> bool:
        return self.source in HELD_OUT


def available() -> bool:
    """Whether the data is there."""
    return FOLDER.is_dir() and bool(sources())


def sources() -> list[str]:
    return sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDER.glob("*.jsonl.gz"))


def revision() -> str:
    """First letters of a hash over all files."""
    digest = hashlib.sha256()
    for source in sources():
        digest.update((FOLDER / f"{source}.jsonl.gz").read_bytes())
    return digest.hexdigest()[:12]


@cache
def rows(source: str, split: str) -> tuple[Pair, ...]:
    """The pairs of ``train``, ``dev`` or ``all``."""
    with gzip.open(FOLDER / f"{source}.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [row for row in map(json.loads, lines) if split in ("all", row["split"])]
    if split == "dev":
        found = [row for row in found if not in_calibration_half(row["context"])]
    return tuple(
        Pair(row["claim"], row["context"], row["lang"], row["label"], source, kinds_of(source, row["orig_label"], row["label"]))
        for row in found
    )


def measured(source: str) -> tuple[Pair, ...]:
    """The pairs that may be measured on."""
    return rows(source, "all" if source in HELD_OUT else "dev")


def sample(source: str, split: str, count: int | None, seed: int) -> list[Pair]:
    """At most `count` pairs, drawn at random; those of a held-out source are all taken where `count` is None."""
    own = rows(source, split)
    return list(own) if count is None or len(own) <= count else random.Random(f"{seed} {source}").sample(own, count)


def kinds_of(source: str, original: object, label: str) -> tuple[str, ...]:
    """Kinds of error out of the label that the source gives."""
    told = str(original or "")
    if label == "supported":
        return ()
    if source == "bump":
        return (told.removesuffix(" Error").lower(),)
    if source == "summedits":
        return tuple(kind for kind in re.split(r", ?", told.removeprefix("inconsistent: ")) if kind)
    if source == "breaking_nli":
        return (told.partition("/")[2],)
    if source in ("wice", "expertqa", "mlqa_de", "mlqa_es"):
        return (told,)
    return ()


@cache
def evidence(claim: str, context: str) -> str:
    """What a baseline with a short input reads: the selection that the verifier was trained on."""
    return evidence_for(claim, context)


def length_class(tokens: int) -> str:
    short, long = LENGTHS
    return f"below {short}" if tokens < short else f"{short} to {long}" if tokens < long else f"{long} and more"
