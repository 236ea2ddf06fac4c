"""Statements and clashes out of nothing, for the tests of this folder and of the stage."""

from __future__ import annotations

from typing import Any

from proxy.grounding.clashes.kinds import Statement, StatementClash, StatementKind, statement_hash


def statement(text: str, *, kind: StatementKind = "preference", message: int | None = 0, **more: Any) -> Statement:
    """A statement that is a message of its own."""
    origin = more.pop("origin", "user")
    place = {"piece": 0 if message is None else message, "start": 0, "end": len(text), "message": message}
    return Statement(text, kind, origin, hash=statement_hash(text, origin), **{**place, **more})


def clash(older: Statement, newer: Statement, **more: Any) -> StatementClash:
    """Of two preferences, unless told otherwise."""
    about = {"type": "CONTRADICTORY_PREFERENCES", "topic": "price level", "score": 1.0, "reason": "test"}
    return StatementClash(older, newer, **{**about, **more})
