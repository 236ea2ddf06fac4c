"""Examples made out of others: what a model gets wrong when it only looks at words.

From each supported row with a passage: the claim with one number, name, unit, role or negation changed, the claim with another
passage of the same source, and the claim without the sentences that carry it; from the passage itself: sentences as they are, joined,
shortened, and the same with one thing changed, or without their condition. Every maker returns ``(claim, context, target)`` or None.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from proxy.grounding.evidence.retrieval import terms
from proxy.language.text import split_sentences

SUPPORTED, UNSUPPORTED, CONTRADICTED, NOT_SUPPORTED = range(4)
Made = tuple[str, str, int]
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_NAME = re.compile(r"(?<![.!?] )(?<!^)\b[A-ZÀ-Þ][\w'’-]+(?: (?:of|de|von|van|del|la|der|du) [A-ZÀ-Þ][\w'’-]+| [A-ZÀ-Þ][\w'’-]+)*")
_UNITS = (
    ("million", "billion"),
    ("Millionen", "Milliarden"),
    ("millones", "mil millones"),
    ("millions", "milliards"),
    ("km", "m"),
    ("kg", "g"),
    ("hours", "minutes"),
    ("days", "weeks"),
    ("months", "years"),
    ("Tage", "Wochen"),
    ("Monate", "Jahre"),
    ("Stunden", "Minuten"),
    ("días", "semanas"),
    ("meses", "años"),
    ("horas", "minutos"),
    ("jours", "semaines"),
    ("mois", "ans"),
    ("heures", "minutes"),
    ("percent", "percentage points"),
    ("kilometers", "miles"),
    ("meters", "feet"),
    ("dollars", "euros"),
)
_OPPOSITES = (
    ("before", "after"),
    ("increase", "decrease"),
    ("increased", "decreased"),
    ("more", "fewer"),
    ("first", "last"),
    ("largest", "smallest"),
    ("higher", "lower"),
    ("rose", "fell"),
    ("north", "south"),
    ("east", "west"),
    ("always", "never"),
    ("all", "none"),
    ("won", "lost"),
    ("maximum", "minimum"),
    ("at least", "at most"),
    ("above", "below"),
    ("required", "optional"),
    ("allowed", "forbidden"),
    ("vor", "nach"),
    ("mehr", "weniger"),
    ("immer", "nie"),
    ("höher", "niedriger"),
    ("erste", "letzte"),
    ("mindestens", "höchstens"),
    ("antes", "después"),
    ("más", "menos"),
    ("siempre", "nunca"),
    ("primero", "último"),
    ("mayor", "menor"),
    ("avant", "après"),
    ("plus", "moins"),
    ("toujours", "jamais"),
    ("premier", "dernier"),
    ("supérieur", "inférieur"),
)
_NEGATE: dict[str, tuple[tuple[str, str], ...]] = {
    "en": (
        (r"\b(is|was|were|are|has been|have been|will|can|could|should|must|may|would|did|does)\b(?! not)(?! n)", r"\1 not"),
        (r"\b(is|was|are|were|has|have|had)\b(?! not)(?! never)", r"\1 never"),
        (r"\b(is|are|was|were) (?!not|no )", r"\1 no longer "),
        (r"\b(has|have|had|offers|includes|contains|provides|needs|requires) (?:a|an|the|some) ", r"\1 no "),
        (r"\bwith (?!out)", "without "),
    ),
    "de": (
        (r"\b(ist|war|sind|waren|hat|haben|wurde|wurden|kann|können|muss|wird|werden|darf)\b(?! nicht)", r"\1 nicht"),
        (r"\bein(e|en|em|er|es)?\b", r"kein\1"),
        (r"\b(ist|war|sind|waren|hat|haben|wird|werden)\b(?! nie)", r"\1 nie"),
        (r"\b(ist|sind|hat|haben|wird|werden|kann)\b(?! nicht)", r"\1 nicht mehr"),
        (r"\bmit (?!\w+er\b)", "ohne "),
    ),
    "es": (
        (r"(?<!no )\b(es|fue|era|son|eran|está|están|ha|han|tiene|puede|pueden|debe)\b", r"no \1"),
        (r"(?<!no )\b(es|fue|está|están|ha|han|tiene|puede)\b", r"nunca \1"),
        (r"(?<!no )\b(es|está|están|tiene|puede|son)\b", r"ya no \1"),
        (r"\bcon\b", "sin"),
    ),
    "fr": (
        (r"(?<!ne )(?<!n')\b(est|était|a été|sont|peut|peuvent|doit|sera|fut)\b(?! pas)", r"ne \1 pas"),
        (r"(?<!ne )(?<!n')\b(est|était|sont|peut|sera|fut)\b(?! pas)", r"ne \1 jamais"),
        (r"(?<!ne )(?<!n')\b(est|sont|peut|peuvent)\b(?! pas)", r"ne \1 plus"),
        (r"\bavec\b", "sans"),
    ),
}
_TAKEN_AWAY = re.compile(r"\b(?:not|never|no longer|nicht|nie|nicht mehr|nunca|ya no|jamais) |n't(?= )")
_ATTRIBUTIONS = {
    "en": (
        "According to the document, ",
        "The passage states that ",
        "The source says: ",
        "Based on the provided context, ",
        "The tool said: ",
        "The search results show that ",
        "As the report notes, ",
        "The tool returned: ",
        "The documents say that ",
        "In the given text, ",
    ),
    "de": ("Laut dem Dokument gilt: ", "Die Quelle sagt: ", "Das Werkzeug meldet: ", "In den Unterlagen steht: ", "Dem Text zufolge: "),
    "es": ("Según el documento, ", "La fuente dice: ", "El texto indica que ", "La herramienta respondió: ", "Como señala el informe, "),
    "fr": ("Selon le document, ", "La source dit : ", "Le texte indique que ", "L'outil a répondu : ", "D'après le contexte, "),
}
_SMALL_WORDS = frozenset(
    "The A An In It He She They This There These Its On At El La Los Las Un Una En Le Les Une Il Elle Ils Elles Ce Cette".split()  # noqa: SIM905
)
_DETAIL = re.compile(
    r"(?:,? (?:in|for|with|by|at|from|during|under|after|because of|thanks to|für|mit|bei|nach|während|wegen|durch|para|con|por|desde"
    r"|durante|pour|avec|par|depuis|pendant|grâce à) [^,.;:()\"]{12,60})(?=[,.])"
)
"""A detail that one sentence can lend another."""
_CONDITION = re.compile(
    r",? (?:if|unless|only if|except|provided that|until|wenn|falls|außer|sofern|solange|si|salvo|a menos que|excepto|sauf|à condition)\b"
    r"[^,.;]+",
    re.I,
)
_ONLY = re.compile(r"\b(only|up to|at most|at least|nur|bis zu|höchstens|solo|hasta|seulement|jusqu'à) ", re.I)
_PARENTHESIS = re.compile(r"\s*(?:\([^()]*\)|, (?:which|who|die|der|das|que|qui|dont) [^,]+,)")
_AND = {"en": "and", "de": "und", "es": "y", "fr": "et"}


def _swap(text: str, match: re.Match[str], by: str) -> str:
    return text[: match.start()] + by + text[match.end() :]


def number(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """Another number, of the passage or near by."""
    found = list(_NUMBER.finditer(claim))
    if not found:
        return None
    match = rng.choice(found)
    old = match[0]
    others = [n for n in set(_NUMBER.findall(context)) if n not in claim and abs(len(n) - len(old)) <= 1]
    if others and rng.random() < 0.6:
        return _swap(claim, match, rng.choice(sorted(others))), context, NOT_SUPPORTED
    digits = re.sub(r"[.,]", "", old)
    if len(digits) > 12:
        return None
    step = rng.choice((1, 2, 3, 5, 10, 20)) * rng.choice((-1, 1))
    new = str(abs(int(digits) + step)) if old.isdigit() else old[:-1] + str((int(old[-1]) + rng.randint(1, 8)) % 10)
    return (_swap(claim, match, new), context, CONTRADICTED) if new != old and new not in context else None


def name(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """Another name of the passage."""
    found = [m for m in _NAME.finditer(claim) if len(m[0]) > 2]
    if not found:
        return None
    match = rng.choice(found)
    old = match[0]
    others = [n for n in {m[0] for m in _NAME.finditer(context)} if n not in claim and old not in n and n.count(" ") == old.count(" ")]
    return (_swap(claim, match, rng.choice(sorted(others))), context, NOT_SUPPORTED) if others else None


def roles(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """Two names of the claim in each other's place."""
    found = [m for m in _NAME.finditer(claim) if len(m[0]) > 2]
    if len({m[0] for m in found}) < 2:
        return None
    a, b = found[0], found[-1]
    if a[0] == b[0]:
        return None
    between = claim[a.end() : b.start()]
    if " and " in between or " und " in between or " y " in between or " et " in between or "," in between or "/" in between:
        return None  # "A and B" is "B and A"
    return claim[: a.start()] + b[0] + between + a[0] + claim[b.end() :], context, NOT_SUPPORTED


def word(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """A unit or an opposite."""
    pairs = [(a, b) for x, y in (*_UNITS, *_OPPOSITES) for a, b in ((x, y), (y, x)) if re.search(rf"\b{re.escape(a)}\b", claim)]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return re.sub(rf"\b{re.escape(a)}\b", b, claim, count=1), context, NOT_SUPPORTED


def unit(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """Another unit behind a number."""
    pairs = [(a, b) for x, y in _UNITS for a, b in ((x, y), (y, x)) if re.search(rf"\d\S* {re.escape(a)}\b", claim)]
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    return re.sub(rf"\b{re.escape(a)}\b", b, claim, count=1), context, NOT_SUPPORTED


def negation(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """The claim's contrary."""
    taken_away = _TAKEN_AWAY.sub("", claim, count=1)
    if taken_away != claim and rng.random() < 0.8:
        return taken_away, context, CONTRADICTED
    for pattern, by in rng.sample(_NEGATE.get(language, ()), len(_NEGATE.get(language, ()))):
        found = list(re.finditer(pattern, claim))
        if found:
            match = rng.choice(found[:2])
            return claim[: match.start()] + match.expand(by) + claim[match.end() :], context, CONTRADICTED
    return None


def invented(claim: str, context: str, other: str, rng: random.Random) -> Made | None:
    """The claim with a detail out of another passage at its end."""
    details = [m[0] for m in _DETAIL.finditer(other) if m[0].strip(" ,") not in context]
    if not details or claim[-1:] != ".":
        return None
    detail = rng.choice(details)
    strange = [term for term in terms(detail) if term not in set(terms(context))]
    return (claim[:-1] + detail + ".", context, UNSUPPORTED) if len(strange) >= 2 else None


def attributed(claim: str, language: str, rng: random.Random) -> str:
    """The claim behind words that say where it comes from: they change nothing in what it says."""
    words = rng.choice(_ATTRIBUTIONS.get(language, _ATTRIBUTIONS["en"]))
    first, space, rest = claim.partition(" ")
    if not words.endswith(": ") and first in _SMALL_WORDS:
        first = first.lower()
    return words + first + space + rest


def without_evidence(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """The passage without the sentences that share the claim's rarer words; only where then less than half of them is left."""
    sentences = split_sentences(context)
    if len(sentences) < 5:
        return None
    wanted = set(terms(claim))
    shares = [len(wanted & set(terms(s))) / max(len(wanted), 1) for s in sentences]
    left = [s for s, share in zip(sentences, shares, strict=True) if share < 0.3]
    rest = "".join(left)
    if len(left) < 3 or len(wanted & set(terms(rest))) / max(len(wanted), 1) > 0.5:
        return None
    return claim, rest, UNSUPPORTED


CORRUPTIONS: tuple[Callable[..., Made | None], ...] = (number, name, roles, word, negation)


def corrupted(claim: str, context: str, language: str, rng: random.Random) -> Made | None:
    """One of the changes that apply, by chance."""
    for maker in rng.sample(CORRUPTIONS, len(CORRUPTIONS)):
        made = maker(claim, context, language, rng)
        if made is not None and made[0] != claim and made[0] not in context:
            return made
    return None


def from_passage(context: str, language: str, rng: random.Random) -> list[Made]:
    """A sentence of the passage, or two joined, as they are; and the same with one thing changed."""
    sentences = [s.strip() for s in split_sentences(context) if 40 <= len(s.strip()) <= 260 and s.strip()[-1] in ".!" and " | " not in s]
    if len(sentences) < 3:
        return []
    said = rng.choice(sentences)
    made: list[Made] = []
    if rng.random() < 0.3:
        second = rng.choice(sentences)
        if second != said:
            said = f"{said[:-1]}, {_AND.get(language, 'and')} {second}" if rng.random() < 0.5 else f"{second} {said}"
    elif (short := _PARENTHESIS.sub("", said)) != said and rng.random() < 0.7:
        said = short
    conditional = _CONDITION.search(said) or _ONLY.search(said)
    if conditional and rng.random() < 0.7:
        made.append((said.replace(conditional[0], " " if conditional[0].endswith(" ") else "", 1), context, UNSUPPORTED))
    else:
        changed = corrupted(said, context, language, rng)
        if changed is not None:
            made.append(changed)
    if made:
        made.append((said, context, SUPPORTED))
    return made


def generated(own: Sequence[Any], rng: random.Random) -> Iterator[tuple[Any, Made]]:
    """``(example it comes from, what was made)`` for a source's examples; nothing for single-sentence contexts."""
    long = [e for e in own if len(e.evidence) >= 300 and " | " not in e.evidence[:400]]
    supported = [e for e in long if e.target == SUPPORTED and len(e.claim) <= 400]
    by_context = {e.evidence: e for e in long}
    for e in supported:
        if rng.random() < 0.5 and (changed := corrupted(e.claim, e.evidence, e.language, rng)):
            yield e, changed
        if rng.random() < 0.25 and (bare := without_evidence(e.claim, e.evidence, e.language, rng)):
            yield e, bare
        if rng.random() < 0.25 and len(supported) > 20:
            yield e, _mixed_up(e, supported, rng)
        if rng.random() < 0.35 and (more := invented(e.claim, e.evidence, rng.choice(supported).evidence, rng)):
            yield e, more
    for e in by_context.values():
        for _ in range(2):
            for made in from_passage(e.evidence, e.language, rng):
                yield e, made


def _mixed_up(e: Any, others: Sequence[Any], rng: random.Random) -> Made:
    """The claim with the passage of another row that shares most of its words, of twenty."""
    wanted = set(terms(e.claim))
    candidates = [o for o in rng.sample(others, min(20, len(others))) if o.evidence != e.evidence and e.claim not in o.evidence]
    other = max(candidates, key=lambda o: len(wanted & set(terms(o.evidence[:2000]))), default=e)
    return (e.claim, other.evidence, UNSUPPORTED) if other is not e and other.group != e.group else (e.claim, e.evidence, e.target)
