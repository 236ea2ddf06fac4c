"""The APIs that the conversations of `benchmarks.harmless` are spoken in: a row holds chat messages, the wire has the API's own.

Responses name the one before (``previous_response_id``) and bring what is new alone, Messages mark results that failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proxy.testing import ScriptedReply, chunk, completion, reply, stream
from proxy.wire.chat.completions import ChatDialect
from tests import apis, responses_api

Body = Mapping[str, Any]
_PIECE_CHARS = 12
"""Of a streamed answer, in one event."""


@dataclass(slots=True)
class Got:
    """What a client reads."""

    text: str
    calls: list[tuple[str, str]]
    """Names and arguments."""
    filtered: bool
    """Cut short by a check."""


class Chat:
    """Chat completions."""

    upstream, path = "main", "/v1/chat/completions"

    def request(self, body: Body, name: str) -> dict[str, Any]:
        """What a client sends that has these chat messages; `name` is the conversation's."""
        return {**body, "messages": [{k: v for k, v in message.items() if k != "is_error"} for message in body["messages"]]}

    def reply(self, message: Body, name: str, index: int, *, streamed: bool) -> ScriptedReply:
        """What the model says as message `index` of conversation `name`."""
        if streamed:
            return stream(_chunks(message))
        return reply(_completion(message))

    def read(self, body: bytes, *, streamed: bool) -> Got:
        """The answer as its client has it."""
        if not streamed:
            choice = (json.loads(body).get("choices") or [{}])[0]
            message = choice.get("message") or {}
            return Got(message.get("content") or "", calls_of(message), choice.get("finish_reason") == "content_filter")
        got, calls = Got("", [], False), dict[int, list[str]]()
        for line in body.decode("utf-8").splitlines():
            if not line.startswith("data: {"):
                continue
            for choice in json.loads(line[6:]).get("choices") or []:
                got.text += choice.get("delta", {}).get("content") or ""
                got.filtered |= choice.get("finish_reason") == "content_filter"
                for call in choice.get("delta", {}).get("tool_calls") or []:
                    named = calls.setdefault(call.get("index", 0), ["", ""])
                    named[0] += call.get("function", {}).get("name") or ""
                    named[1] += call.get("function", {}).get("arguments") or ""
        got.calls = [(name, arguments) for _, (name, arguments) in sorted(calls.items())]
        return got

    def messages(self, body: Body) -> Sequence[Body]:
        """The chat messages of what went upstream."""
        return body["messages"]


class Responses(Chat):
    """OpenAI's Responses; the provider holds the history."""

    path = "/v1/responses"
    _api = apis.ResponsesApi()

    def request(self, body: Body, name: str) -> dict[str, Any]:
        """The items behind the last answer, which `reply` has given its id."""
        every = super().request(body, name)["messages"]
        system = [message["content"] for message in every if message["role"] == "system"]
        answers = [i for i, message in enumerate(every) if message["role"] == "assistant"]
        new = [message for message in every[answers[-1] + 1 if answers else 0 :] if message["role"] != "system"]
        sent = self._api.request({**body, "messages": new})
        return {**sent, "instructions": "\n\n".join(system)} | ({"previous_response_id": f"resp_{name}_{answers[-1]}"} if answers else {})

    def reply(self, message: Body, name: str, index: int, *, streamed: bool) -> ScriptedReply:
        """A response of its own id."""
        output = self._api.answer(_choice(message))["output"]
        items = [{**item, "id": f"{item['id']}_{name}_{index}"} for item in output]
        if streamed:
            return stream(responses_api.events(*items, id=f"resp_{name}_{index}"))
        return reply(responses_api.response(*items, id=f"resp_{name}_{index}"))

    def read(self, body: bytes, *, streamed: bool) -> Got:
        """By the API's rules."""
        return _read(self._api, body, streamed)

    def messages(self, body: Body) -> Sequence[Body]:
        """Instructions and items."""
        found: Sequence[Body] = self._api.chat_request(dict(body))["messages"]
        return found


class Messages(Chat):
    """Anthropic's Messages."""

    upstream, path = "claude", "/v1/messages"
    _api = apis.MessagesApi()

    def request(self, body: Body, name: str) -> dict[str, Any]:
        """Turns of blocks."""
        failed = {message["tool_call_id"] for message in body["messages"] if message.get("is_error")}
        sent: dict[str, Any] = self._api.request(super().request(body, name))
        for message in sent["messages"]:
            for block in message["content"] if isinstance(message["content"], list) else ():
                if block.get("tool_use_id") in failed:
                    block["is_error"] = True
        return sent

    def reply(self, message: Body, name: str, index: int, *, streamed: bool) -> ScriptedReply:
        """A message."""
        choice = _choice(message)
        return stream(self._api.events(choice)) if streamed else reply(self._api.answer(choice))

    def read(self, body: bytes, *, streamed: bool) -> Got:
        """By the API's rules."""
        return _read(self._api, body, streamed)

    def messages(self, body: Body) -> Sequence[Body]:
        """Of its blocks."""
        found: Sequence[Body] = self._api.chat_request(dict(body))["messages"]
        return found


APIS: Mapping[str, Chat] = {"chat": Chat(), "responses": Responses(), "messages": Messages()}


def calls_of(message: Body) -> list[tuple[str, str]]:
    """Names and arguments of a chat message's calls."""
    return [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]


def _read(api: apis.ResponsesApi | apis.MessagesApi, body: bytes, streamed: bool) -> Got:
    if not streamed and "error" in (whole := json.loads(body)) and whole["error"]:
        return Got("", [], False)
    text, refusal, calls, filtered, _ = api.read(body, streamed)
    return Got(text or refusal, [(name, json.dumps(json.loads(arguments), ensure_ascii=False)) for _, name, arguments in calls], filtered)


def _completion(message: Body) -> dict[str, Any]:
    body = completion(message.get("content") or "")
    body["choices"][0]["message"] = {**message, "refusal": None}
    body["choices"][0]["finish_reason"] = _finish(message)
    return body


def _choice(message: Body) -> Any:
    return ChatDialect().parse_answer(json.dumps(_completion(message)).encode()).choices[0]


def _chunks(message: Body) -> list[bytes]:
    text = message.get("content") or ""
    events = [chunk({"role": "assistant", "content": "" if text else None})]
    events += [chunk({"content": text[i : i + _PIECE_CHARS]}) for i in range(0, len(text), _PIECE_CHARS)]
    events += [chunk({"tool_calls": [{"index": i, **call}]}) for i, call in enumerate(message.get("tool_calls") or [])]
    return [*events, chunk({}, _finish(message)), b"data: [DONE]\n\n"]


def _finish(message: Body) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"
