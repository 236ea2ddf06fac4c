"""A golden file's text: sections that a person can read in a diff, and nothing in them that differs from run to run.

Bodies stand as they are, but for four things, all of which can be undone: a long line goes on behind ``↩`` before each nested JSON object;
an invisible character (a control, a joiner, a direction mark, a lone combining mark) is written ``⟨U+200D⟩``; each body is followed by one
line end; and what stands in the file already is named instead: ``⟨the client's body⟩``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LONG_CHARS = 200
_NESTED = re.compile(r"(?<=[\[,:])(?<!data:)(?=\s*\{)")

_HIDDEN = re.compile(
    "[\\x00-\\x09\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u0300-\\u036f\\u0600-\\u0605\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufe00-\\ufe0f\\ufeff]"
)
"""Controls but the line end, formats, joiners, direction marks, variation selectors, and the marks that combine with Latin letters."""

_RANDOM = (
    (re.compile(r"gw_[0-9a-f]{28}"), "gw_ID"),  # a record's id
    (re.compile(r'("created(?:_at)?"\s*:\s*)(?!1700000000\b)\d{10}\b'), r"\1NOW"),  # where the proxy says when
)
_SIGNS = re.compile(r"(?:(?<=\n\n)|\A)(?:: keep-alive\n\n)+")
"""Between two events, as many of them and in as many places as the machine was slow; what stands within an event is no such sign."""
_RESPONSE_ID = re.compile(r"(?<=_)[0-9a-f]{36}\b|(?<=_)[0-9a-f]{36}(?=_)")
"""In the ids of responses that the proxy writes itself, and of their items: ``resp_``, ``msg_``, ``fc_``."""
_UNSTABLE_HEADERS = {"x-groundwire-overhead-ms": "MS"}
_LEFT_OUT = frozenset(("date", "server", "host"))


class ExchangeText:
    """Writes the parts of one exchange. What differs from run to run becomes a word in capitals; ids stay apart: ``ID1``, ``ID2``."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}

    def headers(self, found: Iterable[tuple[str, str]]) -> str:
        """One a line, by name; the server's own and the clock's are left out."""
        named = sorted((name.lower(), value) for name, value in found)
        return "".join(f"{k}: {self._stable(_UNSTABLE_HEADERS.get(k, value))}\n" for k, value in named if k not in _LEFT_OUT)

    def body(self, found: bytes) -> str:
        """A body as it stands in the file, without its last line end."""
        text, signs = _SIGNS.subn("", self._stable(found.decode("utf-8", "backslashreplace")))
        shown = _HIDDEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
        if signs:
            first = "before the first event" if found.startswith(b":") else "not before the first event"
            shown = f"⟨signs of life: {first}{', and between events' if signs > 1 else ''}⟩\n{shown}"
        return "\n".join(_NESTED.sub("↩\n", line) if len(line) > _LONG_CHARS else line for line in shown.split("\n"))

    def _stable(self, text: str) -> str:
        for pattern, word in _RANDOM:
            text = pattern.sub(word, text)
        return _RESPONSE_ID.sub(lambda found: self._ids.setdefault(found[0], f"ID{len(self._ids) + 1}"), text)
