"""The cases: every kind of exchange, in each client's API, before an upstream of each API, whole and streamed.

A new kind is an entry of `KINDS`: the policies it runs under, the request and the upstream's answers, written once for all APIs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.config.settings import Api
from proxy.testing import ReceivedCall
from tests.apis import APIS
from tests.claims import LONDON, PARIS, TALL, TOWER, WHERE
from tests.exchanges import Exchanged, recorded
from tests.golden.answers import Reply, error, events, saying, whole
from tests.own_tools import FIND, function
from tests.wire.translation.pairs import AGENT, SEEN

SPOKEN: tuple[Api, ...] = ("chat", "responses", "messages", "gemini")
EXCHANGES = {api: {one.name: one for one in recorded(api)} for api in SPOKEN}

_CLAIMS = "name: {name}\ndelivery: {delivery}\nstages: [claims: {{action: {action}, embed: false, on_error: closed}}]\n"
PASSING = ("tap", "gate", "hold")
"""Policies that change nothing, one a delivery."""
POLICIES = {
    "tap": "name: tap\ndelivery: tap\nstages: []\n",
    "gate": "name: gate\ndelivery: gate\nstages: [passing]\n",
    "hold": "name: hold\ndelivery: hold\nstages: [passing]\n",
    "archive": "name: archive\ndelivery: tap\nstages: [history: {max_messages: 4, action: sliding_window, keep_recent: 3}]\n",
    "find-tap": "name: find-tap\ndelivery: tap\nstages: [finder]\n",
    "find-gate": "name: find-gate\ndelivery: gate\nstages: [finder, passing]\n",
    "find-hold": "name: find-hold\ndelivery: hold\nstages: [finder, passing]\n",
    **{
        name: _CLAIMS.format(name=name, delivery=name.partition("-")[2], action=name.partition("-")[0])
        for name in ("block-hold", "block-gate", "redact-hold", "redact-gate", "retry-hold", "replace-hold", "replace-gate")
    },
}
"""By name."""


class Kind(Struct, frozen=True):
    """What happens in an exchange, whoever speaks which API."""

    request: Callable[[Api, bool], bytes]
    """The client's body, by its API and whether it streams."""
    replies: Callable[[Api, bool], Sequence[Reply]]
    """The upstream's answers, by its API and whether the client streams."""
    policies: tuple[str, ...] = PASSING
    clients: tuple[Api, ...] = SPOKEN
    streams: tuple[bool, ...] = (False, True)
    alone: bool = False
    """Whether each exchange has a client of its own: what one run of a client's has archived, its others use again."""
    slow: bool = False
    """Whether the upstream pauses, before its first byte and in the middle, until the client has had signs of life."""


class Case(Struct, frozen=True):
    """One file."""

    kind: str
    client: Api
    server: Api
    """The API in which the upstream is asked."""
    streams: bool

    @property
    def name(self) -> str:
        """Of the file, below the folder of its kind."""
        return f"{self.kind}/{self.client}-to-{self.server}.{'stream' if self.streams else 'whole'}"


def _recorded(name: str) -> Kind:
    """An exchange of `tests/data/exchanges`."""

    def request(client: Api, streams: bool) -> bytes:
        one = EXCHANGES[client][name]
        return one.streamed_request if streams else one.request

    def replies(server: Api, streams: bool) -> list[Reply]:
        one: Exchanged = EXCHANGES[server][name]
        return [events(one.events) if streams else whole(one.answer, one.status)]

    return Kind(request, replies)


def _asking(*messages: dict[str, Any], **more: Any) -> Callable[[Api, bool], bytes]:
    """A request that is written as chat's."""

    def request(client: Api, streams: bool) -> bytes:
        chat = {"model": "m", "messages": list(messages), "stream": streams, **more}
        return _of(client, APIS[client].request(chat), streams)

    return request


def _encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()


def _of(client: Api, body: dict[str, Any], streams: bool) -> bytes:
    """A body of the API; where its address says the model and whether it streams, these stand last, as in `tests/data/exchanges`."""
    if client != "gemini":
        return _encoded(body | {"stream": streams})
    return _encoded({name: value for name, value in body.items() if name not in ("model", "stream")} | {"model": "m", "stream": streams})


def _failing(status: int, kind: str, message: str, **headers: str) -> Kind:
    return Kind(_recorded("text").request, lambda server, streams: [error(server, status, kind, message, **headers)])


def _error_in_200(server: Api, streams: bool) -> list[Reply]:
    return [events(EXCHANGES[server]["error"].events) if streams else error(server, 200, "overloaded", "Overloaded")]


_ABOUT_THE_TOWER = _asking({"role": "user", "content": WHERE}, groundwire={"context": [{"content": TOWER, "source": "tower.txt"}]})
_WRONG = f"{PARIS} {LONDON} {TALL}"


def _judged(*policies: str, then: str = "") -> Kind:
    """An answer that contradicts its context; asked again, the upstream says what is right."""
    texts = (_WRONG, then) if then else (_WRONG,)

    def replies(server: Api, streams: bool) -> list[Reply]:
        return [replace(saying(server, streams, text, number=i), at_once=True) for i, text in enumerate(texts, 1)]

    return Kind(_ABOUT_THE_TOWER, replies, policies)


def _thinking_before(client: Api, streams: bool) -> bytes:
    """The turn after a call: what the model thought goes back to it, signed."""
    chat = json.loads(EXCHANGES["chat"]["tool-result"].request)
    body = json.loads(EXCHANGES[client]["tool-result"].request) | {"stream": streams}
    if client == "messages":
        turn = next(one for one in body["messages"] if one["role"] == "assistant")
        turn["content"] = [
            {"type": "thinking", "thinking": "I must look.", "signature": "EqQBCkYIARgCIkA+/w=="},
            {"type": "redacted_thinking", "data": "EmwKAhgBEgy+/w=="},
            *turn["content"],
        ]
        body["thinking"] = {"type": "adaptive"}
    elif client == "responses":
        at = next(i for i, item in enumerate(body["input"]) if item.get("type") == "function_call")
        summary = [{"type": "summary_text", "text": "I must look."}]
        body["input"].insert(at, {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "gAAAB+/=="})
        body["include"] = ["reasoning.encrypted_content"]
    elif client == "gemini":
        turn = next(one for one in body["contents"] if one["role"] == "model")
        turn["parts"].insert(0, {"text": "I must look.", "thought": True})
        return _of(client, body, streams)
    else:
        turn = next(one for one in chat["messages"] if one["role"] == "assistant")
        turn["reasoning_content"] = "I must look."
        body = chat | {"stream": streams}
    return _encoded(body)


_BOTH = [("read", '{"path":"c.txt"}', "call_3"), ("read", '{"path":"d.txt"}', "call_4")]
_TOOLS = [function("search_flights")]
_SEARCH = (FIND, '{"q":"hotel"}', "call_own")
_THEIRS = ("search_flights", '{"to":"Oslo"}', "call_theirs")
_FINDING = ("find-tap", "find-gate", "find-hold")
_AGENT = _asking({"role": "user", "content": "Book me a hotel."}, tools=_TOOLS)

_ARCHIVE_ID = re.compile(r"groundwire_read_archive (sp_[0-9a-f]+)")
_TURNS = [
    {
        "role": "user" if i % 2 == 0 else "assistant",
        "content": f"Turn {i}. " + f"Ferry {i} leaves at {i + 6} o'clock, unless the wind is strong. " * 6,
    }
    for i in range(9)
]


def _reading_archive(server: Api, streams: bool) -> list[Reply]:
    """The model asks for what has left its prompt, by the id that stands there."""

    def reads(call: ReceivedCall) -> Any:
        found = _ARCHIVE_ID.search(call.body.decode())
        arguments = json.dumps({"id": found[1] if found else "none", "search": "ferry 2"})
        return saying(server, streams, "", ("groundwire_read_archive", arguments, "call_own"))

    return [reads, saying(server, streams, "Ferry 2 leaves at 8 o'clock.", number=2)]


KINDS: dict[str, Kind] = {
    **{
        name: _recorded(name)
        for name in ("text", "tools", "tool-result", "parallel-tools", "reasoning", "refusal", "unicode", "json", "unknown")
    },
    "thinking": Kind(_thinking_before, _recorded("reasoning").replies),
    "agent": Kind(
        lambda client, streams: _of(client, AGENT[client], streams),
        lambda server, streams: [saying(server, streams, "I go on.", *_BOTH)],
    ),
    "pictures": Kind(
        lambda client, streams: _of(client, SEEN[client], streams),
        lambda server, streams: [saying(server, streams, '{"path": "a.png"}')],
        ("tap",),
    ),
    "usage": Kind(
        _asking({"role": "user", "content": "Hi"}, stream_options={"include_usage": True}),
        lambda server, streams: [saying(server, streams, "Hello there. Bye.")],
        clients=("chat",),
        streams=(True,),
    ),
    "error-429": _failing(429, "rate_limit", "Rate limit reached", retry_after="7", x_ratelimit_remaining_requests="0"),
    "error-500": _failing(500, "api", "Internal server error", x_request_id="req_1"),
    "error-in-200": Kind(_recorded("text").request, _error_in_200),
    "block": _judged("block-hold", "block-gate"),
    "redact": _judged("redact-hold", "redact-gate"),
    "replace": _judged("replace-hold", "replace-gate"),
    "retry": _judged("retry-hold", then=f"{PARIS} {TALL}"),
    "own-tool": Kind(
        _AGENT,
        lambda server, streams: [saying(server, streams, "I look.", _SEARCH), saying(server, streams, "Booked.", number=2)],
        _FINDING,
    ),
    "own-tool-and-theirs": Kind(_AGENT, lambda server, streams: [saying(server, streams, "I look.", _THEIRS, _SEARCH)], _FINDING),
    "archive": Kind(_asking(*_TURNS), _reading_archive, ("archive",), alone=True),
    "keep-alive": Kind(
        _asking({"role": "user", "content": "Hi"}),
        lambda server, streams: [saying(server, streams, "It turns at noon. Mind the current.")],
        streams=(True,),
        slow=True,
    ),
}

CASES = [
    Case(name, client, server, streams)
    for name, kind in KINDS.items()
    for client in kind.clients
    for server in SPOKEN
    for streams in kind.streams
]
