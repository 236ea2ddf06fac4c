"""Contradictions in a conversation as a library, with the built-in models and without a proxy.

    from proxy.clash import detect_clash, resolve_clash

    said = [
        {"role": "user", "content": "A hotel in Rome, please. My budget is 500 €."},
        {"role": "user", "content": "My budget is 900 €."},
    ]
    for clash in detect_clash(said):
        done = resolve_clash(clash, "prefer_recent")
        print(clash.type, clash.reason, done.kept, done.dropped, done.reason)

A `Resolution` says what is to be done, and leaves the messages as they are. The models are loaded when they are first needed, and run in
an event loop of their own: `detect_clash` works anywhere, `detect_clash_async` in any event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from proxy.grounding.clashes.detecting import judging as clashes
from proxy.grounding.clashes.kinds import Resolution as Resolution
from proxy.grounding.clashes.kinds import Statement as Statement
from proxy.grounding.clashes.kinds import StatementClash as StatementClash
from proxy.grounding.clashes.statements.clauses import read_clauses
from proxy.models import builtin as builtin_models
from proxy.ports import Embedder, Verifier
from proxy.stages.clash.resolution import resolve_clash as resolve_clash

Said = Sequence[Statement] | Sequence[str | Mapping[str, Any]]
"""Statements, or what they are read from: chat messages, with a ``timestamp`` where it is known, or a user's sentences; in order."""


def detect_clash(
    said: Said, *, verifier: Verifier | None = None, embedder: Embedder | None = None, known: Collection[str] = ()
) -> list[StatementClash]:
    """The clashes among what was said, each pair of statements judged once; `known` are pair hashes that need not be judged again.

    A change of mind that is said as such is among them, with `Clash.update` set. `verifier` and `embedder` are the built-in ones where not
    given; they are called in this library's event loop. Raises `TypeError` where statements and messages are mixed.
    """
    return builtin_models.wait_for(_detect(said, verifier, embedder, known))


async def detect_clash_async(
    said: Said, *, verifier: Verifier | None = None, embedder: Embedder | None = None, known: Collection[str] = ()
) -> list[StatementClash]:
    """`detect_clash` for a running event loop; cancelling it ends the work."""
    return await builtin_models.elsewhere(_detect(said, verifier, embedder, known))


async def _detect(said: Said, verifier: Verifier | None, embedder: Embedder | None, known: Collection[str]) -> list[StatementClash]:
    pieces = [clashes.piece_of(one, i) for i, one in enumerate(said) if not isinstance(one, Statement)]
    if len(pieces) == len(said):
        said = await asyncio.to_thread(read_clauses, pieces)
    judge, vectors = verifier or builtin_models.verifier(), embedder or builtin_models.embedder()
    return await clashes.detect_clash(said, verifier=judge, embedder=vectors, known=known)
