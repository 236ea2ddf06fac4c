"""Shapes of answers: right ones, and right ones with one to three things changed. One generator for the tests and for the fuzzer."""

from __future__ import annotations

import json
import random
from typing import Any

from proxy.config.settings import Api
from tests.clients.oracle import changes, right, streams
from tests.clients.oracle.right import Event
from tests.clients.oracle.shape import APIS, DELIVERIES, Shape
from tests.clients.oracle.words import Words

ELSEWHERE = "/elsewhere"
"""Where a redirect leads to: the upstream's own address, with an answer that nobody read."""


def right_shape(client: Api, server: Api, kind: str, *, streamed: bool, delivery: str = "hold") -> tuple[Shape, right.Right]:
    """An answer as the server's API gives it."""
    made = right.answer(server, kind, Words())
    body = _events_text(right.events(server, made.body)) if streamed else json.dumps(made.body).encode()
    return Shape(client, server, streamed, body, tools=made.tools, delivery=delivery), made


def _events_text(events: list[Event]) -> bytes:
    return "".join(streams._block(event, text_of(event.data)) for event in events).encode()


def text_of(data: Any) -> str:
    """An event's data, or a body, as it is written: keys that are to stand twice do."""
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False).replace(f'"{changes.TWICE}', '"')


def make(rng: random.Random, client: Api, server: Api, *, streamed: bool | None = None) -> Shape:
    """Any shape of this pair."""
    words = Words(rng.randrange(20000))
    streamed = rng.random() < 0.65 if streamed is None else streamed
    kind = rng.choice((*right.KINDS, *(right.OWN_KINDS if client == server else ())))
    count = 3 if client == server == "chat" and rng.random() < 0.1 else 1
    if count > 1:
        body, events = right.several(rng, words, count)
        made = right.Right(body)
    else:
        made = right.answer(server, kind, words)
        body, events = made.body, right.events(server, made.body)
    tools = _offered(rng, made.tools, own=client == server)
    done: list[str] = [kind]
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3))):
        done.append(_changed(rng, words, server, streamed, body, events))
    written = _stream(rng, words, server, events) if streamed else _whole(rng, body)
    status, headers = (200, ()) if rng.random() < 0.9 else _head(rng, words)
    delivery = rng.choice(DELIVERIES) if streamed else "hold"
    return Shape(client, server, streamed, written, status, headers, count, tools, delivery, tuple(done))


def _offered(rng: random.Random, needed: int, *, own: bool) -> int:
    """Which tools are offered (`right.Right.tools`): mostly those that the answer calls."""
    if rng.random() < 0.8:
        return needed
    return rng.choice((0, 1, 2) if own else (0, 1))


def _changed(rng: random.Random, words: Words, api: Api, streamed: bool, body: Any, events: list[Event]) -> str:
    if streamed:
        change = rng.choice(streams.CHANGES)
        change(api, events, rng, words)
        return change.__name__
    if rng.random() < 0.12:
        _snapshot(rng, words, body)
        return "snapshot"
    plain = rng.choice(changes.CHANGES)
    plain(body, rng, words)
    return plain.__name__


def _snapshot(rng: random.Random, words: Words, body: dict[str, Any]) -> None:
    """A field at the top that repeats the answer, as the APIs' libraries have one."""
    body[rng.choice(("output_text", "completion", "text", "content", "output", "choices", "message"))] = changes.said(rng, words)


def _stream(rng: random.Random, words: Words, api: Api, events: list[Event]) -> bytes:
    return streams.written(events, [text_of(event.data) for event in events], rng, words, api)


def _whole(rng: random.Random, body: Any) -> bytes:
    text = text_of(body)
    if rng.random() < 0.06:
        text = rng.choice((f"\ufeff{text}", f"[{text}]", f"{text}\n{text}", f"{text},", json.dumps(text), text.replace("null", "NaN", 1)))
    return text.encode("utf-8", "surrogatepass")


def _head(rng: random.Random, words: Words) -> tuple[int, tuple[tuple[str, str], ...]]:
    """Another status, or other headers."""
    if rng.random() < 0.4:
        status = rng.choice((201, 202, 203, 206, 226, 299, 300, 301, 302, 303, 307, 308, 304, 400, 404, 418, 429, 500, 600, 999))
        moved = (("location", f"{{upstream}}{ELSEWHERE}"),) if 300 <= status < 400 else ()
        return status, moved
    kinds = ("text/plain", "application/json", "text/event-stream", "application/x-ndjson", "text/html", "", "TEXT/EVENT-STREAM; x=y")
    names = (
        "x-note",
        "refresh",
        "link",
        "set-cookie",
        "warning",
        "x-accel-redirect",
        "location",
        "content-disposition",
        "server",
        "etag",
        "openai-note",
    )
    value = rng.choice((words.word(), words.sentence(), f"0; url={{upstream}}{ELSEWHERE}", f"a={words.word()}"))
    return 200, rng.choice(((("content-type", rng.choice(kinds)),), ((rng.choice(names), value),)))


def any_shape(rng: random.Random) -> Shape:
    """For the fuzzer."""
    return make(rng, rng.choice(APIS), rng.choice(APIS))
