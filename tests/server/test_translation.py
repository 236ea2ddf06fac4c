"""Clients of each API before servers of another, on real sockets, with a policy between them; what says the same is in `tests/golden`."""

import json
from itertools import permutations
from typing import Any

import pytest

from proxy.config.settings import Api
from proxy.testing import ScriptedUpstream, reply, stream
from proxy.wire.translation.translate import APIS, PATHS
from tests import gemini, messages, responses_api
from tests.conftest import EMPTY_TAP, Answer, Start
from tests.own_tools import ALL, DELIVERIES, FIND, TAP, called, calling
from tests.wire.translation import chat_api
from tests.wire.translation.pairs import AGENT, QUESTION, SEEN
from tests.wire.translation.test_answers import WHOLE, gist, read, streamed

PAIRS = list(permutations(APIS, 2))
POLICIES = {
    "tap": EMPTY_TAP,
    "gate": "name: gate\ndelivery: gate\nstages: [budget, claims]\n",
    "hold": "name: hold\ndelivery: hold\nstages: [budget, citations, claims]\n",
}
EVENTS = {"content-type": "text/event-stream"}
ASKED: dict[Api, dict[str, Any]] = {
    "chat": {"model": "m", "messages": [QUESTION]},
    "responses": {"model": "m", "input": QUESTION["content"]},
    "messages": {"model": "m", "max_tokens": 100, "messages": [QUESTION]},
    "gemini": gemini.ASK,
}


def path(api: Api, *, streams: bool = False) -> str:
    return gemini.path("m", streams=streams) if api == "gemini" else "/v1" + PATHS[api]


def before(server: Api) -> dict[str, str]:
    """An upstream that speaks this API alone."""
    return {"kind": "gemini"} if server == "gemini" else {"apis": f"[{server}]"}


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_what_cannot_be_translated_is_a_400_in_the_clients_envelope(start: Start, client: Api, server: Api) -> None:
    async with start(reply({}), **before(server)) as proxy:
        answer = await proxy.post({**ASKED[client], "never_heard_of": 1}, path(client))
        error = answer.json["error"]
        field = error["details"][1]["fieldViolations"][0]["field"] if client == "gemini" else error["param"]
        assert (400, "neverHeardOf" if client == "gemini" else "never_heard_of") == (answer.status, field)
        assert ("error" if client == "messages" else None) == answer.json.get("type")
        assert [] == proxy.upstream.calls


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_a_stream_that_breaks_off_ends_with_an_error(start: Start, client: Api, server: Api) -> None:
    events = streamed(server, WHOLE["text"][server])
    broken = events[: len(events) // 2].rpartition(b"\n\n")[0] + b"\n\n"
    async with start(stream([broken], broken=True), **before(server)) as proxy:
        body = ASKED[client] if client == "gemini" else {**ASKED[client], "stream": True}
        answer = await proxy.post(body, path(client, streams=True))
        assert b"error" in answer.body
        assert not any(mark in answer.body for mark in (b"message_stop", b"response.completed", b'"finish_reason":"stop"', b"finishReason"))


@pytest.mark.parametrize("client", APIS)
async def test_a_server_that_speaks_all_gets_each_as_it_came(start: Start, client: Api) -> None:
    body = json.dumps(ASKED[client], indent=3).encode()
    answer_body = json.dumps(WHOLE["text"][client], indent=3).encode()
    async with start(reply(answer_body), kind="gemini" if client == "gemini" else "openai") as proxy:
        answer = await proxy.post(body, path(client))
        assert (answer_body, body) == (answer.body, proxy.upstream.calls[0].body)


@pytest.mark.parametrize(("client", "server"), PAIRS)
async def test_the_record_tells_in_which_api_the_provider_was_asked(start: Start, client: Api, server: Api) -> None:
    answers: dict[Api, dict[str, Any]] = {
        "chat": chat_api.whole("At noon."),
        "responses": responses_api.response(responses_api.text_item("At noon.")),
        "messages": messages.message(messages.text("At noon.")),
        "gemini": gemini.answer(gemini.text("At noon.")),
    }
    async with start(reply(answers[server]), **before(server)) as proxy:
        record = await proxy.record(await proxy.post(ASKED[client], path(client)))
        page = await proxy.get(f"/dashboard/records/{record['id']}")
    assert server == record["detail"]["asked_in"]
    assert f"main, asked in the API {server}" in page.body.decode()


async def test_the_record_of_what_is_not_translated_says_nothing_of_it(start: Start) -> None:
    async with start() as proxy:
        assert "asked_in" not in (await proxy.record(await proxy.post()))["detail"]


def numbered(number: int, **more: Any) -> dict[str, Any]:
    """An answer with an id of its own."""
    return {**chat_api.whole(f"Answer {number}.", **more), "id": f"chatcmpl-{number}"}


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("policy", ["tap", "hold"])
async def test_a_response_is_gone_on_from_before_a_server_that_keeps_none(start: Start, policy: str, streams: bool) -> None:
    answers = [numbered(0), numbered(1), numbered(2)]
    replies = [stream(chat_api.chunks(answer)) if streams else reply(answer) for answer in answers]
    async with start(*replies, policy=POLICIES[policy], apis="[chat]") as proxy:
        previous: dict[str, Any] = {}
        for number in range(3):
            body = {"model": "m", "input": f"Question {number}?", "instructions": f"Rule {number}.", "stream": streams, **previous}
            answer = await proxy.post(body, "/v1/responses")
            response = read("responses", answer.body) if streams else answer.json
            previous = {"previous_response_id": response["id"]}
        last = json.loads(proxy.upstream.calls[-1].body)["messages"]
        assert ["Rule 2.", "Question 0?", "Answer 0.", "Question 1?", "Answer 1.", "Question 2?"] == [m["content"] for m in last]


async def test_a_calls_result_goes_on_from_the_response_with_the_call(start: Start) -> None:
    async with start(reply(numbered(0, tool_calls=[chat_api.call()])), reply(numbered(1)), apis="[chat]") as proxy:
        first = await proxy.post(AGENT["responses"] | {"store": True}, "/v1/responses")
        output = {"type": "function_call_output", "call_id": "call_1", "output": "It turns at noon."}
        body = {"model": "m", "input": [output], "previous_response_id": first.json["id"]}
        answer = await proxy.post(body, "/v1/responses")
        assert 200 == answer.status
        call, result = json.loads(proxy.upstream.calls[1].body)["messages"][-2:]
        assert ([chat_api.call()], "call_1") == (call["tool_calls"], result["tool_call_id"])


async def test_items_are_named_before_a_server_that_keeps_none(start: Start) -> None:
    async with start(reply(numbered(0)), reply(numbered(1)), apis="[chat]") as proxy:
        first = await proxy.post(ASKED["responses"], "/v1/responses")
        named = {"type": "item_reference", "id": first.json["output"][0]["id"]}
        body = {"model": "m", "input": [{"role": "user", "content": "Hi"}, named, {"role": "user", "content": "And?"}]}
        await proxy.post(body, "/v1/responses")
        assert ["Hi", "Answer 0.", "And?"] == [m["content"] for m in json.loads(proxy.upstream.calls[1].body)["messages"]]


async def test_another_client_cannot_go_on_from_it(start: Start) -> None:
    async with start(reply(numbered(0)), apis="[chat]", api_key="forward") as proxy:
        first = await proxy.post(ASKED["responses"], "/v1/responses", authorization="Bearer ann")
        body = {"model": "m", "input": "And?", "previous_response_id": first.json["id"]}
        statuses = [(await proxy.post(body, "/v1/responses", authorization=f"Bearer {who}")).status for who in ("bob", "ann")]
        assert [400, 200] == statuses


@pytest.mark.parametrize("body", [{}, {"store": False}])
async def test_what_was_not_kept_is_not_gone_on_from(start: Start, body: dict[str, Any]) -> None:
    async with start(reply(chat_api.whole("At noon.")), apis="[chat]") as proxy:
        first = await proxy.post({**ASKED["responses"], **body}, "/v1/responses")
        named = first.json["id"] if body else "resp_of_somebody_else"
        answer = await proxy.post({"model": "m", "input": "And?", "previous_response_id": named}, "/v1/responses")
        assert (400, "previous_response_id") == (answer.status, answer.json["error"]["param"])
        assert 1 == len(proxy.upstream.calls)


@pytest.mark.parametrize("path", ["/v1/responses/resp_1", "/v1/conversations/c_1", "/v1/responses/resp_1/input_items"])
async def test_a_server_that_keeps_no_responses_is_not_asked_for_one(start: Start, path: str) -> None:
    async with start(reply({}), apis="[chat]") as proxy:
        answer = await proxy.get(path)
        assert (404, "not_found") == (answer.status, answer.json["error"]["code"])
        assert [] == proxy.upstream.calls


@pytest.mark.parametrize("path", ["messages/count_tokens", "responses/input_tokens"])
@pytest.mark.parametrize("server", ["chat", "messages"])
async def test_tokens_are_counted_here_where_the_server_cannot(start: Start, server: Api, path: str) -> None:
    async with start(reply({"error": {"message": "no such path"}}, 404), apis=f"[{server}]") as proxy:
        answer = await proxy.post(ASKED["messages" if path.startswith("messages") else "responses"], f"/v1/{path}")
        assert (200, "tokens_estimated") == (answer.status, answer.headers["x-groundwire-warnings"])
        assert answer.json["input_tokens"] > 3


@pytest.mark.parametrize(
    ("client", "server", "given", "expected"),
    [
        ("messages", "chat", {"x_api_key": "sk-1"}, {"authorization": "Bearer sk-1", "x-api-key": None}),
        ("chat", "messages", {"authorization": "Bearer sk-1"}, {"x-api-key": "sk-1", "authorization": None}),
    ],
)
async def test_the_clients_own_key_stands_where_the_server_looks(
    start: Start, client: Api, server: Api, given: dict[str, str], expected: dict[str, Any]
) -> None:
    async with start(reply(WHOLE["text"][server]), apis=f"[{server}]", api_key="forward") as proxy:
        answer = await proxy.post(ASKED[client], path(client), anthropic_version="2023-06-01", anthropic_beta="b", **given)
        assert 200 == answer.status
        headers = proxy.upstream.calls[0].headers
        assert expected == {name: headers.get(name) for name in expected}
        assert not [name for name in headers if name.startswith("anthropic-")]


OPENAIS = {"object": "list", "data": [{"id": "gpt-5", "object": "model", "created": 1, "owned_by": "openai"}]}
GOOGLES = {"models": [{"name": "models/gemini-2.5-pro", "displayName": "Pro", "inputTokenLimit": 1}, {"name": "tunedModels/a"}]}
TITLED = {"type": "model", "display_name": "Pro", "created_at": "1970-01-01T00:00:00Z"}
OURS = {"object": "model", "created": 0, "owned_by": "google"}
CALLED = {"supportedGenerationMethods": ["generateContent", "countTokens"]}


@pytest.mark.parametrize(
    ("client", "server", "listed", "expected"),
    [
        ("chat", "gemini", GOOGLES, {"object": "list", "data": [{"id": "gemini-2.5-pro", **OURS}, {"id": "tunedModels/a", **OURS}]}),
        (
            "messages",
            "gemini",
            {"models": GOOGLES["models"][:1]},
            {"data": [{**TITLED, "id": "gemini-2.5-pro"}], "has_more": False, "first_id": "gemini-2.5-pro", "last_id": "gemini-2.5-pro"},
        ),
        ("gemini", "chat", OPENAIS, {"models": [{"name": "models/gpt-5", "displayName": "gpt-5", **CALLED}]}),
        ("chat", "chat", OPENAIS, OPENAIS),
        ("gemini", "gemini", GOOGLES, GOOGLES),
        ("chat", "gemini", {"models": []}, {"object": "list", "data": []}),
        ("chat", "gemini", {"odd": 1}, {"odd": 1}),
    ],
)
async def test_a_list_of_models_is_the_clients_apis(start: Start, client: Api, server: Api, listed: Any, expected: Any) -> None:
    async with start(reply(listed), **before(server)) as proxy:
        headers: dict[str, str] = {"gemini": {"x_goog_api_key": "k"}, "messages": {"anthropic_version": "2023-06-01"}}.get(client, {})
        got = await proxy.get("/v1beta/models?pageSize=9" if client == "gemini" else "/v1/models", **headers)
    translated = client != server and "gemini" in (client, server)
    assert (200, "skipped", expected) == (got.status, got.verdict, got.json)
    query = "?pageSize=1000" if translated and server == "gemini" else "?pageSize=9" if server == "gemini" else ""
    assert query == "".join(proxy.upstream.calls[0].path.partition("?")[1:])


@pytest.mark.parametrize(
    ("client", "server", "model", "expected"),
    [
        ("chat", "gemini", GOOGLES["models"][0], {"id": "gemini-2.5-pro", **OURS}),
        ("gemini", "chat", OPENAIS["data"][0], {"name": "models/gpt-5", "displayName": "gpt-5", **CALLED}),
    ],
)
async def test_one_model_is_the_clients_apis_too(start: Start, client: Api, server: Api, model: Any, expected: Any) -> None:
    async with start(reply(model), reply({"error": {"message": "none", "code": 404}}, 404), **before(server)) as proxy:
        headers = {"x_goog_api_key": "k"} if client == "gemini" else {}
        one = "/v1beta/models/gpt-5" if client == "gemini" else "/v1/models/gemini-2.5-pro"
        found, missing = await proxy.get(one, **headers), await proxy.get(one, **headers)
    assert (expected, 404, "none") == (found.json, missing.status, missing.json["error"]["message"])


FALLBACK = "retries: {attempts: 0}, fallback: [other]"


@pytest.mark.parametrize(("more", "expected"), [({}, 200), ({"seed": 1}, 503)])
async def test_a_fallback_of_another_kind_takes_what_it_can(
    start: Start, more: dict[str, Any], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ScriptedUpstream(reply(WHOLE["text"]["messages"])) as other:
        busy = reply({"error": {"message": "too busy"}}, 503)
        second = f"  other: {{kind: anthropic, base_url: '{other.base_url}', api_key: k, retries: {{attempts: 0}}}}\n"
        async with start(busy, upstream_options=FALLBACK, apis="[chat, responses]", more_upstreams=second) as proxy:
            answer: Answer = await proxy.post({**ASKED["chat"], **more})
            assert (expected, 200 == expected) == (answer.status, bool(other.calls))
            if expected == 200:
                assert gist("messages", WHOLE["text"]["messages"]) == gist("chat", answer.json)
                assert ("k", "/v1/messages") == (other.calls[0].headers["x-api-key"], other.calls[0].path)


async def test_a_fallback_that_holds_no_conversation_is_not_told_what_a_hidden_call_gave(start: Start) -> None:
    calls = [responses_api.call_item(FIND, '{"q": "hotel"}', "own_1"), responses_api.call_item("weather", "{}")]
    result = {"type": "function_call_output", "call_id": "call_1", "output": "Sun"}
    busy = reply({"error": {"message": "too busy"}}, 503)
    async with ScriptedUpstream(reply(WHOLE["text"]["messages"])) as other:
        second = f"  other: {{kind: anthropic, base_url: '{other.base_url}', api_key: k, retries: {{attempts: 0}}}}\n"
        replies = (reply(responses_api.response(*calls)), busy)
        async with start(*replies, policy=TAP, stages=ALL, upstream_options=FALLBACK, more_upstreams=second) as proxy:
            await proxy.post(ASKED["responses"], "/v1/responses")
            got = await proxy.post({"model": "m", "previous_response_id": "resp_1", "input": [result]}, "/v1/responses")
            sent = json.loads(other.calls[0].body)["messages"]
    assert 200 == got.status
    assert ["call_1"] == [
        block["tool_use_id"] for one in sent for block in one["content"] if one["role"] == "user" and "tool_use_id" in block
    ]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("policy", DELIVERIES)
@pytest.mark.parametrize("client", ["responses", "messages"])
async def test_the_proxy_answers_its_own_tools(start: Start, client: Api, policy: str, streams: bool) -> None:
    calls, last = calling(called(), text="I look."), chat_api.whole("Booked.")
    replies = [stream(chat_api.chunks({**calls, "usage": chat_api.USAGE})), stream(chat_api.chunks(last))]
    async with start(*(replies if streams else [reply(calls), reply(last)]), policy=policy, stages=ALL, apis="[chat]") as proxy:
        answer = await proxy.post({**AGENT[client], "stream": streams}, path(client))
        found = read(client, answer.body) if streams else answer.json
        said = gist(client, found)
        assert (True, []) == ("Booked." in said["text"], said["calls"])
        results = [m["content"] for m in json.loads(proxy.upstream.calls[1].body)["messages"] if m["role"] == "tool"]
        assert "found for hotel" == results[-1]


@pytest.mark.parametrize("client", ["responses", "messages"])
async def test_a_schema_is_held_to_before_another_kind_of_server(start: Start, client: Api) -> None:
    """The answer is asked for again until it has the form that the client wants."""
    form = SEEN[client].get("text") or SEEN[client]["output_config"]
    body = {**ASKED[client], **({"text": form} if client == "responses" else {"output_config": form})}
    wrong, right = chat_api.whole('{"path": 5}'), chat_api.whole('{"path": "a.txt"}')
    policy = "name: strict\ndelivery: hold\nstages: [schema]\n"
    async with start(reply(wrong), reply(right), policy=policy, apis="[chat]") as proxy:
        answer = await proxy.post(body, path(client))
        assert '{"path": "a.txt"}' == gist(client, answer.json)["text"]
