"""One proxy for all cases, before one scripted upstream that speaks every API: what an exchange was, as a golden file's text.

Every exchange is a run of its own, so that none sees what another has left in the store, and all are one client's: their answers have the same ids.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct
from msgspec.structs import replace

from proxy.app import App
from proxy.config.settings import Api, load_settings
from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import ScriptedUpstream, ScriptedVerifiers, completion, reply, serving
from proxy.wire.sse import KEEP_ALIVE
from proxy.wire.translation.translate import PATHS
from tests import gemini
from tests.claims import judged_by_words
from tests.golden.answers import Script, UpstreamAnswer
from tests.golden.cases import KINDS, POLICIES, SPOKEN, Case
from tests.golden.text import ExchangeText
from tests.own_tools import Finder

_KEEP_ALIVE_S = {False: 3600.0, True: 0.02}
"""Between two signs of life, for the cases that do without and for those with a slow upstream."""
_KINDS: dict[Api, str] = {"messages": "anthropic", "gemini": "gemini"}
_HEADERS = {"content-type": "application/json", "accept": "*/*", "user-agent": "golden"}


class Passing(SentenceStage):
    """Reads every sentence and lets it pass."""

    name = "passing"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict:
        return Verdict("passing", "pass")


class Goldens(Struct):
    """The running proxies, and what asks them."""

    upstream: ScriptedUpstream
    session: aiohttp.ClientSession
    apps: dict[bool, tuple[App, str]]
    """By whether the upstream is slow: the application and its address."""

    async def golden(self, case: Case) -> str:
        """The text of the case's file."""
        kind = KINDS[case.kind]
        runs = [await self._exchange(case, policy, kind.slow) for policy in kind.policies]
        for run in runs:
            run.record = await self._record(*self.apps[kind.slow], dict(run.headers)["x-groundwire-id"])
        title = f"{case.kind}: client {case.client}, upstream {case.server}, {'streamed' if case.streams else 'whole'}\n"
        return title + _text_of(runs)

    async def _exchange(self, case: Case, policy: str, slow: bool) -> _Run:
        kind, (_, url) = KINDS[case.kind], self.apps[slow]
        pauses = (asyncio.Event(), asyncio.Event()) if slow else ()
        replies = kind.replies(case.server, case.streams)
        if pauses:
            replies = [replace(one, pauses=pauses) for one in replies if isinstance(one, UpstreamAnswer)]
        script = Script(*replies)
        self.upstream.say(script)
        self.upstream.calls.clear()
        path, sent = "/v1" + PATHS[case.client], kind.request(case.client, case.streams)
        if case.client == "gemini":
            path, sent = gemini.addressed(sent)
        run = f"{case.name}-{policy}"
        key = f"key-of-{run}" if kind.alone else "key-of-client"
        given = _HEADERS | {"x-groundwire-run-id": run, "authorization": f"Bearer {key}"}
        if case.client == "messages":
            given |= {"x-api-key": key, "anthropic-version": "2023-06-01"}
        if case.client == "gemini":
            given |= {"x-goog-api-key": key}
        async with self.session.post(f"{url}/{policy}-{case.server}{path}", data=sent, headers=given) as response:
            got = await _read_slowly(response, script, pauses) if pauses else await response.read()
        calls = [(call.path, dict(call.headers), call.body) for call in self.upstream.calls]
        return _Run(policy, path, sent, calls, script.answers, response.status, list(response.headers.items()), got)

    async def _record(self, app: App, url: str, name: str) -> Any:
        """A tapped answer's comes to be when its checks are done."""
        async with asyncio.timeout(10):
            while True:
                async with self.session.get(f"{url}/groundwire/v1/records/{name}") as found:
                    if found.status == 200 and (record := await found.json())["outcome"] != "pending":
                        return record
                await app.records_writer.flush()
                await asyncio.sleep(0.002)


async def _read_slowly(response: aiohttp.ClientResponse, script: Script, pauses: Sequence[asyncio.Event]) -> bytes:
    """The body; the upstream goes on when a sign of life has come, and again when two have behind its first half."""
    got, before = b"", 0
    async for piece in response.content.iter_any():
        got += piece
        signs = got.count(KEEP_ALIVE)
        if signs and not pauses[0].is_set():
            pauses[0].set()
        elif script.half_sent.is_set() and not before:
            before = signs
        elif before and signs >= before + 2:
            pauses[1].set()
    return got


class _Run(Struct):
    """One exchange under one policy."""

    policy: str
    path: str
    sent: bytes
    calls: list[tuple[str, dict[str, str], bytes]]
    answers: list[UpstreamAnswer]
    status: int
    headers: list[tuple[str, str]]
    got: bytes
    record: dict[str, Any] = {}

    def sections(self) -> list[tuple[str, str]]:
        """Title and text of each: what the client sends, each call's two, what the client gets, the record's verdict."""
        write = ExchangeText()
        found = [(f"client sends: POST {self.path}", write.body(self.sent))]
        for (path, headers, body), answer in zip(self.calls, self.answers, strict=True):
            asked = "⟨the client's body⟩" if body == self.sent else write.body(body)
            found.append((f"upstream gets: POST {path}", f"{write.headers(headers.items())}\n{asked}"))
            found.append((f"upstream answers: {answer.status}", f"{write.headers(answer.headers)}\n{write.body(answer.body)}"))
        same = self.answers and self.got == self.answers[-1].body
        got = "⟨the upstream's body⟩" if same else write.body(self.got)
        found.append((f"client gets: {self.status}", f"{write.headers(self.headers)}\n{got}"))
        return [*found, ("record", _verdicts(self.record))]


def _text_of(runs: Sequence[_Run]) -> str:
    """All policies' sections; behind the first policy's, what is the same is named."""
    first, *_ = found = [run.sections() for run in runs]
    parts = []
    for run, sections in zip(runs, found, strict=True):
        parts.append(f"\n=== policy {run.policy} ===\n")
        for i, (title, body) in enumerate(sections):
            before = first[i] if sections is not first and i < len(first) else None
            parts.append(f"--- {title}{_shown(body, title, before, runs[0].policy)}\n")
    return "".join(parts)


def _shown(text: str, title: str, before: tuple[str, str] | None, policy: str) -> str:
    """A section's text; as a whole, or behind its headers, the same that stood there `before` under the first `policy`."""
    same = f"⟨as under {policy}⟩"
    if before is None or before[0] != title:
        return f"\n{text}"
    if before[1] == text:
        return f" {same}"
    headers, blank, body = text.partition("\n\n")
    return f"\n{headers}{blank}{same}" if blank and body == before[1].partition("\n\n")[2] else f"\n{text}"


def _verdicts(record: dict[str, Any]) -> str:
    tokens = record["prompt_tokens"], record["completion_tokens"]
    lines = [f"outcome: {record['outcome']}, status: {record['status']}, tokens: {tokens[0]} in, {tokens[1]} out"]
    lines += [f"{one['stage']}: {one['outcome']} {one.get('code') or ''}".rstrip() for one in record["detail"].get("verdicts", ())]
    return "\n".join(lines)


@asynccontextmanager
async def goldens(folder: Path, store: Path | None = None) -> AsyncIterator[Goldens]:
    """Proxies that run in `folder`, on a copy of the `store`, if one is there."""
    connector = aiohttp.TCPConnector()
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        aiohttp.ClientSession(auto_decompress=False, connector=connector, skip_auto_headers=("Accept-Encoding",)) as session,
    ):
        for name, policy in POLICIES.items():
            (folder / f"{name}.yaml").write_text(policy, encoding="utf-8")
        apps = {slow: _app(folder, slow, store, upstream.base_url) for slow in _KEEP_ALIVE_S}
        async with serving(apps[False]) as usual, serving(apps[True]) as slow:
            yield Goldens(upstream, session, {False: (apps[False], usual), True: (apps[True], slow)})


def _app(folder: Path, slow: bool, store: Path | None, base_url: str) -> App:
    database = folder / f"store-{slow}.db"
    if store is not None:
        shutil.copy(store, database)
    common = f"base_url: '{base_url}', api_key: sk-upstream, retries: {{attempts: 0}}"
    upstreams = [f"  {api}: {{kind: {_KINDS.get(api, 'openai')}, apis: [{api}], {common}}}\n" for api in SPOKEN]
    routes = [f"  - {{prefix: /{name}-{api}, upstream: {api}, policy: {name}.yaml}}\n" for name in POLICIES for api in SPOKEN]
    config = folder / f"config-{slow}.yaml"
    config.write_text(
        f"server: {{keep_alive_s: {_KEEP_ALIVE_S[slow]}}}\n"
        f"store: {{url: 'sqlite+aiosqlite:///{database}', bodies: false}}\n"
        f"upstreams:\n{''.join(upstreams)}routes:\n{''.join(routes)}",
        encoding="utf-8",
    )
    app = App(load_settings(config, {}), (*STAGES, Passing, Finder), verifiers=ScriptedVerifiers(judged_by_words))
    app.retention.start = lambda: None  # type: ignore[method-assign]
    return app
