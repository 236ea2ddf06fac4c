"""A whole proxy without sockets: requests go in as ASGI messages, the upstream is an object that says what it is told to."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage, Stage
from proxy.stages.registry import STAGES
from tests.memory_upstream import MemoryUpstream
from tests.stores import in_thread, migrate

POLICIES = {
    "tap": "delivery: tap\nstages: []\n",
    "hold": "delivery: hold\nstages: [reader]\n",
    "gate": "delivery: gate\nstages: [reader]\n",
    "closed-hold": "delivery: hold\nstages: [reader: {on_error: closed}]\n",
    "closed-gate": "delivery: gate\nstages: [reader: {on_error: closed}]\n",
    "shout": "delivery: hold\nstages: [shouter]\n",
    "blank-hold": "delivery: hold\nstages: [blanker: {on_error: closed}]\n",
    "blank-gate": "delivery: gate\nstages: [blanker: {on_error: closed}]\n",
}
MARK, BLANK = " [checked]", "▇"
LOG = logging.getLogger("groundwire")


@dataclass(slots=True)
class Read:
    """What the stage `Reader` has seen of one exchange."""

    sentences: dict[str, str] = field(default_factory=dict)
    """Text by choice, as it was read sentence by sentence."""
    refusals: dict[str, str] = field(default_factory=dict)
    answered: bool = False


class Reader(SentenceStage):
    """Reads everything, changes nothing, remembers what it has read."""

    name = "reader"
    read = Read()

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """One more."""
        key = str(int(sentence.choice))  # JSON knows true and 1 apart, a dict does not
        self.read.sentences[key] = self.read.sentences.get(key, "") + sentence.text
        return Verdict(self.name, "pass")

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """The whole answer: its refusals are read here."""
        assert exchange.answer is not None
        await super().on_answer(exchange)
        self.read.answered = True
        for choice in exchange.answer.choices:
            key = str(int(choice.index))
            self.read.refusals[key] = self.read.refusals.get(key, "") + choice.refusal
        return Verdict(self.name, "pass")


class Shouter(Stage):
    """Changes every choice's text."""

    name = "shouter"

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Puts a mark behind it."""
        assert exchange.answer is not None
        for choice in exchange.answer.choices:
            exchange.answer = exchange.answer.with_text(choice.index, choice.text + MARK)
        return None


class Blanker(SentenceStage):
    """Lets nothing of the model's text leave."""

    name = "blanker"

    @classmethod
    def blocks_answers(cls, options: Any) -> bool:
        """It changes every answer."""
        return True

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """A mark instead of every sentence."""
        return Verdict(self.name, "warn", replacement=BLANK)


@dataclass(slots=True, frozen=True)
class Response:
    """What the client gets."""

    status: int
    headers: dict[str, str]
    body: bytes
    ended: bool


class ErrorLog(logging.Handler):
    """While it is entered, takes the proxy's log; at its end raises the first exception that was logged: it was caught, and is a failure
    all the same.
    """

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []
        self._before = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, if it is of an exception."""
        if record.exc_info:
            self.records.append(record)

    def __enter__(self) -> ErrorLog:
        self.records.clear()
        LOG.addHandler(self)
        self._before, LOG.propagate = LOG.propagate, False
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        LOG.removeHandler(self)
        LOG.propagate = self._before
        for record in self.records:
            if kind is None and record.exc_info and record.exc_info[1] is not None:
                raise record.exc_info[1]


class Inside:
    """The proxy, with a loop of its own. Each policy's route is its name."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory(prefix="groundwire-fuzz")
        self._log = ErrorLog()
        self.upstream = MemoryUpstream()
        self._app = self._make_app(Path(self._folder.name))
        self._runner.run(self._app.start())

    def _make_app(self, folder: Path) -> App:
        in_thread(migrate(f"sqlite:///{folder}/store.db"))
        for name, text in POLICIES.items():
            (folder / f"{name}.yaml").write_text(f"name: {name}\n{text}", encoding="utf-8")
        routes = [{"prefix": f"/{name}", "upstream": "main", "policy": f"{name}.yaml"} for name in POLICIES]
        settings = {
            "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db", "bodies": True},
            "upstreams": {
                "main": {
                    "kind": "openai",
                    "base_url": "http://127.0.0.1:9/v1",
                    "apis": ["chat", "responses", "messages"],
                    "retries": {"attempts": 0},
                }
            },
            "routes": routes,
        }
        (folder / "config.yaml").write_text(json.dumps(settings), encoding="utf-8")
        return App(load_settings(folder / "config.yaml", {}), (*STAGES, Reader, Shouter, Blanker), make=lambda name, given: self.upstream)

    def post(self, route: str, body: bytes, *, inline: bool = False, path: str = "/chat/completions") -> Response:
        """One request. Raises what the proxy caught and logged."""
        Reader.read = Read()
        with self._log:
            return self._runner.run(self._post(f"/{route}/v1{path}", body, inline))

    def flush(self) -> None:
        """Write the records that wait."""
        self._runner.run(self._app.records_writer.flush())
        assert "" == self._app.records_writer.problem, self._app.records_writer.problem

    async def _post(self, path: str, body: bytes, inline: bool) -> Response:
        got: list[dict[str, Any]] = []
        sent = [{"type": "http.request", "body": body, "more_body": False}]
        headers = [(b"host", b"127.0.0.1:4000"), (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        if inline:
            headers.append((b"x-groundwire-inline", b"1"))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 4000),
        }

        async def receive() -> dict[str, Any]:
            return sent.pop() if sent else await asyncio.get_running_loop().create_future()

        async def send(message: dict[str, Any]) -> None:
            got.append(message)

        async with asyncio.timeout(60):
            await self._app(scope, receive, send)
        status = next((m["status"] for m in got if m["type"] == "http.response.start"), 0)
        raw = next((m["headers"] for m in got if m["type"] == "http.response.start"), [])
        body = b"".join(m.get("body", b"") for m in got if m["type"] == "http.response.body")
        ended = bool(got) and not got[-1].get("more_body", True)
        return Response(status, {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in raw}, body, ended)

    def close(self) -> None:
        """Stop it."""
        self._runner.run(self._app.stop())
        self._runner.close()
        self._folder.cleanup()
