"""A text as a model reads it: folded to plain letters, without invisible characters, broken lines and inline markup, and with what is
hidden or encoded in it laid open.

In: any text. Out: `FoldedText`, in which phrases can be looked for, with the way back to the original's positions; and `layers`, the texts
that a person does not see: comments, hidden elements, base64 and hexadecimal digits, Unicode tag characters. What says nothing there
(hashes, keys, pictures, identifiers) is none. Linear in the text's length.
"""

from __future__ import annotations

import base64
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct

from proxy.language.patterns import LazyPattern

MAX_LAYER_CHARS = 20_000
"""What is read of one hidden text."""
INVISIBLE = LazyPattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e0fff]"
)
_UNSEEN = INVISIBLE.pattern[1:-1] + "\u0300-\u036f\u20d0-\u20f0"
_MARKED_ELEMENT = (
    r"/?(?:a|abbr|b|bdi|bdo|big|em|font|i|ins|mark|s|small|span|strike|strong|sub|sup|tt|u|wbr)(?=[\s/>])"
    r"(?![^<>]{0,200}(?:style|class|hidden))[^<>]{0,200}>"
)
"""An HTML element within a line of text, behind its "<"; what a style or a class may hide is left for `_HIDDEN_ELEMENT`."""
_LETTER = r"[^\W\d_]"
_NEXT_LINE = rf"[ \t]{{0,40}}(?:>[ \t]{{0,2}}){{0,3}}(?={_LETTER})"
_GAPS = LazyPattern(
    rf"[ \t\r\n<{_UNSEEN}](?:(?P<nothing>(?<=[{_UNSEEN}])|(?<=\w<){_MARKED_ELEMENT}|(?<=<){_MARKED_ELEMENT}(?=\w))"
    rf"|(?<={_LETTER}\n|,\n){_NEXT_LINE}|(?<={_LETTER}[ \t\r]|,[ \t\r])[ \t]{{0,2}}\r?\n{_NEXT_LINE}"
    r"|(?<=\S[ \t])[ \t]{1,40}(?=\S)|(?<=\S\t)(?=\S))",
    re.I,
)
"""What stands between the letters and words of a text without parting them: ``nothing`` is left of some, of a line's break within a
sentence (in a quoted mail, too) and of a row of blanks one blank."""
_GAP_MARKS = ("<", "\n", "\t", "  ", "\r")
"""In plain ASCII each gap has one of them."""
_TAGS = LazyPattern("[\U000e0020-\U000e007e]{4,20000}")
_FLAG = "\U0001f3f4"
"""Before tag characters it makes a flag (England, Scotland, Wales): ordinary text."""
_COMMENTS = (("<!--", "-->"), ("/*", "*/"))
_LINK_COMMENT = LazyPattern(r"\[//\]: ?#[ (\"']{1,3}([^\n]{1,2000})")
_HIDDEN_ELEMENT = LazyPattern(
    r"<(?!input\b)\w{1,12}\b[^<>]{0,300}?(?:display ?: ?none|visibility ?: ?hidden|font-size ?: ?[01](?:px|pt|em)?\b|"
    r"opacity ?: ?0(?:\.0\d?)?[;\"']|"
    r"(?<!-)color ?: ?(?:white\b|#fff\b|#ffffff\b|transparent\b|rgba?\(255, ?255, ?255)|text-indent ?: ?-\d{3,5}|left ?: ?-\d{3,5}px|"
    r"\shidden(?=[\s>=])|aria-hidden=.true)[^<>]{0,300}>([^<]{1,20000})",
    re.I,
)
_LETTER_ENTITIES = LazyPattern(
    r"(?:&#(?:6[5-9]|[78]\d|9[07-9]|1[01]\d|12[0-2]|x[46][1-9a-f]|x[57][0-9a]);[^&<>\n]{0,80}(?:&#(?:32|x20);)?){3}", re.I
)
"""Plain letters, which nobody has to write so."""
_JOINED_WORDS = LazyPattern("\\w{1,30}(?:[\u200b\u2060\ufeff]{1,4}\\w{1,30}){3,200}")
"""Words with zero-width spaces between them: a person sees one long word, or nothing of note."""
_BASE64 = LazyPattern(
    r"(?<![A-Za-z0-9+/_=-])(?:(?:[A-Za-z0-9+/]{24,76}\r?\n){1,400}[A-Za-z0-9+/]{4,76}={0,2}|[A-Za-z0-9+/_-]{24,20000}={0,2})"
)
"""Also in lines, as mails have it."""
_HEX = LazyPattern(r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9a-fA-F]{2}[ :]?){24,10000}|(?:\\x[0-9a-fA-F]{2}){12,5000}")
_LOOKALIKES = str.maketrans(
    # Cyrillic, Greek and small capital letters that look like Latin ones (Unicode confusables), and letters that decomposition does not
    # reach.
    "авеёкмнорстухіјѕԁѵһӏАВЕКМНОРСТУХІЈЅαβεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧßœæøłđı’‘‐‑‒\u00a0ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ",
    "abeekmhopctyxijsdvhlabekmhopctyxijsabeikvoptuxabezhikmnoptyxsoaoldi''--- abcdefghijklmnoprstuvwyz",
)


class FoldedText(Struct, frozen=True):
    """A text in lower case, without diacritics, lookalike letters and invisible characters."""

    text: str
    removed: tuple[int, ...] = ()
    """For each invisible character how many of the kept ones precede it, ascending."""

    def original(self, position: int) -> int:
        """Where the kept character at `position` stands in the original."""
        return position + bisect_right(self.removed, position) if self.removed else position


class Layer(Struct, frozen=True):
    """A text within a text that its readers do not see as it is."""

    kind: str
    """``comment``, ``hidden_element``, ``entities``, ``tag_characters``, ``zero_width``, ``base64`` or ``hex``."""
    text: str
    start: int
    end: int


class _OneForOne(dict[int, int]):
    """For `str.translate`: each character's base letter in lower case, always exactly one."""

    def __missing__(self, code: int) -> int:
        base = unicodedata.normalize("NFKD", chr(code))[:1].lower()[:1]
        found = ord(base) if base and not unicodedata.combining(base) else code
        found = _LOOKALIKES.get(found, _LOOKALIKES.get(code, found))
        self[code] = found
        return found


_FOLDING = _OneForOne()


def fold(text: str) -> FoldedText:
    """`text` folded; its length is that of `text` without invisible characters."""
    plain, removed = _close_gaps(text)
    if text.isascii():
        return FoldedText(plain.lower(), removed)
    plain = unicodedata.normalize("NFC", plain) if len(unicodedata.normalize("NFC", plain)) == len(plain) else plain
    return FoldedText(plain.translate(_FOLDING).lower() if not plain.isascii() else plain.lower(), removed)


def _close_gaps(text: str) -> tuple[str, tuple[int, ...]]:
    """`text` with its gaps closed, and `FoldedText.removed`."""
    if text.isascii() and not any(mark in text for mark in _GAP_MARKS):
        return text, ()
    parts, removed, at, length = list[str](), list[int](), 0, 0
    for gap in _GAPS.finditer(text):
        blank = " " if gap["nothing"] is None else ""
        parts += (text[at : gap.start()], blank)
        length += gap.start() - at + len(blank)
        removed += [length] * (gap.end() - gap.start() - len(blank))
        at = gap.end()
    return ("".join((*parts, text[at:])), tuple(removed)) if parts else (text, ())


def layers(text: str) -> Iterator[Layer]:
    """The texts hidden in `text`, with the place of each."""
    if not text.isascii():
        yield from _tag_characters(text)
        yield from (Layer("zero_width", INVISIBLE.sub(" ", match[0]), *match.span()) for match in _JOINED_WORDS.finditer(text))
    if "<" in text or "/*" in text or "[//]" in text:
        yield from _comments(text)
        yield from _groups(text, _LINK_COMMENT, "comment")
        yield from _groups(text, _HIDDEN_ELEMENT, "hidden_element")
    yield from _encoded_layers(text)


def _tag_characters(text: str) -> Iterator[Layer]:
    for match in _TAGS.finditer(text):
        if text[match.start() - 1 : match.start()] != _FLAG:
            yield Layer("tag_characters", "".join(chr(ord(c) - 0xE0000) for c in match[0]), match.start(), match.end())


def _comments(text: str) -> Iterator[Layer]:
    for opening, closing in _COMMENTS:
        start = text.find(opening)
        while start >= 0:
            end = text.find(closing, start + len(opening))
            if end < 0:
                break
            inner = text[start + len(opening) : end]
            if inner.strip() and not inner.startswith("[if"):
                yield Layer("comment", html.unescape(inner[:MAX_LAYER_CHARS]), start, end + len(closing))
            start = text.find(opening, end)


def _groups(text: str, pattern: LazyPattern, kind: str) -> Iterator[Layer]:
    for match in pattern.finditer(text):
        inner = next((group for group in match.groups() if group), "")
        if inner.strip():
            yield Layer(kind, html.unescape(inner)[:MAX_LAYER_CHARS], match.start(), match.end())


def _encoded_layers(text: str) -> Iterator[Layer]:
    for kind, pattern, read in (("base64", _BASE64, _of_base64), ("hex", _HEX, _of_hex)):
        for match in pattern.finditer(text):
            if (decoded := _words_of(read(match[0]))) is not None:
                yield Layer(kind, decoded, *match.span())
    if "&#" in text and _LETTER_ENTITIES.search(text) is not None:
        yield Layer("entities", html.unescape(text)[:MAX_LAYER_CHARS], 0, len(text))


def _of_base64(run: str) -> bytes:
    run = re.sub(r"[\s=]", "", run).replace("-", "+").replace("_", "/")
    return base64.b64decode(run[: len(run) - len(run) % 4])


def _of_hex(run: str) -> bytes:
    digits = re.sub(r"\\x|0x|[ :]", "", run)
    return bytes.fromhex(digits[: len(digits) - len(digits) % 2])


def _words_of(data: bytes) -> str | None:
    """Bytes as words; None where they are none: hashes, keys and pictures."""
    text = data.decode("utf-8", "replace")
    letters = sum(c.isalpha() or c == " " for c in text)
    return text[:MAX_LAYER_CHARS] if len(text) >= 12 and " " in text.strip() and letters >= 0.75 * len(text) else None
