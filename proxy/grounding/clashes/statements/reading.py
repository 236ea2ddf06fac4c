"""A conversation's texts -> what they state: preferences, facts and constraints, sentence by sentence, with their places.

In: `StatedPiece`s, each a text that one author wrote. Out: `Statement`s. Questions, suppositions, quotations, code and what once was are
none; what others like is theirs; a change of mind said as such is marked as an update.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from proxy.grounding.clashes.detecting.certainty import speaks_in_earnest
from proxy.grounding.clashes.kinds import Declared, Origin, SlotValue, StatedPiece, Statement, StatementKind, statement_hash
from proxy.grounding.clashes.statements import cues
from proxy.grounding.clashes.statements.labels import labelled
from proxy.grounding.clashes.statements.plain import declared, may_declare
from proxy.grounding.clashes.statements.records import read_fields
from proxy.grounding.clashes.statements.slots import read_slots
from proxy.grounding.clashes.statements.stance import has_stance, read_stance
from proxy.language.detection import language
from proxy.language.negation import is_negated
from proxy.language.patterns import LazyPattern
from proxy.language.text import split_sentences

MAX_STATEMENTS = 400
"""Of one piece: a pasted book is not read to its end."""
MAX_CHARS = 400
"""A longer sentence is no statement that somebody would take back."""
_BRIEF_WORDS = 6
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.S)
_INLINE_QUOTE = re.compile(r"\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|„[^“”\n]{2,300}[“”]|«[^»\n]{2,300}»")
_MARKS = re.compile(r"^[\s>*#•–-]*(?:\d{1,3}[.)]\s+)?")
_CONSTRAINT = LazyPattern(
    r"\b(?:must|have to|has to|need to be|only|at most|at least|no more than|max(?:imum)?|allerg\w+|intolerant|cannot|can['’]?t|"
    r"never|always|under no|required?|"
    r"budget|deadline|do not|don['’]t|muss|müssen|darf|dürfen|nur|höchstens|mindestens|maximal|niemals|immer|verträgt?|vertrage|"
    r"debe\w*|tiene que|solo|sólo|como máximo|al menos|alérgic\w+|nunca|siempre|presupuesto|"
    r"doi\w+|il faut|uniquement|seulement|au plus|au moins|jamais|toujours|allergique)\b",
    re.I,
)
_COPULA = LazyPattern(
    r"\b(?:is|are|was|were|has|have|had|am|costs?|lives?|works?|opens?|closes?|starts?|ends?|takes?|['’]s|['’]re|['’]m|will|can|"
    r"ist|sind|war|waren|hat|haben|bin|kostet|wohnt|"
    r"arbeitet|öffnet|schließt|beginnt|endet|liegt|wird|es|son|está|están|era|fue|tiene|tienen|soy|estoy|cuesta|vive|trabaja|abre|cierra|"
    r"est|sont|était|ont|suis|coûte|habite|travaille|ouvre|ferme|commence|se trouve)\b",
    re.I,
)
_OF_THE_USER = LazyPattern(
    r"\b(?:the |this )?(?:user|customer|client|traveller|guest)(?:['’]s)?\b|\b(?:der |die )?(?:nutzer|kunde|kundin|benutzer)(?:in|"
    r"s)?\b|\b(?:el |la )?(?:usuario|usuaria|cliente)\b|"
    r"\bl['’](?:utilisateur|utilisatrice)\b|\b(?:le client|la cliente)\b",
    re.I,
)
_INSTRUCTION = LazyPattern(
    r"\s*(?:please |bitte |por favor,? |s['’]il (?:te|vous) plaît,? )?(?:write|tell|show|give|list|explain|help|translate|"
    r"summari[sz]e|generate|create|search|calculate|schreib\w*|zeig\w*|erklär\w*|"
    r"gib|hilf|übersetze?|erstelle?|such\w*|escribe|dime|muestra|explica|ayúda\w*|traduce|crea|busca|écris|dis|montre|explique|"
    r"aide|traduis|crée|cherche)\b",
    re.I,
)


def speaks_of_the_user(text: str) -> bool:
    """Whether it names the user, as a memory or a system message does."""
    return _OF_THE_USER.search(text) is not None


def read_statements(pieces: Sequence[StatedPiece], tongue: str = "") -> list[Statement]:
    """The statements of all pieces, in order. `tongue` is their language (ISO 639-1) where it is known."""
    return [statement for i, piece in enumerate(pieces) for statement in read_piece(piece, i, tongue).statements]


class Read(Struct, frozen=True):
    """What a piece states."""

    statements: tuple[Statement, ...]
    skipped: int = 0
    """Sentences that were not read, because of `limit`."""
    full: int = 0
    """Sentences that were read in full and count against it."""


def read_piece(piece: StatedPiece, i: int = 0, tongue: str = "", *, limit: int | None = None) -> Read:
    """The statements of one piece, in its order.

    With `limit` only so many sentences are read in full, the first that somebody says of themselves, and those that declare something
    plainly (`proxy.grounding.clashes.statements.plain`): a long message costs what a short one does.
    """
    fields = _of_record(i, piece) if piece.origin in ("tool_result", "passage") else []
    if fields or piece.text.lstrip()[:1] in ("{", "["):
        return Read(tuple(fields))
    found: list[Statement] = []
    spoken = cache(lambda: tongue or language(piece.text))  # most messages say nothing of which it would have to be known
    earnest: bool | None = None if piece.origin == "user" else piece.origin == "memory"
    left, skipped = limit if limit is not None else MAX_STATEMENTS, 0
    memory = piece.origin == "memory"
    for text, start in _sentences(piece.text):
        plain = earnest is not False and (memory or may_declare(text))
        says = declared(text, spoken, of_memory=memory) if plain else ()
        if says and earnest is None:  # a message is looked at as a whole only where a sentence of it matters
            earnest = speaks_in_earnest(piece.text)
            says = says if earnest else ()
        if not says and limit is not None:
            if piece.origin == "user" and not _may_matter(text):
                continue
            skipped += left <= 0
            if left <= 0:
                continue
            left -= 1
        statement = _statement(i, piece, text, start, spoken(), says)
        if statement is not None:
            found.append(statement)
        if len(found) >= MAX_STATEMENTS:
            break
    return Read(tuple(found), skipped, (limit or 0) - left if limit is not None else 0)


def _may_matter(sentence: str) -> bool:
    """Whether a user's sentence may be of themselves, give a value, or tell how to answer; what is told of the world is not."""
    brief = sentence.count(" ") < _BRIEF_WORDS
    return brief or _DIGIT.search(sentence) is not None or cues.is_personal_or_news(sentence)


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    """``(sentence, start)`` without marks of lists and white space; code is left out, of a change in mid-sentence the last part counts."""
    plain = _CODE.sub(lambda match: " " * len(match[0]), text) if "`" in text else text
    at = 0
    for sentence in split_sentences(plain):
        start, at = at, at + len(sentence)
        mark = _MARKS.match(sentence)
        if sentence.lstrip().startswith(">"):
            continue
        skipped = mark.end() if mark is not None else 0
        said = sentence[skipped:].rstrip()
        if said and len(said) <= MAX_CHARS:
            yield text[start + skipped : start + skipped + len(said)], start + skipped


def _statement(i: int, piece: StatedPiece, text: str, start: int, tongue: str, says: tuple[Declared, ...] = ()) -> Statement | None:
    said = _INLINE_QUOTE.sub(lambda match: " " * len(match[0]), text)
    if cues.is_question(said) or cues.is_hypothetical(said) or _is_quoted(text, said, piece.origin):
        return None
    if cues.is_past(said) and not says:
        return _after_the_past(i, piece, text, start, tongue) if cues.is_update(said) else None
    slots = _slots(said, piece.origin, tongue)
    kind = _kind(said, piece.origin, slots) or ("fact" if says else None)
    if kind is None:
        return None
    return Statement(
        text,
        kind,
        piece.origin,
        piece=i,
        start=start,
        end=start + len(text),
        hash=statement_hash(text, piece.origin),
        message=piece.message,
        timestamp=piece.timestamp,
        source=piece.source,
        subject=_subject(said, piece.origin, slots),
        slots=slots,
        polarity=_polarity(said, tongue),
        update=(cues.is_update(said) or any(one.change for one in says)) and piece.origin in ("user", "memory"),
        language=tongue,
        declares=says,
    )


def _is_quoted(text: str, said: str, origin: Origin) -> bool:
    """Whether it is somebody else's words, or is about them: '"I love bacon" is printed on the shirt'."""
    if cues.is_quoted(text):
        return True
    return origin == "user" and (cues.is_quoted(said) or any(cues.is_first_person(quote) for quote in _INLINE_QUOTE.findall(text)))


def as_statement(
    text: str,
    *,
    kind: StatementKind | None = None,
    origin: Origin = "user",
    piece: int = 0,
    tongue: str = "en",
    timestamp: float | None = None,
) -> Statement:
    """`text` as one statement whatever it is, where somebody else has cut it: a proposal, one half of a pair."""
    slots = _slots(text, origin, tongue)
    return Statement(
        text,
        kind or _kind(text, origin, slots) or "fact",
        origin,
        piece=piece,
        start=0,
        end=len(text),
        hash=statement_hash(text, origin),
        timestamp=timestamp,
        subject=_subject(text, origin, slots),
        slots=slots,
        polarity=_polarity(text, tongue),
        update=cues.is_update(text),
        language=tongue,
    )


def _slots(said: str, origin: Origin, tongue: str) -> tuple[SlotValue, ...]:
    """The values that somebody gives for themselves: that a hotel is cheap is no wish for a cheap one."""
    personal = cues.is_first_person(said)
    if origin == "passage" and not personal:
        return ()
    slots = read_slots(said, tongue)
    label = labelled(said, tongue) if origin in ("user", "system", "memory") else None
    if label is not None and label.slot not in {slot.slot for slot in slots}:
        slots = (*slots, label)
    if not personal and _IS_SO.search(said) is not None and not has_stance(said) and not cues.is_update(said):
        return tuple(slot for slot in slots if slot.slot not in _PREFERRED)
    return slots


_TURN = LazyPattern(r"\b(?:but|however|aber|jedoch|pero|mais)\b[,]?\s*|[;]\s*", re.I)


def _after_the_past(i: int, piece: StatedPiece, text: str, start: int, tongue: str) -> Statement | None:
    """Of "I used to live in Rome, but moved to Milan" what is so now."""
    turn = _TURN.search(text)
    if turn is None or not text[turn.end() :].strip():
        return None
    return _statement(i, piece, text[turn.end() :], start + turn.end(), tongue)


def _kind(said: str, origin: Origin, slots: Sequence[SlotValue]) -> StatementKind | None:
    """What it is; None for what states nothing: a greeting, a request, two words."""
    stance = has_stance(said) and origin not in ("tool_result", "passage")
    if not slots and cues.words_in(said) < (2 if stance else 3):
        return None
    if _CONSTRAINT.search(said) is not None and (stance or slots or origin in ("user", "system", "memory")):
        return "constraint"
    if stance and any((*read_stance(said).liked, *read_stance(said).disliked)):
        return "preference"
    if slots:
        return "preference" if any(slot.slot in _PREFERRED for slot in slots) else "fact"
    if _INSTRUCTION.match(said) is not None or _COPULA.search(said) is None:
        return None
    return "fact" if origin not in ("user",) or cues.is_first_person(said) or cues.words_in(said) > 3 else None


_PREFERRED = frozenset(
    (
        "price_level",
        "seat",
        "diet",
        "reply_language",
        "answer_length",
        "answer_format",
        "tone",
    )
)


def _subject(said: str, origin: Origin, slots: Sequence[SlotValue]) -> str:
    """Of whom it is said."""
    if origin in ("tool_result", "passage", "assistant"):
        return ""
    other = cues.other_person(said)
    if other in ("he", "she", "they", "er", "sie", "él", "ella", "il", "elle", "ils", "elles") and origin in ("system", "memory"):
        return "user"  # a profile speaks of the user
    if other:
        return other
    if origin in ("system", "memory"):
        return "user" if origin == "memory" or _OF_THE_USER.search(said) is not None else "assistant"
    if slots or cues.is_first_person(said):
        return "user"
    return "" if _IS_OF_THE_WORLD.match(said) or _IS_SO.search(said) is not None else "user"


_IS_OF_THE_WORLD = LazyPattern(
    r"\s*(?:the|a|an|it|this|that|these|there|der|die|das|es|dies\w*|el|la|los|las|esto|hay|le|la|les|"
    r"il|ce|c['’])\s",
    re.I,
)


_IS_SO = LazyPattern(r"\b(?:is|are|was|were|has|have|ist|sind|war|waren|hat|haben|son|era|tiene|tienen|est|sont|était|ont)\b", re.I)
"""Said of the world as it is, with no "should" or "must"."""
_CHEAP = re.compile(r"\bpas chère?s?\b", re.I)


def _polarity(said: str, tongue: str) -> int:
    stance = read_stance(said)
    if stance.disliked and not stance.liked:
        return -1
    said = _CHEAP.sub(" ", said)
    return -1 if is_negated(said, tongue) and not stance.liked else 1


def _of_record(i: int, piece: StatedPiece) -> list[Statement]:
    """A JSON record's fields, each a fact."""
    found = []
    for field in read_fields(piece.text):
        literal = piece.text[field.start : field.end]
        value = SlotValue(f"field:{field.name}", field.value, 0, len(literal), scope=field.entity)
        digest = statement_hash(f"{field.entity}\0{field.name}\0{field.value}", piece.origin)
        found.append(
            Statement(
                literal,
                "fact",
                piece.origin,
                i,
                field.start,
                field.end,
                digest,
                piece.message,
                piece.timestamp,
                piece.source,
                field.entity,
                (value,),
            )
        )
    return found[:MAX_STATEMENTS]
