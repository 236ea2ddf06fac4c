"""Responses' answers: read into pieces.

Reference: https://platform.openai.com/docs/api-reference/responses/object and …/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.wire.responses import events
from proxy.wire.responses.output import finish_reason
from proxy.wire.responses.shapes import ITEMS
from proxy.wire.translation import pieces
from proxy.wire.translation.chat_answers import failed
from proxy.wire.translation.pieces import known, listed, number, words

_CALLS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
_CALL_DELTAS = (events.ARGUMENTS, "response.custom_tool_call_input.delta")


class ResponsesReader:
    """Implements `proxy.wire.translation.pieces.AnswerReader`."""

    def __init__(self) -> None:
        self._begun = False
        self._texts: set[tuple[int, ...]] = set()
        """The places of the texts so far."""
        self._thoughts: set[tuple[int, ...]] = set()
        self._given: dict[int, bool] = {}
        """The calls that have begun, by their item, and whether any of their arguments have come."""
        self._settled: set[int] = set()
        """The items that have ended, or are told whole."""
        self._refused: set[tuple[int, ...]] = set()
        """The places of the refusals so far."""

    def payload(self, payload: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """The pieces of an event."""
        kind, index = words(payload.get("type")), number(payload, "output_index")
        if kind in events.BEGINS and not self._begun:
            yield self._begin(events.response_of(payload))
        elif kind == events.ITEM and isinstance(payload.get("item"), Mapping):
            yield from self._item(index, payload["item"])
        elif kind == events.TEXT:
            yield self._said((index, number(payload, "content_index")), words(payload.get("delta")))
        elif kind == events.REFUSAL:
            self._refused.add((index, number(payload, "content_index")))
            yield pieces.RefusalDelta(words(payload.get("delta")))
        elif kind in events.THOUGHTS:
            place = (index, number(payload, "summary_index"), number(payload, "content_index"))
            yield self._thought(place, words(payload.get("delta")))
        elif kind in _CALL_DELTAS and index in self._given and payload.get("delta"):
            self._given[index] = True
            yield pieces.CallDelta(index, words(payload["delta"]))
        elif kind == events.ITEM_DONE and isinstance(payload.get("item"), Mapping):
            yield from self._item_done(index, payload["item"])
        elif kind in events.ENDS:
            yield from self._end(events.response_of(payload))
        elif kind == "error":
            yield failed(payload)

    def _begin(self, response: Mapping[str, Any]) -> pieces.AnswerStart:
        self._begun = True
        return pieces.AnswerStart(words(response.get("id")), words(response.get("model")))

    def _said(self, place: tuple[int, ...], text: str) -> pieces.TextDelta:
        apart = bool(self._texts) and place not in self._texts
        self._texts.add(place)
        return pieces.TextDelta(text, apart)

    def _thought(self, place: tuple[int, ...], text: str) -> pieces.ThinkingDelta:
        apart = bool(self._thoughts) and place not in self._thoughts
        self._thoughts.add(place)
        return pieces.ThinkingDelta(text, apart)

    def _item(self, index: int, item: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """An item begins."""
        kind = words(item.get("type"))
        if kind in _CALLS:
            self._given[index] = False
            yield pieces.CallStart(index, words(item.get("call_id")), words(item.get("name")), custom=kind == "custom_tool_call")
        elif kind not in ("message", "reasoning"):
            raise ValueError(f"an item of {known(kind, ITEMS)}")

    def _item_done(self, index: int, item: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """An item has ended: what no delta has told of it comes now, for some servers tell a text at its end alone."""
        kind = words(item.get("type"))
        self._settled.add(index)
        yield from self._untold(index, item)
        if kind == "reasoning" and (seal := words(item.get("encrypted_content"))):
            yield pieces.Signature("responses", seal)
        elif kind in _CALLS and self._given.get(index) is False:
            yield pieces.CallDelta(index, words(item.get(_CALLS[kind])) or ("{}" if kind == "function_call" else ""))

    def _untold(self, index: int, item: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        for position, part in enumerate(listed(item.get("content")) if item.get("type") == "message" else ()):
            place = (index, position)
            if part.get("type") == "refusal" and place not in self._refused:
                self._refused.add(place)
                yield pieces.RefusalDelta(words(part.get("refusal")))
            elif part.get("type") == "output_text" and place not in self._texts and words(part.get("text")):
                yield self._said(place, words(part.get("text")))
        if item.get("type") == "reasoning" and not any(place[0] == index for place in self._thoughts):
            for position, part in enumerate([*listed(item.get("summary")), *listed(item.get("content"))]):
                yield self._thought((index, position), words(part.get("text")))

    def _end(self, response: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        for index, item in enumerate(listed(response.get("output"))):
            if index not in self._settled and words(item.get("type")) in ("message", "reasoning", *_CALLS):
                if index not in self._given:
                    yield from self._item(index, item)
                yield from self._item_done(index, item)
        if response.get("status") == "failed" or response.get("error"):
            yield failed(response)
            return
        yield pieces.Finish(finish_reason(response, bool(self._given)) or "stop")
        if isinstance(usage := response.get("usage"), Mapping):
            yield pieces.TokenUsage(
                number(usage, "input_tokens"),
                number(usage, "output_tokens"),
                number(usage, "input_tokens_details", "cached_tokens"),
                number(usage, "input_tokens_details", "cache_write_tokens"),
                number(usage, "output_tokens_details", "reasoning_tokens"),
            )
        yield pieces.AnswerEnd()
