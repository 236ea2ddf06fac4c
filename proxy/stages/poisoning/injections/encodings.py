"""Texts in another writing, which a model reads and hardly a person does: base64 and its like, numbers of characters, digits for
letters.

In: any text. Out: what is written in it so, in plain letters, with its place. What says nothing (hashes, keys, pictures, identifiers) is
none. Linear in the text's length.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

from proxy.language.patterns import LazyPattern

MAX_LAYER_CHARS = 20_000
"""What is read of one hidden text."""
Encoded = tuple[str, str, int, int]
"""Its kind, what it says, and its place."""
_BASE64 = LazyPattern(
    r"(?<![A-Za-z0-9+/_=-])(?:(?:[A-Za-z0-9+/]{24,76}\r?\n){1,400}[A-Za-z0-9+/]{4,76}={0,2}|[A-Za-z0-9+/_-]{24,20000}={0,2})"
)
"""Also in lines, as mails have it."""
_MIN_BASE64_CHARS = 24
_MAX_NESTED = 3
"""Base64 of base64 is opened so often."""
_HEX = LazyPattern(r"(?<![0-9A-Za-z])(?:0x)?(?:[0-9a-fA-F]{2}[ :]?){24,10000}|(?:\\x[0-9a-fA-F]{2}){12,5000}")
_ESCAPES = LazyPattern(r"(?:\\u(?:00|\{)[0-9a-fA-F]{2}\}?[^\\\w]{0,2}){8,5000}")
_DECIMALS = LazyPattern(r"(?<![\w.])(?:(?:3[2-9]|[4-9]\d|1[01]\d|12[0-6])[ ,;]{1,2}){12,5000}\d{2,3}(?![\w.])")
_BITS = LazyPattern(r"(?<!\w)(?:0[01]{7}[ ,]?){12,5000}(?!\w)")
_PERCENT = LazyPattern(r"(?:(?:%[0-9A-Fa-f]{2}){1,9}[\w.!'-]{0,30}){5,2000}")
_WORD_BEFORE = LazyPattern(r"[\w.!'-]{1,30}$")
_SAMPLE = 96
_MIXED = LazyPattern(r"(?<![\w./:=@$%#-])(?=[a-z]{0,12}[0134578@$])[a-z0134578@$]{2,16}(?![\w/:=@%#-]|\.\w)", re.I)
"""A word with digits in it, which may stand for letters."""


def _only(characters: str) -> bytes:
    """For `bytes.translate`: an x for each of them."""
    return bytes(ord("x") if chr(byte) in characters else 0 for byte in range(256))


_OF_BASE64 = _only("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-=?")
_OF_HEX, _OF_DIGITS = _only("0123456789abcdefABCDEF?"), _only("0123456789?")
_LETTERS = str.maketrans("0134578@$", "oieastbas")
_DIGITS = b"0134578@$"
_NEAR_CHARS, _MIN_MIXED = 40, 3
"""So many such words, so near each other, are a text written with digits; one is an identifier."""
_TELLING = (
    *("ignor", "disregard", "forget", "instruct", "prompt", "passw", "secret", "user", "system", "vergiss", "anweisung", "nutzer"),
    *("olvida", "usuario", "contrasen", "oublie", "consigne", "utilisateur"),
)
"""Beginnings of words of which some stand in what says something to a model."""


def decoded(text: str) -> Iterator[Encoded]:
    """What `text` says in other writings."""
    for pattern, read, kind in _perhaps(text):
        for match in pattern.finditer(text):
            if (found := read(match[0])) is not None:
                yield kind, found, *match.span()
    if "\\u" in text:
        for match in _ESCAPES.finditer(text):
            said = re.sub(r"\\u\{?([0-9a-fA-F]{2,4})\}?", lambda one: chr(int(one[1], 16)), match[0])
            yield "escapes", said[:MAX_LAYER_CHARS], *match.span()
    if "%" in text:
        for match in _PERCENT.finditer(text):
            before = _WORD_BEFORE.search(text, max(0, match.start() - 30), match.start())
            start = before.start() if before else match.start()
            yield "percent", unquote(text[start : match.end()])[:MAX_LAYER_CHARS], start, match.end()
    yield from _with_digits(text)


def _perhaps(text: str) -> Iterator[tuple[LazyPattern, Callable[[str], str | None], str]]:
    """The writings that `text` may hold: of each, a row of its characters as long as its pattern wants, what may stand between left out.

    What is no character of ASCII stands for any.
    """
    data = text.encode("ascii", "replace")
    if b"x" * _MIN_BASE64_CHARS in data.translate(_OF_BASE64):
        yield _BASE64, _base64, "base64"
    if b"x" * 48 in data.translate(_OF_HEX, b" :") or "\\x" in text:
        yield _HEX, _hex, "hex"
    if b"x" * 26 in data.translate(_OF_DIGITS, b" ,;"):
        yield _DECIMALS, _decimals, "numbers"
        yield _BITS, _bits, "bits"


def _with_digits(text: str) -> Iterator[Encoded]:
    """Words with digits for letters, where several stand together, with the words around them."""
    if not _may_have_digits(text):
        return
    run: list[re.Match[str]] = []
    for match in _MIXED.finditer(text):
        if run and match.start() - run[-1].end() > _NEAR_CHARS:
            yield from _of_run(text, run)
            run = []
        run.append(match)
    yield from _of_run(text, run)


def _may_have_digits(text: str) -> bool:
    """Whether there are enough digits, and a telling word where they are read as letters."""
    if len(data := text.encode("ascii", "replace")) - len(data.translate(None, _DIGITS)) < _MIN_MIXED:
        return False
    words = text.lower().translate(_LETTERS)
    return any(word in words for word in _TELLING)


def _of_run(text: str, run: Sequence[re.Match[str]]) -> Iterator[Encoded]:
    words = [match[0].lower().translate(_LETTERS) for match in run]
    if len(run) < _MIN_MIXED or not any(word.startswith(_TELLING) for word in words):
        return
    start, end = max(0, run[0].start() - _NEAR_CHARS), min(len(text), run[-1].end() + 2 * _NEAR_CHARS)
    at, parts = start, list[str]()
    for match, word in zip(run, words, strict=True):
        parts += (text[at : match.start()], word)
        at = match.end()
    yield "digits", ("".join(parts) + text[at:end])[:MAX_LAYER_CHARS], start, end


def _base64(run: str) -> str | None:
    """What a run of base64 says, where it says anything; hashes, keys and pictures do not."""
    run = re.sub(r"\s", "", run)
    for _ in range(_MAX_NESTED):
        if len(run) < _MIN_BASE64_CHARS:
            return None
        if _text(_decoded(run[: _SAMPLE - _SAMPLE % 4])) is not None:
            return _text(_decoded(run))
        inner = _decoded(run)
        if _BASE64.fullmatch(run := inner.decode("ascii", "replace")) is None:
            return None
    return None


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


def _decimals(run: str) -> str | None:
    return _text(bytes(int(number) for number in re.findall(r"\d+", run) if int(number) < 128))


def _bits(run: str) -> str | None:
    return _text(bytes(int(bits, 2) for bits in re.findall(r"[01]{8}", run)))


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
