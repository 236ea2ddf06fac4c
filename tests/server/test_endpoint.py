import asyncio
import gzip
import json
import os
from collections.abc import AsyncIterator
from typing import Any

import brotli
import pytest

from proxy.config.access import PathRules
from proxy.server.handler import new_id
from proxy.testing import completion, reply, stream, streamed
from proxy.wire.http.encodings import zstandard
from tests.conftest import CHAT, EMPTY_TAP, Start

BUDGET = "name: budget\ndelivery: tap\nstages: [budget: {window: 2000}]\n"
STREAM = {**CHAT, "stream": True}
COMPRESSIONS = {"gzip": gzip.compress, "br": brotli.compress, "zstd": zstandard().compress}
BLOCKING = "name: blocking\ndelivery: hold\nstages: [{budget: {on_error: closed}}]\n"


async def test_a_request_and_its_answer_pass_byte_for_byte(start: Start) -> None:
    body, answer = (
        b'{"model":"gpt-4o" ,"messages":[{"role":"user","content":"Gr\\u00fc\\u00dfe"}],"x":1.0}',
        json.dumps(completion("Ünï")).encode(),
    )
    async with start(reply(answer, headers={"x-request-id": "req_1", "openai-processing-ms": "7"})) as proxy:
        got = await proxy.post(body)
    assert (200, answer, body) == (got.status, got.body, proxy.upstream.calls[0].body)
    assert ("req_1", "7") == (got.headers["x-request-id"], got.headers["openai-processing-ms"])
    assert "Bearer sk-upstream-secret" == proxy.upstream.calls[0].headers["authorization"]


async def test_every_answer_has_an_id_a_policy_a_verdict_and_an_overhead(start: Start) -> None:
    async with start(policy=BUDGET) as proxy:
        got = await proxy.post()
    assert got.headers["x-groundwire-id"].startswith("gw_")
    assert got.headers["x-groundwire-policy"].startswith("budget@")
    assert ("unchecked", "8/2000;exact") == (got.verdict, got.headers["x-groundwire-context"])
    assert float(got.headers["x-groundwire-overhead-ms"]) > 0


async def test_an_empty_policy_is_skipped_not_passed(start: Start) -> None:
    async with start() as proxy:
        assert "skipped" == (await proxy.post()).verdict


async def test_an_exchange_leaves_a_record(start: Start) -> None:
    async with start(policy=BUDGET) as proxy:
        got = await proxy.post(x_groundwire_run_id="run-7", x_groundwire_step_id="3")
        record = await proxy.record(got)
        listed = (await proxy.get("/groundwire/v1/records?run_id=run-7")).json
    assert ("run-7", "3", "gpt-4o", 200, "unchecked") == tuple(record[k] for k in ("run_id", "step_id", "model", "status", "outcome"))
    assert (8, 9, 3) == (record["prompt_tokens_before"], record["prompt_tokens"], record["completion_tokens"])
    assert "budget.request" in record["detail"]["timings_ms"]
    assert json.loads(record["request_body"])["messages"] == CHAT["messages"]
    assert ("list", False, [record["id"]]) == (listed["object"], listed["has_more"], [r["id"] for r in listed["data"]])


async def test_the_run_is_derived_from_the_conversations_start_and_the_step_is_counted(start: Start) -> None:
    second = {**CHAT, "messages": [*CHAT["messages"], {"role": "assistant", "content": "Hello."}, {"role": "user", "content": "More"}]}
    other = {**CHAT, "messages": [{"role": "user", "content": "Something else"}]}
    async with start() as proxy:
        records = [await proxy.record(await proxy.post(body)) for body in (CHAT, second, other)]
        foreign = await proxy.record(await proxy.post(CHAT, authorization="Bearer other"))
    assert records[0]["run_id"] == records[1]["run_id"] != records[2]["run_id"]
    assert foreign["run_id"] != records[0]["run_id"]
    assert ["1", "2", "1"] == [r["step_id"] for r in records]


async def test_groundwires_own_headers_and_fields_do_not_go_upstream(start: Start) -> None:
    body = {**CHAT, "groundwire": {"context": [{"content": "x"}]}}
    async with start() as proxy:
        await proxy.post(body, x_groundwire_run_id="r")
    call = proxy.upstream.calls[0]
    assert CHAT == call.json
    assert [] == [name for name in call.headers if name.startswith("x-groundwire")]


async def test_a_misspelt_key_of_the_extension_is_refused_in_every_api(start: Start) -> None:
    said, extension = [{"role": "user", "content": "Hi"}], {"groundwire": {"contxt": [{"content": "x"}]}}
    bodies: dict[str, dict[str, object]] = {
        "/v1/chat/completions": {"model": "m", "messages": said},
        "/v1/responses": {"model": "m", "input": "Hi"},
        "/v1/messages": {"model": "m", "messages": said, "max_tokens": 9},
        "/v1beta/models/m:generateContent": {"contents": [{"parts": [{"text": "Hi"}]}]},
    }
    async with start() as proxy:
        for path, body in bodies.items():
            got = await proxy.post(json.dumps(body | extension).encode(), path)
            told = got.json["error"]["message"]
            assert (400, "groundwire: unknown key 'contxt'; did you mean 'context'?") == (got.status, told), path
        assert [] == proxy.upstream.calls


async def test_the_clients_headers_go_upstream_but_not_its_key(start: Start) -> None:
    async with start() as proxy:
        await proxy.post(
            openai_organization="client-org",
            openai_project="client-project",
            cookie="session=client",
            authorization="Bearer client",
            x_api_key="client",
            idempotency_key="i",
            connection="x-hop, close",
            x_hop="1",
        )
    headers = proxy.upstream.calls[0].headers
    assert "i" == headers["idempotency-key"]
    assert "client" not in str(headers)
    assert "x-hop" not in headers


async def test_forward_passes_the_clients_own_key(start: Start) -> None:
    async with start(api_key="forward") as proxy:
        await proxy.post(authorization="Bearer client", openai_organization="client-org")
    headers = proxy.upstream.calls[0].headers
    assert ("Bearer client", "client-org") == (headers["authorization"], headers["openai-organization"])


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"origin": "https://evil.example"},
        {"sec_fetch_site": "cross-site"},
        {"x_forwarded_for": "10.0.0.9"},
        {"forwarded": "for=10.0.0.9"},
        {"via": "1.1 gateway"},
    ],
    ids=lambda headers: next(iter(headers)),
)
async def test_without_client_keys_only_this_machines_own_programs_spend_the_operators(headers: dict[str, str], start: Start) -> None:
    async with start() as proxy:
        refused = await proxy.post(json.dumps(CHAT).encode(), content_type="text/plain", **headers)
        page = await proxy.post(origin="http://localhost:3000")
    assert (403, "policy_not_allowed") == (refused.status, refused.json["error"]["code"])
    assert (200, 1) == (page.status, len(proxy.upstream.calls))


@pytest.mark.parametrize(
    ("api_key", "config"), [("forward", ""), ("sk-upstream-secret", "server: {allow_anonymous: true}\n")], ids=["forward", "allowed"]
)
async def test_where_nothing_of_the_operators_is_spent_or_they_allow_it_anybody_may(api_key: str, config: str, start: Start) -> None:
    async with start(api_key=api_key, config=config) as proxy:
        assert 200 == (await proxy.post(host="proxy.example", x_forwarded_for="10.0.0.9")).status


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_upstreams_own_error_passes_unchanged(start: Start, status: int) -> None:
    body = json.dumps({"error": {"message": "m", "type": "t", "param": None, "code": "c"}}).encode()
    async with start(reply(body, status, {"retry-after": "17"})) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert (status, body, "17") == (got.status, got.body, got.headers["retry-after"])
    assert (status, ["upstream_c"]) == (record["status"], [v["code"] for v in record["detail"]["verdicts"]])


async def test_an_upstreams_html_error_passes_unchanged(start: Start) -> None:
    async with start(reply(b"<html>no</html>", 502, {"content-type": "text/html"})) as proxy:
        got = await proxy.post()
    assert (502, b"<html>no</html>", "text/html") == (got.status, got.body, got.headers["content-type"])


async def test_an_upstreams_context_length_error_is_recorded(start: Start) -> None:
    error = {"error": {"message": "too long", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}
    async with start(reply(error, 400)) as proxy:
        got = await proxy.post()
        figures = (await proxy.get("/groundwire/v1/metrics")).json
    assert "upstream_context_length_exceeded" == got.headers["x-groundwire-warnings"]
    assert 1 == figures["counters"]["context.length_exceeded_upstream_count"]


async def test_a_stream_passes_byte_for_byte(start: Start) -> None:
    events = [*streamed(["Hel", "lo, ", "Welt ", "漢字"])]
    async with start(stream(events)) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert b"".join(events) == got.body
    assert "text/event-stream" == got.headers["content-type"]
    assert "Hello, Welt 漢字" == json.loads(record["answer_body"])["choices"][0]["text"]


async def test_other_paths_pass_through_marked_skipped(start: Start) -> None:
    async with start(reply({"object": "list", "data": []})) as proxy:
        models = await proxy.get("/v1/models?limit=2")
        embeddings = await proxy.post(b"\x00\xff", "/v1/embeddings")
        responses = await proxy.post({"model": "gpt-4o", "input": "x"}, "/v1/responses/compact")
        await proxy.app.records_writer.flush()
        listed = (await proxy.get("/groundwire/v1/records")).json["data"]
    assert ["skipped"] * 3 == [a.verdict for a in (models, embeddings, responses)]
    assert ["/v1/models?limit=2", "/v1/embeddings", "/v1/responses/compact"] == [c.path for c in proxy.upstream.calls]
    assert b"\x00\xff" == proxy.upstream.calls[1].body
    assert ["/responses/compact", "/embeddings", "/models"] == [r["path"] for r in listed]


async def test_records_of_an_outcome_that_cannot_be_are_refused(start: Start) -> None:
    async with start() as proxy:
        found = [await proxy.get(f"/groundwire/v1/records?outcome={name}") for name in ("pass", "skipped", "pending", "nix")]
    assert [200, 200, 200, 400] == [one.status for one in found]
    assert ("invalid_request", "outcome") == tuple(found[-1].json["error"][name] for name in ("code", "param"))


async def sent(proxy: Any, target: str, method: str = "POST") -> bytes:
    """The answer to a request line with exactly this target, as no client library would send it."""
    body = json.dumps(CHAT).encode() if method == "POST" else b""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    head = f"{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    writer.write(head.encode("latin-1") + body)
    answer = await reader.read()
    writer.close()
    return answer


CLIMBING = [
    "../admin",
    "%2e%2e/admin",
    "..%2fadmin",
    "..%2Fadmin",
    "..;/admin",
    "..\\admin",
    "..%5Cadmin",
    "models/../../admin",
    "models/%2E%2E/chat/completions",
    "models/x%2F..%2F..%2Fchat%2Fcompletions",
    "models/%252e%252e",
    "models/%00",
]


async def test_a_path_cannot_climb_out_of_the_upstreams_api(start: Start) -> None:
    async with start() as proxy:
        answers = {path: (await sent(proxy, f"/v1/{path}", "GET"))[:13] for path in CLIMBING}
    assert dict.fromkeys(CLIMBING, b"HTTP/1.1 400 ") == answers
    assert [] == proxy.upstream.calls


SPELLINGS = [
    "/v1/chat%2Fcompletions",
    "/v1/chat%2fcompletions",
    "/v1/chat/completion%73",
    "/v1/%63hat/completions",
    "/v1//chat/completions",
    "/v1/chat//completions",
    "/v1/chat/completions/",
    "/v1/chat/./completions",
    "/v1/chat/completions;x",
    "/v1/Chat/Completions",
    "/v1/chat/completions%20",
    "/v1/chat/completions%3Fx",
    "/%76%31/chat/completions",
    "/v1/chat/completions%23",
    "/v1/./chat/completions",
    "/v1/models/../chat/completions",
    "/v1/chat/completions%00",
    "/v1/%EF%BD%83hat/completions",
]


async def test_no_spelling_of_the_path_gets_around_the_policy(start: Start) -> None:
    async with start() as proxy:
        answers = {path: await sent(proxy, path) for path in SPELLINGS}
        plain = await sent(proxy, "/v1/chat/completions")
    assert {} == {path: answer for path, answer in answers.items() if not answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 "))}
    assert plain.startswith(b"HTTP/1.1 200 ")
    assert ["/v1/chat/completions"] == [call.path for call in proxy.upstream.calls]


@pytest.mark.parametrize("path", ["/v1/models/meta-llama%2FLlama-3", "/v1/models/ft:gpt-4o:org::abc", "/v1/models/caf%C3%A9"])
async def test_names_that_need_encoding_pass_as_they_were_sent(path: str, start: Start) -> None:
    async with start(reply({"id": "x"})) as proxy:
        answer = await sent(proxy, path, "GET")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert [path] == [call.path for call in proxy.upstream.calls]


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (
            '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "messages": [{"role": "user", "content": "Bye"}]}',
            "messages",
        ),
        ('{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "\\u006dessages": []}', "messages"),
        ('{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi", "content": "Bye"}]}', "content"),
        ('{"model": "gpt-4o", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "text": "Bye"}]}]}', "text"),
    ],
    ids=["messages", "spelled otherwise", "content", "a part's text"],
)
async def test_a_key_that_stands_twice_is_refused_where_a_policy_judges(body: str, key: str, start: Start) -> None:
    async with start(policy=BLOCKING) as proxy:
        refused = await proxy.post(body.encode())
        assert (400, "invalid_request", key) == (refused.status, refused.json["error"]["code"], refused.json["error"]["param"])
        assert [] == proxy.upstream.calls


NESTING = [
    '{"model": "gpt-4o", "messages": [{"role": "user", "content": NESTED}]}',
    '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": NESTED}]}',
    '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "metadata": NESTED}',
    '{"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}], "tools": [{"function": {"parameters": NESTED}}]}',
]


@pytest.mark.parametrize("policy", [EMPTY_TAP, BUDGET], ids=["empty", "budget"])
async def test_what_is_nested_too_deeply_is_a_400_and_the_connection_lives(policy: str, start: Start) -> None:
    cases = [(body, depth) for body in NESTING for depth in (300, 1_000, 100_000)]
    found = []
    async with start(policy=policy, bodies=False) as proxy:
        for body, depth in cases:
            got = await proxy.post(body.replace("NESTED", "[" * depth + "]" * depth).encode())
            found.append((body, depth, got.status, got.json["error"]["code"], (await proxy.post()).status))
    assert [(*case, 400, "invalid_request", 200) for case in cases] == found


async def test_an_upstream_cannot_say_what_only_the_proxy_may(start: Start) -> None:
    async with start(reply(completion(), headers={"x-groundwire-verdict": "pass", "x-groundwire-quality": "1.00"})) as proxy:
        got = await proxy.post()
    assert ["skipped"] == got.headers.getall("x-groundwire-verdict")
    assert "x-groundwire-quality" not in got.headers


@pytest.mark.parametrize(
    ("options", "policy", "expected"),
    [
        ("allow_skip: true", EMPTY_TAP, {"models": 200, "responses/r/cancel": 200, "conversations": 200, "files": 404}),
        ("allow_skip: true", EMPTY_TAP, {"fine_tuning/jobs": 404, "responses/compact": 200}),
        (
            "allow_skip: true",
            BLOCKING,
            {"models": 200, "responses/r/cancel": 403, "responses/input_tokens": 200, "completions": 403, "files": 404},
        ),
        ("passthrough: none", EMPTY_TAP, {"models": 404, "responses/r/cancel": 404}),
        ("passthrough: [files]", EMPTY_TAP, {"models": 404, "files": 200, "files/f-1/content": 200}),
        ("passthrough: [responses]", BLOCKING, {"responses/r/cancel": 200, "responses/compact": 200, "completions": 404}),
    ],
)
async def test_what_passes_through_is_a_choice(options: str, policy: str, expected: dict[str, int], start: Start) -> None:
    async with start(reply({}), policy=policy, route_options=options) as proxy:
        sends = {name: proxy.get if name == "models" else proxy.post for name in expected}
        found = {name: (await send(path=f"/v1/{name}")).status for name, send in sends.items()}
    assert expected == found


@pytest.mark.parametrize(
    ("method", "path", "helps"),
    [
        ("POST", "/files", "files"),
        ("POST", "/systemone", "systemone"),
        ("POST", "/models/m:embedContent", ""),
        ("POST", "/messages/batches", ""),
    ],
)
def test_a_path_that_is_not_passed_on_is_told_what_would_help_where_anything_would(method: str, path: str, helps: str) -> None:
    refused = PathRules("none").refusal(method, path, strict=False)
    assert refused is not None
    assert (
        f"this route does not pass {method} /v1{path} on" + (f"; passthrough: [{helps}] in config.yaml would" if helps else "")
        == refused.message
    )


async def test_a_policy_asked_for_by_header_counts_for_what_passes_through(start: Start) -> None:
    async with start(reply({}), policies={"blocking": BLOCKING}, route_options="allow_policies: [blocking]") as proxy:
        refused = await proxy.post(path="/v1/responses/r/cancel", x_groundwire_policy="blocking")
    assert (403, "policy_not_allowed") == (refused.status, refused.json["error"]["code"])
    assert [] == proxy.upstream.calls


async def test_an_account_s_own_things_cannot_be_deleted_by_default(start: Start) -> None:
    async with start(reply({})) as proxy:
        answer = await sent(proxy, "/v1/models/ft-1", "DELETE")
    assert answer.startswith(b"HTTP/1.1 404 ")
    assert [] == proxy.upstream.calls


# ---- hints ----


async def test_an_unknown_path_is_said_in_the_envelope(start: Start) -> None:
    async with start() as proxy:
        for path in ("/nothing/v1/chat/completions", "/nothing", "/groundwire/v1/nothing"):
            got = await proxy.post(path=path)
            assert (404, "not_found") == (got.status, got.json["error"]["code"])


async def test_another_policy_only_where_the_route_allows_it(start: Start) -> None:
    async with start(policies={"budget": BUDGET}, route_options="allow_policies: [budget]") as proxy:
        allowed = await proxy.post(x_groundwire_policy="budget")
        refused = await proxy.post(x_groundwire_policy="nothing")
        no_skip = await proxy.post(x_groundwire_skip="budget")
    assert allowed.headers["x-groundwire-policy"].startswith("budget@")
    assert [(403, "policy_not_allowed")] * 2 == [(a.status, a.json["error"]["code"]) for a in (refused, no_skip)]


async def test_skipping_stages(start: Start) -> None:
    async with start(policy=BUDGET) as proxy:
        assert "skipped" == (await proxy.post(x_groundwire_skip="budget")).verdict
        assert "skipped" == (await proxy.post(x_groundwire_skip="all")).verdict
        unknown = await proxy.post(x_groundwire_skip="nothing")
    assert (400, "x-groundwire-skip") == (unknown.status, unknown.json["error"]["param"])


async def test_a_misspelt_groundwire_header_is_refused(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post(x_groundwire_polcy="x")
    assert (400, "x-groundwire-polcy") == (got.status, got.json["error"]["param"])


async def test_the_verdict_inline_in_a_body_and_before_a_streams_end(start: Start) -> None:
    async with start(reply(completion('{"a": 1}')), stream(streamed(["{}"])), policy=BUDGET) as proxy:
        whole = (await proxy.post(x_groundwire_inline="1")).json
        events = (await proxy.post(STREAM, x_groundwire_inline="1")).body.split(b"\n\n")
    assert ("unchecked", '{"a": 1}') == (whole["groundwire"]["verdict"], whole["choices"][0]["message"]["content"])
    assert b"data: [DONE]" == events[-2]
    inline = json.loads(events[-3][6:])
    assert ([], "unchecked") == (inline["choices"], inline["groundwire"]["verdict"])


# ---- keys ----

KEYS = "keys: [{name: ann, sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae, routes: []}]\n"  # sha256 of foo


async def test_a_client_key_is_needed_where_there_are_keys(start: Start) -> None:
    async with start(config=KEYS) as proxy:
        missing, wrong = await proxy.post(), await proxy.post(authorization="Bearer bar")
        right = await proxy.post(authorization="Bearer foo")
        record = await proxy.record(right)
    assert [(401, "invalid_api_key")] * 2 == [(a.status, a.json["error"]["code"]) for a in (missing, wrong)]
    assert (200, "ann") == (right.status, record["client"])
    assert 1 == len(proxy.upstream.calls)


async def test_the_operators_surface_needs_the_admin_key_where_there_is_one(start: Start) -> None:
    async with start(config="server: {admin_key: s3cret}\n") as proxy:
        paths = ("/groundwire/v1/records", "/groundwire/v1/metrics", "/dashboard", "/groundwire/v1/scratchpad/x")
        assert [401] * 4 == [(await proxy.get(p)).status for p in paths]
        assert [200, 200, 200, 404] == [(await proxy.get(p, authorization="Bearer s3cret")).status for p in paths]
        assert [200] * 3 == [(await proxy.get(p)).status for p in ("/health", "/ready", "/metrics")]


async def test_without_an_admin_key_a_foreign_name_or_page_is_refused(start: Start) -> None:
    async with start() as proxy:
        assert 403 == (await proxy.get("/groundwire/v1/records", host="evil.example")).status
        assert 403 == (await proxy.get("/groundwire/v1/records", origin="https://evil.example")).status
        assert 403 == (await proxy.get("/groundwire/v1/records", sec_fetch_site="cross-site")).status
        assert 200 == (await proxy.get("/groundwire/v1/records", origin="http://localhost:3000")).status


# ---- bad input ----


BAD_BODIES = [
    b"",
    b"{",
    b"null",
    b"\xff\xff",
    b"[" * 200_000,
    b'{"model": "m", "messages": "x"}',
    b'{"model": "m", "messages": []}',
    b'{"model": "m", "messages": [{"role": "user", "content": "\\udcff"}]}',
    b'{"model": "m", "messages": [{"role": "user", "content": ' + b"[" * 5000 + b"]" * 5000 + b"}]}",
]


@pytest.mark.parametrize("policy", [BUDGET, EMPTY_TAP], ids=["budget", "empty"])
async def test_bad_bodies_are_a_400_in_the_envelope_and_the_process_lives(start: Start, policy: str) -> None:
    async with start(policy=policy) as proxy:
        answers = [await proxy.post(body) for body in BAD_BODIES]
        assert [] == proxy.upstream.calls
        assert 200 == (await proxy.post()).status
    refused = [(body[:40], got.status, got.json["error"]["code"]) for body, got in zip(BAD_BODIES, answers, strict=True)]
    assert [(body[:40], 400, "invalid_request") for body in BAD_BODIES] == refused


async def test_a_body_of_40_megabytes_is_refused(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post(b"x" * 40_000_000)
        assert (413, "request_too_large") == (got.status, got.json["error"]["code"])
        assert 200 == (await proxy.post()).status


async def test_ten_thousand_messages_are_served(start: Start) -> None:
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"message {i}"} for i in range(10_001)]
    async with start(policy="name: b\ndelivery: tap\nstages: [budget]\n") as proxy:
        got = await proxy.post({"model": "gpt-4o", "messages": messages})
    assert 200 == got.status
    assert messages == proxy.upstream.calls[0].json["messages"]


async def test_odd_message_contents_do_not_stop_the_budget(start: Start) -> None:
    messages = [
        {"role": "user", "content": content} for content in (None, 3, {}, [], [None], [{"type": "zzz"}], [{"type": "text", "text": 3}], "")
    ]
    async with start(policy=BUDGET) as proxy:
        got = await proxy.post({"model": "never-heard-of-it", "messages": messages, "tools": [{"type": "function"}, {}]})
    assert 200 == got.status
    assert got.headers["x-groundwire-context"].endswith(";estimate")


async def test_a_prompt_over_the_window_never_reaches_the_upstream(start: Start) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "word " * 3000}]}
    async with start(policy=BUDGET) as proxy:
        got = await proxy.post(body)
    error = got.json["error"]
    assert (400, "context_length_exceeded", "block") == (got.status, error["code"], got.verdict)
    for part in ("resulted in 3008 tokens", "500 are reserved", "limit of 2000", "Compress context or split content", "current_query"):
        assert part in error["message"]
    assert [] == proxy.upstream.calls


# ---- runs ----

REMEMBERING = "name: r\ndelivery: tap\nstages: [reflection]\n"


async def test_two_conversations_that_begin_alike_are_two_runs(start: Start) -> None:
    begun = [{"role": "user", "content": "Hi"}]
    left, right = ([*begun, {"role": "assistant", "content": "Hello."}, {"role": "user", "content": word}] for word in ("Left", "Right"))
    async with start(policy=REMEMBERING) as proxy:
        records = [await proxy.record(await proxy.post({**CHAT, "messages": talk})) for talk in (begun, left, right, left)]
        named = [await proxy.record(await proxy.post({**CHAT, "messages": talk}, x_groundwire_run_id="mine")) for talk in (left, right)]
    runs = [record["run_id"] for record in records]
    assert (runs[0], runs[1]) == (runs[1], runs[3])
    assert runs[2] not in (runs[0], "")
    assert ["mine"] * 2 == [record["run_id"] for record in named]


async def test_what_failed_in_one_branch_is_not_told_in_the_other(start: Start) -> None:
    tool = {"type": "function", "function": {"name": "book", "parameters": {"type": "object", "properties": {}}}}
    begun = [{"role": "user", "content": "Book a table."}]
    call = {"id": "c1", "type": "function", "function": {"name": "book", "arguments": "{}"}}
    failed = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"error": "booking service: permission denied"}'},
    ]
    other = [{"role": "assistant", "content": "When?"}, {"role": "user", "content": "At eight."}]
    async with start(policy=REMEMBERING) as proxy:
        answers = [await proxy.post({**CHAT, "messages": [*begun, *more], "tools": [tool]}) for more in ([], failed, other)]
    assert ["0", "1", "0"] == [answer.headers["x-groundwire-failures"] for answer in answers]


async def test_a_body_with_a_key_that_is_no_utf_8_is_refused(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post(b'{"\x81\x22')
    assert (400, "invalid_request") == (got.status, got.json["error"]["code"])


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_has_ids_of_its_own() -> None:
    new_id(0.0)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, new_id(0.0).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert new_id(0.0) != os.read(reader, 100).decode() != ""
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("policy", [EMPTY_TAP, BUDGET], ids=["empty", "budget"])
@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
async def test_a_compressed_request_is_read_and_goes_on_plain(encoding: str, policy: str, start: Start) -> None:
    body = json.dumps(CHAT).encode()
    async with start(policy=policy) as proxy:
        got = await proxy.post(COMPRESSIONS[encoding](body), content_encoding=encoding)
    assert (200, CHAT, None) == (got.status, proxy.upstream.calls[0].json, proxy.upstream.calls[0].headers.get("content-encoding"))


async def test_an_encoding_that_is_not_known_is_a_415_that_says_which_are(start: Start) -> None:
    async with start() as proxy:
        got = await proxy.post(b"x", content_encoding="lzma")
    assert (415, "unsupported_encoding", "gzip, deflate, br, zstd") == (
        got.status,
        got.json["error"]["code"],
        got.headers["accept-encoding"],
    )
    assert "lzma" in got.json["error"]["message"]
    assert not proxy.upstream.calls


async def test_a_file_that_takes_its_time_arrives_whole(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.wire.http.asgi._WATCH_AFTER_S", 0.0)
    pieces = [bytes([i]) * 70_000 for i in range(20)]

    async def upload() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            for _ in range(20):  # others have the event loop: the server reads it piece by piece
                await asyncio.sleep(0)

    made = reply({"id": "file_1", "object": "file"})
    async with (
        start(made, route_options="passthrough: [files]") as proxy,
        proxy._session.post(proxy.url + "/v1/files", data=upload()) as answer,
    ):
        assert 200 == answer.status
    assert b"".join(pieces) == proxy.upstream.calls[0].body
