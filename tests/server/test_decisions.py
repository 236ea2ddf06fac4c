"""``/v1/decisions`` and ``/v1/systemone``: byte for byte to an upstream that speaks them, and answered by the built-in verifier."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.cli.check import check
from proxy.config.settings import ServerSettings, load_settings
from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports.decisions import Question
from proxy.server.start_page import start_page
from proxy.testing import ScriptedUpstream, ScriptedVerifiers, hang, reply, serving
from proxy.upstreams.asking import UpstreamDecisions
from proxy.upstreams.making import decision_apis
from tests.conftest import EMPTY_TAP, Start
from tests.observe.metrics.reading import value

OPENAI = b'{ "model":"gpt-6-luna", "input" : "It has.","questions":[{"type":"predicate","instructions":"It has."}], "x": 1e0 }'
OPENAI_ANSWER = (
    b'{"model":"gpt-6-luna","answers":[ ],"usage":{"input_tokens":1000,"output_tokens":0,"input_tokens_details":{"cached_tokens":0}}}'
)
SYSTEM_ONE = b'{"state": {"a": 1.0}, "model": "jev-1.14.0", "questions": {"q": {"type": "noul", "instructions": "It has."}}}'
STRICT = "name: closed\ndelivery: hold\nstages: [claims: {action: block, on_error: closed}]\n"


@pytest.mark.parametrize(("path", "sent"), [("/v1/decisions", OPENAI), ("/v1/systemone", SYSTEM_ONE)])
@pytest.mark.parametrize("policy", [EMPTY_TAP, STRICT])
async def test_decisions_pass_byte_for_byte(path: str, sent: bytes, policy: str, start: Start) -> None:
    async with start(reply(OPENAI_ANSWER), policy=policy) as proxy:
        answer = await proxy.post(sent, path)
        call = proxy.upstream.calls[0]
        record = await proxy.record(answer)
    assert (200, OPENAI_ANSWER, "skipped") == (answer.status, answer.body, answer.verdict)
    assert (path, sent, "Bearer sk-upstream-secret") == (call.path, call.body, call.headers["authorization"])
    assert ("gpt-6-luna", 1000, 0, pytest.approx(1e-4)) == tuple(
        record[name] for name in ("model", "prompt_tokens", "completion_tokens", "cost_usd")
    )


async def test_a_compressed_answer_stays_compressed_and_its_tokens_are_counted(start: Start) -> None:
    async with start(reply(gzip.compress(OPENAI_ANSWER), headers={"content-encoding": "gzip"})) as proxy:
        answer = await proxy.post(OPENAI, "/v1/decisions", accept_encoding="gzip")
        assert 1000 == (await proxy.record(answer))["prompt_tokens"]
        figures = (await proxy.get("/metrics")).body.decode()
    assert "gzip" == answer.headers["content-encoding"]
    assert 'groundwire_tokens_total{kind="prompt",route="/"} 1000.0' in figures


async def test_an_upstream_s_error_passes_as_it_is(start: Start) -> None:
    told = b'{"detail": [{"loc": ["body", "state"], "msg": "Field required", "type": "missing"}]}'
    async with start(reply(told, 422)) as proxy:
        answer = await proxy.post(b"{}", "/v1/systemone")
        assert (await proxy.record(answer))["prompt_tokens"] is None
    assert (422, told) == (answer.status, answer.body)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b'{"usage": 7, "model": 7}', b'{"usage": {"input_tokens": "9", "cost": "x"}}'])
async def test_an_answer_of_another_form_passes_and_says_nothing_of_tokens(body: bytes, start: Start) -> None:
    async with start(reply(body)) as proxy:
        answer = await proxy.post(OPENAI, "/v1/decisions")
        record = await proxy.record(answer)
    assert (200, body, None, None) == (answer.status, answer.body, record["prompt_tokens"], record["cost_usd"])


async def test_what_the_provider_says_it_costs_counts(start: Start) -> None:
    body = {"model": "typesafe/jev", "answers": {}, "usage": {"input_tokens": 10, "output_tokens": 1, "cost": 0.25}}
    async with start(reply(body)) as proxy:
        assert 0.25 == (await proxy.record(await proxy.post(SYSTEM_ONE, "/v1/systemone")))["cost_usd"]
        assert 0.25 == value(proxy.app.metrics, "groundwire_cost_usd_total")


async def test_an_upstream_may_have_it_elsewhere(start: Start) -> None:
    async with start(reply({}), upstream_options="decisions: {shape: systemone, path: /judge/v2}") as proxy:
        await proxy.post(SYSTEM_ONE, "/v1/systemone")
        await proxy.post(OPENAI, "/v1/decisions")
    assert ["/v1/judge/v2", "/v1/decisions"] == [call.path for call in proxy.upstream.calls]


async def test_a_client_key_is_needed_and_a_route_may_leave_them_out(start: Start) -> None:
    keys = f"keys: [{{name: a, sha256: {sha256(b'gw-a').hexdigest()}}}]\n"
    async with start(reply(OPENAI_ANSWER), config=keys, route_options="passthrough: [decisions]") as proxy:
        assert 401 == (await proxy.post(OPENAI, "/v1/decisions")).status
        answer = await proxy.post(OPENAI, "/v1/decisions", authorization="Bearer gw-a")
        assert (200, "a") == (answer.status, (await proxy.record(answer))["client"])
        assert 404 == (await proxy.post(SYSTEM_ONE, "/v1/systemone", authorization="Bearer gw-a")).status


async def test_a_body_over_the_limit_is_refused(start: Start) -> None:
    async with start(reply({}), config="server: {max_body_bytes: 1000}\n") as proxy:
        assert 413 == (await proxy.post(b" " * 1001, "/v1/systemone")).status
    assert [] == proxy.upstream.calls


async def test_a_client_that_leaves_ends_the_call(start: Start) -> None:
    async with start(hang) as proxy:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await proxy.post(SYSTEM_ONE, "/v1/systemone")
        await asyncio.wait_for(proxy.upstream.gone.wait(), 2)


# ---- the built-in judge ----

Post = Callable[..., Awaitable[tuple[int, dict[str, str], Any]]]
FACTS = "The order was delivered on 5 March."


@asynccontextmanager
async def judging(folder: Path, migrated: Path, verifiers: Any = None, upstream: str = "", config: str = "") -> AsyncIterator[Post]:
    """A proxy whose only upstream is the built-in judge; gives what posts to it."""
    import aiohttp

    (folder / "store.db").write_bytes(migrated.read_bytes())
    (folder / "policy.yaml").write_text(EMPTY_TAP)
    (folder / "config.yaml").write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}\n"
        f"upstreams: {{judge: {{kind: builtin{upstream}}}}}\nroutes: [{{upstream: judge, policy: policy.yaml}}]\n" + config
    )
    app = App(load_settings(folder / "config.yaml", {}), verifiers=verifiers or ScriptedVerifiers())
    async with serving(app) as url, aiohttp.ClientSession() as session:

        async def post(path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            named = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
            async with session.post(url + path, data=data, headers=named) as response:
                return response.status, {name.lower(): value for name, value in response.headers.items()}, json.loads(await response.read())

        yield post


@pytest.fixture
def judge(tmp_path: Path, migrated_file: Path) -> Callable[..., Any]:
    return lambda **more: judging(tmp_path, migrated_file, **more)


def noul(text: str) -> dict[str, Any]:
    return {"model": "builtin", "state": FACTS, "questions": {"q": {"type": "noul", "instructions": text}}}


def predicate(text: str) -> dict[str, Any]:
    return {"model": "builtin", "input": FACTS, "questions": [{"type": "predicate", "name": "q", "instructions": text}]}


async def test_both_shapes_are_answered_from_the_verifier(judge: Callable[..., Any]) -> None:
    async with judge() as post:
        status, headers, one = await post("/v1/systemone", noul("The order was delivered."))
        _, _, other = await post("/v1/decisions", predicate("The order was delivered."))
    assert (200, "skipped", "application/json") == (status, headers["x-groundwire-verdict"], headers["content-type"])
    assert ("scripted@1", {"q": {"type": "noul", "noul": 0.95}}) == (one["model"], one["answers"])
    assert [{"type": "predicate", "name": "q", "probability": 0.95}] == other["answers"]
    assert one["usage"]["input_tokens"] == other["usage"]["input_tokens"] > 0


async def test_an_exact_rule_counts_more_than_the_verifier(judge: Callable[..., Any]) -> None:
    async with judge(verifiers=ScriptedVerifiers(lambda pair: Support(0.1, 0.0))) as post:
        _, _, found = await post("/v1/systemone", noul(FACTS))
    assert 1.0 == found["answers"]["q"]["noul"]


async def test_a_question_is_refused_in_each_shape_s_way(judge: Callable[..., Any]) -> None:
    async with judge() as post:
        _, _, one = await post("/v1/systemone", noul("Is it urgent?"))
        _, _, other = await post("/v1/decisions", predicate("Is it urgent?"))
    assert ({}, ["q"]) == (one["answers"], list(one["refusals"]))
    assert "statements, not questions" in one["refusals"]["q"]
    assert [{"type": "refusal", "name": "q"}] == other["answers"]


async def test_how_a_text_bears_on_a_statement(judge: Callable[..., Any]) -> None:
    def script(pair: ClaimPair) -> Support:
        return Support(0.2, 0.7)

    choices = [{"value": value} for value in ("neither", "supported", "contradicted")]
    asked = {**predicate(""), "questions": [{"type": "choice", "name": "q", "instructions": "How?\n\nIt came late.", "choices": choices}]}
    async with judge(verifiers=(verifiers := ScriptedVerifiers(script))) as post:
        _, _, found = await post("/v1/decisions", asked)
    chances = {one["value"]: one["probability"] for one in found["answers"][0]["probabilities"]}
    assert {"neither": pytest.approx(0.1), "supported": pytest.approx(0.2), "contradicted": pytest.approx(0.7)} == chances
    assert "contradicted" == found["answers"][0]["choice"]
    assert {"It came late."} == {pair.claim for batch in verifiers.asked for pair in batch}


async def test_options_are_weighed_by_what_the_text_supports(judge: Callable[..., Any]) -> None:
    criteria = {"late": "The order came late.", "early": "The order was delivered."}
    levels = ["The order was never sent.", "The order was delivered."]
    asked = {
        "model": "m",
        "state": FACTS,
        "questions": {
            "choice": {"type": "choice", "instructions": "Which?", "criteria": criteria},
            "score": {"type": "score", "criteria": levels},
            "label": {"type": "choice", "criteria": {"late": None, "early": None}},
            "none": {"type": "choice", "criteria": {"a": "It rained all day.", "b": "It snowed all day."}},
        },
    }
    async with judge() as post:
        _, _, found = await post("/v1/systemone", asked)
    assert {"late": pytest.approx(0.05), "early": pytest.approx(0.95)} == found["answers"]["choice"]["probabilities"]
    assert pytest.approx(0.95) == found["answers"]["score"]["score"]
    assert ["label", "none"] == sorted(found["refusals"])


async def test_errors_are_in_each_shape_s_envelope_with_the_path(judge: Callable[..., Any]) -> None:
    async with judge() as post:
        status, _, told = await post("/v1/decisions", {**predicate("x"), "questions": [{"type": "noul"}]})
        assert (400, "questions[0].type") == (status, told["error"]["param"])
        status, _, told = await post("/v1/systemone", {**noul("x"), "questions": {"q": {"type": "predicate"}}})
        assert (422, ["body", "questions", "q", "type"]) == (status, told["detail"][0]["loc"])
        assert "questions.q.type" == told["error"]["param"]
        status, _, told = await post("/v1/decisions", b"{")
        assert (400, "invalid_request") == (status, told["error"]["code"])


async def test_work_is_bounded(judge: Callable[..., Any]) -> None:
    many = {f"q{i}": {"type": "choice", "criteria": {f"It is option {j} of {i}.": None for j in range(5)}} for i in range(26)}
    async with judge(upstream=", window: 50") as post:
        status, _, told = await post("/v1/systemone", {**noul("It has."), "state": "word " * 60})
        assert (400, "context_length_exceeded") == (status, told["error"]["code"])
    async with judge() as post:
        status, _, told = await post("/v1/systemone", {**noul("It has."), "questions": many})
        assert (400, "130 statements") == (status, told["error"]["message"][19:33])


async def test_what_takes_too_long_is_a_503(judge: Callable[..., Any]) -> None:
    class Slow(ScriptedVerifiers):
        async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
            await asyncio.Event().wait()
            return []

    async with judge(verifiers=Slow(), upstream=", answer_s: 0.05") as post:
        assert 503 == (await post("/v1/systemone", noul("Somebody else came.")))[0]


async def test_processor_time_is_bounded(judge: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.upstreams.builtin.CHECKS_CPU_S", 0.0)
    async with judge() as post:
        status, _, told = await post("/v1/systemone", {**noul("It has come on 5 March."), "state": FACTS * 1000})
    assert (400, True) == (status, "several calls" in told["error"]["message"])


async def test_a_verifier_that_is_overloaded_is_a_503(judge: Callable[..., Any]) -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("512 claims wait for it already")
    async with judge(verifiers=verifiers) as post:
        status, headers, told = await post("/v1/systemone", noul("It has come."))
    assert (503, "overloaded", "1") == (status, told["error"]["code"], headers["retry-after"])


async def test_a_compressed_question_is_read(judge: Callable[..., Any]) -> None:
    async with judge() as post:
        body = gzip.compress(json.dumps(noul("The order was delivered.")).encode())
        status, _, found = await post("/v1/systemone", body, content_encoding="gzip")
        assert (200, 0.95) == (status, found["answers"]["q"]["noul"])
        assert 400 == (await post("/v1/systemone", b"no gzip", content_encoding="gzip"))[0]
        assert 415 == (await post("/v1/systemone", body, content_encoding="lzma"))[0]


async def test_nothing_else_is_served_there(judge: Callable[..., Any]) -> None:
    async with judge() as post:
        status, _, told = await post("/v1/chat/completions", {"model": "m", "messages": [{"role": "user", "content": "Hi"}]})
        assert (404, "not_found") == (status, told["error"]["code"])
        assert 404 == (await post("/v1/embeddings", {"model": "m", "input": "x"}))[0]


async def test_the_built_in_judge_is_a_judge_of_the_proxy_s_own_too(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(EMPTY_TAP)
    (tmp_path / "config.yaml").write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/store.db'}}\nupstreams: {{judge: {{kind: builtin}}}}\n"
        "routes: [{upstream: judge, policy: policy.yaml}]\n"
    )
    app = App(load_settings(tmp_path / "config.yaml", {}), verifiers=ScriptedVerifiers())
    asked = [Question(name="q", kind="predicate", instructions="The order was delivered.")]
    model = UpstreamDecisions(app.upstreams, decision_apis(app.settings), app.tokens)
    found = await model.decide("judge", "builtin", FACTS, asked)
    assert (0.95, 0.0) == (found.answers["q"].probabilities["yes"], found.usd)


def test_what_the_operator_reads_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yaml").write_text(EMPTY_TAP)
    config = tmp_path / "config.yaml"
    config.write_text("upstreams: {judge: {kind: builtin}}\nroutes: [{upstream: judge, policy: policy.yaml}]\n")
    assert "/v1/systemone -H" in start_page(load_settings(config, {}), ServerSettings(), 80).curl
    assert 0 == check(config)
    assert "translated" not in capsys.readouterr().out


async def test_it_stands_in_for_a_decision_model_and_for_nothing_else(tmp_path: Path, migrated_file: Path) -> None:
    import aiohttp

    (tmp_path / "store.db").write_bytes(migrated_file.read_bytes())
    (tmp_path / "policy.yaml").write_text(EMPTY_TAP)
    async with ScriptedUpstream(reply({"error": {"message": "busy"}}, 503)) as upstream:
        (tmp_path / "config.yaml").write_text(
            f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/store.db'}}\nupstreams:\n"
            f"  main: {{kind: openai, base_url: '{upstream.base_url}', retries: {{attempts: 0}}, fallback: [judge]}}\n"
            "  judge: {kind: builtin}\nroutes: [{upstream: main, policy: policy.yaml}]\n"
        )
        app = App(load_settings(tmp_path / "config.yaml", {}), verifiers=ScriptedVerifiers())
        async with serving(app) as url, aiohttp.ClientSession() as session:
            async with session.post(f"{url}/v1/systemone", json=noul("The order was delivered.")) as response:
                assert (200, 0.95) == (response.status, (await response.json())["answers"]["q"]["noul"])
            async with session.post(
                f"{url}/v1/chat/completions", json={"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
            ) as response:
                assert (503, "busy") == (response.status, (await response.json())["error"]["message"])
