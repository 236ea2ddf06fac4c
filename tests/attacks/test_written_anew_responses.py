"""Responses under a closed policy: nothing leaves that was not read, and nothing is lost of an ordinary answer."""

import json
from typing import Any

import pytest

from proxy.testing import reply, stream
from proxy.wire.responses.dialect import ResponsesDialect
from tests import responses_api as api
from tests.attacks.geographer import ALL, FALSE, TRUE, policy
from tests.conftest import Start
from tests.exchanges import Exchanged, recorded
from tests.responses_api import call_item, encode, event, events, response, text_item

PATH = "/v1/responses"
ASK = {"model": "gpt-5", "input": "Where does the tower stand?", "instructions": "Be short."}
STREAM = {**ASK, "stream": True}
TOOLS = {"tools": [{"type": "function", "name": "look_up", "parameters": {"type": "object", "properties": {}}}, {"type": "web_search"}]}
Item = dict[str, Any]


def of(kind: str, **fields: object) -> Item:
    return {"id": f"{kind}_1", "type": kind, "status": "completed", **fields}


def with_part(*parts: object, **fields: object) -> Item:
    return {**text_item(" Yes.", identity="msg_2"), "content": [{**text_item(" Yes.")["content"][0], **fields}, *parts]}


TOKEN = {"token": FALSE, "logprob": -0.1, "bytes": [], "top_logprobs": []}
ITEMS: dict[str, Any] = {
    "an unknown item": of("note", text=FALSE, content=[{"type": "output_text", "text": FALSE}]),
    "a string": FALSE,
    "content that is a string": {**text_item(identity="msg_2"), "content": FALSE},
    "a part of an unknown type": with_part({"type": "note", "text": FALSE}),
    "a part that is a string": with_part(FALSE),
    "a text that is an object": with_part({"type": "output_text", "text": {"value": FALSE}, "annotations": []}),
    "a title": with_part(
        annotations=[{"type": "url_citation", "url": "https://a.example/", "title": FALSE, "start_index": 0, "end_index": 3}]
    ),
    "a file's name": with_part(annotations=[{"type": "file_citation", "file_id": "f", "filename": FALSE, "index": 0}]),
    "a note in a citation": with_part(annotations=[{"type": "file_path", "file_id": "f", "index": 0, "quote": FALSE}]),
    "tokens that say something else": with_part(logprobs=[TOKEN]),
    "a field of a part": with_part(display=FALSE),
    "what a program wrote": of("code_interpreter_call", code="1", container_id="c", outputs=[{"type": "logs", "logs": FALSE}]),
    "what a file says": of("file_search_call", queries=["q"], results=[{"file_id": "f", "filename": FALSE, "text": FALSE, "score": 1}]),
    "what a server said": of("mcp_call", name="say", server_label="s", arguments="{}", output=FALSE, error=FALSE),
    "what a server's tools are said to be": of(
        "mcp_list_tools", server_label="s", tools=[{"name": "x", "description": FALSE, "input_schema": {}}]
    ),
    "an image": of("image_generation_call", result="Um9tZQ==", revised_prompt=FALSE),
    "a tool's result": of("function_call_output", call_id="c", output=FALSE),
    "a call of a tool that was not offered": call_item("say", json.dumps({"text": FALSE})),
    "a custom call that was not offered": of("custom_tool_call", call_id="c", name="say", input=FALSE),
    "a command that nobody offered": of("local_shell_call", call_id="c", action={"type": "exec", "command": ["echo", FALSE]}),
    "a program that nobody offered": of("code_interpreter_call", code=f"say('{FALSE}')", container_id="c", outputs=[]),
    "a click that nobody offered": of("computer_call", call_id="c", action={"type": "type", "text": FALSE}, pending_safety_checks=[]),
    "an approval that nobody asked for": of("mcp_approval_request", name=FALSE, server_label="s", arguments="{}"),
}
AROUND: dict[str, Any] = {
    "the text once more": {"output_text": FALSE},
    "an unknown field": {"answer": FALSE, "text": {"format": {"type": "text"}, "value": FALSE}},
    "other instructions": {"instructions": FALSE},
    "other data of the client's": {"metadata": {"note": FALSE}, "user": FALSE, "prompt_cache_key": FALSE},
    "other tools": {"tools": [{"type": "function", "name": "say", "description": FALSE, "parameters": {}}]},
    "an error beside an answer": {"error": {"code": "server_error", "message": FALSE}},
    "a status": {"status": "completed", "incomplete_details": {"reason": "x", "note": FALSE}},
    "usage with words": {"usage": {**api.USAGE, "note": FALSE}},
}


def said(body: Any) -> list[str]:
    return [part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"]]


async def test_of_a_body_only_what_was_read_leaves(start: Start) -> None:
    bodies = {shape: response(text_item(TRUE), item) for shape, item in ITEMS.items()}
    bodies |= {shape: response(text_item(TRUE), **fields) for shape, fields in AROUND.items()}
    async with start(*map(reply, bodies.values()), policy=policy(), stages=ALL) as proxy:
        answers = {shape: await proxy.post({**ASK, **TOOLS}, PATH) for shape in bodies}
    assert [] == [shape for shape, got in answers.items() if b"Rome" in got.body or b"Um9tZQ" in got.body]
    assert dict.fromkeys(bodies, (200, TRUE)) == {shape: (got.status, said(got.json)[0]) for shape, got in answers.items()}


EVENTS: dict[str, list[Item]] = {
    "an unknown event": [event("response.note", text=FALSE, output_index=0)],
    "an unknown event with a delta": [event("response.output_markup.delta", delta=FALSE, output_index=0, content_index=0)],
    "a delta that is no text": [event("response.output_text.delta", delta={"text": FALSE}, output_index=0, content_index=0)],
    "a delta of no item": [event("response.output_text.delta", delta=FALSE)],
    "a delta of a part that is unknown": [
        event("response.content_part.added", output_index=0, content_index=1, part={"type": "note", "text": FALSE}),
        event("response.output_text.delta", delta=FALSE, output_index=0, content_index=1),
        event("response.content_part.done", output_index=0, content_index=1, part={"type": "note", "text": FALSE}),
    ],
    "a delta of an item that is unknown": [
        event("response.output_item.added", output_index=1, item=of("note", text=FALSE)),
        event("response.output_text.delta", delta=FALSE, output_index=1, content_index=0),
        event("response.output_item.done", output_index=1, item=of("note", text=FALSE)),
    ],
    "a call that was not offered": [
        event("response.output_item.added", output_index=1, item=call_item("say", "")),
        event("response.function_call_arguments.delta", output_index=1, delta=FALSE),
        event("response.output_item.done", output_index=1, item=call_item("say", FALSE)),
    ],
    "what a call takes, of an item that has not begun": [event("response.function_call_arguments.delta", output_index=7, delta=FALSE)],
    "a text of an item that thinks": [
        event("response.output_item.added", output_index=1, item=of("reasoning", summary=[])),
        event("response.output_text.delta", output_index=1, content_index=0, delta=FALSE),
        event("response.output_item.done", output_index=1, item=of("reasoning", summary=[])),
    ],
    "audio": [event("response.audio.transcript.delta", delta=FALSE), event("response.audio.delta", delta="UklGRg==")],
    "an annotation": [
        event(
            "response.output_text.annotation.added",
            output_index=0,
            content_index=0,
            annotation_index=0,
            annotation={"type": "url_citation", "url": "https://a.example/", "title": FALSE, "start_index": 0, "end_index": 3},
        )
    ],
    "padding": [event("response.output_text.delta", delta="", output_index=0, content_index=0, obfuscation=FALSE)],
    "a part that begins with text": [
        event(
            "response.content_part.added", output_index=0, content_index=1, part={"type": "output_text", "text": FALSE, "annotations": []}
        )
    ],
    "a response that begins with text": [event("response.in_progress", response=response(text_item(FALSE), status="in_progress"))],
    "a response that begins with instructions": [event("response.in_progress", response=response(instructions=FALSE))],
    "an item that begins with text": [
        event("response.output_item.added", output_index=1, item=text_item(FALSE, identity="msg_2")),
    ],
    "an item that begins twice": [event("response.output_item.added", output_index=0, item=text_item(FALSE))],
}


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_of_a_stream_only_what_was_read_leaves(delivery: str, start: Start) -> None:
    whole = api.events(text_item(TRUE))
    at = next(i for i, one in enumerate(whole) if b"response.output_text.done" in one)
    streams = {shape: [*whole[:at], *map(encode, events), *whole[at:]] for shape, events in EVENTS.items()}
    async with start(*map(stream, streams.values()), policy=policy(delivery), stages=ALL) as proxy:
        answers = {shape: await proxy.post({**STREAM, **TOOLS}, PATH) for shape in streams}
    assert [] == [shape for shape, got in answers.items() if b"Rome" in got.body]
    assert {shape: [TRUE] for shape in streams} == {
        shape: said(api.decoded(got.body)[-1]["response"])[:1] for shape, got in answers.items()
    }


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("fields", AROUND)
async def test_of_a_snapshot_only_what_was_read_leaves(fields: str, place: str, start: Start) -> None:
    whole = [json.loads(one.split(b"data: ")[1]) for one in api.events(text_item(TRUE))]
    whole[0 if place == "first" else -1]["response"] |= AROUND[fields]
    async with start(stream(list(map(encode, whole))), policy=policy("gate"), stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    assert (200, False) == (got.status, b"Rome" in got.body)


SPLIT = {
    "two parts": [text_item("It stands in R", "ome.")],
    "two messages": [text_item("It stands in R"), text_item("ome.", identity="msg_2")],
    "around thoughts": [text_item("It stands in R"), api.reasoning_item(), text_item("ome.", identity="msg_2")],
    "around what is left out": [text_item("It stands in R"), of("note"), text_item("ome.", identity="msg_2")],
}


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("shape", SPLIT)
async def test_texts_make_no_word_that_was_not_read(shape: str, delivery: str, start: Start) -> None:
    items = SPLIT[shape]
    async with start(reply(response(*items)), stream(api.events(*items)), policy=policy(delivery), stages=ALL) as proxy:
        whole, streamed = await proxy.post(ASK, PATH), await proxy.post(STREAM, PATH)
    events = api.decoded(streamed.body)
    deltas = "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta")
    told = ["".join(said(whole.json)), deltas, "".join(said(events[-1]["response"]))]
    assert ["It stands in R\n\nome."] * 3 == told


async def test_plain_texts_are_not_changed(start: Start) -> None:
    items = [api.reasoning_item(), text_item("Let me look."), call_item("look_up", "{}"), text_item(TRUE, identity="msg_2")]
    body, events = response(*items), api.events(*items)
    async with start(reply(body), stream(events), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        whole, streamed = await proxy.post({**ASK, **TOOLS}, PATH), await proxy.post({**STREAM, **TOOLS}, PATH)
    assert (body, api.decoded(b"".join(events))) == (whole.json, api.decoded(streamed.body))


async def test_items_that_leave_are_counted_without_a_gap(start: Start) -> None:
    items = [of("note"), text_item(TRUE), of("note"), text_item(" Yes.", identity="msg_2")]
    async with start(stream(api.events(*items)), policy=policy(), stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    added = [one["output_index"] for one in api.decoded(got.body) if one["type"] == "response.output_item.added"]
    assert ([0, 1], [TRUE, " Yes."]) == (added, said(api.decoded(got.body)[-1]["response"]))


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_events_that_leave_are_numbered_without_a_gap(delivery: str, start: Start) -> None:
    items = [of("image_generation_call", status="completed", result="iVBORw0="), text_item(TRUE, identity="msg_2")]
    events = [json.loads(one.split(b"data: ")[1]) for one in api.events(*items)]
    events.insert(3, {"type": "response.image_generation_call.partial_image", "output_index": 0, "partial_image_b64": "iVBORw0="})
    numbered = [encode({**one, "sequence_number": number}) for number, one in enumerate(events)]
    async with start(stream(numbered), policy=policy(delivery), stages=ALL) as proxy:
        got = await proxy.post({**STREAM, "tools": [{"type": "image_generation"}]}, PATH)
    numbers = [one["sequence_number"] for one in api.decoded(got.body)]
    assert list(range(len(events) - 1)) == numbers


ORDINARY = [one for one in recorded("responses") if one.status == 200 and one.name != "unknown"]


@pytest.mark.parametrize("one", ORDINARY, ids=lambda one: one.name)
async def test_an_ordinary_stream_says_the_same_behind_the_gate(one: Exchanged, start: Start) -> None:
    async with start(stream([one.events]), policy=policy("gate", unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post(one.streamed_request, PATH)
    answers = []
    for body in (one.events, got.body):
        reader = ResponsesDialect().stream()
        reader.feed(body)
        answers.append((reader.answer, reader.usage, reader.unreadable, reader.complete))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("one", ORDINARY, ids=lambda one: one.name)
async def test_an_ordinary_answer_loses_nothing(one: Exchanged, start: Start) -> None:
    async with start(reply(one.answer), stream([one.events]), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        whole, streamed = await proxy.post(one.request, PATH), await proxy.post(one.streamed_request, PATH)
    assert (json.loads(one.answer), api.decoded(one.events)) == (whole.json, api.decoded(streamed.body))


async def test_what_the_types_of_the_sdk_name_passes(start: Start) -> None:
    token = {"token": TRUE, "logprob": -0.1, "bytes": list(TRUE.encode()), "top_logprobs": []}
    cited = [
        {"type": "url_citation", "url": "https://a.example/p", "title": "a.example", "start_index": 0, "end_index": 3},
        {"type": "file_citation", "file_id": "f", "filename": "tower.pdf", "index": 3},
    ]
    item = text_item(TRUE, annotations=cited)
    item["content"][0]["logprobs"] = [token]
    search = of("web_search_call", action={"type": "search", "query": "the tower", "queries": ["the tower"], "sources": []})
    more = {
        "instructions": "Be short.",
        "metadata": {"run": "a run of mine"},
        "tools": [{**TOOLS["tools"][0], "strict": True, "description": None}, {"type": "web_search", "search_context_size": "medium"}],
        "temperature": 1.0,
        "top_p": 1.0,
        "reasoning": {"effort": "low", "summary": None},
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "truncation": "disabled",
        "store": True,
        "service_tier": "default",
        "previous_response_id": None,
        "user": None,
        "background": False,
        "completed_at": 1700000001,
        "access_programs": {"cyber": "standard"},
        "input_transformations": [{"id": "rs_0", "type": "reasoning", "action": "removed", "reason": "model_mismatch"}],
        "prompt_cache_diagnostics": {"type": "cache_miss", "reason": "model_changed", "cache_missed_tokens": 3},
        "tool_usage": {"web_search": {"num_requests": 1}, "image_gen": {"total_tokens": 0, "input_tokens_details": {"image_tokens": 0}}},
    }
    refusal = {**api.refusal_item("I cannot say."), "id": "msg_3"}
    body = response(api.reasoning_item(), search, item, call_item("look_up", "{}"), refusal, **more)
    async with start(reply(body), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        got = await proxy.post({**ASK, **TOOLS, "metadata": {"run": "a run of mine"}}, PATH)
    assert body == got.json


async def test_items_of_the_providers_own_tools_that_a_client_sends_back_pass(start: Start) -> None:
    tool = {**TOOLS["tools"][0], "strict": False, "defer_loading": True}
    shell = of("shell_call", call_id="c1", action={"commands": ["ls"]}, caller={"type": "direct"})
    printed = {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    items = [
        of("tool_search_call", call_id="c0", execution="server", arguments={"goal": "x"}),
        of("tool_search_output", call_id="c0", execution="server", tools=[tool]),
        {"id": "p_1", "type": "program", "call_id": "c2", "fingerprint": "Ab==", "code": "await look_up({})"},
        {**call_item("look_up", "{}"), "caller": {"type": "program", "caller_id": "c2"}, "async": True},
        of("program_output", call_id="c2", result=""),
        shell,
        of("shell_call_output", call_id="c1", max_output_length=100, output=[printed]),
    ]
    body = response(*items, text_item(TRUE))
    kinds = ("tool_search", "programmatic_tool_calling", "shell")
    async with start(reply(body), stream(events(*items, text_item(TRUE))), policy=policy(unknown="refuse"), stages=ALL) as proxy:
        asked = {**ASK, "tools": [tool, *({"type": kind} for kind in kinds)]}
        whole, streamed = await proxy.post(asked, PATH), await proxy.post({**asked, "stream": True}, PATH)
        other = await proxy.post({**ASK, **TOOLS}, PATH)
    assert body["output"] == whole.json["output"] == api.decoded(streamed.body)[-1]["response"]["output"]
    assert 400 == other.status


async def test_a_known_key_has_one_spelling(start: Start) -> None:
    bodies = {"Input": {**ASK, "Input": FALSE}, "Instructions": {**ASK, "Instructions": FALSE}}
    bodies["Role"] = {**ASK, "input": [{"role": "user", "Role": "system", "content": "Hi"}]}
    async with start(reply(response()), policy=policy(), stages=ALL) as proxy:
        answers = {key: await proxy.post(body, PATH) for key, body in bodies.items()}
    assert dict.fromkeys(bodies, 400) == {key: got.status for key, got in answers.items()}
