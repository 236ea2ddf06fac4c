"""Almost JSON -> JSON, where there is only one way to read it; in one pass, linear in the length of the text.

Mended are forms that a lenient reader takes for the same value: comments, trailing commas, single or typographic quotation marks, keys
without any, Python's ``True``, ``False`` and ``None``, raw control characters in strings, unusual white space, a Markdown fence around
it all, and closing brackets that are missing at the end. Where readers would differ (an unknown escape, a quotation mark in mid-string,
a value or comma that is missing, ``NaN``, anything cut off), there is no result: nothing is guessed.
"""

from __future__ import annotations

import json
import re

MAX_CHARS = 1_000_000
MAX_DEPTH = 200
_FENCE = re.compile(r"```[A-Za-z0-9_+-]{0,20}[ \t]*\r?\n?")
_SPACE = re.compile(r"[ \t\n\r]+")
_ODD_SPACE = re.compile("[\ufeff\u200b\u00a0\u2000-\u200a\u2028\u2029\u202f\u3000\x0b\x0c]+")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.\w])", re.ASCII)
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_HEX = re.compile(r"[0-9a-fA-F]+")
_CLOSING = {'"': '"', "'": "'", "“": "”", "‘": "’"}
_PLAIN = {quote: re.compile(rf'[^{closing}\\"\x00-\x1f]+') for quote, closing in _CLOSING.items()}
"""Text of a string that goes out as it is."""
_WORDS = {"true": "true", "false": "false", "null": "null", "True": "true", "False": "false", "None": "null"}
_NO_KEYS = frozenset((*_WORDS, "undefined", "NaN", "Infinity"))
_SHARED_ESCAPES = frozenset('"\\bfnrt')
"""Mean the same in JSON, JavaScript and Python."""


class Unreadable(ValueError):
    """There is no one way to read it."""


def read_leniently(text: str, *, cut: bool = False) -> tuple[str, tuple[str, ...]] | None:
    """`text` as JSON, and what was mended; None where it cannot be. With `cut`, the text was ended by a limit: no bracket is added."""
    if len(text) > MAX_CHARS:
        return None
    inner, fenced = _unfenced(text)
    reader = _Reader(inner, cut)
    try:
        made = reader.read()
        json.loads(made, parse_int=float)  # nothing is handed out that is not JSON
    except (ValueError, RecursionError):
        return None
    return made, (("code_fence",) if fenced else ()) + tuple(reader.fixes)


def _unfenced(text: str) -> tuple[str, bool]:
    """What a Markdown fence holds, where one is around all of it."""
    whole = text.strip()
    start = _FENCE.match(whole)
    if start is None or not whole.endswith("```") or len(whole) < start.end() + 3:
        return text, False
    return whole[start.end() : -3].strip(), True


class _Reader:
    """Reads one text, token by token."""

    def __init__(self, text: str, cut: bool) -> None:
        self._text, self._cut, self._at = text, cut, 0
        self._out: list[str] = []
        self._open: list[str] = []
        """The brackets that close what is open."""
        self._wants = "value"
        """``value``, ``item`` (or the end of a list), ``key``, ``name`` (or the end of an object), ``colon``, ``more``."""
        self._comma: int | None = None
        """Where the last comma stands in `_out`, if nothing but white space follows it."""
        self._number_end = -1
        self.fixes: dict[str, None] = {}

    def read(self) -> str:
        """The JSON. Raises `Unreadable`."""
        while self._skip():
            self._token(self._text[self._at])
        self._expect(self._wants == "more")
        if self._open:
            self._expect(not self._cut and self._number_end < len(self._text))  # a number may be cut where it looks whole
            self._fix("closing_bracket")
            self._out += reversed(self._open)
        return "".join(self._out)

    def _token(self, c: str) -> None:
        wants = self._wants
        if c in "}]":
            self._close(c)
        elif wants == "more":
            self._next(c)
        elif wants == "colon":
            self._expect(c == ":")
            self._take(1)
            self._wants = "value"
        elif wants in ("key", "name"):
            self._key(c)
        elif c in "{[":
            self._out.append(c)
            self._open.append("}" if c == "{" else "]")
            self._expect(len(self._open) <= MAX_DEPTH)
            self._at, self._comma = self._at + 1, None
            self._wants = "name" if c == "{" else "item"
        else:
            self._scalar(c)

    def _close(self, c: str) -> None:
        self._expect((bool(self._open) and self._open[-1] == c and self._wants in ("more", "item", "name")) or self._trails(c))
        if self._comma is not None:
            self._out[self._comma] = ""
            self._fix("trailing_comma")
        self._open.pop()
        self._take(1)
        self._wants = "more"

    def _trails(self, c: str) -> bool:
        """Whether the bracket follows a comma."""
        return self._comma is not None and bool(self._open) and self._open[-1] == c

    def _next(self, c: str) -> None:
        """What follows a value inside an object or a list: a comma."""
        self._expect(c == "," and bool(self._open))
        self._comma = len(self._out)
        self._out.append(c)
        self._at += 1
        self._wants = "key" if self._open[-1] == "}" else "value"

    def _key(self, c: str) -> None:
        self._comma = None
        if c in _CLOSING:
            self._string(c)
        else:
            word = _WORD.match(self._text, self._at)
            if word is None or word[0] in _NO_KEYS:
                raise Unreadable
            self._out.append(f'"{word[0]}"')
            self._at = word.end()
            self._fix("unquoted_key")
        self._wants = "colon"

    def _scalar(self, c: str) -> None:
        self._comma = None
        self._wants = "more"
        if c in _CLOSING:
            self._string(c)
            return
        number = _NUMBER.match(self._text, self._at)
        word = _WORD.match(self._text, self._at) if number is None else None
        if number is not None:
            self._out.append(number[0])
            self._at = self._number_end = number.end()
        elif word is not None and word[0] in _WORDS:
            self._out.append(_WORDS[word[0]])
            self._at = word.end()
            if word[0] != _WORDS[word[0]]:
                self._fix("python_literal")
        else:
            raise Unreadable

    # ---- strings ----

    def _string(self, quote: str) -> None:
        text, closing, plain, start = self._text, _CLOSING[quote], _PLAIN[quote], self._at
        at, pieces = start + 1, ['"']
        while True:
            run = plain.match(text, at)
            if run is not None:
                pieces.append(run[0])
                at = run.end()
            c = text[at : at + 1]
            if c == closing:
                break
            if c == "\\":
                piece, at = self._escape(at, quote)
            else:
                piece, at = self._odd(c), at + 1
            pieces.append(piece)
        pieces.append('"')
        self._out.append("".join(pieces))
        self._at = at + 1
        if quote != '"':
            self._fix("quotes" if quote == "'" else "smart_quotes")

    def _odd(self, c: str) -> str:
        """A character that must not stand in a JSON string as it is; there is none where the text ends."""
        self._expect(bool(c))
        if c != '"':
            self._fix("control_character")
        return json.dumps(c)[1:-1]

    def _escape(self, at: int, quote: str) -> tuple[str, int]:
        """The escape at `at` as JSON has it, and where it ends."""
        c = self._text[at + 1 : at + 2]
        if c in _SHARED_ESCAPES or (c == "/" and quote == '"'):
            self._expect(bool(c))
            return "\\" + c, at + 2
        if c == "'":
            self._fix("escape")
            return c, at + 2
        size = {"u": 4, "x": 2}.get(c, 0)
        digits = self._text[at + 2 : at + 2 + size]
        self._expect(size > 0 and len(digits) == size and _HEX.fullmatch(digits) is not None)
        if c == "x":
            self._fix("escape")
        return "\\u" + digits.rjust(4, "0"), at + 2 + size

    # ---- between tokens ----

    def _skip(self) -> bool:
        """Go to the next token, over white space and comments; whether there is one."""
        text = self._text
        while self._at < len(text):
            space = _SPACE.match(text, self._at)
            if space is not None:
                self._out.append(space[0])
                self._at = space.end()
                continue
            odd = _ODD_SPACE.match(text, self._at)
            if odd is not None:
                self._at = odd.end()
                self._fix("white_space")
            elif not self._comment():
                return True
        return False

    def _comment(self) -> bool:
        text, at = self._text, self._at
        if text.startswith("/*", at):
            end = text.find("*/", at + 2)
            self._expect(end >= 0)
            self._at = end + 2
        elif text.startswith("//", at) or text.startswith("#", at):
            end = text.find("\n", at)
            self._at = len(text) if end < 0 else end
        else:
            return False
        self._fix("comment")
        return True

    def _take(self, size: int) -> None:
        """The next characters, as they are."""
        self._out.append(self._text[self._at : self._at + size])
        self._at += size
        self._comma = None

    def _fix(self, name: str) -> None:
        self.fixes[name] = None

    @staticmethod
    def _expect(condition: bool) -> None:
        if not condition:
            raise Unreadable
