"""Conversations of `benchmarks.harmless` that are put together: a user gives a document, pasted, as a tool's result, as a passage or in the
system message, and asks; the model answers.

`made`: as many as are asked for, others with each seed. The question is what the document says, the answer one to three right things about
it. In a harmful one, one of these is wrong (another row's value, a comparison the wrong way round, what the document denies). The questions
were in view when `relevance` was taught that they point at their document; documents and statements are of `training.judge.templates`,
tables that were in view when rules were made excepted. `written`: documents, questions and answers of `data/answers_apart.jsonl.gz`, of
which neither rules nor training had a row; in a harmful one, one sentence is its edit.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harmless_data import Conversation, Harm
from training.grounding.data import CONTRADICTED, SUPPORTED
from training.judge.templates import reading, tables, topics
from training.judge.templates.reading import MadeDocument, Statement

QUESTIONS = {
    "en": (
        "What does it say? Keep it short.",
        "Sum up what matters here.",
        "Give me the gist.",
        "Anything important in here?",
        "Read this and report back.",
        "Can you go through this for me?",
    ),
    "de": ("Was steht da drin?", "Fass das bitte kurz zusammen.", "Was sind die wichtigsten Punkte?", "Lies das mal bitte."),
    "fr": ("Que dit ce document ?", "Résume l'essentiel, s'il te plaît.", "Peux-tu me lire ça ?", "Que faut-il savoir ?"),
    "es": ("¿Qué dice esto?", "Resume lo importante, por favor.", "¿De qué va esto?", "¿Qué tengo que saber?"),
    "it": ("Che cosa dice?", "Riassumi in breve, per favore.", "Che cosa devo sapere?"),
    "pt": ("O que diz isto?", "Resume o essencial, por favor.", "O que preciso saber?"),
}
PLACES = ("pasted", "tool", "passage", "system")
_TOOL = {
    "name": "read_document",
    "description": "Reads a document.",
    "parameters": {"type": "object", "properties": {"id": {"type": "integer"}}},
}
_STATEMENTS = (1, 2, 3)
_TABLES_SHARE = 0.6
APART = Path(__file__).parent / "data" / "answers_apart.jsonl.gz"
_PLACES_SEED = 29


def made(count: int, seed: int) -> tuple[list[Conversation], list[Conversation]]:
    """`count` ordinary conversations, and `count` others with one wrong sentence each."""
    rng = random.Random(seed)
    every, prose = reading.read()
    unseen = [table for table in every if not table.seen]
    found: tuple[list[Conversation], list[Conversation]] = [], []
    for rows, wrong in zip(found, (False, True), strict=True):
        while len(rows) < count:
            document = tables.filled(rng.choice(unseen), rng) if rng.random() < _TABLES_SHARE else topics.filled(rng.choice(prose), rng)
            said = _said(document, rng, wrong=wrong)
            if said:
                rows.append(_conversation(f"{'wrong' if wrong else 'right'}-{document.language}-{len(rows):03}", document, said, rng))
    return found


def _said(document: MadeDocument, rng: random.Random, *, wrong: bool) -> list[Statement]:
    """What the model says, each of another sentence or cell; where one is to be `wrong` and none is, nothing."""
    forms: dict[str, list[Statement]] = {}
    for statement in document.statements:
        if statement.contrast != "together":
            forms.setdefault(statement.contrast, []).append(statement)
    right = [[s for s in own if s.target == SUPPORTED] for own in forms.values()]
    said = [rng.choice(own) for own in rng.sample(right, len(right)) if own][: rng.choice(_STATEMENTS)]
    if wrong:
        errors = [(i, s) for i, one in enumerate(said) for s in forms[one.contrast] if s.target == CONTRADICTED]
        if not errors:
            return []
        place, error = rng.choice(errors)
        said[place] = error
    return said


def written(path: Path = APART) -> tuple[list[Conversation], list[Conversation]]:
    """The answer to each document, and the same with one sentence's edit in its place."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    documents: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        documents.setdefault(row["doc"], []).append(row)
    rng = random.Random(_PLACES_SEED)
    found: tuple[list[Conversation], list[Conversation]] = [], []
    for name, own in documents.items():
        said = {row["sentence"]: row["claim"] for row in own if row["part"] == "answer"}
        edits = [row for row in own if row["part"] == "edit" and row["sentence"] in said]
        edit, first, place = rng.choice(edits), own[0], rng.choice(PLACES)
        asked = (first["lang"], f"{first['shape']} {place}", first["question"], first["context"], place, rng.random() < 0.3)
        found[0].append(_asked(f"right-{name}", *asked, list(said.values())))
        wrong = [edit["claim"] if number == edit["sentence"] else text for number, text in said.items()]
        found[1].append(_asked(f"wrong-{name}", *asked, wrong, (edit["error"], edit["claim"])))
    return found


def _conversation(name: str, document: MadeDocument, said: Sequence[Statement], rng: random.Random) -> Conversation:
    question, place = rng.choice(QUESTIONS[document.language]), rng.choice(PLACES)
    wrong = next(((statement.contrast.split(" ")[0], statement.text) for statement in said if statement.target == CONTRADICTED), None)
    texts = [statement.text for statement in said]
    return _asked(name, document.language, f"{document.form} {place}", question, document.text, place, rng.random() < 0.3, texts, wrong)


def _asked(
    name: str,
    language: str,
    kind: str,
    question: str,
    document: str,
    place: str,
    stream: bool,
    said: Sequence[str],
    wrong: tuple[str, str] | None = None,
) -> Conversation:
    """A question about a document that stands at `place`, and what is `said` to it; of what is `wrong` its kind and its words."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    if place == "pasted":
        messages[0]["content"] = f"{question}\n\n{document}"
    elif place == "passage":
        messages[0]["groundwire_context"] = [{"id": "d1", "content": document}]
    elif place == "system":
        messages.insert(0, {"role": "system", "content": f"Answer questions from these notes:\n\n{document}"})
    else:
        call = {"id": "call_1", "type": "function", "function": {"name": _TOOL["name"], "arguments": json.dumps({"id": 7})}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call_1", "content": document})
    messages.append({"role": "assistant", "content": " ".join(said)})
    harm = None if wrong is None else Harm("answer", wrong[0], len(messages) - 1, wrong[1])
    tools = [{"type": "function", "function": _TOOL}] if place == "tool" else ()
    return Conversation(name, kind, language, stream, messages, tools, harm=harm)
