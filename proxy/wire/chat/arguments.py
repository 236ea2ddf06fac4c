"""Other arguments for the tool calls of an answer that has come whole: in a body's choice, or across the events of a stream.

In: the bytes of an answer and, by the calls' indexes, the arguments that leave instead of the model's. Out: the same bytes but for those
arguments. Of a streamed call, the first delta that has arguments gets all of them, later ones get none; every event stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from proxy.wire import sse
from proxy.wire.bodies import as_raw, dumped, raw_fields, raw_items
from proxy.wire.chat.message import CallParts, Calls, call_entries
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
    owners = _owners(pieces)
    left: dict[int, str] = {}
    for choice, arguments in changed.items():
        calls = {id(call): call for by_piece in owners for index, call in by_piece if index == choice}
        ranked = sorted(calls.values(), key=lambda call: call.index)  # as `ChatStream` counts them
        left |= {id(call): arguments[i] for i, call in enumerate(ranked) if i in arguments}
    out = []
    for piece, by_piece in zip(pieces, owners, strict=True):
        if any(id(call) in left for _, call in by_piece):
            piece = _piece(piece, iter(by_piece), left)
        out.append(piece)
    return out


def _owners(pieces: Sequence[StreamPiece]) -> list[list[tuple[int, CallParts]]]:
    """For each piece, the choice and the call of each of its call entries, in order."""
    growing: dict[int, Calls] = {}
    found = []
    for piece in pieces:
        here: list[tuple[int, CallParts]] = []
        for choice in _choices(piece):
            index = _index(choice)
            calls = growing.setdefault(index, Calls()).absorb(_delta(choice))
            here += [(index, call) for call in calls]
        found.append(here)
    return found


def _piece(piece: StreamPiece, owners: Any, left: dict[int, str]) -> StreamPiece:
    """`piece` with new arguments for those of its entries whose calls are in `left`; what has been said there becomes ""."""
    choices = []
    for choice in (piece.payload or {}).get("choices") or ():  # type: ignore[attr-defined]
        if isinstance(choice, dict) and isinstance(choice.get("delta"), dict):
            choice = {**choice, "delta": _rewritten_delta(choice["delta"], owners, left)}
        choices.append(choice)
    payload = {**(piece.payload or {}), "choices": choices}
    if payload == piece.payload:
        return piece
    return replace(piece, raw=sse.encode(orjson.dumps(payload)), payload=payload)


def _rewritten_delta(delta: Mapping[str, Any], owners: Any, left: dict[int, str]) -> dict[str, Any]:
    made = dict(delta)
    functions: dict[int, Any] = {}
    for entry, legacy in call_entries(delta):
        _, call = next(owners)
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


def _choices(piece: StreamPiece) -> list[dict[str, Any]]:
    choices = (piece.payload or {}).get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {}
