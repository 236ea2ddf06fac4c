"""Sentences, whether one is negated, and the text of a message: pure, language-aware functions.

`SentenceSplitter` cuts text that is still growing, for the gate: what it returns, joined, is what went in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Protocol, TypeVar

from proxy.offloop import check, each

T = TypeVar("T")
MAX_HELD_CHARS = 2000
"""A sentence longer than this is cut at white space, so that text without full stops does not wait for ever."""
_ABBREVIATIONS = frozenset(
    # English, German, Spanish, French: written with a full stop in mid-sentence.
    """
    mr mrs ms dr prof sr jr st vs etc ca inc ltd corp co approx dept est e.g i.e cf al a.m p.m u.s u.k mt gen sen gov lt capt sgt rev
    z.b d.h u.a bzw usw evtl ggf str hrsg inkl zzgl vgl mio mrd tsd chr jh geb gest gegr std ehem sog bspw dipl.-ing
    sra srta ud uds p.ej ej av mme mlle mm p.ex ex env éd j.-c ee uu dña gral lic ing avda
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
_MAY_END = frozenset("etc inc ltd corp co al jr sr a.m p.m u.s u.k usw chr jh uu uds j.-c".split())  # noqa: SIM905
_STARTERS = frozenset(
    """
    the it he she they this these those we you there however in on at der die das es er sie wir dies diese danach heute el la
    los las esto además
    le les il elle ils elles on ce cette nous
    """.split()  # noqa: SIM905
)
"""Capitalised behind an abbreviation that may end a sentence, they begin the next: "at 5 p.m. The"."""
_BEFORE_NUMBERS = frozenset(
    "no nr fig vol pp p art abs bd pág núm sec ch abb kap tab jan feb mar apr jun jul aug sept sep oct nov dec".split()  # noqa: SIM905
)
"""Abbreviations only when a number follows: "No. 5", "Jan. 5"."""
_BEFORE_ORDINALS = [
    [word]
    for word in (  # noqa: SIM905
        "im am der die das den dem des zum zur vom beim ins einem einen ihr ihren ihrem sein seinen seinem jeder jedem jeden seit ab bis"
    ).split()
]
"""German words before an ordinal whose noun is written large: "im 19. Jahrhundert"."""
_GERMAN_MONTHS = frozenset(
    ("januar", "jänner", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember")
)
# Bounded, so that thousands of full stops in a row cost no more than other text.
_END = re.compile(r"[.!?…]{1,8}[\"'”’»«“‘)\]*_]{0,8}(?:\[\^?\d{1,3}\]){0,4}(?=\s)|[。！？]{1,8}[”』」）]{0,8}|\n")
_TRAILING = re.compile(
    r"»(?=[\s.,;:!?)])|[\[【](?:\^?\d|(?:context |kontext)?"
    r"(?:passage|pasaje|source|quelle|fuente|context|kontext|contexte|retrieved|abgerufen|recuperado|extrait))"
    r"[^\[\]【】\n]{0,200}[\]】](?!\()",
    re.I,
)
"""What belongs to the sentence although its full stop stands before it: a citation, the closing mark of a French quotation."""
_TRAILING_FIRST = "»[【"
_PERHAPS_TRAILING = re.compile(r"»|[\[【][^\[\]【】\n]{0,230}")
_LOOKAHEAD_CHARS = 256
"""A sentence's end is certain when so many more characters are there."""
_STEP_CHARS = 512
"""Of a long text, taken up at a time: what waits for its sentence's end stays short, and the work linear."""
_SEARCHED_CHARS = 10_000_000
"""About 10 ms."""
_STRETCH_CHARS, _PHRASE_CHARS = 4000, 200
_NEXT_WORD = re.compile(r"\s*(\S{1,80})")
_LIST_NUMBER = re.compile(r"(?:^|\n)[\s>]*\(?\d{1,3}[.)]$")


class Searchable(Protocol):
    """A compiled pattern, or one that will be."""

    def search(self, text: str, at: int, until: int, /) -> re.Match[str] | None:
        """As `re.Pattern.search`."""


class SentenceSplitter:
    """Feed text as it comes; whole sentences come back, each with the white space around it."""

    def __init__(self) -> None:
        self._text = ""
        self._searched_chars = 0

    def feed(self, text: str) -> list[str]:
        """The sentences that `text` completes: each is followed by the start of the next, or by a line end."""
        found = []
        for start in range(0, len(text), _STEP_CHARS):
            check()
            self._text += text[start : start + _STEP_CHARS]
            while (cut := self._next_cut()) is not None:
                found.append(self._text[:cut])
                self._text, self._searched_chars = self._text[cut:], 0
        return found

    def flush(self) -> str:
        """What is left when the text has ended; may be empty."""
        rest, self._text, self._searched_chars = self._text, "", 0
        return rest

    def _next_cut(self) -> int | None:
        """Where the first sentence ends, if that is certain; the same however the text was cut into chunks."""
        cut = self._sentence_end()
        if cut is not None and cut <= MAX_HELD_CHARS:
            return cut
        if len(self._text) <= MAX_HELD_CHARS + _LOOKAHEAD_CHARS:
            return None
        space = self._text.rfind(" ", 1, MAX_HELD_CHARS)
        return space + 1 if space > 0 else MAX_HELD_CHARS

    def _sentence_end(self) -> int | None:
        for match in _END.finditer(self._text, self._searched_chars):
            stop = match.end()
            if self._text[stop : stop + 1] == " " and self._text[stop + 1 : stop + 2].isalnum():  # as most sentences end
                end = stop + 1
            else:
                stop, end = self._with_trailing(stop)
            # More white space, a citation's rest, or the next sentence, is still to come.
            if end == len(self._text) or (self._text[end] in "[【»" and _PERHAPS_TRAILING.fullmatch(self._text, end)):
                self._searched_chars = match.start()
                return None
            if _is_end(self._text, match):
                # Tokens carry the space before a word and the line ends after a stop: cut where events seldom need cutting.
                return end if "\n" in self._text[stop - 1 : end] else stop
        self._searched_chars = max(self._searched_chars, len(self._text) - 40)
        return None

    def _with_trailing(self, stop: int) -> tuple[int, int]:
        """Where a sentence ends with the citations on its line that follow its full stop, and where the text goes on.

        One that a lower-case word follows begins the next sentence: "[Passage 2] adds that …".
        """
        end = self._skip_space(stop)
        while (
            self._text[end : end + 1] in _TRAILING_FIRST
            and "\n" not in self._text[stop - 1 : end]
            and (trailing := _TRAILING.match(self._text, end)) is not None
        ):
            following = self._skip_space(trailing.end())
            if self._text[following : following + 1].islower() and "\n" not in self._text[trailing.end() : following]:
                break
            stop, end = trailing.end(), following
        return stop, end

    def _skip_space(self, at: int) -> int:
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return at


class InOrder:
    """Where texts stand in another one, looked for one after the other: each behind the last, else anywhere.

    What comes in the order in which it stands there costs one pass over it all. What does not is found too, until `_SEARCHED_CHARS` were
    read in vain; after that it counts as not there, so that thousands of texts that are not in a long one do not cost their product.
    """

    def __init__(self, text: str) -> None:
        self._text, self._at, self._chars_left = text, 0, _SEARCHED_CHARS

    def find(self, part: str) -> int:
        """The position of `part`, -1 where it was not found."""
        if not part or self._chars_left <= 0:
            return -1
        start = self._text.find(part, self._at)
        self._chars_left -= len(self._text) - self._at if start < 0 else 0
        if start < 0 and self._at and self._chars_left > 0:
            start = self._text.find(part, 0, self._at + len(part))
            self._chars_left -= self._at if start < 0 else start
        if start >= 0:
            self._at = max(self._at, start + len(part))
        return start

    def spans(self, parts: Iterable[str]) -> list[tuple[int, int]]:
        """Where `parts` stand, each once, sorted."""
        return sorted((start, start + len(part)) for part in parts if (start := self.find(part)) >= 0)


def without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """`text` with a space in place of each of `spans` (sorted)."""
    kept, at = [], 0
    for start, end in spans:
        kept.append(text[at:start])
        at = max(at, end)
    return " ".join([*kept, text[at:]])


def stretches(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of pieces of a long text, for what is found within a line or a sentence: a regular expression has the interpreter for
    itself until it is done, which takes a second for some of them in a megabyte.
    """
    start = 0
    while len(text) - start > 2 * _STRETCH_CHARS:
        middle, end = start + _STRETCH_CHARS, start + 2 * _STRETCH_CHARS
        cut = next((at + 1 for mark in ("\n", ". ", " ") if (at := text.rfind(mark, middle, end)) >= 0), end)
        yield start, cut
        start = cut
    yield start, len(text)


_SHORT_CHARS = 300


def remembered(reading: Callable[..., T]) -> Callable[..., T]:
    """`reading`, a pure function of strings, with its last 2,048 findings about short ones: several stages read the same sentence."""
    known = lru_cache(maxsize=2_048)(reading)

    @wraps(reading)
    def read(*texts: str) -> T:
        return known(*texts) if len(texts[0]) <= _SHORT_CHARS else reading(*texts)

    return read


def occurs(pattern: Searchable, text: str) -> bool:
    """Whether `pattern` occurs in a text, looked for in `stretches` that overlap by the longest that a phrase may be."""
    return any(pattern.search(text, start, end + _PHRASE_CHARS) is not None for start, end in each(stretches(text)))


def text_of(content: object) -> str:
    """The text of a message's content: a string, or its text parts joined by line ends."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text")]
    return "\n".join(part for part in parts if isinstance(part, str))


def replaced(sentence: str, text: str) -> str:
    """`text` in place of `sentence`, within the same white space; a `text` without words, or none at all, as it is."""
    if not text.strip():
        return text
    inner = sentence.strip()
    start = sentence.find(inner)
    return sentence[:start] + text + sentence[start + len(inner) :]


def split_sentences(text: str) -> list[str]:
    """All sentences of a whole text, cut as `SentenceSplitter` would."""
    splitter = SentenceSplitter()
    found = splitter.feed(text)
    rest = splitter.flush()
    return [*found, rest] if rest else found


def _is_end(text: str, match: re.Match[str]) -> bool:
    """Whether a full stop ends a sentence: not in an abbreviation, an initial, an ordinal, a list's number or a row of a table."""
    if match[0] == "\n":
        return True
    if text.startswith("|"):
        return False
    if match[0] != ".":
        return True
    before = text[max(0, match.start() - 80) : match.start()]
    if before[-1:].isdecimal() and _LIST_NUMBER.search(before[-8:] + "."):
        return False
    if not before or before[-1].isspace():
        return True
    last = before[-40:].rsplit(None, 1)[-1].lstrip("(\"'„“«¿¡[").lower()
    if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
        following = _next_word(text, match.end())
        return last in _MAY_END and following.istitle() and following.lower() in _STARTERS
    if last in _BEFORE_NUMBERS:
        return not _next_word(text, match.end())[0].isdigit()
    if last.isdigit():  # German ordinals: "am 3. Mai", "das 2. und 3. Kapitel"
        ordinal = len(last) < 3 and before.lower().split()[-2:-1] in _BEFORE_ORDINALS
        following = _next_word(text, match.end())
        return not (ordinal or following[0].islower() or following.strip(".,;:").lower() in _GERMAN_MONTHS)
    return True


def _next_word(text: str, at: int) -> str:
    """The first 80 characters of the word behind `at`; the caller has seen that there is one."""
    return _NEXT_WORD.match(text, at)[1]  # type: ignore[index]


def whole_characters(text: str) -> str:
    """`text` with U+FFFD for lone surrogates (JSON can name half a character; no encoder takes it), and both halves of one joined."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def fold(text: str) -> str:
    """Lower case without diacritics: "Zürich" and "Zurich" are one."""
    text = text.casefold()
    if text.isascii():
        return text
    bare = _NOT_ASCII.sub(lambda found: "".join(c for c in found[0] if not unicodedata.combining(c)), unicodedata.normalize("NFKD", text))
    return unicodedata.normalize("NFC", bare)  # Korean syllables were taken apart too


# ---- negation ----


_NEGATING = {
    "en": r"\b(?:not|never|no|none|nobody|nothing|neither|nor|cannot|without|nowhere)\b|n['’]t\b"
    r"|\b(?:is|are|was|were|do|does|did|has|have|had|ca|wo)nt\b",
    "de": r"\b(?:nicht|nichts|nie|niemals|niemand\w{0,2}|ohne|weder|kein\w{0,2}|nirgends|nöd|nid|ned|nich|nix)\b",
    "es": r"\b(?:no|nunca|jamás|nadie|nada|tampoco|sin|ningún|ningun[oa]s?)\b",
    "fr": r"\b(?:pas|jamais|aucune?|rien|sans|ni|nullement)\b",
    "it": r"\b(?:non|mai|nessun[oa]?|niente|nulla|senza|né|neppure|nemmeno)\b",
    "pt": r"\b(?:não|nunca|jamais|ninguém|nada|sem|nem|nenhum(?:a|as)?|nenhuns)\b",
}
_NEGATIONS = {language: re.compile(words, re.I) for language, words in _NEGATING.items()}
_NOT_NEGATING = re.compile(
    r"\b(?:not only|no longer than|no (?:more|less|fewer) than|no\. ?\d|not (?:just|least)|nicht nur|nicht zuletzt|"
    r"nichts anderes|no s[oó]lo|"
    r"no solamente|pas seulement|pas moins|non seulement|sans doute|sin embargo|without doubt)\b",
    re.I,
)


def knows_negations(language: str) -> bool:
    """Whether the words for "not" of a language are known: of what a sentence in another one says, nothing is sure."""
    return language in _NEGATIONS


def is_negated(sentence: str, language: str = "en") -> bool:
    """Whether an odd number of negations stands in `sentence`."""
    pattern = _NEGATIONS.get(language, _NEGATIONS["en"])
    return len(pattern.findall(_NOT_NEGATING.sub(" ", sentence))) % 2 == 1


def without_negation(sentence: str, language: str = "en") -> str:
    """`sentence` without the words that negate it, to be compared with what it denies."""
    return _NEGATIONS.get(language, _NEGATIONS["en"]).sub(" ", sentence)
