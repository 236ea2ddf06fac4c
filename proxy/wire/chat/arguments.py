"""Other arguments for the tool calls of an answer that has come whole: in a body's choice, or across the events of a stream.

In: the bytes of an answer and, by the calls' indexes, the arguments that leave instead of the model's. Out: the same bytes but for those
arguments. Of a streamed call, the first delta that has arguments gets all of them, later ones get none; every event stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from proxy.wire import sse
from proxy.wire.bodies import as_raw, dumped, raw_fields, raw_items
from proxy.wire.chat.message import CallParts, Calls, call_entries, choices_of, delta_of, index_of
from proxy.wire.dialect import StreamPiece


def with_arguments(raw: msgspec.Raw, changed: Mapping[int, str]) -> msgspec.Raw:
    """A body's choice whose calls have these arguments, by their position; the legacy ``function_call`` stands behind the others."""
    if not changed:
        return raw
    choice = raw_fields(raw)
    message = raw_fields(choice["message"])
    calls = raw_items(message["tool_calls"]) if bytes(message.get("tool_calls", b"")).startswith(b"[") else []
    places = [i for i, call in enumerate(calls) if bytes(call).startswith(b"{")]
    for index, arguments in changed.items():
        if index < len(places):
            call = raw_fields(calls[places[index]])
            calls[places[index]] = as_raw({**call, "function": _with(call["function"], arguments)})
        else:
            message["function_call"] = _with(message["function_call"], arguments)
    if min(changed) < len(places):
        message["tool_calls"] = as_raw(calls)
    choice["message"] = as_raw(message)
    return as_raw(choice)


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


def _with(function: msgspec.Raw, arguments: str) -> msgspec.Raw:
    return as_raw({**raw_fields(function), "arguments": dumped(arguments)})
