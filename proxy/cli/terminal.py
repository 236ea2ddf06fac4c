"""Text for a terminal: made harmless, cut to its columns, coloured where somebody looks at it (rich).

Names come from clients and models. What is not plain to see (escape sequences, line ends, marks that turn the direction) is spelled out,
as in the log, so that no name can move the cursor, ring, or pass for another line. Nothing is read as rich's markup.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import IO, Literal

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.text import Text

from proxy.observe.logs import one_line

ELLIPSIS = "…"
NARROWEST = 40
_WIDEST = 10_000
"""Columns that rich may fill: what is too long has been cut before, and a pipe has no end."""


def harmless(text: str, most: int = 512) -> str:
    """`text` on one line, with everything spelled out that is not plain to see; at most `most` of its characters."""
    return one_line(text if len(text) <= most else text[:most] + ELLIPSIS)


def refused(why: str) -> int:
    """Say why the command ends; its exit status."""
    print(f"groundwire: {why}", file=sys.stderr)
    return 2


def cut(text: str, most: int) -> str:
    """`text` in at most `most` columns, with an ellipsis where something is missing."""
    if cell_len(text) <= most:
        return text
    kept, left = 0, most - cell_len(ELLIPSIS)  # rich's own truncation leaves a space where half of a wide letter would stand
    for letter in text:
        left -= cell_len(letter)
        if left < 0:
            break
        kept += 1
    return text[:kept] + ELLIPSIS


class Terminal:
    """Where lines go."""

    def __init__(self, stream: IO[str] | None = None, environ: Mapping[str, str] | None = None) -> None:
        """Standard output without `stream`. Colour: on a terminal, unless NO_COLOR (https://no-color.org) or TERM=dumb says no."""
        environ = os.environ if environ is None else environ
        self._stream = sys.stdout if stream is None else stream
        self.is_terminal = bool(getattr(self._stream, "isatty", bool)())
        self.encoding = getattr(self._stream, "encoding", None) or "utf-8"
        coloured = self.is_terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        # Only colours that both a dark and a light ground bear; without any, rich writes no escape sequence at all.
        colours: Literal["standard"] | None = "standard" if coloured else None
        self._console = Console(
            file=self._stream, force_terminal=self.is_terminal, color_system=colours, width=_WIDEST, legacy_windows=False
        )

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

    def shown(self, what: RenderableType) -> str:
        """A text or a table of rich's, in the colours that there are, never wrapped."""
        with self._console.capture() as captured:
            self._console.print(what, soft_wrap=True, end="")
        return captured.get()

    def line(self, text: str | Text) -> None:
        """Write a line, at once; what the terminal's encoding lacks is spelled out."""
        said = text if isinstance(text, str) else self.shown(text)
        if not self.can_write(said):
            said = said.replace(ELLIPSIS, "~").encode(self.encoding, "backslashreplace").decode(self.encoding)
        self._stream.write(said + "\n")
        self._stream.flush()
