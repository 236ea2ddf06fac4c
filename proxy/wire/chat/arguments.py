"""Other arguments for the tool calls of a stream that has come whole.

In: its pieces and, by the calls' indexes, the arguments that leave instead of the model's. Out: the same pieces but for those arguments.
The first delta of a call that has arguments gets all of them, later ones get none; every event stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from proxy.wire import sse
from proxy.wire.chat.message import CallParts, Calls, call_entries, choices_of, delta_of, index_of
from proxy.wire.dialect import StreamPiece


def rewritten(pieces: Sequence[StreamPiece], changed: Mapping[int, Mapping[int, str]]) -> list[StreamPiece]:
    """A stream's `pieces`, of which the calls of each choice have these arguments, by their index; the others stay as they are."""
    growing: dict[int, Calls] = {}
    by_piece = [
        [call for one in choices_of(piece.payload or {}) for call in growing.setdefault(index_of(one), Calls()).absorb(delta_of(one))]
        for piece in pieces
    ]
    left: dict[int, str] = {}
    for choice, arguments in changed.items():
        ranked = sorted(growing[choice].parts, key=lambda call: call.index)  # as `ChatStream` counts them
        left |= {id(call): arguments[i] for i, call in enumerate(ranked) if i in arguments}
    return [
        _piece(piece, iter(calls), left) if any(id(call) in left for call in calls) else piece
        for piece, calls in zip(pieces, by_piece, strict=True)
    ]


def _piece(piece: StreamPiece, owners: Iterator[CallParts], left: dict[int, str]) -> StreamPiece:
    """`piece` with new arguments for those of its entries whose calls are in `left`; what has been said there becomes ""."""
    choices = [
        {**choice, "delta": _rewritten_delta(choice["delta"], owners, left)} if delta_of(choice) else choice
        for choice in choices_of(piece.payload or {})
    ]
    payload = {**(piece.payload or {}), "choices": choices}
    if payload == piece.payload:
        return piece
    return replace(piece, raw=sse.encode(orjson.dumps(payload)), payload=payload)


def _rewritten_delta(delta: Mapping[str, Any], owners: Iterator[CallParts], left: dict[int, str]) -> dict[str, Any]:
    made = dict(delta)
    functions: dict[int, Any] = {}
    for entry, legacy in call_entries(delta):
        call = next(owners)
        function = entry.get("function")
        if id(call) in left and isinstance(function, dict) and function.get("arguments"):
            function = {**function, "arguments": left[id(call)]}
            left[id(call)] = ""
        if legacy:
            made["function_call"] = function
        elif "function" in entry:
            functions[id(entry)] = function
    if functions:
        listed = delta["tool_calls"]
        made["tool_calls"] = [{**entry, "function": functions[id(entry)]} if id(entry) in functions else entry for entry in listed]
    return made
