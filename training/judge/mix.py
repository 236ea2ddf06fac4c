"""Which examples the judge is shown, and how much of each kind: the share of tokens that a group of sources has in every round.

The public sources are those of `training.grounding.data`, with its evidence, its generated negatives and its held-out sources; those
named nowhere here are left out: their labels follow likeness of words (dialogue replies, whole summaries by a language model).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from training.grounding import data
from training.grounding.data import SUPPORTED, Example
from training.judge import answers, chats, turns, written
from training.judge.templates import examples as templates

TEMPLATES = "templates"
"""The group of what is made of templates."""
SHARES = {  # of the student
    answers.ALONE: 0.30,
    answers.NEAR: 0.10,
    TEMPLATES: 0.20,
    "near": 0.10,
    "found": 0.10,
    "without": 0.02,
    "inference": 0.08,
    "passages": 0.06,
    turns.TURNS: 0.02,
    chats.CHATS: 0.02,
}
"""Of the tokens, in parts: answers, what is made of templates, and written rows are more than a quarter each. Version 4 ranks answers that
training has seen with an AUROC of 0.77, held-out ones with 0.66: what is missing is other documents. With half answers and a fifth
written rows, 2.0 million tokens took German, Spanish and French written rows that are held out from an AUROC of 0.74, 0.71 and 0.77 to
0.66, 0.67 and 0.65. Answers behind their question pay least (0.585 against 0.638 alone) and are not shown. (What ships as version 3 was
trained on 9.0 million tokens without answers, 0.58 of the first 7.2 written documents; public sources alone leave a model that measures
likeness of words. Pairs of turns alone, half of 5 million tokens more, left one that sees a contradiction in whatever an answer has
nothing to do with.)"""
TEACHER_SHARES = {
    answers.ALONE: 0.44,
    answers.NEAR: 0.14,
    TEMPLATES: 0.16,
    "near": 0.07,
    "found": 0.09,
    "inference": 0.04,
    "passages": 0.06,
}
"""Of the teacher, which reads English."""
_FOUND = frozenset((written.FOUND, written.WITHOUT))
_NEAR = frozenset((written.NEAR, written.QUOTED, written.CHANGED))
"""Views that the teacher has in one group, so that they stay even (`training.judge.neutral`)."""
INFERENCE = frozenset(
    (
        "snli",
        "cad_nli",
        "conjnli",
        "breaking_nli",
        "mnli_dev",
        "taxinli",
        "semiauto_wiki",
        "rte3_french",
        "rte3_german",
        "pawsx_en",
        "pawsx_de",
        "pawsx_es",
        "pawsx_fr",
    )
)
"""Pairs of sentences, most with three labels."""
PASSAGES = frozenset(
    (
        "attributionbench",
        "bump",
        "clapnq",
        "expertqa",
        "factcg_doc",
        "fever_dev",
        "fever_symmetric",
        "fib_xsum",
        "fool_me_twice",
        "mlqa_de",
        "mtragun_reference",
        "scifact",
        "summedits",
        "tabfact_pairs",
    )
)
"""Claims against passages."""
MADE = frozenset((data.PARALLEL, data.RECORDS))
"""And everything generated from another source ("bump+")."""
MOST_MADE = 12_000
"""Most examples of the group ``made``, which has many times what is shown of it."""
CAPS = {"fib_xsum": 1000, "fever_dev": 2500, "tabfact_pairs": 1500, "mtragun_reference": 400, "snli": 3000, "semiauto_wiki": 4000}
"""Most rows of a source where `training.grounding.data.CAPS` leaves more than its share here is worth."""
DEVELOPMENT_ROWS = 60
"""Of each held-out source: the figures come every few minutes."""
_VIEWS = {
    written.NEAR: "near",
    written.QUOTED: "near",
    written.CHANGED: "near",
    written.FOUND: "found",
    written.WHOLE: "whole",
    written.WITHOUT: "without",
}


def group_of(source: str) -> str | None:
    """The group of a source in `SHARES`; None where it is not trained on."""
    if source in answers.SOURCES:
        return source.rpartition("/")[0]
    if source in templates.SOURCES:
        return TEMPLATES
    if source in _VIEWS:
        return _VIEWS[source]
    if source in (turns.TURNS, chats.CHATS):
        return source
    if source in MADE or source.endswith("+"):
        return "made"
    return "inference" if source in INFERENCE else "passages" if source in PASSAGES else None


def teacher_group_of(source: str, language: str) -> str | None:
    """The group in `TEACHER_SHARES`."""
    if language != "en":
        return None
    if source in _NEAR or source in _FOUND:
        return "near" if source in _NEAR else "found"
    return group_of(source)


def training_examples(seed: int, grounding: Path = data.FOLDER, judge: Sequence[Path] = written.FILES) -> list[Example]:
    """Everything that may be shown. Takes minutes: evidence is chosen for each public row."""
    rng = random.Random(seed)
    public = data.training_examples(seed, grounding)
    made = [e for e in public if group_of(e.source) == "made"][:MOST_MADE]
    kept = capped([e for e in public if group_of(e.source) in ("inference", "passages")], CAPS)
    said = turns.rows()
    spoken = [*turns.training(said), *chats.training(chats.chats(), said, rng)]
    own = [*written.training(written.rows(judge), rng), *spoken, *answers.training(answers.rows()), *templates.training(rng)]
    return [*kept, *made, *own]


def capped(examples: Sequence[Example], caps: dict[str, int]) -> list[Example]:
    """At most so many of a source, of each side (supported or not) at most half of that; the first are kept."""
    left = {(source, side): (most + 1) // 2 for source, most in caps.items() for side in (True, False)}
    kept = []
    for e in examples:
        key = e.source, e.target == SUPPORTED
        if key in left:
            if not left[key]:
                continue
            left[key] -= 1
        kept.append(e)
    return kept


def development_examples(seed: int, grounding: Path = data.FOLDER, judge: Sequence[Path] = written.FILES) -> list[Example]:
    """What the learning curve is measured on: written documents held out, and rows of the sources held out as a whole."""
    rng = random.Random(seed)
    found = [*written.development(written.rows(judge)), *turns.development(turns.rows()), *chats.development(chats.chats(), rng)]
    found += [*answers.development(answers.rows()), *templates.development()]
    for source in data.HELD_OUT:
        own = data.examples(source, "all", grounding)
        for e in rng.sample(own, min(DEVELOPMENT_ROWS, len(own))):
            found.append(Example(e.claim, data.evidence_for(e.claim, e.evidence), e.target, e.source, e.language, e.group))
    return found
