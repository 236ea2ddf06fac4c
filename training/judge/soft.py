"""The teacher's opinion of the student's examples: three probabilities each, kept beside the student's pack.

``texts.jsonl.gz`` beside a pack has its examples as text, since teacher and student do not share a tokenizer. `opinions` goes through
those worth asking about, written pairs first, for as long as it is given, and goes on from there the next time: ``soft.npy``,
``(n, 3)`` in 16 bits, NaN where the teacher has not been asked. It is asked about English alone, which is what it reads.
"""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.grounding.data import Example

ORDER = ("near", "found", "without", "passages", "inference")
"""Groups of the student's mix that the teacher is asked about, the first first."""
_CHUNK = 512
"""Examples between two savings."""
Floats = NDArray[np.float64]
Soft = NDArray[np.float16]


def write_texts(examples: Sequence[Example], groups: Sequence[str | None], folder: Path) -> None:
    """Keep `examples`, each with its group, in the order of the pack ``folder/pack``."""
    with gzip.open(folder / "texts.jsonl.gz", "wt", encoding="utf-8") as out:
        for e, group in zip(examples, groups, strict=True):
            out.write(json.dumps([e.claim, e.evidence, e.language, group], ensure_ascii=False) + "\n")


def read(pack: Path, count: int) -> Soft | None:
    """The opinions on a pack of `count` examples; None where there are none. Raises `SystemExit` where they belong to another pack."""
    path = pack / "soft.npy"
    if not path.exists():
        return None
    found: Soft = np.load(path)
    if len(found) != count:
        raise SystemExit(f"{path} has opinions on {len(found):,} examples, the pack has {count:,}: remove it, or pack as before")
    return found


def opinions(folder: Path, judge: Callable[[list[tuple[str, str]]], Floats], minutes: float) -> int:
    """Ask `judge` about the pack ``folder/pack``; how many examples are left that it has not been asked about."""
    with gzip.open(folder / "texts.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line) for line in lines]
    pack = folder / "pack"
    soft = read(pack, len(texts))
    if soft is None:
        soft = np.full((len(texts), 3), np.nan, np.float16)
    begun = time.monotonic()
    todo = [i for group in ORDER for i, text in enumerate(texts) if text[2:] == ["en", group] and np.isnan(soft[i, 0])]
    while todo and (not minutes or time.monotonic() - begun < minutes * 60):
        part, todo = todo[:_CHUNK], todo[_CHUNK:]
        soft[part] = judge([(texts[i][0], texts[i][1]) for i in part])
        with (pack / "soft.tmp").open("wb") as out:
            np.save(out, soft)
        (pack / "soft.tmp").replace(pack / "soft.npy")
    return len(todo)
