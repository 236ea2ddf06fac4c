"""Clients of a cluster that check every answer, and remember what they were promised."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.cluster.cluster import KEY
from tests.cluster.upstream import said

AWAY = "503 overloaded"
"""Whose the response before is cannot be looked up, where clients have keys."""
CODES = {"not_found", "overloaded", "upstream_unreachable", "upstream_timeout", "rate_limited", "internal_error"}
"""Of the proxy's own errors that a fault may bring; any other is wrong."""
_PAUSE_S = 0.08


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One request, and what came of it."""

    kind: str
    began: float
    """Monotonic, as `ended`."""
    ended: float
    problem: str = ""
    """Why there was no whole answer; empty where there was."""
    id: str = ""
    warnings: tuple[str, ...] = ()
    previous_ended: float = 0.0
    """When the response that this one goes on from had been read whole; 0 for none."""

    @property
    def took_s(self) -> float:
        return self.ended - self.began

    def touches(self, start: float, end: float) -> bool:
        """Whether it, or what it goes on from, lay in that time."""
        return self.began <= end and self.ended >= start


@dataclass
class Ledger:
    """What clients asked and got."""

    exchanges: list[Exchanged] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers that were whole and are not what was asked for."""

    @property
    def acknowledged(self) -> list[Exchanged]:
        return [one for one in self.exchanges if not one.problem]

    @property
    def failed(self) -> list[Exchanged]:
        return [one for one in self.exchanges if one.problem]

    def forgotten(self) -> list[Exchanged]:
        """Turns that did not know the one before, which their client had read whole."""
        unknown = {"404 not_found", AWAY}
        return [one for one in self.exchanges if one.previous_ended and ("history_not_seen" in one.warnings or one.problem in unknown)]

    def problems(self) -> Counter[str]:
        return Counter(one.problem for one in self.failed)


class Client:
    """One agent: turns of chats and of a chain of responses, streamed or not, one after the other, in a run of its own."""

    def __init__(self, url: str, name: str, ledger: Ledger, deadline_s: float, *, seed: int) -> None:
        self._url, self._name, self._ledger, self._deadline_s = url, name, ledger, deadline_s
        self._random = random.Random(f"{seed} {name}")
        self._number = 0
        self._previous, self._previous_ended = "", 0.0

    async def ask_until(self, over: asyncio.Event) -> None:
        headers = {"authorization": f"Bearer {KEY}", "x-groundwire-run-id": self._name}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=self._deadline_s)) as session:
            while not over.is_set():
                await self._turn(session)
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), self._random.uniform(0, 2 * _PAUSE_S))

    async def _turn(self, session: aiohttp.ClientSession) -> None:
        self._number += 1
        mark, streams = f"{self._name}-{self._number}", self._random.random() < 0.5
        kind = self._random.choice(("chat", "responses"))
        text = f"{mark} Which planet is the largest?"
        body: dict[str, Any] = {"model": "gpt-4o", "stream": streams}
        body |= {"messages": [{"role": "user", "content": text}]} if kind == "chat" else {"input": text}
        previous, previous_ended = ("", 0.0) if kind == "chat" else (self._previous, self._previous_ended)
        if previous:
            body["previous_response_id"] = previous
        path, began = "/v1/chat/completions" if kind == "chat" else "/v1/responses", time.monotonic()
        problem, identity, warnings = "", "", ""
        try:
            async with session.post(self._url + path, json=body) as answer:
                identity, warnings = answer.headers.get("x-groundwire-id", ""), answer.headers.get("x-groundwire-warnings", "")
                payload = await answer.read()
                problem = self._read(answer.status, payload, kind, mark, streams)
        except TimeoutError:
            problem = "no answer by the deadline"
        except (aiohttp.ClientError, OSError) as error:
            problem = f"connection: {type(error).__name__}"
        ended = time.monotonic()
        self._ledger.exchanges.append(
            Exchanged(kind, began, ended, problem, identity, tuple(filter(None, warnings.split(","))), previous_ended)
        )
        if kind == "responses":  # a client that was told that a turn is not known begins anew
            known = not problem and "history_not_seen" not in warnings
            self._previous, self._previous_ended = (_response_id(payload, streams), ended) if known else ("", 0.0)

    def _read(self, status: int, payload: bytes, kind: str, mark: str, streams: bool) -> str:
        """Why the answer is not whole; what is whole and wrong goes into the ledger."""
        if status != 200:
            return self._error(status, payload)
        text = _text(payload, kind, streams)
        if text is None:
            return "broken off"
        if text != said(mark):
            self._ledger.wrong.append(f"{kind} {mark}: {text!r}")
        return ""

    def _error(self, status: int, payload: bytes) -> str:
        if payload.lstrip().startswith(b"<html>"):
            return f"balancer {status}"
        try:
            code = json.loads(payload)["error"]["code"]
        except (ValueError, KeyError, TypeError):
            code = payload[:80].decode(errors="replace")
        if code not in CODES:
            self._ledger.wrong.append(f"{status} {code}")
        return f"{status} {code}"


def _text(payload: bytes, kind: str, streams: bool) -> str | None:
    """What was said; None where the answer has no end."""
    if not streams:
        try:
            whole = json.loads(payload)
        except ValueError:
            return None
        return str(whole["choices"][0]["message"]["content"] if kind == "chat" else whole["output"][0]["content"][0]["text"])
    found = [json.loads(line[6:]) for line in payload.splitlines() if line.startswith(b"data: {")]
    if kind == "chat":
        whole_stream = payload.rstrip().endswith(b"data: [DONE]")
        return "".join(one["choices"][0]["delta"].get("content") or "" for one in found if one["choices"]) if whole_stream else None
    if not found or found[-1]["type"] != "response.completed":
        return None
    return "".join(one["delta"] for one in found if one["type"] == "response.output_text.delta")


def _response_id(payload: bytes, streams: bool) -> str:
    if not streams:
        return str(json.loads(payload)["id"])
    last = [line for line in payload.splitlines() if line.startswith(b"data: {")][-1]
    return str(json.loads(last[6:])["response"]["id"])
