"""Sentences, and the text of a message: pure, language-aware functions.

`SentenceSplitter` cuts text that is still growing, for the gate: what it returns, joined, is what went in.
"""

from __future__ import annotations

import re

MAX_HELD_CHARS = 2000
"""A sentence longer than this is cut at white space, so that text without full stops does not wait for ever."""
_ABBREVIATIONS = frozenset(
    # English, German, Spanish, French: written with a full stop in mid-sentence.
    """
    mr mrs ms dr prof sr jr st vs etc ca inc ltd corp co approx dept est e.g i.e cf al a.m p.m u.s u.k
    z.b d.h u.a bzw usw evtl ggf str hrsg inkl zzgl vgl
    sra srta ud uds p.ej av mme mlle mm p.ex env éd
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
_BEFORE_NUMBERS = frozenset(("no", "nr", "fig", "vol", "pp", "p", "art", "abs", "bd", "pág", "núm", "sec", "ch"))
"""Abbreviations only when a number follows: "No. 5"."""
_GERMAN_MONTHS = frozenset(
    ("januar", "jänner", "februar", "märz", "april", "mai", "juni", "juli", "august", "september", "oktober", "november", "dezember")
)
_END = re.compile(r"[.!?…]+[\"'”’»)\]*_]*(?=\s)|[。！？]+[”』」）]*|\n")
_LAST_WORD = re.compile(r"(\S+)$")
_LIST_NUMBER = re.compile(r"(?:^|\n)\s*\(?\d{1,3}[.)]$")


class SentenceSplitter:
    """Feed text as it comes; whole sentences come back, each with the white space around it."""

    def __init__(self) -> None:
        self._text = ""
        self._searched = 0

    def feed(self, text: str) -> list[str]:
        """The sentences that `text` completes: each is followed by the start of the next, or by a line end."""
        self._text += text
        found = []
        while (cut := self._next_cut()) is not None:
            found.append(self._text[:cut])
            self._text, self._searched = self._text[cut:], 0
        return found

    def flush(self) -> str:
        """What is left when the text has ended; may be empty."""
        rest, self._text, self._searched = self._text, "", 0
        return rest

    def _next_cut(self) -> int | None:
        """Where the first sentence ends, if that is certain; the same however the text was cut into chunks."""
        cut = self._sentence_end()
        if len(self._text) <= MAX_HELD_CHARS or (cut is not None and cut <= MAX_HELD_CHARS):
            return cut
        space = self._text.rfind(" ", 1, MAX_HELD_CHARS)
        return space + 1 if space > 0 else MAX_HELD_CHARS

    def _sentence_end(self) -> int | None:
        for match in _END.finditer(self._text, self._searched):
            end = match.end()
            while end < len(self._text) and self._text[end].isspace():
                end += 1
            if end == len(self._text):  # more white space, or the next sentence, is still to come
                self._searched = match.start()
                return None
            if _is_end(self._text, match):
                # Tokens carry the space before a word and the line ends after a stop: cut where events seldom need cutting.
                return end if "\n" in self._text[match.end() - 1 : end] else match.end()
        self._searched = max(self._searched, len(self._text) - 40)
        return None


def text_of(content: object) -> str:
    """The text of a message's content: a string, or its text parts joined by line ends."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text")]
    return "\n".join(part for part in parts if isinstance(part, str))


def replaced(sentence: str, text: str) -> str:
    """`text` in place of `sentence`, within the same white space; nothing at all for an empty `text`."""
    if not text:
        return ""
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
    """Whether a full stop ends a sentence: not in an abbreviation, an initial, an ordinal or a list's number."""
    if match[0] != ".":
        return True
    before = text[: match.start()]
    if _LIST_NUMBER.search(before[-8:] + "."):
        return False
    word = _LAST_WORD.search(before[-40:])
    if word is None:
        return True
    last = word[1].lstrip("(\"'„“«¿¡[").lower()
    following = text[match.end() :].split(maxsplit=1)[0]
    if last in _ABBREVIATIONS or (len(last) == 1 and last.isalpha()):
        return False
    if last in _BEFORE_NUMBERS:
        return not following[0].isdigit()
    if last.isdigit():  # German ordinals: "am 3. Mai", "das 2. und 3. Kapitel"
        return not (following[0].islower() or following.strip(".,;:").lower() in _GERMAN_MONTHS)
    return True
