"""Held-out figures of the judge while it learns: one point of the learning curve.

In: three probabilities a row. Out: AUROC of "supported", balanced accuracy at even odds, the share of supported rows kept and of the
others caught, for the written documents (by language, whole documents apart), for sentences of answers (structured documents and prose
apart, by language, with how often a right one ranks above its own edit) and for each source that is held out, and the accuracy of the
three labels on the written rows. Not calibrated: AUROC is the figure to steer by.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.grounding_metrics import auroc, detection
from training.grounding.data import CONTRADICTED, HELD_OUT, SUPPORTED
from training.judge import answers
from training.judge.chats import CHATS
from training.judge.packed import Pack
from training.judge.templates.examples import SOURCES as TEMPLATES
from training.judge.turns import TURNS
from training.judge.written import FOUND, FOUND_EVEN, NEAR, NEAR_EVEN, WHOLE

Floats = NDArray[np.float64]
Point = dict[str, dict[str, float]]


def chosen(development: Pack, most: dict[tuple[str, str], int] | None) -> Pack:
    """The rows of a curve: all but the whole documents, which are dear, and the short views; or so many of each view and language."""
    if most is None:
        return development.where(~np.isin(development.sources, (WHOLE, NEAR, NEAR_EVEN)))
    kept = np.zeros(len(development), bool)
    for (source, language), count in most.items():
        own = np.flatnonzero((development.sources == source) & (development.languages == language))
        kept[own[np.linspace(0, len(own) - 1, min(count, len(own))).astype(int)]] = True
    return development.where(kept)


def point(development: Pack, probabilities: Floats) -> Point:
    """The figures by name: ``written``, ``written de``, ``even``, ``near`` (short views), ``written whole``, a source, ``held-out sources``

    ``written`` and ``near`` are of ``../shared/data/judge``, ``even`` of the rows in the tree, each also by language: in one language
    ``written`` is three to seven documents but in English, too few to steer by, ``even`` thirty. The last is the sources' mean. Those of
    ``turns`` and ``chats`` are of contradictions: kept are the contradicted ones that are called so.
    """
    found: Point = {}
    judged, spoken = development.sources == FOUND, {str(name): development.languages == name for name in np.unique(development.languages)}
    names = {"written": judged} | {f"written {name}": judged & rows for name, rows in spoken.items()}
    for name, source in {"even": FOUND_EVEN, "near": NEAR, "near even": NEAR_EVEN}.items():
        rows = development.sources == source
        names |= {name: rows} | {f"{name} {language}": rows & own for language, own in spoken.items()}
    names |= {"written whole": development.sources == WHOLE, **{name: development.sources == name for name in HELD_OUT}}
    names["templates"] = np.isin(development.sources, TEMPLATES)
    for way in (answers.ALONE, answers.AFTER):
        own = np.char.startswith(development.sources, way)
        names |= {way: own} | {f"{way}/{form}": development.sources == f"{way}/{form}" for form in (answers.STRUCTURED, answers.PROSE)}
        names |= {f"{way} {name}": own & rows for name, rows in spoken.items()}
    for name, rows in names.items():
        if rows.any():
            found[str(name)] = figures(development.targets[rows], probabilities[rows])
    for name in (TURNS, CHATS):
        rows = development.sources == name
        if rows.any():
            found[name] = figures(development.targets[rows], probabilities[rows], CONTRADICTED)
    for way in (answers.ALONE, answers.AFTER):
        if way in found:
            own = np.char.startswith(development.sources, way)
            found[way]["above_own_edit"] = above_edits(development.sets[own], development.targets[own], probabilities[own, SUPPORTED])
    apart = [found[name] for name in HELD_OUT if name in found]
    if apart:
        found["held-out sources"] = {name: round(float(np.nanmean([each[name] for each in apart])), 4) for name in apart[0]}
    if judged.any():
        right = probabilities[judged].argmax(1) == development.targets[judged]
        found["written"]["accuracy_of_three"] = round(float(right.mean()), 4)
    return found


def figures(targets: NDArray[np.integer[Any]], probabilities: Floats, wanted: int = SUPPORTED) -> dict[str, float]:
    """Of rows alike, for one label against the others; NaN where a class is missing."""
    others = targets != wanted
    once = np.ones((1, len(targets)))
    called = probabilities[:, wanted] < 0.5
    rates = detection(once, others, called)
    return {
        "n": len(targets),
        "auroc": round(float(auroc(once, 1 - probabilities[:, wanted], others)[0]), 4),
        "balanced": round(float(rates["balanced"][0]), 4),
        "kept": round(float(rates["passed"][0]), 4),
        "caught": round(float(rates["recall"][0]), 4),
    }


def above_edits(sets: NDArray[np.int32], targets: NDArray[np.integer[Any]], supported: Floats) -> float:
    """How often a right form of a sentence is called supported more than a changed form of the same sentence; NaN where there are none."""
    above, pairs = 0.0, 0
    for number in np.unique(sets[sets >= 0]):
        own = sets == number
        right, changed = supported[own & (targets == SUPPORTED)][:, None], supported[own & (targets != SUPPORTED)][None]
        above += float((right > changed).sum() + 0.5 * (right == changed).sum())
        pairs += right.size * changed.size
    return round(above / pairs, 4) if pairs else float("nan")


def line(found: Point) -> str:
    """What to print: the figures to steer by."""
    return "  ".join(f"{name} {each['auroc']:.3f}/{each['balanced']:.3f}" for name, each in found.items() if name not in HELD_OUT)
