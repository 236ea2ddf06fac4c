"""The log: one line an exchange, that says what happened and nothing of what was said, and that nobody can forge."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config.sections import LoggingSettings
from proxy.errors import ConfigError
from proxy.exchange import Exchange, Verdict
from proxy.observe import logs
from proxy.observe.finished import LogLine
from proxy.observe.logs import ConsoleFormatter, JsonFormatter, LineHandler, _Message, _settings
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import ScriptedUpstream, completion, hang, raw, reply, stream, streamed
from tests.conftest import CHAT, Start
from tests.processes import command, free_port, served, write_config
from tests.test_workers import all_up

FORMATTERS = [ConsoleFormatter(), JsonFormatter()]
HOSTILE = st.text(st.characters(), max_size=60) | st.sampled_from(
    [
        "\n2026-01-01 00:00:00,000 INFO    groundwire: forged",
        "\r",
        "\x1b[2J",
        "\u2028x",
        "\x85x",
        "\x0b",
        "\ud800",
        '" status=200',
        "\x7f",
        "\u202e",
    ]
)


FIELD = r"""(\w+)=(?:"(?:[^"\\]|\\.)*"|[^ "=]*)"""


class Stern(Stage):
    """Refuses every answer but a harmless one."""

    name = "stern"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        return Verdict("stern", "block", code="too_wild", message="the answer said: wild things")


class Broken(Stage):
    """Cannot check."""

    name = "broken"

    async def on_request(self, exchange: Exchange) -> Verdict:
        raise RuntimeError("out of order")


def record(message: object, *, name: str = "groundwire.exchange", error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    return logging.LogRecord(name, logging.INFO, __file__, 1, message, None, info)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """The lines of exchanges so far, parsed."""
    caplog.set_level(logging.INFO, "groundwire.exchange")
    formatter = JsonFormatter()

    def found() -> list[dict[str, Any]]:
        return [json.loads(formatter.format(r)) for r in caplog.records if r.name == "groundwire.exchange"]

    return found


# ---- one line an exchange ----


async def test_an_exchange_is_one_line_with_its_figures(start: Start, lines: Any) -> None:
    async with start(policy="name: p\ndelivery: hold\nstages: [budget]\n") as proxy:
        got = await proxy.post(x_groundwire_run_id="run-7", x_groundwire_step_id="3", authorization="Bearer sk-mine")
    (line,) = lines()
    volatile = {name: line.pop(name) for name in ("time", "pid", "duration_ms", "overhead_ms", "client")}
    assert {
        "level": "info",
        "logger": "groundwire.exchange",
        "event": "exchange",
        "id": got.headers["x-groundwire-id"],
        "status": 200,
        "verdict": "unchecked",
        "method": "POST",
        "path": "/chat/completions",
        "route": "/",
        "policy": got.headers["x-groundwire-policy"],
        "run": "run-7",
        "step": "3",
        "model": "gpt-4o",
        "upstream": "main",
        "prompt_tokens_before": 8,
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "attempts": 1,
    } == line
    assert volatile["client"].startswith("auth:")
    assert 0 < volatile["overhead_ms"] < volatile["duration_ms"]


async def test_a_line_says_nothing_of_what_was_said_and_no_key(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    stages = (*STAGES, Stern)
    async with start(reply(completion("wild things")), policy="name: p\ndelivery: hold\nstages: [stern]\n", stages=stages) as proxy:
        got = await proxy.post({**CHAT, "messages": [{"role": "user", "content": "tame me"}]}, authorization="Bearer sk-mine")
        await proxy.get("/v1/files?key=sk-in-the-query", authorization="Bearer sk-mine")
    assert 400 == got.status
    logged = "\n".join(
        formatter.format(r) for formatter in FORMATTERS for r in caplog.records if r.name.startswith(("groundwire", "proxy"))
    )
    assert "too_wild" in logged
    assert [] == [word for word in ("wild things", "tame me", "sk-mine", "sk-upstream-secret", "sk-in-the-query") if word in logged]


async def test_a_path_that_is_passed_through_has_its_line_too(start: Start, lines: Any) -> None:
    async with start() as proxy:
        await proxy.get("/v1/models?limit=2")
    (line,) = lines()
    found = {name: line.get(name) for name in ("kind", "status", "verdict", "method", "path", "policy", "model")}
    assert {
        "kind": "pass-through",
        "status": 200,
        "verdict": "skipped",
        "method": "GET",
        "path": "/models",
        "policy": None,
        "model": None,
    } == found


async def test_a_request_that_no_route_takes_has_its_line_too(start: Start, lines: Any) -> None:
    async with start(route_options="allow_skip: true") as proxy:
        got = await proxy.post(path="/nowhere/v1/chat/completions")
    (line,) = lines()
    found = {name: line[name] for name in ("id", "status", "error", "method", "path")}
    assert {
        "id": got.headers["x-groundwire-id"],
        "status": 404,
        "error": "not_found",
        "method": "POST",
        "path": "/nowhere/v1/chat/completions",
    } == found


async def test_an_upstream_that_cannot_be_had_is_a_warning_with_its_code(start: Start, lines: Any) -> None:
    async with start(raw(b""), upstream_options="retries: {attempts: 1, base_s: 0.001}") as proxy:
        await proxy.post()
    (line,) = lines()
    assert ("warning", 502, "upstream_unreachable", 1) == (line["level"], line["status"], line["error"], line["attempts"])


async def test_an_answer_that_breaks_off_on_its_way_through_is_a_warning(start: Start, lines: Any) -> None:
    async with start(stream(streamed(["One. ", "Tw"])[:2], broken=True)) as proxy:
        with suppress(aiohttp.ClientPayloadError):
            await proxy.get("/v1/responses/1")
    (line,) = lines()
    assert ("warning", 200, "upstream_unreachable") == (line["level"], line["status"], line["error"])


async def test_a_check_that_could_not_run_is_a_warning(start: Start, lines: Any) -> None:
    async with start(policy="name: p\ndelivery: tap\nstages: [broken]\n", stages=(*STAGES, Broken)) as proxy:
        await proxy.post()
    (line,) = lines()
    assert ("warning", 200, "error", ["check_failed"]) == (line["level"], line["status"], line["verdict"], line["warnings"])


async def test_a_client_that_leaves_is_499(start: Start, lines: Any) -> None:
    async with start(hang) as proxy:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3), proxy.open(CHAT):
                pass
    (line,) = lines()
    assert (499, "info") == (line["status"], line["level"])


async def test_a_stream_counts_when_it_is_over(start: Start, lines: Any) -> None:
    async with start(stream(streamed(["Hello", "."]))) as proxy:
        await proxy.post({**CHAT, "stream": True})
    (line,) = lines()
    assert (True, 200) == (line["stream"], line["status"])


async def test_the_clients_trace_is_named_also_when_there_are_no_traces_here(start: Start, lines: Any) -> None:
    async with start() as proxy:
        await proxy.post(traceparent=f"00-{'ab' * 16}-{'cd' * 8}-00")
        await proxy.post(traceparent="nonsense")
    first, second = lines()
    assert ("ab" * 16, None) == (first["trace_id"], second.get("trace_id"))


# ---- nobody can forge a line ----


@given(name=HOSTILE, other=HOSTILE)
@pytest.mark.parametrize("formatter", FORMATTERS)
def test_a_name_cannot_end_a_line(formatter: logging.Formatter, name: str, other: str) -> None:
    text = formatter.format(record(_Message(LogLine(id="gw_1", run=name, model=other, warnings=(name, other)))))
    assert text.isprintable()
    assert [text] == text.splitlines()


@given(name=st.text(max_size=60))
def test_a_json_line_gives_a_name_back_as_it_was(name: str) -> None:
    line = json.loads(JsonFormatter().format(record(_Message(LogLine(id="gw_1", run=name)))))
    assert name == line.get("run", "")


@given(name=HOSTILE)
def test_a_name_cannot_pass_for_another_field(name: str) -> None:
    text = ConsoleFormatter().format(record(_Message(LogLine(id="gw_1", run=name, model="m"))))
    fields = text.partition("gw_1 - - - -")[2]
    assert re.fullmatch(rf"( {FIELD})*", fields)
    assert (["run", "model"] if name else ["model"]) == [field[1] for field in re.finditer(f" {FIELD}", fields)]


@given(message=HOSTILE, said=HOSTILE)
def test_messages_and_tracebacks_are_one_json_line(message: str, said: str) -> None:
    try:
        raise RuntimeError(said)
    except RuntimeError as error:
        text = JsonFormatter().format(record(message, name="groundwire.x", error=error))
    assert [text] == text.splitlines()
    assert text.isascii()
    assert {"time", "level", "logger", "pid", "message", "exception"} == json.loads(text).keys()


@given(message=HOSTILE, said=HOSTILE)
def test_on_a_console_the_lines_of_a_traceback_stand_behind_a_bar(message: str, said: str) -> None:
    try:
        raise RuntimeError(said)
    except RuntimeError as error:
        text = ConsoleFormatter().format(record(message, name="groundwire.x", error=error))
    first, *others = text.split("\n")
    assert first.isprintable()
    assert all(line.startswith("  | ") and line.isprintable() for line in others)
    assert 3 <= len(others)


def test_secrets_in_messages_and_tracebacks_are_masked() -> None:
    key = "sk-proj-abcdef0123456789abcdef0123"
    error = RuntimeError(f"no access with {key}")
    lines = [formatter.format(record(f"tried {key}", name="groundwire.x", error=error)) for formatter in FORMATTERS]
    assert [2, 2] == [line.count("sk-[masked]") for line in lines]
    assert key not in "".join(lines)


# ---- how it is set up ----


def configured(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process that runs `code` after ``import logging; from proxy.observe import logs``."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDWIRE_")}
    return subprocess.run(
        [sys.executable, "-c", "import logging, warnings; from proxy.observe import logs\n" + code],
        env={**clean, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.process
def test_every_part_writes_in_the_same_format() -> None:
    code = """
logs.configure(form="json")
logging.getLogger("groundwire.pipeline").warning("one\\ntwo")
logging.getLogger("proxy.store").info("three")
logging.getLogger("uvicorn.error").error("four")
logging.getLogger("uvicorn.access").info("GET /v1/models?key=secret")
logging.getLogger("httpx").info("HTTP Request: POST https://host/?key=secret")
warnings.warn("five")
"""
    lines = [json.loads(line) for line in configured(code).stderr.splitlines()]
    assert [
        ("warning", "groundwire.pipeline", "one\ntwo"),
        ("info", "proxy.store", "three"),
        ("error", "uvicorn.error", "four"),
    ] == [(line["level"], line["logger"], line["message"]) for line in lines[:3]]
    assert ["py.warnings"] == [line["logger"] for line in lines[3:]]
    assert "five" in lines[3]["message"]


@pytest.mark.process
def test_debug_is_about_this_program_and_not_about_its_libraries() -> None:
    code = """
logs.configure(level="debug")
for name in ("groundwire.x", "proxy.x", "httpcore.http11", "aiosqlite", "asyncio"):
    logging.getLogger(name).debug("from %s", name)
"""
    assert ["groundwire.x", "proxy.x"] == [line.rpartition(" ")[2] for line in configured(code).stderr.splitlines()]


@pytest.mark.process
def test_a_higher_level_keeps_what_went_wrong() -> None:
    code = """
from proxy.observe import logs
from proxy.observe.finished import LogLine
logs.configure(level="warning")
logs.exchange(LogLine(id="fine", status=200, verdict="pass"))
logs.exchange(LogLine(id="unchecked", status=200, verdict="error"))
logs.exchange(LogLine(id="failed", status=502, verdict="skipped"))
logging.getLogger("anyone").warning("heard")
logging.getLogger("anyone").error("heard")
"""
    assert ["unchecked", "failed", "heard", "heard"] == [
        line.partition(": ")[2].split()[0] for line in configured(code).stderr.splitlines()
    ]


@pytest.mark.process
def test_an_option_wins_over_the_environment_and_that_over_the_file() -> None:
    given_file = LoggingSettings(level="error", format="json")
    assert given_file == _settings(given_file, {})
    environ = {"GROUNDWIRE_LOG_LEVEL": "debug", "GROUNDWIRE_LOG_FORMAT": "console"}
    assert LoggingSettings(level="debug", format="console") == _settings(given_file, environ)
    code = "logs.configure(level='error'); print(logging.getLogger('groundwire').level)"
    assert "40" == configured(code, GROUNDWIRE_LOG_LEVEL="debug").stdout.strip()


def test_a_wrong_level_in_the_environment_is_refused_by_its_name() -> None:
    with pytest.raises(ConfigError, match="GROUNDWIRE_LOG_LEVEL"):
        _settings(LoggingSettings(), {"GROUNDWIRE_LOG_LEVEL": "loud"})


@pytest.mark.process
def test_a_log_that_someone_else_has_set_up_is_left_alone() -> None:
    code = "logging.basicConfig(format='theirs %(message)s', level='INFO'); logs.configure(form='json'); logging.getLogger('x').info('y')"
    assert "theirs y\n" == configured(code).stderr


@pytest.mark.process
async def test_the_file_says_how_the_server_logs(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    config.write_text(config.read_text() + "logging: {format: json, level: warning}\n")
    async with command("serve", "--config", str(config), "--port", "0", "--host", "0.0.0.0", cwd=tmp_path) as process:
        line = json.loads(await process.line("admin key"))
    assert "warning" == line["level"]


# ---- several workers ----


@pytest.mark.process
async def test_lines_of_several_workers_do_not_mix(tmp_path: Path) -> None:
    asked, at_once = 120, 12
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, "--log-format", "json", port=free_port(), server="{workers: 2}") as proxy,
        aiohttp.ClientSession() as session,
    ):
        await all_up(proxy)
        run = "r" * 110

        async def ask(number: int) -> None:
            headers = {"x-groundwire-run-id": f"{number}-{run}", "connection": "close"}
            async with session.post(proxy.url + "/v1/chat/completions", json=CHAT, headers=headers) as response:
                assert 200 == response.status

        for first in range(0, asked, at_once):
            await asyncio.gather(*(ask(number) for number in range(first, first + at_once)))
        await proxy.line(f'"run":"{asked - 1}-')
        proxy.signal(signal.SIGTERM)
        await proxy.ended()
        lines = [json.loads(line) for line in proxy.lines]
    runs = [line["run"] for line in lines if line.get("event") == "exchange"]
    assert sorted(f"{number}-{run}" for number in range(asked)) == sorted(runs)


def test_a_line_is_written_with_one_call(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    handler = LineHandler(os.fdopen(writer, "w"))
    handler.setFormatter(JsonFormatter())
    handler.handle(record(_Message(LogLine(id="gw_1", run="x" * 3000))))
    assert os.read(reader, 65536).endswith(b"}\n")
    os.close(reader)
    handler.handle(record("nobody reads this"))  # and nobody is told
    handler.stream.close()


@contextmanager
def alone() -> Iterator[LineHandler]:
    """The only one of the log."""
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    with tempfile.TemporaryFile("w+") as file:
        made = LineHandler(file)
        made.setFormatter(ConsoleFormatter())
        root.handlers[:] = [made]
        level = root.level
        root.setLevel(logging.INFO)
        try:
            yield made
        finally:
            root.handlers[:] = before
            root.setLevel(level)


def caught(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What each write would write from now on."""
    writes: list[bytes] = []

    def write(_: int, lines: bytes) -> int:
        writes.append(lines)
        return len(lines)

    monkeypatch.setattr("proxy.observe.logs.os.write", write)
    return writes


def written(handler: LineHandler) -> list[str]:
    """What the messages in the file begin with."""
    found = os.pread(handler.stream.fileno(), 2**20, 0).decode()
    return [line.partition(": ")[2].split()[0] for line in found.splitlines()]


async def test_lines_of_exchanges_that_went_well_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    with alone():
        monkeypatch.setattr("proxy.observe.logs.HELD_LINES", 3)
        writes = caught(monkeypatch)
        for number in range(3):
            assert [] == writes
            logs.exchange(LogLine(id=f"gw_{number}", status=200))
        assert [3] == [lines.count(b"\n") for lines in writes]


async def test_a_line_waits_no_longer_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with alone() as handler:
        monkeypatch.setattr("proxy.observe.logs.HOLD_S", 0.001)
        for number in ("1", "2"):
            logs.exchange(LogLine(id=number, status=200))
            async with asyncio.timeout(10):
                while number not in written(handler):
                    await asyncio.sleep(0.001)
        assert ["1", "2"] == written(handler)


async def test_what_may_be_wrong_is_written_at_once_and_in_its_order() -> None:
    with alone() as handler:
        logs.exchange(LogLine(id="well", status=200))
        logs.exchange(LogLine(id="failed", status=502))
        assert ["well", "failed"] == written(handler)
        logs.exchange(LogLine(id="well-too", status=200))
        await asyncio.to_thread(logging.getLogger("groundwire.x").warning, "beware")
        assert ["well", "failed", "well-too", "beware"] == written(handler)


async def test_what_waits_at_the_end_is_written() -> None:
    with alone() as handler:
        logs.exchange(LogLine(id="last", status=200))
        assert [] == written(handler)
        logging.shutdown([weakref.ref(handler)])
        assert ["last"] == written(handler)


async def test_a_line_that_cannot_be_made_takes_no_other_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    with alone() as handler:
        broken = LogLine(id="broken", model={"no": "text"})  # type: ignore[arg-type]
        for line in (LogLine(id="before", status=200), broken, LogLine(id="after", status=200)):
            logs.exchange(line)
        logging.getLogger("groundwire.x").warning("next")
        assert ["before", "after", "next"] == written(handler)
        assert "Logging error" in capsys.readouterr().err


def test_without_an_event_loop_a_line_does_not_wait() -> None:
    with alone() as handler:
        logs.exchange(LogLine(id="alone", status=200))
        assert ["alone"] == written(handler)


async def test_who_else_looks_at_the_log_sees_a_line_at_once() -> None:
    with alone():
        seen: list[logging.LogRecord] = []
        other = logging.Handler()
        other.emit = seen.append  # type: ignore[assignment,method-assign]
        logging.getLogger().addHandler(other)
        logs.exchange(LogLine(id="seen", status=200))
        assert ["seen"] == [record.getMessage().split()[0] for record in seen]


async def test_lines_that_are_written_together_fit_a_pipes_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    with alone() as handler:
        writes = caught(monkeypatch)
        for number in range(5):
            logs.exchange(LogLine(id=f"gw_{number}", status=200, run="r" * 1000))
        handler.flush()
        assert [3, 2] == [lines.count(b"\n") for lines in writes]
        assert all(lines.endswith(b"\n") for lines in writes)


def test_a_line_has_every_field_that_is_not_empty() -> None:
    full = LogLine(
        id="gw_1",
        status=200,
        verdict="pass",
        method="POST",
        path="/chat/completions",
        route="/",
        kind="x",
        policy="p@1",
        client="c",
        run="r",
        step="1",
        model="m",
        upstream="u",
        asked_in="chat",
        stream=True,
        warnings=("w",),
        error="e",
        prompt_tokens_before=1,
        prompt_tokens=0,
        completion_tokens=0,
        tokens_estimated=True,
        attempts=1,
        duration_ms=1.0,
        overhead_ms=0.5,
        trace_id="t",
    )
    line = json.loads(JsonFormatter().format(record(_Message(full))))
    assert set(full.__struct_fields__) <= line.keys()
    assert "gw_1 200 pass POST /chat/completions route=/ " in str(_Message(full))
