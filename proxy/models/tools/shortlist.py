"""The first question over tools of which nothing is known: which of them are worth a look before all are embedded. Pure functions.

In come the views of every tool with their rough vectors (`proxy.ports.Embedder.rough`), out go the tools that share most words with the
question in turns with those whose rough vectors are nearest to it. Only these are embedded while somebody waits, and ranked among each
other as a catalogue of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.models.tools.lexical import LexicalIndex
from proxy.models.tools.text import ToolText, terms

Floats = NDArray[np.float32]

SHORTLIST = 48
"""Tools that are embedded first: a fifth of a second of one core at the most. Of 200 to 4,100 they hold 96 of 100 that are needed, half as
many 93; the whole index's first five hold 60 to 90 (`python -m benchmarks.tools`)."""


class NewTools(Struct, frozen=True):
    """What is known of a set of tools without the model."""

    texts: tuple[ToolText, ...]
    words: LexicalIndex
    rough: Floats
    """``(tools, any)``, of `rough_text`."""


def new_tools(texts: Sequence[ToolText], rough: Floats) -> NewTools:
    """Ready to be searched."""
    return NewTools(tuple(texts), LexicalIndex([text.terms for text in texts]), rough)


def rough_text(text: ToolText) -> str:
    """What of a tool is compared roughly."""
    return f"{text.name} {text.described}"


def shortlist(tools: NewTools, queries: Sequence[str], rough: Floats, most: int = SHORTLIST) -> list[int]:
    """At most `most` positions, ascending. `rough` is of the queries, of which each names as many."""
    orders = []
    for query, vector in zip(queries, rough, strict=True):
        matched = tools.words.match(terms(query)).bm25
        by_words = np.argsort(-matched, kind="stable")
        orders += [by_words[matched[by_words] > 0].tolist(), np.argsort(-(tools.rough @ vector), kind="stable").tolist()]
    found: dict[int, None] = {}
    for at in range(len(tools.texts)):
        for order in orders:
            if at < len(order) and len(found) < most:
                found.setdefault(order[at])
        if len(found) >= most:
            break
    return sorted(found)
