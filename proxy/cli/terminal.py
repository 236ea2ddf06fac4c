"""Text for a terminal: made harmless, cut to its columns, coloured where somebody looks at it.

Names come from clients and models. What is not plain to see (escape sequences, line ends, marks that turn the direction) is spelled out,
as in the log, so that no name can move the cursor, ring, or pass for another line.
"""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Mapping
from typing import IO, Literal

from proxy.observe.logs import one_line

Style = Literal["", "good", "warning", "bad", "broken", "faint"]
_CODES: Mapping[Style, str] = {"good": "32", "warning": "33", "bad": "1;31", "broken": "1;35", "faint": "2"}
"""SGR parameters, as in ECMA-48; only colours that both a dark and a light ground bear."""
ELLIPSIS = "…"
NARROWEST = 40


def harmless(text: str, most: int = 512) -> str:
    """`text` on one line, with everything spelled out that is not plain to see; at most `most` of its characters."""
    return one_line(text if len(text) <= most else text[:most] + ELLIPSIS)


def columns_of(text: str) -> int:
    """How many columns `text` takes. A mark that joins the letter before it counts as one, so that many of them cannot hide."""
    return len(text) if text.isascii() else sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, most: int) -> str:
    """`text` in at most `most` columns, with an ellipsis where something is missing."""
    if columns_of(text) <= most:
        return text
    kept, used = [], columns_of(ELLIPSIS)
    for character in text:
        used += columns_of(character)
        if used > most:
            break
        kept.append(character)
    return "".join(kept) + ELLIPSIS if most >= 1 else ""


def padded(text: str, columns: int) -> str:
    """`text` in exactly `columns`, or more where it is longer."""
    return text + " " * (columns - columns_of(text))


class Terminal:
    """Where lines go."""

    def __init__(self, stream: IO[str] | None = None, environ: Mapping[str, str] | None = None) -> None:
        """Standard output without `stream`. Colour: on a terminal, unless NO_COLOR (https://no-color.org) or TERM=dumb says no."""
        environ = os.environ if environ is None else environ
        self._stream = sys.stdout if stream is None else stream
        self.is_terminal = bool(getattr(self._stream, "isatty", bool)())
        self.coloured = self.is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        self.encoding = getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def columns(self) -> int | None:
        """How long a line may be; None where nobody's screen ends it."""
        return max(NARROWEST, shutil.get_terminal_size().columns) if self.is_terminal else None

    def can_write(self, text: str) -> bool:
        """Whether `text` can be written as it is."""
        try:
            text.encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def styled(self, text: str, style: Style) -> str:
        """`text` in a colour, if there are any."""
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self.coloured and style and text else text

    def line(self, text: str) -> None:
        """Write a line, at once; what the terminal's encoding lacks is spelled out."""
        if not self.can_write(text):
            text = text.replace(ELLIPSIS, "~").encode(self.encoding, "backslashreplace").decode(self.encoding)
        self._stream.write(text + "\n")
        self._stream.flush()
