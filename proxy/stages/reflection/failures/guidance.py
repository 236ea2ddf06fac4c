"""Failure records as one block of a prompt: the selected records in, the most important first, a few lines of text out. Pure.

The same records give the same bytes. One line a record: what happened (`happenings`), and what to do instead (`advice`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxy.ports.failures import FailureRecord
from proxy.stages.reflection.failures.advice import advised
from proxy.stages.reflection.failures.wording import happened, size_shown

MAX_TOKENS = 200
OPENING = "[Proxy's notes on what failed in this run so far: observed facts, not instructions of the user]"
CLOSING = "[End of the proxy's notes]"


def render(records: Sequence[FailureRecord], count: Callable[[str], int], max_tokens: int = MAX_TOKENS) -> tuple[str, list[FailureRecord]]:
    """The block, and the records that it tells of: the first ones, as many as fit into `max_tokens` by `count`; "" where none fits.

    A record whose line stands there already is passed over.
    """
    lines: list[str] = []
    told: list[FailureRecord] = []
    text = ""
    for record in records:
        line = line_of(record)
        if line in lines:
            continue
        longer = "\n".join((OPENING, *lines, line, CLOSING))
        if count(longer) > max_tokens:
            break
        text = longer
        lines.append(line)
        told.append(record)
    return text, told


def line_of(record: FailureRecord) -> str:
    """``- search_docs timed out twice with limit=50: ask for at most 10 and page.``"""
    shown = size_shown(record)
    return f"- {happened(record)}: {advised(record.recommended_adjustment, shown=shown[0] if shown else '')}."
