"""A text as a model reads it: folded to plain letters, without invisible characters, and with what is hidden or encoded in it laid open.

In: any text. Out: `FoldedText`, in which phrases can be looked for, with the way back to the original's positions; and `layers`, the texts
that a person does not see: comments, hidden elements, base64, hexadecimal, percent-encoding, Unicode tag characters. Linear in the text's
length.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct

MAX_LAYER_CHARS = 20_000
"""What is read of one hidden text."""
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e0fff]"
)
_TAGS = re.compile("[\U000e0020-\U000e007e]{4,20000}")
_FLAG = "\U0001f3f4"
"""Before tag characters it makes a flag (England, Scotland, Wales): ordinary text."""
_BINARY = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff]{24,20000}")
"""So many zero-width characters in a row carry bits, not typography."""
_COMMENTS = (("<!--", "-->"), ("/*", "*/"))
_LINK_COMMENT = re.compile(r"\[//\]: ?#[ (\"']{1,3}([^\n]{1,2000})")
_HIDDEN_ELEMENT = re.compile(
    r"<(?!input\b)\w{1,12}\b[^<>]{0,300}?(?:display ?: ?none|visibility ?: ?hidden|font-size ?: ?[01](?:px|pt|em)?\b|"
    r"opacity ?: ?0(?:\.0\d?)?[;\"']|"
    r"(?<!-)color ?: ?(?:white\b|#fff\b|#ffffff\b|transparent\b|rgba?\(255, ?255, ?255)|text-indent ?: ?-\d{3,5}|left ?: ?-\d{3,5}px|"
    r"\shidden(?=[\s>=])|aria-hidden=.true)[^<>]{0,300}>([^<]{1,20000})",
    re.I,
)
_ATTRIBUTE = re.compile(
    r"\b(?:alt|title|aria-label|data-[\w-]{1,30}|content|placeholder)\s?=\s?(?:\"([^\"<>]{30,2000})\"|'([^'<>]{30,2000})')", re.I
)
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{24,20000}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9a-fA-F]{2}[ :]?){24,10000}|(?:\\x[0-9a-fA-F]{2}){12,5000}")
_PERCENT = re.compile(r"(?:(?:%[0-9A-Fa-f]{2}){1,9}[\w.!'-]{0,30}){5,2000}")
_WORD_BEFORE = re.compile(r"[\w.!'-]{1,30}$")
_ENTITIES = re.compile(r"(?:&#x?[0-9a-fA-F]{2,6};[ ]?){8,5000}")
_SPACED = re.compile(r"(?<!\w)(?:\w([ .·_*-]))(?:\w\1){6,2000}\w(?!\w)|(?<!\w)(?:\w ){3,40}\w(?:  +(?:\w ){1,40}\w){1,200}(?!\w)")
"""Letters set apart: "i g n o r e   a l l"."""
_JOINED = re.compile("\\w{1,30}(?:[\u200b\u2060\ufeff]{1,4}\\w{1,30}){3,200}")
"""Words with zero-width spaces between them: a person sees one long word, or nothing of note."""
_SAMPLE = 96
_LOOKALIKES = str.maketrans(
    # Cyrillic and Greek letters that look like Latin ones (Unicode confusables), and letters that decomposition does not reach.
    "авеёкмнорстухіјѕԁѵһӏАВЕКМНОРСТУХІЈЅαβεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧßœæøłđı’‘‐‑‒\u00a0",
    "abeekmhopctyxijsdvhlabekmhopctyxijsabeikvoptuxabezhikmnoptyxsoaoldi''--- ",
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
    """``comment``, ``hidden_element``, ``attribute``, ``base64``, ``hex``, ``percent``, ``entities``, ``tag_characters``, ``spaced``,
    ``zero_width``."""
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
    if text.isascii():
        return FoldedText(text.lower())
    removed = tuple(match.start() - i for i, match in enumerate(INVISIBLE.finditer(text)))
    plain = INVISIBLE.sub("", text) if removed else text
    plain = unicodedata.normalize("NFC", plain) if len(unicodedata.normalize("NFC", plain)) == len(plain) else plain
    return FoldedText(plain.translate(_FOLDING).lower() if not plain.isascii() else plain.lower(), removed)


def layers(text: str) -> Iterator[Layer]:
    """The texts hidden in `text`, with the place of each."""
    if not text.isascii():
        yield from _tag_characters(text)
        yield from (Layer("zero_width", INVISIBLE.sub(" ", match[0]), *match.span()) for match in _JOINED.finditer(text))
    if "<" in text or "/*" in text or "[//]" in text:
        yield from _comments(text)
        yield from _groups(text, _LINK_COMMENT, "comment")
        yield from _groups(text, _HIDDEN_ELEMENT, "hidden_element")
        yield from _groups(text, _ATTRIBUTE, "attribute")
    yield from _encoded(text)


def carries_bits(text: str) -> re.Match[str] | None:
    """A long run of zero-width characters."""
    return None if text.isascii() else _BINARY.search(text)


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


def _groups(text: str, pattern: re.Pattern[str], kind: str) -> Iterator[Layer]:
    for match in pattern.finditer(text):
        inner = next((group for group in match.groups() if group), "")
        if inner.strip():
            yield Layer(kind, html.unescape(inner)[:MAX_LAYER_CHARS], match.start(), match.end())


def _encoded(text: str) -> Iterator[Layer]:
    for match in _BASE64.finditer(text):
        if (found := _base64(match[0])) is not None:
            yield Layer("base64", found, match.start(), match.end())
    for match in _HEX.finditer(text):
        if (found := _hex(match[0])) is not None:
            yield Layer("hex", found, match.start(), match.end())
    if "%" in text:
        for match in _PERCENT.finditer(text):
            before = _WORD_BEFORE.search(text, max(0, match.start() - 30), match.start())
            start = before.start() if before else match.start()
            yield Layer("percent", unquote(text[start : match.end()])[:MAX_LAYER_CHARS], start, match.end())
    if "&#" in text:
        for match in _ENTITIES.finditer(text):
            yield Layer("entities", html.unescape(match[0])[:MAX_LAYER_CHARS], match.start(), match.end())
    for match in _SPACED.finditer(text):
        yield Layer("spaced", _joined(match[0]), match.start(), match.end())


def _base64(run: str) -> str | None:
    """What a run of base64 says, where it says anything; hashes, keys and pictures do not."""
    if _text(_decoded(run[: _SAMPLE - _SAMPLE % 4])) is None:
        return None
    return _text(_decoded(run))


def _decoded(run: str) -> bytes:
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    run = run[: len(run) - (len(run) % 4 == 1)]
    try:
        return base64.b64decode(run + "=" * (-len(run) % 4))
    except (binascii.Error, ValueError):
        return b""


def _hex(run: str) -> str | None:
    digits = re.sub(r"\\x|0x|[ :]", "", run)
    return _text(bytes.fromhex(digits[: len(digits) - len(digits) % 2]))


def _text(data: bytes) -> str | None:
    """Bytes as words; None where they are none. The last character may be cut."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:
            return None
        text = data[: error.start].decode("utf-8")
    letters = sum(c.isalpha() or c == " " for c in text)
    return text[:MAX_LAYER_CHARS] if len(text) >= 12 and " " in text.strip() and letters >= 0.75 * len(text) else None


def _joined(run: str) -> str:
    """Letters set apart, put together: a wider gap, or none, is the end of a word."""
    words = re.split(r" {2,}", run) if "  " in run else [run]
    return " ".join(re.sub(r"[ .·_*-]", "", word) for word in words)
