"""How spans leave: where to, in whose name, and what becomes of an exchange when nobody takes them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from proxy.config.sections import TracingSettings
from proxy.config.settings import LiteLLMSettings, OpenAISettings, load_settings
from proxy.errors import ConfigError
from proxy.observe.finished import Finished, LogLine
from proxy.observe.trace import STOP_S, Tracing, endpoint_of
from proxy.observe.tracing import ExchangeSpans, ProviderServer, UpstreamCall, server_of
from proxy.ports.upstream import Call
from proxy.testing import ScriptedUpstream, completion, make_exchange, reply
from tests.conftest import CHAT, Start
from tests.observe.tracing.collector import Collector
from tests.processes import command, free_port, write_config
from tests.test_workers import all_up

NOBODY = "http://127.0.0.1:9/v1/traces"


def made(settings: TracingSettings, stop_s: float = STOP_S) -> Tracing:
    tracing = Tracing({}, settings, stop_s=stop_s)
    tracing.start()
    return tracing


def submit(tracing: Tracing, spans: int = 1) -> None:
    for _ in range(spans):
        tracing.tracer.start_span("s").end()


# ---- where to, and in whose name ----


async def test_config_says_where_to_with_which_headers_and_in_whose_name(start: Start) -> None:
    async with Collector() as collector:
        settings = f"tracing: {{endpoint: '{collector.url}/v1/traces', headers: {{x-api-key: s3cret}}, service_name: mine}}\n"
        async with start(config=settings) as proxy:
            await proxy.post()
    assert ["s3cret"] == [headers["x-api-key"] for headers in collector.headers]
    resource = collector.spans[0].resource
    assert ("mine", True) == (resource["service.name"], resource["service.instance.id"].endswith(f":{os.getpid()}"))


async def test_the_environment_says_what_the_file_leaves_open(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=seven")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "theirs")
        export = made(TracingSettings())
        submit(export)
        await export.stop()
    assert (["seven"], "theirs") == ([h["x-tenant"] for h in collector.headers], collector.spans[0].resource["service.name"])


async def test_without_a_name_the_service_is_groundwire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
    async with Collector() as collector:
        export = made(TracingSettings(endpoint=collector.url))
        submit(export)
        await export.stop()
    assert "groundwire" == collector.spans[0].resource["service.name"]


@pytest.mark.parametrize("given_", ["http://host:4318", "http://host:4318/"])
def test_a_server_alone_gets_otlps_own_path(given_: str) -> None:
    assert "http://host:4318/v1/traces" == endpoint_of(TracingSettings(endpoint=given_))


def test_any_other_address_stays_as_it_is() -> None:
    assert "https://host/otlp/v1/traces" == endpoint_of(TracingSettings(endpoint="https://host/otlp/v1/traces"))


# ---- when nobody takes them ----


@pytest.mark.parametrize("collector", [Collector(status=500), Collector(silent=True)], ids=["refuses", "is silent"])
async def test_a_collector_that_does_not_do_its_work_delays_no_exchange(start: Start, collector: Collector) -> None:
    async with collector, start(config=f"tracing: {{endpoint: '{collector.url}'}}\n") as proxy:
        assert proxy.app.tracing is not None
        proxy.app.tracing._stop_s = 0.1
        submit(proxy.app.tracing, 600)  # more than one batch
        await collector.asked.wait()
        started = time.perf_counter()
        assert [200] * 20 == [(await proxy.post()).status for _ in range(20)]
        assert time.perf_counter() - started < 5
        before_stop = time.perf_counter()
    assert time.perf_counter() - before_stop < 5


async def test_a_collector_that_is_not_there_fails_no_exchange_and_the_server_still_ends(start: Start) -> None:
    async with start(config=f"tracing: {{endpoint: '{NOBODY}'}}\n") as proxy:
        assert proxy.app.tracing is not None
        proxy.app.tracing._stop_s = 0.1
        assert 200 == (await proxy.post()).status
        before_stop = time.perf_counter()
    assert time.perf_counter() - before_stop < 5


async def test_spans_that_find_no_place_are_dropped_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with Collector(silent=True) as collector:
        export = made(TracingSettings(endpoint=collector.url), stop_s=0.05)
        submit(export, 12_000)
        await export.stop()
    assert any("Queue full, dropping" in record.getMessage() for record in caplog.records)
    assert any("the last spans could not be delivered" in record.getMessage() for record in caplog.records)


# ---- nothing is too odd to be sent ----

ODD = st.text(st.characters(), max_size=20) | st.just("\ud800")


@example(names=["\ud800", "", "", "", "embeddings", ""], values=[None, None, None], status=0, state=b"")
@given(
    names=st.lists(ODD, min_size=6, max_size=6),
    values=st.lists(st.integers() | st.floats() | st.booleans() | ODD | st.none(), min_size=3, max_size=3),
    status=st.integers(0, 999),
    state=st.binary(max_size=20) | st.from_regex(rb"[a-z0-9@*/_-]{1,8}=[ -~]{0,8}(,[a-z@]{1,3}=[ -~]{0,3})?", fullmatch=True),
)
def test_whatever_a_client_or_an_upstream_says_can_be_sent(names: list[str], values: list[object], status: int, state: bytes) -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    model, run, upstream, code, path, client = names
    exchange = make_exchange(model=model, **dict(zip(("seed", "temperature", "n"), values, strict=True)))
    line = LogLine(
        id="gw_1",
        status=status,
        run=run,
        model=model,
        upstream=upstream,
        error=code,
        path="/" + path,
        client=client,
        warnings=(code,),
        route="/",
        method="POST",
        prompt_tokens=2**80,
    )
    tracing, sent = Tracing({}, TracingSettings(endpoint=NOBODY)), InMemorySpanExporter()
    tracing.servers = {upstream: ProviderServer("p", "h", 1)}
    tracing._provider.add_span_processor(SimpleSpanProcessor(sent))
    trace = tracing.begin([(b"traceparent", f"00-{'1' * 32}-{'2' * 16}-01".encode()), (b"tracestate", state)])
    call = UpstreamCall(upstream, Call("POST", path, (), b""))
    call.end(code)
    trace._calls.append((trace._child("call", SpanKind.CLIENT, call.started), call))
    trace.finish(Finished(id="gw_1", exchange=exchange), line)
    about = ExchangeSpans(Finished(id="gw_1", exchange=exchange), line, (), tracing.servers)
    found = encode_spans(sent.get_finished_spans()).resource_spans[0].scope_spans[0].spans
    assert [len(about.attributes()), len(about.of_call(call))] == [len(span.attributes) for span in found]
    assert found[0].SerializeToString()


# ---- who answers ----


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", ProviderServer("openai", "api.openai.com", 443)),
        ("http://localhost:8000/v1", ProviderServer("openai", "localhost", 8000)),
        ("http://[::1]/v1", ProviderServer("openai", "::1", 80)),
        ("https://api.mistral.ai/v1", ProviderServer("openai", "api.mistral.ai", 443)),
    ],
)
def test_a_provider_is_known_by_its_api_and_its_host(url: str, expected: ProviderServer) -> None:
    assert expected == server_of(OpenAISettings(base_url=url))


@pytest.mark.parametrize(("prefix", "provider"), [("anthropic/", "anthropic"), ("bedrock/", "bedrock"), ("", "litellm")])
def test_behind_litellm_a_provider_is_known_by_its_prefix(prefix: str, provider: str) -> None:
    assert ProviderServer(provider) == server_of(LiteLLMSettings(model_prefix=prefix))


# ---- configuration ----


def load(folder: Path, tracing: str, environ: Mapping[str, str] | None = None) -> TracingSettings | None:
    config = write_config(folder, "http://127.0.0.1:9/v1")
    config.write_text(config.read_text() + f"tracing: {tracing}\n")
    return load_settings(config, environ or {}).tracing


@pytest.mark.parametrize(
    ("tracing", "problem"),
    [
        ("{}", "tracing.endpoint: is needed, as http://127.0.0.1:4318/v1/traces; or set OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("{endpoint: 'host:4318'}", "tracing.endpoint: expected http://"),
        ("{endpoint: 'http://h', sample: 2}", "tracing.sample: expected `float` <= 1.0"),
        ("{endpoint: 'http://h/otlp', metrics_every_s: 1}", "tracing.endpoint: expected …/v1/traces"),
        ("{metrics_every_s: 1}", "tracing.metrics_every_s: needs endpoint, or one of OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
        ("{endpont: 'http://h'}", "tracing: unknown key 'endpont'; did you mean 'endpoint'?"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(tmp_path: Path, tracing: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, tracing)
    assert problem in str(refused.value)


def test_an_address_in_the_environment_is_enough(tmp_path: Path) -> None:
    assert TracingSettings() == load(tmp_path, "{}", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://host:4318"})


def test_it_can_be_configured_and_off(tmp_path: Path) -> None:
    assert TracingSettings(enabled=False) == load(tmp_path, "{enabled: '${TRACES:-false}'}")


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=root, capture_output=True, text=True, timeout=60)


@pytest.mark.process
def test_without_the_packages_the_start_says_what_to_install(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    config.write_text(config.read_text() + "tracing: {endpoint: 'http://127.0.0.1:4318'}\n")
    code = "import sys; sys.modules['opentelemetry'] = None; from proxy.__main__ import main; sys.exit(main(['serve', '--config', sys.argv[1]]))"
    ended = run(code, str(config))
    assert 2 == ended.returncode
    assert [f"groundwire: {config}:7: tracing: needs OpenTelemetry, which is not installed: pip install 'groundwire[tracing]'"] == (
        ended.stderr.splitlines()
    )


@pytest.mark.process
def test_without_tracing_nothing_of_it_is_imported(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    code = "import sys; from proxy.app import App; from proxy.config.settings import load_settings; App(load_settings(sys.argv[1], {})); print([m for m in sys.modules if 'opentelemetry' in m])"
    assert "[]" == run(code, str(config)).stdout.strip()


# ---- several workers ----


@pytest.mark.process
async def test_every_worker_delivers_its_spans_before_it_ends(tmp_path: Path) -> None:
    asked = 24
    async with Collector() as collector, ScriptedUpstream(reply(completion())) as upstream:
        config = write_config(tmp_path, upstream.base_url, "{workers: 2}")
        config.write_text(config.read_text() + f"tracing: {{endpoint: '{collector.url}'}}\n")
        port = free_port()
        async with command("serve", "--config", str(config), "--port", str(port), cwd=tmp_path) as process:
            process.url = f"http://127.0.0.1:{port}"
            await all_up(process)
            for _ in range(asked):
                async with aiohttp.ClientSession() as session, session.post(process.url + "/v1/chat/completions", json=CHAT) as response:
                    assert 200 == response.status
            process.signal(signal.SIGTERM)
            await process.ended()
        spans = collector.spans
    assert (asked, asked) == tuple(sum(span.kind == kind for span in spans) for kind in ("server", "client"))
    assert asked == len({span.trace for span in spans})
    assert len({span.resource["service.instance.id"] for span in spans}) in (1, 2)  # the kernel chooses who answers


async def test_spans_leave_while_the_server_runs(start: Start) -> None:
    async with Collector() as collector, start(config=f"tracing: {{endpoint: '{collector.url}'}}\n") as proxy:
        await proxy.post()
        async with asyncio.timeout(30):
            await collector.asked.wait()
        assert [["server chat gpt-4o", ["client chat gpt-4o"]]] == collector.tree()
