"""Pairs of which the clash judge learns whether both can be true of one person now (`training.judge.clash`), and those held out.

In: turns and chats written for this project, sentences of answers with their edits, short inference pairs, debates and fact-checks,
each with the split of its source. Out: `Example`s. Some are made of others: an earlier turn with its value changed contradicts it where it
is said by the way or as a correction, and goes with it where somebody else says so, or where it is asked, quoted or supposed.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Iterator, Sequence

from benchmarks import clash_data
from training.grounding import data, negatives
from training.grounding.data import CONTRADICTED, SUPPORTED, Example
from training.judge import answers, chats, turns
from training.judge.written import held_out

SEED = 32
COMPATIBLE = 4
"""Target of a pair of which is only known that it does not contradict."""
INFERENCE = {"snli": 1500, "cad_nli": 2500, "mnli_dev": 3000, "conjnli": 1200, "taxinli": 1200, "breaking_nli": 500, "semiauto_wiki": 1500}
INFERENCE |= {"rte3_french": 500, "rte3_german": 500, "fever_symmetric": 1000}
"""Rows of each public source, those with the label "contradicted" at most half of them."""
MAX_CHARS = 260
MOST_CHARS = 400
MADE, ANSWERS = "made", "answers"
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_MAKERS = (negatives.number, negatives.word, negatives.negation)
_TOLD = {
    "en": (
        "Actually, correction: {}",
        "By the way: {}",
        "As for me: {}",
        "Just so you know: {}",
        "I checked again. {}",
        "One more thing. {}",
    ),
    "de": ("Korrektur: {}", "Übrigens: {}", "Was mich angeht: {}", "Nur damit du es weißt: {}", "Ich habe noch mal nachgesehen. {}"),
    "es": ("Corrijo: {}", "Por cierto: {}", "En mi caso: {}", "Solo para que lo sepas: {}", "Lo he vuelto a mirar. {}"),
    "fr": ("Je corrige : {}", "Au fait : {}", "Pour ma part : {}", "Juste pour info : {}", "J'ai vérifié encore une fois. {}"),
}
"""How somebody says something of themselves."""
_FRAMED = {
    "en": (
        'A friend wrote to me about themselves: "{}."',
        "My neighbour, on the other hand, says: {}.",
        "In the novel I'm reading, the narrator says: {}.",
        "What would you suggest to somebody who tells you: {}?",
        "Just suppose for a moment: {}.",
        'How do I translate "{}" into Polish?',
        'Is there a typo in this line: "{}"?',
        "Years ago I would have said: {}.",
    ),
    "de": (
        'Eine Freundin schrieb mir über sich: "{}."',
        "Mein Nachbar dagegen sagt: {}.",
        "Im Roman, den ich lese, sagt der Erzähler: {}.",
        "Was würdest du jemandem raten, der sagt: {}?",
        "Nehmen wir nur mal an: {}.",
        'Wie übersetze ich "{}" ins Polnische?',
        'Ist in dieser Zeile ein Tippfehler: "{}"?',
        "Vor Jahren hätte ich gesagt: {}.",
    ),
    "es": (
        'Una amiga me escribió sobre ella: "{}."',
        "Mi vecino, en cambio, dice: {}.",
        "En la novela que leo, el narrador dice: {}.",
        "¿Qué le aconsejarías a alguien que dice: {}?",
        "Supongamos por un momento: {}.",
        '¿Cómo traduzco "{}" al polaco?',
        '¿Hay una errata en esta línea: "{}"?',
        "Hace años habría dicho: {}.",
    ),
    "fr": (
        'Une amie m\'a écrit à son sujet : "{}."',
        "Mon voisin, lui, dit : {}.",
        "Dans le roman que je lis, le narrateur dit : {}.",
        "Que conseillerais-tu à quelqu'un qui dit : {} ?",
        "Supposons un instant : {}.",
        'Comment traduire "{}" en polonais ?',
        'Y a-t-il une faute dans cette ligne : "{}" ?',
        "Il y a des années, j'aurais dit : {}.",
    ),
}
"""The same of somebody else, or not meant."""


def training_examples() -> list[Example]:
    """All that may be shown, each source without what it holds out."""
    rng = random.Random(SEED)
    said = turns.rows()
    own = turns.training(said)
    talked = chats.training(chats.chats(), said, rng)
    found = [*own, *made(own, rng), *of_answers(rng, apart=False), *talked, *inference(rng), *statements("train")]
    return [e for e in found if max(len(e.claim), len(e.evidence)) < MOST_CHARS]


def development_examples() -> list[Example]:
    """Held-out turns and chats, each pair both ways round, one behind the other; held-out debates and fact-checks."""
    rng = random.Random(SEED)
    found = [*turns.development(turns.rows()), *chats.development(chats.chats(), rng), *of_answers(rng, apart=True), *statements("dev")]
    return [each for e in found for each in (e, Example(e.evidence, e.claim, e.target, e.source, e.language, e.group))]


def made(found: Sequence[Example], rng: random.Random) -> Iterator[Example]:
    """An earlier turn with a number, opposite or negation changed, or one that follows from it with its number changed.

    Said by the way, or as a correction, it contradicts; of somebody else, as a question, quotation or supposition, it does not.
    """
    for e in found:
        if e.target == SUPPORTED:
            shared = [n for n in _NUMBER.findall(e.claim) if n in e.evidence]
            other = negatives.number(e.claim, e.evidence, e.language, rng) if shared else None
            same = [made for maker in _MAKERS if (made := maker(e.evidence, e.evidence, e.language, rng)) is not None]
            for claim in {changed[0] for changed in (other, *rng.sample(same, min(len(same), 2))) if changed is not None}:
                if claim not in (e.claim, e.evidence):
                    told = rng.choice(_TOLD[e.language]).format(claim) if rng.random() < 0.5 else claim
                    pair = (told, e.evidence) if rng.random() < 0.5 else (e.evidence, told)
                    yield Example(*pair, CONTRADICTED, MADE, e.language, e.group)
                    framed = rng.choice(_FRAMED[e.language]).format(claim.rstrip("."))
                    pair = (framed, e.evidence) if rng.random() < 0.5 else (e.evidence, framed)
                    yield Example(*pair, COMPATIBLE, MADE, e.language, e.group)
            again = rng.choice(_TOLD[e.language]).format(e.evidence if rng.random() < 0.3 else e.claim)
            yield Example(again, e.evidence, SUPPORTED, MADE, e.language, e.group)


def of_answers(rng: random.Random, *, apart: bool) -> Iterator[Example]:
    """Forms of sentences of answers, in six languages: an edit contradicts what it was made of, and a paraphrase of that.

    A paraphrase follows; another sentence of the same answer, edited or not, goes with both. Documents held `apart`, or the others.
    """
    forms: dict[str, dict[str, dict[str, list[str]]]] = {}
    for path in answers.FILES:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if held_out(row) == apart and (row["part"] != "edit" or row["label"] == "contradicted"):
                    told = forms.setdefault(f"{row['lang']} {row['doc']}", {}).setdefault(str(row["sentence"]), {})
                    told.setdefault(row["part"], []).append(row["claim"])
    for document, sentences in forms.items():
        tongue = document[:2]
        for place, told in sentences.items():
            right = [*told.get("answer", ()), *told.get("paraphrase", ())]
            others = [claim for other, each in sentences.items() if other != place for some in each.values() for claim in some]
            pairs = [(edit, said, CONTRADICTED) for edit in told.get("edit", ()) for said in rng.sample(right, min(1, len(right)))]
            pairs += [(said, claim, SUPPORTED) for said, claim in zip(right[1:], right, strict=False)]
            pairs += [(rng.choice(others), rng.choice(right), COMPATIBLE)] if others and right else []
            for pair in pairs:
                yield Example(*(pair[:2] if rng.random() < 0.5 else pair[1::-1]), pair[2], ANSWERS, tongue, document)


def inference(rng: random.Random) -> Iterator[Example]:
    """Short pairs of the public sources."""
    for source, most in INFERENCE.items():
        rows = [e for e in data.examples(source, "train") if len(e.evidence) < MAX_CHARS and e.target in (0, 1, 2)]
        rng.shuffle(rows)
        for side in (True, False):
            for e in [e for e in rows if (e.target == CONTRADICTED) is side][: most // 2]:
                yield Example(e.claim, e.evidence, e.target, "inference", e.language, e.group)


def statements(split: str) -> Iterator[Example]:
    """Pairs of debates and fact-checks (`prosecco`, `daccord`)."""
    for source in ("prosecco", "daccord"):
        for row in clash_data.rows(f"clash/{source}", split=split):
            target = CONTRADICTED if row["contradicts"] else COMPATIBLE
            yield Example(row["later"], row["earlier"], target, "statements", row["lang"], row["id"])
