"""Which parts of a user's or the system's text say that something is so, and which only ask or tell the model what to do.

In: the pieces of a message (`proxy.grounding.evidence.pieces`) and who wrote it. Out: those that an answer may rest on: declarative
sentences, and what is pasted (tables, lists, ``Key: value``, quotations, code, what stands below "Here is the mail:"). Out go questions,
requests, roles and rules of form, suppositions and greetings: "Write that the store opens at 9" does not say when it opens. English,
German, Spanish, French, Italian and Portuguese at once, by the words in ``phrases.toml``. Pure; linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from proxy.grounding.claims.checkable import has_verb, reason_of
from proxy.grounding.evidence.structured import EvidencePiece, is_heading
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.words import INSTRUCTION_OBJECTS, INSTRUCTIONS, THANKS, content_words

_WORDS = phrases(Path(__file__).parent)
Author = Literal["user", "system"]
_Mode = Literal["", "pasted", "directions"]
LONG_CHARS = 500
"""A user's message of this length is a pasted text; what the user says of it stands in its first or last paragraph."""
_FEW_WORDS = 14
"""A longer line that ends in a colon is a sentence of the text, not what introduces one."""
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_FENCE = re.compile(r"^[ \t]{0,8}(?:`{3,10}|~{3,10}|\"{3}|'{3})", re.M)
_ITEM = re.compile(r"\s{0,12}(?:[-*+•–]|\(?\d{1,3}[.)])[ \t]+")
_LIST_OR_QUOTE = re.compile(r"\s{0,12}(?:>|[-*+•–][ \t]|\(?\d{1,3}[.)][ \t]|[\"“„«][^\"“”„«»]{12,600}[\"”“»]\W{0,2}$)")
_KEY_AND_VALUE = re.compile(r"(?:[-*•] )?\**(?P<key>[^\W\d][\w /'’()-]{0,40}?)\**[ \t]{0,2}:\**[ \t]+(?P<value>\S.{0,400})$", re.S)
_END_MARK = re.compile(r"([.!?？…:])[\"'”’»)\]*_]*$")

_ASKING = LazyPattern(rf"\W{{0,5}}(?:(?:{_WORDS.AUXILIARIES})\b|¿|est-ce\b)", re.I)
_ASKING_UNMARKED = LazyPattern(rf"\W{{0,5}}(?:{_WORDS.AUXILIARIES}|{_WORDS.WONDERING})\b", re.I)
_CHECK_REQUEST = LazyPattern(_WORDS.CHECKED, re.I)
_OPENING = LazyPattern(rf"\W{{0,5}}(?:(?:{_WORDS.POLITE})[,!.:]{{0,2}}[ \t]+){{0,3}}", re.I)
_ENGLISH_VERB = LazyPattern(rf"(?:do not |don['’]t |never |always |only )?(?:{_WORDS.ENGLISH_VERBS})\b(?![-'’])", re.I)
_AS_A_NOUN = LazyPattern(
    rf"[\"”’']{{0,2}}(?:[ \t]+(?!(?:{_WORDS.NO_SUBJECT})\b)[\w'’-]{{1,20}}){{0,3}}?[ \t]+(?:{_WORDS.ENGLISH_FINITE})\b", re.I
)
"""What follows a verb that is a noun: "Work starts at 9", "Order 123 was sent"."""
_OTHER_VERB = LazyPattern(rf"(?:{_WORDS.OTHER_VERBS})\b", re.I)
_GERMAN_SIE = LazyPattern(r"[a-zäöüß]{3,20}en Sie\b", re.I)
_WISH = LazyPattern(rf"(?:{_WORDS.WANTED})\b", re.I)
_ROLE = LazyPattern(rf"(?:{_WORDS.ROLES})\b", re.I)
_FORM = LazyPattern(
    rf"\b(?:{_WORDS.ANSWERS})\b[^.!?\n]{{0,60}}?\b(?:{_WORDS.MUST})\b|\b(?:{_WORDS.MUST})\b[^.!?\n]{{0,40}}?\b(?:{_WORDS.ANSWERS})\b", re.I
)
_SUPPOSITION = LazyPattern(rf"(?:{_WORDS.SUPPOSITIONS})(?:\b|(?<=['’]))", re.I)
_TELLING_IMPERATIVE = LazyPattern(rf"(?:{_WORDS.TOLD})\b(?:[ \t]{{0,2}}:|[ ,]{{1,2}}(?:{_WORDS.THAT})\b)?", re.I)
"""How a user says that something is so with a verb in the imperative: "Remember that …", "Note: …"."""
_TO_BE_READ = LazyPattern(rf"\b(?:{_WORDS.READING_VERBS})\b", re.I)
_WORK = LazyPattern(rf"(?:{_WORDS.READING_VERBS}|{_WORDS.SAYING})", re.I)
_HERE_IS = LazyPattern(rf"\b(?:{_WORDS.HERE_IS})\b", re.I)
_DIRECTIONS = LazyPattern(rf"(?:{_WORDS.DIRECTIONS})\b", re.I)
_DIRECTIONS_AT_END = LazyPattern(rf"\b(?:{_WORDS.DIRECTIONS}|{_WORDS.SAYING})\W{{0,4}}$", re.I)
_IN_DOUBT = LazyPattern(rf"(?:{_WORDS.IN_DOUBT})", re.I)
"""The user asks whether what they wrote is right."""
_CAN_YOU = LazyPattern(rf"(?:{_WORDS.CAN_YOU})\b", re.I)
_OWN = LazyPattern(rf"\b(?:{_WORDS.FIRST_PERSON})\b|\b[jJmM]['’](?=\w)", re.I)


def is_question(sentence: str) -> bool:
    """Whether a sentence of a user asks, or asks to check, instead of saying that something is so."""
    sentence = sentence.strip()
    mark = _END_MARK.search(sentence)
    if (mark is not None and mark[1] in "?？") or _ASKING.match(sentence) or _asks_to_check(sentence):
        return True
    return mark is None and _ASKING_UNMARKED.match(sentence) is not None


def _asks_to_check(sentence: str) -> bool:
    return _CHECK_REQUEST.match(sentence, _opening(sentence)) is not None


def is_request(sentence: str) -> bool:
    """Whether a sentence tells the model what to do, what to be, or how to answer."""
    text = sentence.strip()
    if _CAN_YOU.match(text):
        return True
    begin = _opening(text)
    if _TELLING_IMPERATIVE.match(text, begin):
        return False
    if _WISH.match(text, begin) or _ROLE.match(text, begin) or _GERMAN_SIE.match(text, begin) or _FORM.search(text[:200]):
        return True
    verb = _ENGLISH_VERB.match(text, begin)
    if verb is not None:
        return _AS_A_NOUN.match(text, verb.end()) is None
    return _OTHER_VERB.match(text, begin) is not None


def is_supposed(sentence: str) -> bool:
    """Whether a sentence says what may be, what somebody thinks, or what is to be imagined."""
    text = sentence.strip()
    return _SUPPOSITION.match(text, _opening(text)) is not None


def asks_about_text(text: str) -> bool:
    """Whether what a user says beside a pasted text asks about it, or wants something done with it."""
    return "?" in text or "？" in text or _TO_BE_READ.search(text) is not None


def _opening(text: str) -> int:
    found = _OPENING.match(text)
    return found.end() if found is not None else 0


_TALK_WORDS = THANKS | INSTRUCTIONS | INSTRUCTION_OBJECTS | {"lot", "lots", "much"}


_TALK_CHARS = 120
"""A longer sentence says something."""


def _is_small_talk(text: str) -> bool:
    """Thanks, greetings and praise, and instructions of one word ("shorter, please"): nothing that is so."""
    if len(text) > _TALK_CHARS or any(c.isdigit() for c in text):
        return False
    return all(word in _TALK_WORDS for word in content_words(text)) or reason_of(text, text) in ("greeting", "hedge", "opinion")


def asserted(text: str, pieces: Sequence[EvidencePiece], author: Author) -> tuple[EvidencePiece, ...]:
    """Those of `pieces` of `text` that say that something is so, with what is the user's own opinion marked as such."""
    kept = _Reader(text, author).read(pieces)
    if author == "user" and _IN_DOUBT.search(text[:LONG_CHARS] + text[-LONG_CHARS:]):
        return tuple(replace(piece, opinion=True) for piece in kept)
    return tuple(kept)


class _Reader:
    """Goes through one message, piece by piece, and knows what stands above each."""

    def __init__(self, text: str, author: Author) -> None:
        self._text, self._author = text, author
        self._long = author == "user" and len(text) >= LONG_CHARS
        self._last_paragraph = max((m.end() for m in _BLANK_LINE.finditer(text.rstrip())), default=0)
        self._fences = [m.start() for m in _FENCE.finditer(text)]
        self._several_lines = "\n" in text.strip()
        self._mode: _Mode = ""
        self._under_heading = False
        """Whether the mode is that of a heading, and lasts to the next one."""

    def read(self, pieces: Sequence[EvidencePiece]) -> Iterator[EvidencePiece]:
        """The pieces that are kept."""
        before = 0
        first_paragraph = True
        for piece in pieces:
            new_paragraph = _BLANK_LINE.search(self._text, before, piece.start) is not None
            first_paragraph &= not (new_paragraph and before)
            self._enter(piece, new_paragraph)
            before = piece.end
            kept = self._evidence_of(piece, addressed=not self._long or first_paragraph or piece.start >= self._last_paragraph)
            if kept is not None:
                yield kept

    def _enter(self, piece: EvidencePiece, new_paragraph: bool) -> None:
        """Leave the mode where what it was for has ended."""
        if self._mode == "directions" and not self._under_heading and new_paragraph and not _ITEM.match(piece.shown):
            self._mode = ""
        if self._mode == "pasted" and new_paragraph and self._last_paragraph <= piece.start and self._is_addressed(piece.shown):
            self._mode = ""

    def _evidence_of(self, piece: EvidencePiece, *, addressed: bool) -> EvidencePiece | None:
        shown = piece.shown
        if not piece.prose or self._is_fenced(piece.start):
            return replace(piece, pasted=True)
        if is_heading(shown):
            self._head(shown)
            return piece if self._mode != "directions" else None
        if self._mode == "directions" and self._under_heading:
            return None
        if shown.rstrip("*_ ").endswith(":") and len(shown.split()) <= _FEW_WORDS:
            return self._introduction(piece)
        if self._mode == "directions" or is_question(shown):
            return None
        if self._mode == "pasted":
            return replace(piece, pasted=True)
        return self._sentence(piece, addressed=addressed)

    def _sentence(self, piece: EvidencePiece, *, addressed: bool) -> EvidencePiece | None:
        shown = piece.shown
        keyed = _KEY_AND_VALUE.match(shown)
        if keyed is not None:
            key = keyed["key"]
            if _DIRECTIONS.fullmatch(key):
                return None
            if not is_request(key) or (" " not in key and not _WORK.fullmatch(key)):
                return replace(piece, pasted=True)
            if _TO_BE_READ.search(key) and not _DIRECTIONS_AT_END.search(key):
                self._mode = "pasted"
                at = keyed.start("value")
                return replace(piece, shown=shown[at:], start=piece.start + at, pasted=True)
        bare = _ITEM.sub("", shown, count=1) if _ITEM.match(shown) else shown
        if addressed and (is_request(bare) or is_supposed(bare) or _is_small_talk(bare)):
            return None
        note = _END_MARK.search(shown) is None and not has_verb(bare)
        if note and self._author == "user" and not self._several_lines and not _LIST_OR_QUOTE.match(shown):
            return None  # "best pizza in Rome": what is looked for
        marked = note or self._long or _LIST_OR_QUOTE.match(shown) is not None
        own = marked or self._author == "system" or _OWN.search(shown) or _TELLING_IMPERATIVE.match(bare, _opening(bare))
        return replace(piece, pasted=marked, opinion=not own)

    def _introduction(self, piece: EvidencePiece) -> EvidencePiece | None:
        """A line that says what stands below it."""
        shown = piece.shown.strip("*_ ")
        asks = is_request(shown) or is_question(shown)
        if _DIRECTIONS.match(shown) or _DIRECTIONS_AT_END.search(shown) or (asks and self._author == "system"):
            self._mode, self._under_heading = "directions", False
        elif not (self._mode == "directions" and self._under_heading):
            self._mode, self._under_heading = "pasted", False
        return None if asks or self._mode == "directions" or _HERE_IS.search(shown) else piece

    def _head(self, shown: str) -> None:
        directs = _DIRECTIONS.search(shown.strip("#*_ \t:")) is not None
        self._mode, self._under_heading = ("directions" if directs else ""), True

    def _is_addressed(self, shown: str) -> bool:
        return is_question(shown) or is_request(shown)

    def _is_fenced(self, start: int) -> bool:
        return sum(fence < start for fence in self._fences) % 2 == 1 if self._fences else False
