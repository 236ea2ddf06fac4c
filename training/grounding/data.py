"""Rows of ``../shared/data/grounding`` as training examples: evidence chosen as the product chooses it, sources balanced.

Each example is ``(claim, evidence, target)``; a target is an index of `LABELS`, or `NOT_SUPPORTED` where the source does not say
whether the context contradicts the claim or only lacks it: the loss then joins the two. `HELD_OUT` sources are never trained on.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proxy.grounding.evidence.pieces import cut
from proxy.grounding.evidence.retrieval import Index
from proxy.language.text import split_sentences
from training.grounding import negatives, parallel, records

FOLDER = Path("../shared/data/grounding")
SUPPORTED, UNSUPPORTED, CONTRADICTED, NOT_SUPPORTED = range(4)
HELD_OUT = ("wice", "factcheck_gpt", "mtrag_human_eval", "q2_wow", "dialfact_sample", "mlqa_es", "forum_te_german")
"""Whole sources kept away from training, to see how the model does on what it has not seen the like of."""
PARALLEL = "xquad"
"""What `training.grounding.parallel` makes."""
RECORDS = "records"
"""What `training.grounding.records` makes."""
RECORDS_MADE = 7000
ATTRIBUTED_EVERY = 16
"""One training example in so many begins with words like "According to the document"."""
CHANGES = (("number", negatives.number, 0.35), ("unit", negatives.unit, 1.0), ("negation", negatives.negation, 0.35))
"""How supported claims of the development split are changed to calibrate on, and the share of them."""
GROUP_CHARS = 200
"""Rows whose contexts begin with the same so many characters belong together."""
THREE_WAY = frozenset(
    ("breaking_nli", "cad_nli", "conjnli", "mnli_dev", "rte3_french", "rte3_german", "snli", "taxinli", "factcheck_gpt", "dialfact_sample")
)
"""Sources that tell "not mentioned" from "contradicted"; where a source calls a claim contradicted, that is taken everywhere."""
CAPS = {
    "snli": 5000,
    "cad_nli": 5000,
    "breaking_nli": 1500,
    "conjnli": 3000,
    "taxinli": 5000,
    "semiauto_wiki": 8000,
    "tabfact_pairs": 3000,
    "fever_dev": 8000,
    "halueval_qa": 4000,
    "halueval_dialogue": 2000,
    "halueval_summarization": 5000,
    "mnli_dev": 8000,
    "pawsx_en": 3000,
    "pawsx_de": 3000,
    "pawsx_es": 3000,
    "pawsx_fr": 3000,
    "begin": 3000,
    "mtragun_reference": 900,
}
"""Most rows of a source: easy, short or noisy ones would drown the rest."""
REPEATS = {
    "attributionbench": 2,
    "expertqa": 2,
    "clapnq": 2,
    "bump": 2,
    "summedits": 1,
    "scifact": 2,
    "mlqa_de": 2,
    "rte3_german": 2,
    "rte3_french": 2,
}
"""How often a row is shown: those that are most like answers checked against passages, and the languages with little data."""


@dataclass(slots=True, frozen=True)
class Example:
    """One claim with the evidence that the verifier reads."""

    claim: str
    evidence: str
    target: int
    source: str
    language: str
    group: str = ""
    """Rows of the same context share it."""
    contrast: str = ""
    """Forms of one sentence, some right and some changed, share it: they are shown together."""


def rows(source: str, folder: Path = FOLDER) -> list[dict[str, str]]:
    """All rows of a source. Raises `SystemExit` with a sentence where the data is missing."""
    path = folder / f"{source}.jsonl.gz"
    if not path.exists():
        raise SystemExit(f"{path} is missing: training needs the grounding data in {folder}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sources(folder: Path = FOLDER) -> list[str]:
    """Names of every source there."""
    found = sorted(path.name.removesuffix(".jsonl.gz") for path in folder.glob("*.jsonl.gz"))
    if not found:
        raise SystemExit(f"no data in {folder}: training and the benchmark read the grounding data from there")
    return found


def evidence_for(claim: str, context: str) -> str:
    """What the product would hand to the verifier for `claim`, without an embedder."""
    index = Index([piece.shown for piece in cut(context)])
    return index.joined(index.best(claim))


def target_of(row: dict[str, str], source: str) -> int:
    """The row's target."""
    if row["label"] == "supported":
        return SUPPORTED
    if row["label"] == "contradicted":
        return CONTRADICTED
    return UNSUPPORTED if source in THREE_WAY else NOT_SUPPORTED


def examples(source: str, split: str, folder: Path = FOLDER) -> list[Example]:
    """The rows of one split (``train``, ``dev``, or ``all``) as examples; a supported summary gives one example a sentence."""
    found: list[Example] = []
    for row in rows(source, folder):
        if split not in ("all", row["split"]):
            continue
        target = target_of(row, source)
        claims = [row["claim"]]
        if split == "train" and target == SUPPORTED and source in ("halueval_summarization", "mtrag_human_eval"):
            claims = [s.strip() for s in split_sentences(row["claim"]) if len(s.split()) > 3] or claims
        for claim in claims:
            found.append(Example(claim, row["context"], target, source, row["lang"], row["context"][:GROUP_CHARS]))
    return found


def training_examples(seed: int, folder: Path = FOLDER) -> list[Example]:
    """Everything that is trained on, with generated negatives and positives, evidence chosen; shuffled."""
    rng = random.Random(seed)
    found: list[Example] = []
    for source in sources(folder):
        if source in HELD_OUT:
            continue
        own = examples(source, "train", folder)
        rng.shuffle(own)
        own = _balanced(own, CAPS.get(source, len(own)))
        found += own * REPEATS.get(source, 1)
        found += [Example(*made, source + "+", e.language) for e, made in negatives.generated(own, rng)]
    found += [Example(*made[:3], PARALLEL, made[3]) for made in parallel.made("train", seed, folder.with_name("relevance"))]
    found += [Example(*made[:3], RECORDS, made[3]) for made in records.made(RECORDS_MADE, rng)]
    rng.shuffle(found)
    for i in range(0, len(found), ATTRIBUTED_EVERY):
        found[i] = replace(found[i], claim=negatives.attributed(found[i].claim, found[i].language, rng))
    return [Example(e.claim, evidence_for(e.claim, e.evidence), e.target, e.source, e.language) for e in found]


def _balanced(own: Sequence[Example], cap: int) -> list[Example]:
    """At most `cap` of `own`, as near to half supported as they allow."""
    if len(own) <= cap:
        return list(own)
    supported = [e for e in own if e.target == SUPPORTED]
    others = [e for e in own if e.target != SUPPORTED]
    n = min(len(supported), max(cap // 2, cap - len(others)))
    return supported[:n] + others[: cap - n]


def in_calibration_half(context: str) -> bool:
    """Whether a development row is for calibration: by a hash of its context's beginning, which keeps rows of one context together.

    Salted: the splits of the data are made by a hash of the context too.
    """
    return int(hashlib.sha1(f"calibration {context[:GROUP_CHARS]}".encode(), usedforsecurity=False).hexdigest()[:8], 16) % 2 == 0


def development_examples(per_source: int, seed: int, folder: Path = FOLDER) -> Iterator[Example]:
    """Up to `per_source` rows of each source's development split, and of the held-out sources as a whole."""
    rng = random.Random(seed)
    for source in sources(folder):
        own = examples(source, "all" if source in HELD_OUT else "dev", folder)
        for e in rng.sample(own, min(per_source, len(own))):
            yield Example(e.claim, evidence_for(e.claim, e.evidence), e.target, e.source, e.language, e.evidence[:GROUP_CHARS])
    own = [Example(*made[:3], f"{PARALLEL}_{made[3]}", made[3]) for made in parallel.made("dev", seed, folder.with_name("relevance"))]
    rng.shuffle(own)
    for source in sorted({e.source for e in own}):
        for e in [e for e in own if e.source == source][:per_source]:
            yield Example(e.claim, evidence_for(e.claim, e.evidence), e.target, e.source, e.language, e.evidence[:GROUP_CHARS])


def changed_examples(own: Sequence[Example], seed: int) -> Iterator[Example]:
    """Supported claims in other words than their evidence's, with one thing changed and as they were; none of held-out sources."""
    rng = random.Random(seed)
    for e in own:
        if e.target != SUPPORTED or e.claim in e.evidence or e.source in HELD_OUT:
            continue
        for kind, change, share in CHANGES:
            made = change(e.claim, e.evidence, e.language, rng)
            if made is not None and made[0] != e.claim and rng.random() < share:
                yield replace(e, claim=made[0], target=made[2], source=f"changed_{kind}")
                yield replace(e, source=f"changed_{kind}")
