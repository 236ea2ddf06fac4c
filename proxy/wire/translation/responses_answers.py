"""Responses' answers: read into pieces, and written from them, densely numbered and in the API's order.

Reference: https://platform.openai.com/docs/api-reference/responses/object and …/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.config.settings import Api
from proxy.exchange import Usage
from proxy.wire.answers import GOOD, number, usage_in
from proxy.wire.bodies import object_of, objects_of
from proxy.wire.responses import events
from proxy.wire.responses.output import ECHOED_FIELDS, finish_reason, streamed_places, usage_object
from proxy.wire.responses.shapes import ITEMS
from proxy.wire.translation import pieces
from proxy.wire.translation.chat_answers import error_of
from proxy.wire.translation.neutral import wrap
from proxy.wire.translation.responses_requests import spaces_of

Payload = dict[str, Any]
_INCOMPLETE: Mapping[str, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}
_SUMMARY = "response.reasoning_summary_"
_CALL_DELTAS = tuple(f"{begin}.delta" for begin, _ in events.CALLS.values())


class ResponsesReader:
    """Implements `proxy.wire.translation.pieces.AnswerReader`."""

    def __init__(self) -> None:
        self._has_begun = False
        self._texts: set[tuple[int, ...]] = set()
        """The places of the texts so far."""
        self._cited: set[tuple[int, ...]] = set()
        """Those of them whose citations have been told."""
        self._thoughts: set[tuple[int, ...]] = set()
        self._has_input: dict[int, bool] = {}
        """The calls that have begun, by their item, and whether any of their arguments have come."""
        self._items: dict[int, Mapping[str, Any]] = {}
        """The items that have begun, by position."""
        self._finished_items: set[int] = set()
        """The items that have ended, or are told whole."""
        self._refusals: set[tuple[int, ...]] = set()
        """The places of the refusals so far."""

    def payload(self, payload: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """The pieces of an event."""
        kind = pieces.words(payload.get("type"))
        index = self._position(kind, payload)
        if kind in events.BEGINS and not self._has_begun:
            response, self._has_begun = events.response_of(payload), True
            yield pieces.AnswerStart(pieces.words(response.get("id")), pieces.words(response.get("model")))
        elif kind == events.ITEM and isinstance(payload.get("item"), Mapping):
            yield from self._item(index, payload["item"])
        elif kind == events.TEXT:
            place: tuple[int, ...] = index, number(payload, "content_index")
            yield pieces.TextDelta(pieces.words(payload.get("delta")), _is_another(self._texts, place))
        elif kind == events.REFUSAL:
            self._refusals.add((index, number(payload, "content_index")))
            yield pieces.RefusalDelta(pieces.words(payload.get("delta")))
        elif kind == events.ANNOTATION:
            self._cited.add((index, number(payload, "content_index")))
            yield from pieces.citations_in([object_of(payload.get("annotation"))])
        elif kind == events.PART_DONE:
            yield from self._citations((index, number(payload, "content_index")), object_of(payload.get("part")))
        elif kind in events.THOUGHTS:
            place = (index, number(payload, "summary_index"), number(payload, "content_index"))
            yield pieces.ThinkingDelta(pieces.words(payload.get("delta")), _is_another(self._thoughts, place))
        elif kind in _CALL_DELTAS and index in self._has_input and payload.get("delta"):
            self._has_input[index] = True
            yield pieces.CallDelta(index, pieces.words(payload["delta"]))
        elif kind == events.ITEM_DONE and isinstance(payload.get("item"), Mapping):
            yield from self._item_done(index, payload["item"])
        elif kind in events.ENDS:
            yield from self._end(events.response_of(payload))
        elif kind == "error":
            yield error_of(payload)

    def _position(self, kind: str, payload: Mapping[str, Any]) -> int:
        """Of the item that an event is about; some servers give its name alone, or nothing."""
        if isinstance(given := payload.get("output_index"), int):
            return given
        item = object_of(payload.get("item"))
        names = [name for name in (payload.get("item_id"), item.get("id"), item.get("call_id")) if name]
        known = (at for at, one in self._items.items() if one.get("id") in names or one.get("call_id") in names)
        return len(self._items) if kind == events.ITEM else next(known, max(len(self._items) - 1, 0))

    def _item(self, index: int, item: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """An item begins."""
        kind, self._items[index] = pieces.words(item.get("type")), item
        if kind in events.CALLS:
            self._has_input[index] = False
            call_id, name = pieces.words(item.get("call_id")), pieces.words(item.get("name"))
            yield pieces.CallStart(index, call_id, name, custom=kind == "custom_tool_call")
        elif kind not in ("message", "reasoning"):
            raise ValueError(f"an item of {pieces.known_type(kind, ITEMS)}")

    def _item_done(self, index: int, item: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """An item has ended: what no delta has told of it comes now, for some servers tell a text at its end alone."""
        kind, self._items[index] = pieces.words(item.get("type")), item
        self._finished_items.add(index)
        yield from self._unstreamed(index, item)
        if kind == "reasoning" and (seal := pieces.words(item.get("encrypted_content"))):
            yield pieces.Signature("responses", seal)
        elif kind in events.CALLS and self._has_input.get(index) is False:
            yield pieces.CallDelta(index, pieces.words(item.get(events.CALLS[kind][1])) or ("{}" if kind == "function_call" else ""))
        if kind in events.CALLS:
            yield pieces.CallEnd(index)

    def _unstreamed(self, index: int, item: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        for position, part in enumerate(objects_of(item.get("content")) if item.get("type") == "message" else ()):
            place = (index, position)
            if part.get("type") == "refusal" and place not in self._refusals:
                self._refusals.add(place)
                yield pieces.RefusalDelta(pieces.words(part.get("refusal")))
            elif part.get("type") == "output_text" and place not in self._texts and pieces.words(part.get("text")):
                yield pieces.TextDelta(pieces.words(part.get("text")), _is_another(self._texts, place))
                yield from self._citations(place, part)
        if item.get("type") == "reasoning" and not any(place[0] == index for place in self._thoughts):
            for position, part in enumerate([*objects_of(item.get("summary")), *objects_of(item.get("content"))]):
                yield pieces.ThinkingDelta(pieces.words(part.get("text")), _is_another(self._thoughts, (index, position)))

    def _citations(self, place: tuple[int, ...], part: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """Of a part that is told whole, where no event has told of them."""
        if place not in self._cited:
            self._cited.add(place)
            yield from pieces.citations_in(objects_of(part.get("annotations")))

    def _end(self, response: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        output = objects_of(response.get("output"))
        for index, item in zip(streamed_places(self._items, output), output, strict=True):
            if index not in self._finished_items and pieces.words(item.get("type")) in ("message", "reasoning", *events.CALLS):
                if index not in self._has_input:
                    yield from self._item(index, item)
                yield from self._item_done(index, item)
        if response.get("status") == "failed" or response.get("error"):
            yield error_of(response)
            return
        yield pieces.Finish(finish_reason(response, bool(self._has_input)) or "stop")
        if (usage := usage_in("responses", response.get("usage"))) is not None:
            yield usage
        yield pieces.AnswerEnd()


def _is_another(begun: set[tuple[int, ...]], place: tuple[int, ...]) -> bool:
    """Whether what stands at a place begins there behind others, which it is then among."""
    another = bool(begun) and place not in begun
    begun.add(place)
    return another


class ResponsesWriter:
    """Implements `proxy.wire.translation.pieces.AnswerWriter`."""

    def __init__(self, created: int, asked: Mapping[str, Any], identity: str, origin: Api) -> None:
        """`created` in seconds since the epoch; `asked` are the fields of the client's request, of which the response repeats some.
        `identity` names the response: a client goes on from it by that alone, so nobody else may guess it, and no server repeat it.
        `origin` is the server's API, to which thoughts without a signature go back.
        """
        self._origin = origin
        self._created, self._request, self._id = created, asked, f"resp_{identity}"
        self._spaces = spaces_of(asked)
        self._number = 0
        self._head: Payload = {}
        self._output: list[Payload] = []
        self._is_open = False
        """Whether the last item has not ended."""
        self._parts_text: list[str] = []
        """What its last part, or its call, says so far."""
        self._finish = pieces.Finish("stop")
        self._usage: Usage | None = None
        self._response: Payload = {}

    def feed(self, piece: pieces.Piece) -> bytes:
        """The events for a piece."""
        return b"".join(self._encode(payload) for payload in self._payloads(piece))

    def _encode(self, payload: Payload) -> bytes:
        number, self._number = self._number, self._number + 1
        return events.encode({**payload, "sequence_number": number}, named=True)

    def _payloads(self, piece: pieces.Piece) -> Iterator[Payload]:
        if isinstance(piece, pieces.AnswerStart):
            echoed = {name: given if (given := self._request.get(name)) is not None else value for name, value in ECHOED_FIELDS.items()}
            self._head = {"id": self._id, "object": "response", "created_at": self._created, "model": piece.model, **echoed}
            for kind in events.BEGINS[:2]:
                yield {"type": kind, "response": self._response_fields("in_progress")}
        elif isinstance(piece, pieces.TextDelta | pieces.RefusalDelta):
            if piece.text:
                yield from self._message(piece)
        elif isinstance(piece, pieces.Citation):
            yield from self._cite(piece)
        elif isinstance(piece, pieces.ThinkingDelta):
            if piece.text:
                yield from self._write_thinking(piece)
        elif isinstance(piece, pieces.Signature):
            yield from self._write_signature(piece)
        elif isinstance(piece, pieces.CallStart | pieces.CallDelta):
            yield from self._call(piece)
        elif isinstance(piece, pieces.Finish):
            self._finish = piece
        elif isinstance(piece, Usage):
            self._usage = piece
        elif isinstance(piece, pieces.StreamError):
            self._finish_part()
            yield {"type": "error", "code": piece.code, "message": piece.message, "param": None}
            error = {"code": piece.code, "message": piece.message}
            yield {"type": "response.failed", "response": {**self._response_fields("failed"), "error": error}}
        elif isinstance(piece, pieces.AnswerEnd):
            yield from self._close()
            status = "completed" if self._finish.reason in GOOD else "incomplete"
            self._response = self._response_fields(status)
            yield {"type": f"response.{status}", "response": self._response}

    def _response_fields(self, status: str) -> Payload:
        reason = _INCOMPLETE.get(self._finish.reason, self._finish.reason) if status == "incomplete" else None
        usage = usage_object(self._usage) if self._usage is not None and status in ("completed", "incomplete") else None
        return {
            **self._head,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "output": list(self._output) if status != "in_progress" else [],
            "usage": usage,
        }

    # ---- items ----

    def _start(self, prefix: str, item: Payload) -> Payload:
        index = len(self._output)
        made = {"id": f"{prefix}_{str(self._head.get('id', '')).removeprefix('resp_')}_{index}", **item, "status": "in_progress"}
        self._output.append(made)
        self._is_open, self._parts_text = True, []
        return {"type": events.ITEM, "output_index": index, "item": _copy(made)}

    def _at(self, index: int, **more: int) -> Payload:
        return {"item_id": self._output[index]["id"], "output_index": index, **more}

    def _last(self, kind: str) -> int | None:
        """The last item, where it is of this type and has not ended."""
        index = len(self._output) - 1
        return index if self._is_open and self._output[index]["type"] == kind else None

    def _message(self, piece: pieces.TextDelta | pieces.RefusalDelta) -> Iterator[Payload]:
        refuses = isinstance(piece, pieces.RefusalDelta)
        kind, name = ("refusal", "refusal") if refuses else ("output_text", "text")
        more: Payload = {} if refuses else {"annotations": [], "logprobs": []}
        index = self._last("message")
        if index is None or (isinstance(piece, pieces.TextDelta) and piece.apart):
            yield from self._close()
            yield self._start("msg", {"type": "message", "role": "assistant", "content": []})
            index = len(self._output) - 1
        content = self._output[index]["content"]
        if not content or content[-1]["type"] != kind:
            yield from self._part_done(index)
            content.append({"type": kind, name: "", **more})
            self._parts_text = []
            yield {"type": events.PART, **self._at(index, content_index=len(content) - 1), "part": dict(content[-1])}
        self._parts_text.append(piece.text)
        listed: Payload = {} if refuses else {"logprobs": []}
        at = self._at(index, content_index=len(content) - 1)
        yield {"type": events.REFUSAL if refuses else events.TEXT, **at, "delta": piece.text, **listed}

    def _cite(self, piece: pieces.Citation) -> Iterator[Payload]:
        """Beside the last text, while that is open."""
        index = self._last("message")
        content = self._output[index]["content"] if index is not None else []
        if index is None or content[-1]["type"] != "output_text":
            return
        made = {"type": "url_citation", "url": piece.url, "title": piece.title, "start_index": piece.start, "end_index": piece.end}
        content[-1]["annotations"].append(made)
        at = self._at(index, content_index=len(content) - 1)
        yield {"type": events.ANNOTATION, **at, "annotation_index": len(content[-1]["annotations"]) - 1, "annotation": made}

    def _finish_part(self) -> None:
        """Put what the last part says so far into it."""
        item = self._output[-1] if self._output and self._is_open else {}
        parts = item.get("content") or item.get("summary")
        if parts:
            parts[-1]["refusal" if parts[-1]["type"] == "refusal" else "text"] = "".join(self._parts_text)

    def _part_done(self, index: int) -> Iterator[Payload]:
        content = self._output[index]["content"]
        if not content:
            return
        self._finish_part()
        yield from events.part_ends(self._at(index, content_index=len(content) - 1), dict(content[-1]))

    def _write_thinking(self, piece: pieces.ThinkingDelta) -> Iterator[Payload]:
        index = self._last("reasoning")
        if index is None:
            yield from self._close()
            yield self._start("rs", {"type": "reasoning", "summary": []})
            index = len(self._output) - 1
        summary = self._output[index]["summary"]
        if piece.apart or not summary:
            yield from self._summary_done(index)
            summary.append({"type": "summary_text", "text": ""})
            self._parts_text = []
            at = self._at(index, summary_index=len(summary) - 1)
            yield {"type": _SUMMARY + "part.added", **at, "part": dict(summary[-1])}
        self._parts_text.append(piece.text)
        yield {"type": _SUMMARY + "text.delta", **self._at(index, summary_index=len(summary) - 1), "delta": piece.text}

    def _summary_done(self, index: int) -> Iterator[Payload]:
        summary = self._output[index]["summary"]
        if summary:
            self._finish_part()
            at = self._at(index, summary_index=len(summary) - 1)
            yield {"type": _SUMMARY + "text.done", **at, "text": summary[-1]["text"]}
            yield {"type": _SUMMARY + "part.done", **at, "part": dict(summary[-1])}

    def _write_signature(self, piece: pieces.Signature) -> Iterator[Payload]:
        index = self._last("reasoning")
        if index is None or piece.kind == "redacted":
            yield from self._close()
            yield self._start("rs", {"type": "reasoning", "summary": []})
            index = len(self._output) - 1
        self._output[index]["encrypted_content"] = piece.data if piece.kind == "responses" else wrap(piece.kind, piece.data)
        yield from self._close()

    def _call(self, piece: pieces.CallStart | pieces.CallDelta) -> Iterator[Payload]:
        if isinstance(piece, pieces.CallStart):
            yield from self._close()
            kind, name = ("custom_tool_call", "input") if piece.custom else ("function_call", "arguments")
            space, tool = self._spaces.get(piece.name, ("", piece.name))
            named = {"namespace": space, "name": tool} if space else {"name": tool}
            yield self._start("ctc" if piece.custom else "fc", {"type": kind, "call_id": piece.id, **named, name: ""})
        else:
            index = len(self._output) - 1
            kind, name = events.CALLS[self._output[index]["type"]]
            self._parts_text.append(piece.text)
            yield {"type": f"{kind}.delta", **self._at(index), "delta": piece.text}

    def _close(self) -> Iterator[Payload]:
        """End the last item."""
        if not self._is_open:
            return
        index = len(self._output) - 1
        item = self._output[index]
        if item["type"] == "message":
            yield from self._part_done(index)
        elif item["type"] == "reasoning":
            yield from self._summary_done(index)
            item.setdefault("encrypted_content", wrap(self._origin, ""))
        else:
            kind, name = events.CALLS[item["type"]]
            item[name] = "".join(self._parts_text) or ("{}" if name == "arguments" else "")
            named = {"name": item["name"]} if name == "arguments" else {}
            yield {"type": f"{kind}.done", **self._at(index), **named, name: item[name]}
        item["status"] = "incomplete" if self._finish.reason == "length" else "completed"
        self._is_open = False
        yield {"type": events.ITEM_DONE, "output_index": index, "item": _copy(item)}

    def whole(self) -> bytes:
        """The response."""
        return orjson.dumps(self._response)


def _copy(item: Payload) -> Payload:
    """As it is now: the lists in it grow."""
    return {name: [dict(one) for one in value] if isinstance(value, list) else value for name, value in item.items()}
