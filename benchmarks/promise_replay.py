"""Sends the questions of `benchmarks.promise` through a running proxy as a client of each API would, and says what the client then knows.

One server has a route for each policy and a scripted provider that speaks all three APIs. Every request has an ``Authorization`` of its
own, so that none is a later turn of another's run.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.dialects import answers
from benchmarks.promise_data import Question
from benchmarks.promise_oracle import Kind, Oracle, replying, with_judge
from benchmarks.verifiers import local_verifiers
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ScriptedUpstream, completion, reply, serving, stream

POLICIES = Path(__file__).parent.parent / "policies"
SHARED_PAIRS = 1_000_000
"""So many verdicts of the verifier are kept: the wrong answer shares all sentences but one with the right one."""
_PIECE_CHARS = 12
"""Of a streamed answer, in one event."""
_RAISED = ("block", "error", "warn")


@dataclass(slots=True, frozen=True)
class Seen:
    """What became of one answer."""

    verdict: str
    """``pass``, ``unsure``, ``unchecked``, ``warn``, ``block``, ``error``."""
    faithfulness: float | None
    """``x-groundwire-faithfulness``; None where there is none."""
    codes: tuple[str, ...]
    """Of every check whose outcome is not a pass."""
    blocked: bool
    """An error instead of an answer, or an answer cut short."""
    asked: bool
    """The proxy answered in the model's stead."""
    changed: bool
    """The client got another text than the model wrote."""
    judged: tuple[str, ...]
    """The answer's statements, as they were judged."""
    claims: tuple[Mapping[str, Any], ...] = ()
    """The same, as the record has them."""

    @property
    def harmed(self) -> bool:
        """Whether the client did not get the model's answer as it was."""
        return self.blocked or self.asked or self.changed

    @property
    def warned(self) -> bool:
        """Whether the verdict speaks against it, or a check failed."""
        return self.verdict in _RAISED

    @property
    def flagged(self) -> bool:
        """Whether a client could know of something wrong: a warning or worse, but no check that merely failed."""
        return self.verdict in ("warn", "block") or self.harmed

    @property
    def late(self) -> bool:
        """Whether a check's time was up: that goes by what else the machine does."""
        late = ("check_timeout", "check_over_budget")
        return self.verdict == "error" and any(code in late or code.endswith("_unchecked") for code in self.codes)


@dataclass(slots=True, frozen=True)
class Task:
    """One answer to one question under one policy."""

    policy: str
    question: Question
    answer: str
    name: str
    """Of the client that asks."""


@dataclass(slots=True, frozen=True)
class JudgedBy:
    """The oracle as the policies' judge."""

    kind: Kind
    ask: str
    oracle: Oracle


async def replay(policies: Sequence[str], tasks: Sequence[Task], judged_by: JudgedBy | None = None) -> list[Seen]:
    """What became of each, in order; one whose check had no time left is sent once more."""
    async with _running(policies, judged_by) as (upstream, url), aiohttp.ClientSession() as session:
        async with asyncio.timeout(120):
            while not await _ready(session, url):  # the models load in the background
                await asyncio.sleep(0.1)
        found = []
        for task in tasks:
            if judged_by is not None:
                judged_by.oracle.about(task.question, task.answer)
            seen = await _send(session, upstream, url, task)
            found.append(await _send(session, upstream, url, task) if seen.late else seen)
        return found


async def _ready(session: aiohttp.ClientSession, url: str) -> bool:
    async with session.get(f"{url}/ready") as response:
        return response.status == 200


@asynccontextmanager
async def _running(policies: Sequence[str], judged_by: JudgedBy | None = None) -> AsyncIterator[tuple[ScriptedUpstream, str]]:
    verifiers = local_verifiers(SHARED_PAIRS)
    await verifiers.load()
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            said = replying(judged_by.oracle, judged_by.kind) if judged_by is not None else reply(completion())
            async with ScriptedUpstream(reply(completion())) as upstream, ScriptedUpstream(said) as oracle:
                for name in policies:
                    text = (POLICIES / f"{name}.yaml").read_text("utf-8")
                    text = with_judge(text, judged_by.kind, judged_by.ask) if judged_by is not None else text
                    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
                main = {"kind": "openai", "apis": ["chat", "responses", "messages"], "base_url": upstream.base_url, "api_key": "sk-test"}
                settings = {
                    "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db", "texts": "all"},
                    "logging": {"level": "error"},
                    "upstreams": {
                        "main": {**main, "retries": {"attempts": 0}},
                        "oracle": {"kind": "openai", "base_url": oracle.base_url, "api_key": "sk-test", "decisions": {"shape": "openai"}},
                    },
                    "routes": [{"prefix": f"/{one}", "upstream": "main", "policy": f"{one}.yaml"} for one in policies],
                }
                (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
                async with serving(App(load_settings(folder / "config.yaml", {}), verifiers=verifiers)) as url:
                    yield upstream, url
    finally:
        verifiers.stop()


async def _send(session: aiohttp.ClientSession, upstream: ScriptedUpstream, url: str, task: Task) -> Seen:
    question, text = task.question, task.answer
    whole, events = answers([text[i : i + _PIECE_CHARS] for i in range(0, len(text), _PIECE_CHARS)])[question.api]
    upstream.calls.clear()
    upstream.say(stream(events) if question.stream else reply(whole))
    path, body = question.request()
    headers = {"authorization": f"Bearer {task.name}", "x-groundwire-inline": "1"}
    async with session.post(f"{url}/{task.policy}/v1{path}", json=body, headers=headers) as response:
        got = _payloads(await response.read())
        told = dict(response.headers)
    verdict, faithfulness, detail = await _verdict(told, got)
    blocked = response.status >= 400 or any(_filtered(one) for one in got)
    return Seen(
        verdict,
        faithfulness,
        tuple(dict.fromkeys(one.get("code", one["stage"]) for one in detail.get("verdicts", ()) if one["outcome"] != "pass")),
        blocked,
        asked=not upstream.calls and not blocked,
        changed=not blocked and bool(upstream.calls) and _text(question, got) != text,
        judged=tuple(f"{one['label']} {one.get('score', 0):.2f}: {one['text']}" for one in _claims(detail)),
        claims=tuple(_claims(detail)),
    )


async def _verdict(headers: Mapping[str, str], got: Sequence[Mapping[str, Any]]) -> tuple[str, float | None, Mapping[str, Any]]:
    """Verdict, faithfulness and detail of an exchange: the one place that knows how a client asks for them."""
    inline = [one.get("groundwire") or one.get("response", {}).get("groundwire") for one in got]
    detail: Mapping[str, Any] = next((one for one in reversed(inline) if one), {})
    told = headers.get("x-groundwire-faithfulness", (detail.get("facts") or {}).get("faithfulness"))
    return detail.get("verdict") or headers["x-groundwire-verdict"], None if told is None else float(told), detail


# ---- what the client gets ----


def _payloads(body: bytes) -> list[dict[str, Any]]:
    """Of a stream its events, else the one object."""
    text = body.decode("utf-8")
    if text.startswith(("data:", "event:")):
        return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(text)]


def _text(question: Question, got: Sequence[Mapping[str, Any]]) -> str:
    return "".join(_pieces(question.api, got))


def _pieces(api: str, got: Sequence[Mapping[str, Any]]) -> list[str]:
    if api == "chat":
        said = [choice.get("message") or choice["delta"] for one in got for choice in one.get("choices") or ()]
        return [one.get("content") or "" for one in said]
    if api == "responses":
        parts = [part for one in got for item in one.get("output", ()) for part in item.get("content", ())]
        return [part["text"] for part in parts] + [one["delta"] for one in got if one.get("type") == "response.output_text.delta"]
    deltas = [one["delta"] for one in got if one.get("type") == "content_block_delta"]
    return [block.get("text", "") for one in got for block in (one.get("content") or ())] + [delta.get("text", "") for delta in deltas]


def _filtered(one: Mapping[str, Any]) -> bool:
    """Whether an answer, or an event of it, says that it was cut short."""
    ends = [choice.get("finish_reason") for choice in one.get("choices") or ()]
    ends += [one.get("stop_reason"), (one.get("delta") or {}).get("stop_reason") if isinstance(one.get("delta"), dict) else None]
    status = (one.get("response") or one).get("status") if isinstance(one.get("response", {}), dict) else None
    return "content_filter" in ends or "refusal" in ends or status in ("incomplete", "failed") or one.get("type") == "error"


def _claims(detail: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        claim for one in detail.get("verdicts", ()) if one["stage"] == "claims" for claim in (one.get("detail") or {}).get("claims", ())
    ]
