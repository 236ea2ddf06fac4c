"""What a provider keeps under the operator's key belongs to the client that made it: another one cannot read, continue or delete it."""

import gzip
import json
from hashlib import sha256
from typing import Any

import pytest

from proxy.testing import reply
from tests.conftest import Answer, Running, Start

ANN, BOB = "gw-ann", "gw-bob"
KEYS = "keys: [" + ", ".join(f"{{name: {k[3:]}, sha256: {sha256(k.encode()).hexdigest()}}}" for k in (ANN, BOB)) + "]\n"
LIMITED = KEYS.replace("}", ", limits: {rpm: 100}}")
"""Their bodies are read for what they take, also on paths that are passed on."""
PASSES = "passthrough: [responses, conversations, files]"
ANSWER: dict[str, Any] = {"id": "resp_ann", "object": "response", "status": "completed", "output": [
    {"type": "message", "id": "msg_ann", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "Your code word is Zanzibar.", "annotations": []}]}]}  # fmt: skip
NAMING: list[tuple[str, dict[str, Any]]] = [
    ("/v1/responses", {"previous_response_id": "resp_ann", "input": "Go on."}),
    ("/v1/responses", {"conversation": "conv_ann", "input": "Go on."}),
    ("/v1/responses", {"conversation": {"id": "conv_ann"}, "input": "Go on."}),
    ("/v1/responses", {"input": [{"type": "item_reference", "id": "msg_ann"}, {"role": "user", "content": "Go on."}]}),
    ("/v1/responses", {"input": [{"id": "msg_ann"}, {"role": "user", "content": "Go on."}]}),
    ("/v1/responses/input_tokens", {"previous_response_id": "resp_ann", "input": "Go on."}),
    ("/v1/responses/compact", {"previous_response_id": "resp_ann"}),
    ("/v1/conversations/conv_bob/items", {"items": []}),
    ("/v1/conversations", {"items": [{"type": "item_reference", "id": "msg_ann"}]}),
]
PATHS = [
    ("GET", "/v1/responses/resp_ann"),
    ("DELETE", "/v1/responses/resp_ann"),
    ("GET", "/v1/responses/resp_ann/input_items"),
    ("POST", "/v1/responses/resp_ann/cancel"),
    ("GET", "/v1/conversations/conv_ann/items"),
    ("DELETE", "/v1/conversations/conv_ann"),
    ("GET", "/v1/files/file_ann/content"),
]


def streamed(answer: dict[str, Any]) -> Any:
    events = [{"type": "response.created", "response": {**answer, "output": []}}, {"type": "response.completed", "response": answer}]
    body = b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)
    return reply(body, headers={"content-type": "text/event-stream"})


async def ask(proxy: Running, key: str, method: str, path: str, body: Any = None) -> Answer:
    sent = None if body is None else json.dumps({"model": "gpt-4o", **body}).encode()
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    async with proxy._session.request(method, proxy.url + path, data=sent, headers=headers) as found:
        return Answer(found, await found.read())


async def made_by_ann(proxy: Running) -> None:
    for path in ("/v1/responses", "/v1/conversations", "/v1/files"):
        assert 200 == (await ask(proxy, ANN, "POST", path, {"input": "My code word is Zanzibar."})).status


MADE = [reply(ANSWER), reply({"id": "conv_ann", "object": "conversation"}), reply({"id": "file_ann", "object": "file"})]


@pytest.mark.parametrize("keys", [KEYS, LIMITED], ids=["keys", "limited"])
@pytest.mark.parametrize(("path", "body"), NAMING)
async def test_another_client_goes_on_from_nothing(path: str, body: dict[str, Any], keys: str, start: Start) -> None:
    async with start(*MADE, config=keys, route_options=PASSES) as proxy:
        await made_by_ann(proxy)
        answer = await ask(proxy, BOB, "POST", path, body)
    assert (404, "not_found", 3) == (answer.status, answer.json["error"]["code"], len(proxy.upstream.calls))


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_another_client_neither_reads_nor_ends_it_and_its_owner_does(method: str, path: str, start: Start) -> None:
    async with start(*MADE, reply(ANSWER), config=KEYS, route_options=PASSES) as proxy:
        await made_by_ann(proxy)
        bob = await ask(proxy, BOB, method, path)
        unknown = await ask(proxy, BOB, method, path.replace("_ann", "_nobody"))
        ann = await ask(proxy, ANN, method, path)
    assert (404, 404, 200, 4) == (bob.status, unknown.status, ann.status, len(proxy.upstream.calls))


@pytest.mark.parametrize("stages", ["[]", "[claims: {}]"])
async def test_the_owner_goes_on_from_a_stream_over_a_restart(stages: str, start: Start) -> None:
    policy = f"name: p\ndelivery: tap\nstages: {stages}\n"
    async with start(streamed(ANSWER), config=KEYS, policy=policy) as proxy:
        assert 200 == (await ask(proxy, ANN, "POST", "/v1/responses", {"input": "Hi", "stream": True})).status
    follow = {
        "input": [{"type": "item_reference", "id": "msg_ann"}, {"role": "user", "content": "On."}],
        "previous_response_id": "resp_ann",
    }
    async with start(reply(ANSWER), config=KEYS, policy=policy) as proxy:
        bob = await ask(proxy, BOB, "POST", "/v1/responses", follow)
        ann = await ask(proxy, ANN, "POST", "/v1/responses", follow)
    assert (404, 200) == (bob.status, ann.status)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","previous_response_id":"resp_ann","input":"Go on.","previous_response_id":null}',
        b'{"model":"m","PREVIOUS_response_id":"resp_ann","input":"Go on."}',
        b'{"model":"m","input":[{"ID":"msg_ann"},{"role":"user","content":"Go on."}]}',
        '{"model":"m","previous_re\u017fponse_id":"resp_ann","input":"Go on."}'.encode(),
    ],
)
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/compact"])
async def test_a_key_that_servers_read_differently_does_not_hide_a_name(path: str, body: bytes, start: Start) -> None:
    policy = "name: p\ndelivery: tap\nstages: []\n"
    async with start(*MADE, config=KEYS, policy=policy, route_options=PASSES) as proxy:
        await made_by_ann(proxy)
        answer = await proxy.post(body, path, authorization=f"Bearer {BOB}")
    assert (400, 3) == (answer.status, len(proxy.upstream.calls))


@pytest.mark.parametrize("keys", [KEYS, ""], ids=["keys", "none"])
@pytest.mark.parametrize("path", ["/v1/responses/compact", "/v1/conversations"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"m","previous_response_id":"resp_ann","temperature":NaN}',
        b'{"model":"m","previous_response_id":"resp_ann"}{}',
        '{"model":"m","previous_response_id":"resp_ann"}'.encode("utf-16"),
        b'\xef\xbb\xbf{"model":"m","previous_response_id":"resp_ann"}',
        b'{"model":"m","previous_response_id":"resp_ann","user":' + b"[" * 1100 + b"]" * 1100 + b"}",
    ],
)
async def test_a_body_that_only_other_readers_take_for_json_does_not_hide_a_name(body: bytes, path: str, keys: str, start: Start) -> None:
    async with start(*MADE, config=keys, route_options=PASSES) as proxy:
        await made_by_ann(proxy)
        answer = await proxy.post(body, path, authorization=f"Bearer {BOB}")
    assert (400, 3) == (answer.status, len(proxy.upstream.calls))


@pytest.mark.parametrize("keys", [KEYS, LIMITED], ids=["keys", "limited"])
async def test_a_compressed_body_does_not_hide_a_name(keys: str, start: Start) -> None:
    async with start(*MADE, config=keys, route_options=PASSES) as proxy:
        await made_by_ann(proxy)
        packed = gzip.compress(b'{"model":"m","previous_response_id":"resp_ann","input":"Go on."}')
        for path in ("/v1/responses", "/v1/responses/input_tokens"):
            assert 404 == (await proxy.post(packed, path, authorization=f"Bearer {BOB}", content_encoding="gzip")).status
    assert 3 == len(proxy.upstream.calls)


async def test_without_keys_what_is_not_remembered_passes_and_what_is_anothers_does_not(start: Start) -> None:
    async with start(reply(ANSWER)) as proxy:
        unknown = await ask(proxy, "one", "GET", "/v1/responses/resp_from_before")
        made = await ask(proxy, "one", "POST", "/v1/responses", {"input": "Hi"})
        own = await ask(proxy, "one", "GET", "/v1/responses/resp_ann")
        other = await ask(proxy, "another", "GET", "/v1/responses/resp_ann")
    assert (200, 200, 200, 404) == (unknown.status, made.status, own.status, other.status)


THOUGHT = {"type": "reasoning", "id": "msg_ann", "summary": [{"type": "summary_text", "text": "Hm."}]}
DRAWN = {"type": "image_generation_call", "id": "msg_ann", "status": "completed"}


@pytest.mark.parametrize("keys", [KEYS, ""], ids=["keys", "none"])
@pytest.mark.parametrize(
    ("item", "status"),
    [
        (ANSWER["output"][0], 200),
        ({**ANSWER["output"][0], "content": []}, 404),
        ({**THOUGHT, "encrypted_content": "gAAAB=="}, 200),
        ({**THOUGHT, "encrypted_content": None}, 404),
        ({**THOUGHT, "content": [{"type": "reasoning_text", "text": "Hm."}]}, 404),
        ({"type": "function_call", "id": "msg_ann", "call_id": "c", "name": "weather", "arguments": "{}"}, 200),
        ({**DRAWN, "result": "iVBORw0="}, 200),
        (DRAWN, 404),
        ({"type": "compaction", "id": "msg_ann", "encrypted_content": "gAAAB=="}, 200),
    ],
)
async def test_an_item_that_is_brought_with_its_content_needs_no_owner(item: dict[str, Any], status: int, keys: str, start: Start) -> None:
    async with start(reply(ANSWER), config=keys, route_options=PASSES) as proxy:
        await ask(proxy, ANN, "POST", "/v1/responses", {"input": "Hi"})
        body = {"input": [item, {"role": "user", "content": "Go on."}], "store": False}
        for path in ("/v1/responses", "/v1/responses/input_tokens"):
            assert status == (await ask(proxy, BOB, "POST", path, body)).status


async def test_where_a_clients_own_key_goes_on_the_upstream_judges(start: Start) -> None:
    async with start(reply(ANSWER), api_key="forward") as proxy:
        await ask(proxy, "one", "POST", "/v1/responses", {"input": "Hi"})
        assert 200 == (await ask(proxy, "renewed", "GET", "/v1/responses/resp_ann")).status


async def test_a_list_shows_a_client_its_own(start: Start) -> None:
    listed = reply({"object": "list", "data": [{"id": "file_ann"}, {"id": "file_of_operator"}], "has_more": False})
    async with start(reply({"id": "file_ann", "object": "file"}), listed, config=KEYS, route_options=PASSES) as proxy:
        await ask(proxy, ANN, "POST", "/v1/files", {})
        ann, bob = await ask(proxy, ANN, "GET", "/v1/files"), await ask(proxy, BOB, "GET", "/v1/files")
    assert ([{"id": "file_ann"}], []) == (ann.json["data"], bob.json["data"])


@pytest.mark.parametrize(("made", "first"), [("file_ann", "file_ann"), ("file_of_nobody_here", None)])
async def test_the_ends_of_a_list_name_nothing_of_anothers(made: str, first: str | None, start: Start) -> None:
    rows = [{"id": "file_of_operator"}, {"id": "file_ann"}, {"id": "file_of_another"}]
    listed = reply({"object": "list", "data": rows, "first_id": "file_of_operator", "last_id": "file_of_another", "has_more": True})
    async with start(reply({"id": made, "object": "file"}), listed, config=KEYS, route_options=PASSES) as proxy:
        await ask(proxy, ANN, "POST", "/v1/files", {})
        found = (await ask(proxy, ANN, "GET", "/v1/files")).json
    assert (first, first, True) == (found["first_id"], found["last_id"], found["has_more"])


async def test_batches_of_messages_have_owners(start: Start) -> None:
    batch, listed = {"id": "msgbatch_ann", "type": "message_batch"}, {"data": [{"id": "msgbatch_ann"}], "has_more": False}
    async with start(reply(batch), reply(listed), config=KEYS, route_options="passthrough: [messages/batches]") as proxy:
        await ask(proxy, ANN, "POST", "/v1/messages/batches", {"requests": []})
        rows = (await ask(proxy, BOB, "GET", "/v1/messages/batches")).json["data"]
        paths = [("GET", ""), ("GET", "/results"), ("POST", "/cancel"), ("DELETE", "")]
        found = [(await ask(proxy, BOB, method, f"/v1/messages/batches/msgbatch_ann{below}")).status for method, below in paths]
    assert ([], [404] * 4, 2) == (rows, found, len(proxy.upstream.calls))


async def test_a_store_that_is_away_lets_nobody_in_and_loses_nobody(start: Start) -> None:
    async with start(*MADE, reply(ANSWER), config=KEYS, route_options=PASSES) as proxy:
        await made_by_ann(proxy)
        await proxy.app.database.stop()
        ann, bob = await ask(proxy, ANN, "GET", "/v1/responses/resp_ann"), await ask(proxy, BOB, "GET", "/v1/responses/resp_x")
        await proxy.app.database.start()
    assert (200, 503) == (ann.status, bob.status)
