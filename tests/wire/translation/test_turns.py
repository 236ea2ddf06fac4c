"""What servers with chat templates, and Messages, want of a conversation's order; and what must not be lost on the way."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Usage
from proxy.ports.upstream import Past
from proxy.wire.answers import usage_in
from proxy.wire.bodies import exact
from proxy.wire.translation.neutral import Call, Result, Text, Turn, fit_template
from tests import gemini, responses_api
from tests.messages import message
from tests.wire.translation import chat_api
from tests.wire.translation.pairs import asked, chat, exchange, messages, responses, said


def _payloads(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in stream.decode().splitlines() if line.startswith("data: {")]


TURN = {"role": "user", "content": "go"}


def roles(body: dict[str, Any]) -> list[str]:
    return [one["role"] for one in body["messages"]]


@pytest.mark.parametrize(
    ("client", "body"),
    [
        ("responses", responses(said("<permissions>", "developer"), said("hi"), instructions="You are Codex.")),
        ("messages", messages({"role": "user", "content": "hi"}, system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])),
    ],
)
def test_system_messages_in_front_are_one(client: Any, body: dict[str, Any]) -> None:
    assert roles(asked(client, "chat", body)) == ["system", "user"]


def test_a_later_system_message_is_in_the_users_turn_where_it_stood() -> None:
    body = responses(said("hi"), said("now read-only", "developer"), said("go"), instructions="S")
    found = asked("responses", "chat", body)["messages"]
    assert found == [{"role": "system", "content": "S"}, {"role": "user", "content": "hi\n\n<system>\nnow read-only\n</system>\n\ngo"}]


def test_the_apis_own_server_gets_them_as_they_stand() -> None:
    body = responses(said("hi"), said("now read-only", "developer"), said("go"), instructions="S")
    assert roles(asked("responses", "chat", body, newest=True)) == ["system", "user", "system", "user"]


PARTS = {"system": [Text("s", "")], "user": [Text("u", "")], "assistant": [Text("a", ""), Call("1", "f", "{}", "")]}
TURNS = st.lists(st.sampled_from(["system", "user", "assistant"]), min_size=1, max_size=12)


@given(TURNS)
def test_turns_alternate_behind_one_system_message_and_nothing_is_lost(sides: list[str]) -> None:
    turns = [Turn(side, [*PARTS[side]], "") for side in sides]
    found = [turn.role for turn in fit_template(turns)]
    assert "system" not in found[1:]
    assert all(a != b for a, b in pairwise(found))
    said_before = "".join(part.text for turn in turns for part in turn.parts if isinstance(part, Text))
    said_after = "".join(part.text for turn in fit_template(turns) for part in turn.parts if isinstance(part, Text))
    assert [c for c in said_after.replace("<system>", "").replace("</system>", "") if c.isalpha()] == list(said_before)
    calls = sum(isinstance(part, Call) for turn in fit_template(turns) for part in turn.parts)
    assert calls == sides.count("assistant")


def test_results_stay_directly_behind_their_calls() -> None:
    turns = [
        Turn("assistant", [*PARTS["assistant"]], ""),
        Turn("user", [Result("1", (Text("r", ""),), "")], ""),
        Turn("user", [*PARTS["user"]], ""),
    ]
    assert [[type(part).__name__ for part in turn.parts] for turn in fit_template(turns)] == [["Text", "Call"], ["Result", "Text"]]


CALLS = [{"type": "function_call", "call_id": f"call_{i}", "name": "read", "arguments": "{}"} for i in (1, 2)]
OUTPUTS = [{"type": "function_call_output", "call_id": f"call_{i}", "output": f"r{i}"} for i in (1, 2)]
STEERED = responses(said("go"), *CALLS, OUTPUTS[0], said("not that", "developer"), said("faster"), OUTPUTS[1], said("done?"))


@pytest.mark.parametrize("newest", [False, True])
def test_what_was_said_while_tools_ran_stands_behind_their_results_before_chat(newest: bool) -> None:
    found = asked("responses", "chat", STEERED, newest=newest)
    assert ["user", "assistant", "tool", "tool"] == roles(found)[:4]
    assert ["r1", "r2"] == [one["content"] for one in found["messages"][2:4]]
    assert all(text in json.dumps(found["messages"][4:]) for text in ("not that", "faster", "done?"))


def test_what_was_said_while_tools_ran_stands_behind_their_results_before_messages() -> None:
    body = responses(said("go"), *CALLS, OUTPUTS[0], said("faster"), OUTPUTS[1])
    kinds = [block["type"] for block in asked("responses", "messages", body)["messages"][2]["content"]]
    assert ["tool_result", "tool_result", "text"] == kinds


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, {"role": "user", "content": " "}],
            ["user", "assistant", "user"],
        ),
        ([{"role": "user", "content": ""}], ["user"]),
        ([{"role": "assistant", "content": "Hello."}, TURN], ["user", "assistant", "user"]),
        ([{"role": "system", "content": "S"}, {"role": "assistant", "content": "Hello."}, TURN], ["user", "assistant", "user"]),
        ([{"role": "system", "content": "Write a haiku."}], ["user"]),
        ([], []),
    ],
)
def test_before_messages_the_user_begins_and_is_not_left_out(turns: list[dict[str, Any]], expected: list[str]) -> None:
    found = asked("chat", "messages", chat(*turns))
    assert roles(found) == expected
    assert all(one["content"] for one in found["messages"])
    before_gemini = asked("chat", "gemini", chat(*turns))["contents"]
    assert expected == [{"model": "assistant"}.get(one["role"], one["role"]) for one in before_gemini]


def test_claude_codes_billing_line_goes_to_no_other_server() -> None:
    system = [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"}, {"type": "text", "text": "You code."}]
    assert asked("messages", "chat", messages(TURN, system=system))["messages"][0] == {"role": "system", "content": "You code."}
    found = json.dumps(asked("messages", "responses", messages(TURN, system=system)))
    assert ("You code." in found, "billing" in found) == (True, False)


def test_a_jpegs_other_name_is_known() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/jpg;base64,/9j/4AAQ"}}
    found = asked("chat", "messages", chat({"role": "user", "content": [part]}))
    assert found["messages"][0]["content"][0]["source"]["media_type"] == "image/jpeg"


BIG = "123456789012345678901234567890"


def test_integers_are_kept_to_the_last_digit() -> None:
    call = chat_api.call("f", f'{{"id": {BIG}, "few": -12, "n": [{BIG}]}}')
    answer = exchange("messages", "chat").answer(json.dumps(chat_api.whole(None, "tool_calls", tool_calls=[call])).encode())
    assert json.loads(answer)["content"][0]["input"] == {"id": int(BIG), "few": -12, "n": [int(BIG)]}
    turns = [TURN, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {"id": int(BIG)}}]}]
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]}
    found = asked("messages", "chat", messages(*turns, results))
    assert json.loads(found["messages"][1]["tool_calls"][0]["function"]["arguments"]) == {"id": int(BIG)}


@pytest.mark.parametrize("text", ["{", '{"a": NaN}', "[" * 5000 + BIG + "]" * 5000, '{"a": 01}' + BIG])
def test_what_is_no_json_is_none_beside_big_integers_either(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        exact(text)


def test_made_ids_of_calls_never_repeat() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = json.dumps(chat_api.whole(None, "tool_calls", tool_calls=[call, call])).encode()
    ids = [block["id"] for _ in range(3) for block in json.loads(exchange("messages", "chat").answer(body))["content"]]
    assert len(set(ids)) == 6


def test_tokens_written_to_a_cache_are_told() -> None:
    details = {"cached_tokens": 3, "cache_write_tokens": 4}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "prompt_tokens_details": details}
    body = json.dumps({**chat_api.whole(), "usage": usage}).encode()
    told = json.loads(exchange("messages", "chat").answer(body))["usage"]
    assert (3, 4, 3) == (told["input_tokens"], told["cache_creation_input_tokens"], told["cache_read_input_tokens"])
    assert 4 == json.loads(exchange("responses", "chat").answer(body))["usage"]["input_tokens_details"]["cache_write_tokens"]


def test_tokens_that_a_cache_keeps_for_an_hour_are_told() -> None:
    kept = {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 3}
    usage = {"input_tokens": 6, "output_tokens": 5, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 0, "cache_creation": kept}
    there = exchange("chat", "messages").answer(json.dumps(message(usage=usage)).encode())
    back = exchange("messages", "chat").answer(there)
    assert usage == json.loads(back)["usage"]
    found = [usage_in("chat", json.loads(there)["usage"]), usage_in("messages", json.loads(back)["usage"])]
    assert [Usage(10, 5, 0, 4, 0, 3)] * 2 == found


def test_a_stream_that_fails_at_once_begins_with_event_number_0() -> None:
    stream = exchange("responses", "chat").feed(b'data: {"error": {"message": "Rate limit", "code": 429}}\n\n')
    found = _payloads(stream)
    assert list(range(len(found))) == [one["sequence_number"] for one in found]
    assert ["response.created", "response.in_progress", "error", "response.failed"] == [one["type"] for one in found]


def test_message_start_estimates_the_prompts_tokens() -> None:
    translating = exchange("messages", "chat")
    translating.request(json.dumps(messages({"role": "user", "content": "word " * 400})).encode(), None)  # type: ignore[arg-type]
    first = _payloads(translating.feed(chat_api.chunk({"role": "assistant", "content": "Hi"})))[0]
    assert 450 < first["message"]["usage"]["input_tokens"] < 700


def test_before_messages_results_stand_in_front_of_what_the_user_says_with_them() -> None:
    contents = [
        gemini.said(gemini.text("go")),
        gemini.said(gemini.call("read", {}, "call_1"), role="model"),
        gemini.said(gemini.text("Hurry."), gemini.result({"output": "At noon."}, "read", "call_1")),
    ]
    found = asked("gemini", "messages", {"model": "m", "contents": contents})["messages"][-1]["content"]
    assert ["tool_result", "text"] == [block["type"] for block in found]


@pytest.mark.parametrize("server", ["chat", "responses"])
def test_a_tools_name_that_is_too_long_is_another_before_the_server_and_the_clients_own_in_the_answer(server: Any) -> None:
    names = [f"mcp__{'library' * 8}__search_{what}" for what in ("books", "maps")]
    used = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": names[0], "input": {}}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "None."}]}
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in (*names, "read")]
    found = exchange("messages", server)
    asking = messages(TURN, used, result, tools=tools, tool_choice={"type": "tool", "name": names[0]})
    body = json.loads(found.request(json.dumps(asking).encode(), Past()))
    sent = [tool["function"]["name"] if server == "chat" else tool["name"] for tool in body["tools"]]
    assert (3, "read", True) == (len(set(sent)), sent[2], all(len(name) <= 64 for name in sent))
    assert 3 == json.dumps(body).count(sent[0])  # the tool, its call, and the choice
    answer: dict[str, Any] = chat_api.whole("", tool_calls=[chat_api.call(sent[1], "{}")])
    if server == "responses":
        answer = responses_api.response(responses_api.call_item(sent[1], "{}"))
    block = json.loads(found.answer(json.dumps(answer).encode()))["content"][-1]
    assert ("tool_use", names[1]) == (block["type"], block["name"])


def test_a_long_name_is_left_to_a_server_that_takes_it() -> None:
    name = "n" * 70
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    assert name == asked("chat", "messages", chat(TURN, tools=[tool]))["tools"][0]["name"]
