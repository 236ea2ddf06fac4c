"""Rows in German, Spanish and English made of XQuAD (CC BY-SA 4.0), whose paragraphs and questions say the same in each language.

Question and answer as a claim, as a short answer of a model is checked, with the paragraph that has it, another of the same article, or
another question's answer; across languages too, as when a German question is answered from English documents. And sentences of
the paragraphs, as they are and changed (`training.grounding.negatives.from_passage`).
"""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path

from training.grounding import negatives

FOLDER = Path("../shared/data/relevance")
LANGUAGES = ("en", "de", "es")
_ACROSS = 0.5
"""Share of questions that are also asked of a paragraph in another language."""
Row = dict[str, str]
Made = tuple[str, str, int, str]
"""Claim, context, target, language of the claim."""


def split_of(row: Row) -> str:
    """``dev`` for about one article in ten, all languages alike."""
    digest = hashlib.sha1(str(row["article"]).encode(), usedforsecurity=False).hexdigest()
    return "dev" if int(digest[:8], 16) % 10 == 0 else "train"


def made(split: str, seed: int, folder: Path = FOLDER) -> Iterator[Made]:
    """Every example of one split. Raises `SystemExit` where the data is missing."""
    by_language = {language: _rows(folder / f"xquad_{language}.jsonl.gz") for language in LANGUAGES}
    by_id = {language: {row["id"]: row for row in rows} for language, rows in by_language.items()}
    rng = random.Random(seed)
    for language in LANGUAGES:
        of_paragraph: dict[str, list[Row]] = {}
        for row in by_language[language]:
            of_paragraph.setdefault(row["positive"], []).append(row)
        for row in by_language[language]:
            if split_of(row) != split:
                continue
            claim = f"{row['question']} {row['answer']}"
            yield claim, row["positive"], negatives.SUPPORTED, language
            yield claim, row["hard_negative"], negatives.UNSUPPORTED, language
            others = [
                o["answer"] for o in of_paragraph[row["positive"]] if o["answer"] not in row["answer"] and row["answer"] not in o["answer"]
            ]
            if others:
                yield f"{row['question']} {rng.choice(others)}", row["positive"], negatives.NOT_SUPPORTED, language
            if rng.random() < _ACROSS:
                other = by_id[rng.choice([name for name in LANGUAGES if name != language])].get(row["id"])
                if other is not None:
                    key, target = rng.choice((("positive", negatives.SUPPORTED), ("hard_negative", negatives.UNSUPPORTED)))
                    yield claim, other[key], target, language
        for paragraph in [p for p, rows in of_paragraph.items() if split_of(rows[0]) == split] * (3 if language != "en" else 1):
            for claim, context, target in negatives.from_passage(paragraph, language, rng):
                yield claim, context, target, language


def _rows(path: Path) -> list[Row]:
    if not path.exists():
        raise SystemExit(f"{path} is missing: training reads XQuAD's paragraphs from there")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
