"""A record, as the operator API gives it -> one line of ``groundwire tail``.

A line is made of pieces in a fixed order. Where a screen is narrow, the pieces that can best be missed go first (the record has them all),
then names are cut. Nothing in a record is trusted: a field of a wrong type is left out, a name is made harmless.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from rich.cells import cell_len
from rich.text import Text

from proxy.cli.terminal import Terminal, cut, harmless
from proxy.exchange import CompressionResult, ContextUse, Facts
from proxy.store.records import RecordDetail, read

_LOOKS = {
    "pass": ("✓", "+", "green"),
    "unsure": ("~", "~", "cyan"),
    "unchecked": ("○", "o", "dim"),
    "warn": ("!", "!", "yellow"),
    "block": ("✗", "x", "bold red"),
    "error": ("?", "?", "bold magenta"),
    "upstream_error": ("↯", "^", "bold magenta"),
    "skipped": ("·", "-", "dim"),
}
"""A verdict's sign, its sign in ASCII, and its style."""
_SHORT = {"upstream_error": "upstream"}
STAYS = 10
"""What a line never goes without."""
_NAME_COLUMNS = 40
"""Of a route, a policy or a model, at most."""
_NARROW_NAME = 12
_MOST_CODES = 20
_MOST_NUMBER = 10**15
"""Beyond this, no server has counted it."""


class LinePiece(Struct, frozen=True):
    """A part of a line."""

    name: str
    text: str
    keep: int
    """Where not all fits: the lowest goes first; `STAYS` never."""
    style: str = ""
    """As rich names it."""
    shrinks: bool = False
    """Whether it may be cut instead."""
    least: int = 0
    """Columns that it takes at least, so that lines stand below each other."""


def line(record: Mapping[str, Any], terminal: Terminal) -> Text:
    """The record on one line."""
    found = [piece for piece in pieces(record, symbols=terminal.can_write("✓✗·…")) if piece.text]
    if terminal.columns is not None:
        found = fitted(found, terminal.columns)
    shown = Text(" ").join(Text(piece.text.ljust(len(piece.text) + piece.least - cell_len(piece.text)), piece.style) for piece in found)
    shown.rstrip()
    return shown


def fitted(found: Sequence[LinePiece], columns: int) -> list[LinePiece]:
    """Those pieces that fit into `columns`, in their order: what stays, then the rest by its worth."""
    names = max(_NARROW_NAME, columns // 5)
    kept = {i: _shrunk(piece, names) if piece.shrinks else piece for i, piece in enumerate(found) if piece.keep == STAYS}
    for i, piece in sorted(enumerate(found), key=lambda item: (-item[1].keep, item[0])):
        room = columns - _columns(kept.values()) - 1
        if piece.keep < STAYS and room >= cell_len(piece.text):
            kept[i] = piece
        elif piece.keep < STAYS and piece.shrinks and room >= _NARROW_NAME:
            kept[i] = _shrunk(piece, room)
    return _cut([kept[i] for i in sorted(kept)], columns)


def _cut(kept: list[LinePiece], columns: int) -> list[LinePiece]:
    """Without the end that a very narrow screen does not show."""
    while kept and _columns(kept) > columns:
        room = cell_len(kept[-1].text) - (_columns(kept) - columns)
        kept = [*kept[:-1], _shrunk(kept[-1], room)] if room >= 1 else kept[:-1]
    return kept


def _shrunk(piece: LinePiece, columns: int) -> LinePiece:
    return replace(piece, text=cut(piece.text, columns), least=min(piece.least, columns))


def _columns(found: Collection[LinePiece]) -> int:
    return sum(max(cell_len(piece.text), piece.least) for piece in found) + max(0, len(found) - 1)


def pieces(record: Mapping[str, Any], *, symbols: bool = True, clock: Callable[[float], str] | None = None) -> list[LinePiece]:
    """All that a line can tell, in its order; a piece that this record lacks is empty."""
    detail = read(record.get("detail"), RecordDetail)
    facts = detail.facts or Facts()
    verdict, status = _text(record, "outcome") or "?", _whole(record, "status")
    bad_status = "bold red" if status is None or status >= 500 else "yellow" if status >= 400 else ""
    route, policy = _text(record, "route", _NAME_COLUMNS) or "/", _text(record, "policy", _NAME_COLUMNS)
    ms, own = _number(record, "duration_ms"), detail.overhead_ms
    sign, plain_sign, style = _LOOKS.get(verdict, (" ", " ", ""))
    return [
        LinePiece("time", (clock or clock_time)(_number(record, "created_at") or 0.0), STAYS, "dim"),
        LinePiece(
            "verdict",
            f"{sign if symbols else plain_sign} {cut(_SHORT.get(verdict, verdict), 9)}",
            STAYS,
            style,
            least=9,
        ),
        LinePiece("status", str(status) if status is not None else "---", STAYS, bad_status),
        LinePiece("route", route, STAYS, shrinks=True, least=6),
        LinePiece("model", _text(record, "model", _NAME_COLUMNS) or _text(record, "path", _NAME_COLUMNS), STAYS, shrinks=True, least=11),
        LinePiece("tokens", tokens(record, facts.context), 7),
        LinePiece("duration", milliseconds(ms), 9),
        LinePiece("overhead", f"+{milliseconds(own)}" if own is not None else "", 3, "dim"),
        *_findings(facts),
        LinePiece("warnings", ",".join(warnings(detail)), 8, "yellow", shrinks=True),
        LinePiece("policy", policy, 2, "dim"),
        LinePiece("run", f"run={run}" if (run := _text(record, "run_id", 64)) else "", 1, "dim"),
        LinePiece("id", _text(record, "id", 64), 4, "dim"),
    ]


def _findings(facts: Facts) -> list[LinePiece]:
    """What the stages have measured and done."""
    return [
        LinePiece("quality", f"q={facts.quality:.2f}" if facts.quality is not None else "", 6),
        LinePiece("faithfulness", f"faith={facts.faithfulness:.2f}" if facts.faithfulness is not None else "", 6),
        LinePiece("relevance", f"rel={facts.relevance:.2f}" if facts.relevance is not None else "", 2),
        LinePiece("citations", f"cites={facts.citations[0]}/{facts.citations[1]}" if facts.citations and facts.citations[1] else "", 2),
        LinePiece("compression", compression(facts.compression), 5),
        LinePiece("tools", f"tools={facts.tools.offered}->{facts.tools.kept}" if facts.tools and facts.tools.offered else "", 5),
        LinePiece("clashes", f"clashes={facts.clashes}" if facts.clashes else "", 3),
    ]


def clock_time(at: float, now: float | None = None) -> str:
    """``14:03:07``, local; with ``11-20`` before it where that was not today."""
    try:
        given, today = time.localtime(at), time.localtime(now)
        return time.strftime("%H:%M:%S" if given[:3] == today[:3] else "%m-%d %H:%M:%S", given)
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def tokens(record: Mapping[str, Any], use: ContextUse | None) -> str:
    """Of the prompt, as it went upstream, with the window and the share of it: ``1.2k/128k 1%``."""
    if use is not None and use.window_tokens and use.used_tokens < _MOST_NUMBER:
        return f"{thousands(use.used_tokens)}/{thousands(use.window_tokens)} {use.share:.0%}"
    sent = use.used_tokens if use is not None else _whole(record, "prompt_tokens")
    return f"{thousands(sent)} tok" if sent is not None else ""


def thousands(number: int) -> str:
    """``950``, ``1.2k``, ``128k``, ``1.0M``."""
    if abs(number) >= _MOST_NUMBER:
        return "…"
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if abs(number) >= size:
            scaled = number / size
            return f"{scaled:.1f}{unit}" if scaled < 10 and number % size else f"{scaled:.0f}{unit}"
    return str(number)


def milliseconds(ms: float | None) -> str:
    """``0.4ms``, ``42ms``, ``4.2s``."""
    if ms is None:
        return ""
    if ms >= 999.5:
        return f"{ms / 1000:.1f}s" if ms < 99_950 else f"{ms / 1000:.0f}s"
    return f"{ms:.0f}ms" if ms >= 9.95 else f"{ms:.1f}ms"


def compression(done: CompressionResult | None) -> str:
    """``8.2k->4.9k``; empty where nothing was compressed."""
    if done is None or not done.strategies:
        return ""
    return f"compressed {thousands(done.before_tokens)}->{thousands(done.after_tokens)}"


def warnings(detail: RecordDetail) -> list[str]:
    """The error that ended it, then the codes of all verdicts that are not a pass, each once."""
    ended = [detail.error.param or detail.error.code] if detail.error is not None else []
    codes = [_shown(code) for code in (*ended, *detail.warnings)]
    return [code for code in dict.fromkeys(codes) if code][:_MOST_CODES]


def _text(mapping: Mapping[str, Any], name: str, most: int = 80) -> str:
    found = mapping.get(name)
    return _shown(found, most) if isinstance(found, str) else ""


def _shown(text: str, most: int = 80) -> str:
    return cut(harmless(text.strip(), most), most)


def _number(mapping: Mapping[str, Any], name: str) -> float | None:
    found = mapping.get(name)
    return (
        float(found)
        if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < 1e15 and math.isfinite(found)
        else None
    )


def _whole(mapping: Mapping[str, Any], name: str) -> int | None:
    found = _number(mapping, name)
    return int(found) if found is not None else None
