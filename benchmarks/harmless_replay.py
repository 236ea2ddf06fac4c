"""Sends the conversations of `benchmarks.harmless` through a running proxy, turn by turn, as a client would, and says what became of them.

The model is scripted: it answers what the row says. What went upstream is held against what the client sent, what the client got against
what the model said; verdict, codes and times are the exchange's record's.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.harmless_apis import APIS, calls_of
from benchmarks.harmless_data import Conversation, Turn
from benchmarks.verifiers import local_verifiers
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.ports import Verifiers
from proxy.testing import ScriptedUpstream, completion, reply, serving

POLICIES = Path(__file__).parent.parent / "policies"
_VALUE = re.compile(r"[^\W_][\w.,:/@-]*\d[\w:/@-]*|\d[\d.,:]*\d|[^\W\d_a-z]\w{3,}")


@dataclass(slots=True, frozen=True)
class Outcome:
    """What became of one turn."""

    conversation: str
    turn: int
    last: bool
    verdict: str
    codes: tuple[str, ...]
    """Of every verdict that is not a pass."""
    status: int
    blocked: bool
    """An error instead of an answer, or an answer cut short."""
    asked: bool
    """The proxy answered in the model's stead."""
    deleted: tuple[str, ...]
    """Beginnings of texts that the client sent and the model did not get, where nothing was compressed."""
    lost: tuple[str, ...]
    """Values of the model's answer that the client sent and the model did not get, be they in the archive."""
    changed: bool
    """The client got another answer than the model gave."""
    planted_forwarded: bool
    """The words that a harmful conversation planted reached the model."""
    planted_delivered: bool
    """They reached the client, as part of the answer."""
    clashes: int
    overhead_ms: float
    detail: Mapping[str, Any]
    """The record's."""

    @property
    def harmed(self) -> bool:
        """Whether an ordinary conversation suffered."""
        return self.blocked or self.asked or bool(self.deleted) or self.changed

    @property
    def warned(self) -> bool:
        """Whether a check speaks against it, or has failed for another reason than time."""
        found = [(verdict["outcome"], verdict.get("code", "")) for verdict in self.detail.get("verdicts", ())]
        return any(outcome == "warn" or (outcome == "error" and not _is_late(code)) for outcome, code in found)

    @property
    def late(self) -> bool:
        """Whether a check's time was up before it was done: that goes by what else the machine does."""
        found = [(verdict["outcome"], verdict.get("code", "")) for verdict in self.detail.get("verdicts", ())]
        return any(outcome == "error" and _is_late(code) for outcome, code in found)


def _is_late(code: str) -> bool:
    return code in ("check_timeout", "check_over_budget") or code.endswith("_unchecked")


async def replay(policy: str, conversations: Sequence[Conversation], window: int | None = None) -> list[Outcome]:
    """Every turn of `conversations`, in order, with the model's window or one of so many tokens. `policy` names a shipped policy, or a file
    by its absolute path without ``.yaml``.
    """
    return (await replay_all([policy], conversations, window=window))[policy]


async def replay_all(
    policies: Sequence[str], conversations: Sequence[Conversation], verifiers: Verifiers | None = None, window: int | None = None
) -> dict[str, list[Outcome]]:
    """The same under each of `policies`, a conversation under all before the next one: what a model has said of a text serves them all.

    They are routes of one server. Each has a client of its own, so that no conversation is a later turn of another policy's run.
    """
    async with _running(policies, verifiers, window) as (app, upstream, url), aiohttp.ClientSession() as session:
        async with asyncio.timeout(120):
            while not await _ready(session, url):  # the models load in the background
                await asyncio.sleep(0.1)
        clients = {policy: _Client(app, upstream, url, session, Path(policy).name) for policy in policies}
        found: dict[str, list[Outcome]] = {policy: [] for policy in policies}
        for row in conversations:
            for policy, client in clients.items():
                found[policy] += [await client.send(row, turn) for turn in row.turns()]
        return found


async def _ready(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.get(f"{url}/ready") as response:
        return response.status == 200


@asynccontextmanager
async def _running(
    policies: Sequence[str], verifiers: Verifiers | None, window: int | None
) -> AsyncIterator[tuple[App, ScriptedUpstream, str]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        async with ScriptedUpstream(reply(completion())) as upstream:
            (folder / "config.yaml").write_text(_config(folder, upstream.base_url, policies, window), encoding="utf-8")
            app = App(load_settings(folder / "config.yaml", {}), verifiers=verifiers or local_verifiers())
            async with serving(app) as url:
                yield app, upstream, url


def _config(folder: Path, base_url: str, policies: Sequence[str], window: int | None) -> str:
    server = f"base_url: '{base_url}', api_key: sk-test, retries: {{attempts: 0}}"
    return "".join(
        [
            f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db', texts: all}}\nlogging: {{level: error}}\n",
            f"models: {{gpt-4o: {{window: {window}, max_output_tokens: {window // 4}, encoding: o200k_base}}}}\n" if window else "",
            f"upstreams: {{main: {{kind: openai, {server}}}, claude: {{kind: anthropic, {server}}}}}\nroutes:\n",
            *(
                f"  - {{prefix: /{Path(name).name}/{upstream}, upstream: {upstream}, policy: '{POLICIES / name}.yaml'}}\n"
                for name in policies
                for upstream in ("main", "claude")
            ),
        ]
    )


class _Client:
    def __init__(self, app: App, upstream: ScriptedUpstream, url: str, session: aiohttp.ClientSession, policy: str) -> None:
        self._app, self._upstream, self._url, self._session, self._policy = app, upstream, url, session, policy

    async def send(self, row: Conversation, turn: Turn) -> Outcome:
        api, name = APIS[row.api], f"{self._policy}_{row.id}"
        self._upstream.calls.clear()
        self._upstream.say(api.reply(turn.reply, name, turn.index, streamed=row.stream))
        headers = {"authorization": f"Bearer {self._policy}"}
        body = api.request(turn.body, name)
        async with self._session.post(f"{self._url}/{self._policy}/{api.upstream}{api.path}", json=body, headers=headers) as response:
            got = api.read(await response.read(), streamed="event-stream" in response.headers.get("content-type", ""))
            record = await self._record(response.headers, headers)
        detail = record["detail"]
        verdicts = [verdict for verdict in detail.get("verdicts", []) if verdict["outcome"] != "pass"]
        forwarded = [call.json for call in self._upstream.calls]
        said = turn.reply.get("content") or ""
        planted = row.harm.planted if row.harm is not None else None
        blocked = response.status >= 400 or got.filtered
        return Outcome(
            row.id,
            turn.index,
            turn.last,
            record["verdict"] if "verdict" in record else record["outcome"],
            tuple(dict.fromkeys(verdict.get("code", verdict["stage"]) for verdict in verdicts)),
            response.status,
            blocked,
            asked=not forwarded and not blocked,
            deleted=_missing(api.messages(body), api.messages(forwarded[-1])) if forwarded and not _is_compressed(detail) else (),
            lost=_lost(turn.reply, api.messages(body), api.messages(forwarded[-1])) if forwarded else (),
            changed=not blocked and bool(forwarded) and (got.text != said or got.calls != calls_of(turn.reply)),
            planted_forwarded=planted is not None and any(planted in text for body in forwarded for text in _texts(api.messages(body))),
            planted_delivered=planted is not None and planted in got.text,
            clashes=int(detail.get("facts", {}).get("clashes") or 0),
            overhead_ms=float(detail.get("overhead_ms", 0.0)),
            detail=detail,
        )

    async def _record(self, headers: Mapping[str, str], authorization: Mapping[str, str]) -> Mapping[str, Any]:
        """The exchange's record; a streamed answer's verdict is waited for, as a client would."""
        record_id = headers["x-groundwire-id"]
        async with asyncio.timeout(60):
            if headers["x-groundwire-verdict"] == "pending":
                path = f"{self._url}/groundwire/v1/verdicts/{record_id}"
                async with self._session.get(path, params={"wait_ms": "30000"}, headers=authorization) as response:
                    await response.read()
            while True:
                await self._app.records_writer.flush()
                async with self._session.get(f"{self._url}/groundwire/v1/records/{record_id}") as response:
                    if response.status == 200 and (record := await response.json())["outcome"] != "pending":
                        return record  # type: ignore[no-any-return]
                await asyncio.sleep(0.005)


# ---- what the model got ----


def _texts(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for message in messages:
        content = message.get("content")
        parts = [part.get("text", "") for part in content] if isinstance(content, list) else [content or ""]
        found += [part for part in parts if part]
    return found


def _missing(sent: Sequence[Mapping[str, Any]], forwarded: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Beginnings of the texts that the client sent and that are not in what went upstream, whatever was added around them."""
    there = _texts(forwarded)
    return tuple(text[:80] for text in _texts(sent) if not any(text in other for other in there))


def _is_compressed(detail: Mapping[str, Any]) -> bool:
    return bool(detail.get("facts", {}).get("compression", {}).get("strategies"))


def _lost(reply: Mapping[str, Any], sent: Sequence[Mapping[str, Any]], forwarded: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Numbers, ids and names of what the model says that stand in what the client sent and not in what went upstream."""
    said = " ".join([reply.get("content") or "", *(arguments for _, arguments in calls_of(reply))])
    before, there = (json.dumps(messages, ensure_ascii=False) for messages in (sent, forwarded))
    return tuple(value for value in dict.fromkeys(_VALUE.findall(said)) if value in before and value not in there)
