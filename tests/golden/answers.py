"""What the scripted upstream answers in each API, and how: data, so that a golden file can show it.

Whole bodies and events are those of `tests/data/exchanges` and of the builders that other tests use; nothing here is spelled anew.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.config.settings import Api
from proxy.testing import ReceivedCall, ScriptedReply, reply, stream
from tests import gemini, messages, responses_api
from tests.wire.translation import chat_api

_PIECE_BYTES = 61
"""Of a stream: events are cut wherever this falls, also in the middle of a character."""
_OPENAI_TYPES = {"rate_limit": "requests", "api": "server_error", "overloaded": "server_error"}
"""Of OpenAI's errors, by Anthropic's."""
_GOOGLES = {"rate_limit": "RESOURCE_EXHAUSTED", "api": "INTERNAL", "overloaded": "UNAVAILABLE"}
_JSON, _EVENTS = "application/json", "text/event-stream"
_DONE = b"data: [DONE]\n\n"
_USAGE = {"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 30, "prompt_tokens_details": {"cached_tokens": 2}}


class UpstreamAnswer(Struct, frozen=True):
    """One answer of the upstream's."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", _JSON),)
    pauses: tuple[asyncio.Event, ...] = ()
    """Waited for before the first byte, and in the middle."""
    at_once: bool = False
    """Whether a stream comes in one piece: what ends it in the middle must not find less of it on a slow machine."""

    @property
    def streams(self) -> bool:
        """Whether it is an event stream."""
        return dict(self.headers)["content-type"].startswith(_EVENTS)

    def scripted(self) -> ScriptedReply:
        """As the upstream writes it."""
        if not self.streams:
            return reply(self.body, self.status, dict(self.headers))
        if self.at_once:
            return stream([self.body])
        pieces = [self.body[i : i + _PIECE_BYTES] for i in range(0, len(self.body), _PIECE_BYTES)]
        middle = {len(pieces) // 2: self.pauses[1]} if self.pauses else None
        return stream(pieces, wait=middle)


Reply = UpstreamAnswer | Callable[[ReceivedCall], UpstreamAnswer]
"""What is to be answered, or what makes it of the call."""


class Script:
    """Answers calls in order, the last one again and again, and keeps what it answered: a `ScriptedReply`."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = list(replies)
        self.answers: list[UpstreamAnswer] = []
        """Sent so far."""
        self.half_sent = asyncio.Event()
        """Set when an answer with pauses waits for its second one."""

    async def __call__(self, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        """Write the next."""
        found = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        answer = _with_usage(found if isinstance(found, UpstreamAnswer) else found(call), call)
        self.answers.append(answer)
        if answer.pauses:
            await answer.pauses[0].wait()
            asyncio.get_running_loop().call_soon(self.half_sent.set)
        await answer.scripted()(writer, call)


def _with_usage(answer: UpstreamAnswer, call: ReceivedCall) -> UpstreamAnswer:
    """As servers of chat completions do it: usage comes in a last chunk, for who asks for it."""
    if not answer.streams or not call.path.startswith("/v1/chat/completions") or b"prompt_tokens" in answer.body:
        return answer
    if not (call.json.get("stream_options") or {}).get("include_usage") or not answer.body.endswith(_DONE):
        return answer
    first = json.loads(answer.body.partition(b"\n\n")[0].removeprefix(b"data: "))
    usage = b"data: " + json.dumps({**first, "choices": [], "usage": _USAGE}).encode() + b"\n\n"
    return replace(answer, body=answer.body.removesuffix(_DONE) + usage + _DONE)


def whole(body: object, status: int = 200, **headers: str) -> UpstreamAnswer:
    """In one piece: bytes as they are, anything else as JSON."""
    payload = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return UpstreamAnswer(payload, status, (("content-type", _JSON), *more))


def events(body: bytes) -> UpstreamAnswer:
    """As an event stream."""
    return UpstreamAnswer(body, headers=(("content-type", _EVENTS),))


_ID = re.compile(rb'((?:chatcmpl-|msg_|resp_|resp-))1(?=")')
Call = tuple[str, str, str]
"""Name, arguments, id."""


def saying(api: Api, streams: bool, text: str, *calls: Call, number: int = 1) -> UpstreamAnswer:
    """An answer of text and calls; the answers of one exchange have a `number` each, which is in all of their ids."""
    made = _MAKERS[api](text, calls)
    found = events(b"".join(_EVENTS_OF[api](made))) if streams else whole(made)
    return replace(found, body=_ID.sub(rb"\g<1>%d" % number, found.body))


def error(api: Api, status: int, kind: str, message: str, **headers: str) -> UpstreamAnswer:
    """The API's error, as OpenAI and Anthropic document it; `kind` is Anthropic's type, with ``_error`` at its end."""
    if api == "messages":
        body: dict[str, Any] = {"type": "error", "error": {"type": kind + "_error", "message": message}, "request_id": "req_1"}
    elif api == "gemini":
        body = {"error": {"code": status, "message": message, "status": _GOOGLES[kind], "details": []}}
    else:
        code = "rate_limit_exceeded" if kind == "rate_limit" else None
        body = {"error": {"message": message, "type": _OPENAI_TYPES[kind], "param": None, "code": code}}
    return whole(body, status, **headers)


def _chat(text: str, calls: Sequence[Call]) -> Any:
    more = {"tool_calls": [chat_api.call(*call) for call in calls]} if calls else {}
    return {**chat_api.whole(text or None, **more), "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}


def _responses(text: str, calls: Sequence[Call]) -> Any:
    said = [responses_api.text_item(text)] if text else []
    return responses_api.response(*said, *(responses_api.call_item(*call) for call in calls))


def _messages(text: str, calls: Sequence[Call]) -> Any:
    said = [messages.text(text)] if text else []
    return messages.message(*said, *(messages.use(name, json.loads(arguments), id) for name, arguments, id in calls))


def _gemini(text: str, calls: Sequence[Call]) -> Any:
    said = [gemini.text(text)] if text else []
    return gemini.answer(*said, *(gemini.call(name, json.loads(arguments), id) for name, arguments, id in calls))


_MAKERS: dict[Api, Callable[[str, Sequence[Call]], Any]] = {
    "chat": _chat,
    "responses": _responses,
    "messages": _messages,
    "gemini": _gemini,
}
_EVENTS_OF: dict[Api, Callable[[Any], Sequence[bytes]]] = {
    "chat": lambda made: [event for event in chat_api.chunks(made, 9) if b"prompt_tokens" not in event],
    "responses": lambda made: responses_api.events(*made["output"]),
    "messages": lambda made: messages.streamed(*made["content"]),
    "gemini": lambda made: gemini.streamed(*made["candidates"][0]["content"]["parts"]),
}
