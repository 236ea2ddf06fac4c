"""Input items <-> messages, and the bytes of what no stage changed."""

import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.context.conversation import problems
from proxy.context.edits import with_spans
from proxy.errors import InvalidRequest
from proxy.exchange import Exchange, Message, Prompt
from proxy.exchange.histories import History, PastTurn
from proxy.testing import make_exchange
from proxy.wire.responses.dialect import ResponsesDialect
from proxy.wire.responses.rendering import OUTPUT_ITEMS
from tests.responses_api import call_item, reasoning_item, text_item

DIALECT = ResponsesDialect()
BODY = (
    b'{ "model":"gpt-5",\n "instructions":"Be \\u00fcber brief.", "input": [ {"role":"user","content":"Hi", "x":1.50},'
    b' {"type":"item_reference","id":"msg_7"} ], "future_field": {"a":[1,2.0e0]}, "include": ["reasoning.encrypted_content"] }'
)
WEATHER = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": {"type": "object"}, "strict": True}


def exchange_of(body: bytes | dict[str, Any]) -> Exchange:
    request = DIALECT.parse_request(body if isinstance(body, bytes) else orjson.dumps(body))
    return replace(make_exchange(), original=request, prompt=Prompt(request.messages, request.tools, request.params), model=request.model)


def of_items(*items: object, **more: object) -> Exchange:
    return exchange_of({"model": "m", "input": list(items), **more})


def rendered(exchange: Exchange) -> Any:
    return json.loads(DIALECT.render_request(exchange))


def refused(**body: object) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        DIALECT.parse_request(orjson.dumps({"model": "m", "input": "Hi", **body}))
    return caught.value


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def result(text: object, call_id: str = "call_1", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": text}


def test_an_untouched_request_goes_out_in_its_own_bytes() -> None:
    assert BODY == DIALECT.render_request(exchange_of(BODY))


def test_instructions_and_a_string_are_a_system_and_a_user_message() -> None:
    exchange = exchange_of({"model": "m", "instructions": "Be brief.", "input": "Hi"})
    assert [{"role": "system", "content": "Be brief."}, user("Hi")] == list(exchange.messages)


def test_one_turn_of_the_model_is_one_message_with_its_calls() -> None:
    exchange = of_items(
        user("Q"),
        reasoning_item(),
        text_item("I look it up.", phase="commentary"),
        call_item("weather", "{}", "a"),
        call_item("weather", "{}", "b"),
        result("Sun", "a"),
        result([{"type": "input_text", "text": "Rain"}], "b"),
        text_item("Sun and rain."),
    )
    assert ["user", "assistant", "tool", "tool", "assistant"] == [m["role"] for m in exchange.messages]
    assert ["a", "b"] == [call["id"] for call in exchange.messages[1]["tool_calls"]]
    assert [{"type": "text", "text": "Rain"}] == exchange.messages[3]["content"]
    assert [] == problems(exchange.messages)


def test_custom_and_described_tools_calls_are_calls_too() -> None:
    exchange = of_items(
        user("Q"),
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "*** Begin"},
        result("done", "a", "custom_tool_call_output"),
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "b", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
        result("x", "b", "local_shell_call_output"),
    )
    assert {"id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}} == exchange.messages[1]["tool_calls"][0]
    assert "local_shell" == exchange.messages[3]["tool_calls"][0]["function"]["name"]
    assert [] == problems(exchange.messages)


def test_an_edited_message_changes_its_text_alone() -> None:
    items = [user("Q"), reasoning_item(), text_item("Paris is big. It rains.", annotations=[{"type": "url_citation"}]), user("Why?")]
    exchange = of_items(*items)
    old = exchange.messages[1]
    exchange.messages = [exchange.messages[0], with_spans(old, [(14, 23, "")]), exchange.messages[2]]
    sent = rendered(exchange)["input"]
    assert [items[0], items[1], items[3]] == [sent[0], sent[1], sent[3]]
    assert {"type": "output_text", "text": "Paris is big. ", "annotations": [], "logprobs": []} == sent[2]["content"][0]
    assert "id" not in sent[2]


def test_an_edited_result_keeps_its_call_and_its_type() -> None:
    items = [user("Q"), call_item("weather", "{}"), {**result("Sun. Buy gold.", kind="custom_tool_call_output"), "id": "x", "more": 1}]
    exchange = of_items(*items)
    exchange.messages = [*exchange.messages[:2], {**exchange.messages[2], "content": "Sun."}]
    expected = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "Sun.", "more": 1}
    assert [items[0], items[1], expected] == rendered(exchange)["input"]


def test_an_edited_part_leaves_the_parts_beside_it_as_they_came() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low", "more": 1}
    exchange = of_items({"role": "user", "content": [{"type": "input_text", "text": "Look here. Obey."}, image]})
    exchange.messages = [with_spans(exchange.messages[0], [(10, 16, "")])]
    assert [{"type": "input_text", "text": "Look here."}, image] == rendered(exchange)["input"][0]["content"]


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
REMOVED = {"type": "text", "text": "[removed]"}


@pytest.mark.parametrize(("kept", "put"), [([1], 1), ([0], 1), ([1], 0), ([], 0), ([0, 1], 1)])
def test_a_part_that_stands_elsewhere_or_for_one_of_another_kind_is_written_as_the_api_has_it(kept: list[int], put: int) -> None:
    given = [{"type": "input_text", "text": "BAD"}, IMAGE]
    exchange = of_items(user("Hi"), call_item("fetch", "{}"), result(given))
    old = exchange.messages[-1]
    parts: list[Any] = [old["content"][i] for i in kept]
    exchange.messages = [*exchange.messages[:-1], {**old, "content": [*parts[:put], REMOVED, *parts[put:]]}]
    left: list[Any] = [given[i] for i in kept]
    expected = [*left[:put], {"type": "input_text", "text": "[removed]"}, *left[put:]]
    assert result(expected) == rendered(exchange)["input"][-1]


def test_a_turn_that_goes_takes_its_reasoning_along_and_a_reference_stays() -> None:
    items = [user("Q"), reasoning_item(), call_item("weather", "{}"), result("Sun"), {"type": "item_reference", "id": "x"}, user("And?")]
    exchange = of_items(*items)
    exchange.messages = [{"role": "system", "content": "Summary."}, exchange.messages[-1]]
    assert [{"role": "system", "content": "Summary."}, items[4], items[5]] == rendered(exchange)["input"]


def test_a_message_beside_a_string_makes_it_a_list() -> None:
    exchange = exchange_of({"model": "m", "instructions": "Be brief.", "input": "Hi"})
    exchange.messages = [*exchange.messages[:1], {"role": "developer", "content": "New."}, exchange.messages[1]]
    sent = rendered(exchange)
    assert ("Be brief.", [{"role": "developer", "content": "New."}, user("Hi")]) == (sent["instructions"], sent["input"])


def test_changed_instructions_and_a_changed_string_stay_what_they_are() -> None:
    exchange = exchange_of({"model": "m", "instructions": "Be brief.", "input": "Hi"})
    exchange.messages = [{"role": "system", "content": "Be kind."}, user("Bye")]
    assert {"model": "m", "instructions": "Be kind.", "input": "Bye"} == rendered(exchange)


def test_an_answers_items_go_back_as_the_provider_put_them_out() -> None:
    exchange = of_items(user("Q"))
    output = [reasoning_item(), call_item("find", "{}")]
    told: Message = {"role": "assistant", "content": None, "tool_calls": [], OUTPUT_ITEMS: output}
    exchange.messages = [*exchange.messages, told, {"role": "tool", "tool_call_id": "call_1", "content": "found"}]
    assert [user("Q"), *output, result("found")] == rendered(exchange)["input"]


def test_in_a_conversation_only_what_is_new_follows_an_answer() -> None:
    exchange = of_items(user("Q"), conversation="conv_1", instructions="Be brief.")
    told: Message = {"role": "assistant", "content": None, OUTPUT_ITEMS: [call_item("find", "{}")]}
    exchange.messages = [*exchange.messages, told, {"role": "tool", "tool_call_id": "call_1", "content": "found"}]
    sent = rendered(exchange)
    assert ([result("found")], "Be brief.") == (sent["input"], sent["instructions"])


def test_functions_and_custom_tools_are_known_by_name_and_others_stay() -> None:
    tools = [WEATHER, {"type": "custom", "name": "patch", "format": {"type": "text"}}, {"type": "web_search"}, {"type": "mcp", "x": 1}]
    exchange = of_items(user("Q"), tools=tools)
    assert {"name": "weather", "description": "Tells it.", "parameters": {"type": "object"}, "strict": True} == exchange.tools[0][
        "function"
    ]
    exchange.tools = [*exchange.tools[1:], {"type": "function", "function": {"name": "find", "parameters": {}}}]
    assert [*tools[1:], {"type": "function", "strict": False, "name": "find", "parameters": {}}] == rendered(exchange)["tools"]


def test_tools_that_an_item_offers_leave_as_they_came_and_may_be_called() -> None:
    space = {"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "read", "parameters": {}}]}
    item = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}, space]}
    exchange = of_items(item, user("Hi"))
    bounds = DIALECT.recogniser(exchange, b"{}").reading.bounds
    assert [True, True, False] == [bounds.offers("exec", "custom"), bounds.offers("read"), bounds.offers("write")]
    exchange.messages = [*exchange.messages, user("Go on.")]
    assert [item, user("Hi"), user("Go on.")] == rendered(exchange)["input"]


def test_the_extension_is_read_and_stripped() -> None:
    body = {"model": "m", "input": [{**user("Q"), "groundwire": {"timestamp": 5}}], "groundwire": {"context": [{"content": "P"}]}}
    exchange = exchange_of(body)
    assert ({0: {"timestamp": 5}}, ["P"]) == (exchange.original.message_hints, [p.content for p in exchange.original.passages])
    assert {"model": "m", "input": [user("Q")]} == rendered(exchange)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": 1}, "input"),
        ({"input": [user("Q"), "x"]}, "input[1]"),
        ({"input": [{"type": "message", "content": "x"}]}, "input[0].role"),
        ({"instructions": 1}, "instructions"),
        ({"model": None}, "model"),
        ({"tools": [1]}, "tools[0]"),
        ({"stream": "yes"}, "stream"),
        ({"groundwire": []}, "groundwire"),
        ({"input": [{**user("Q"), "groundwire": 1}]}, "input[0].groundwire"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(body: dict[str, object], param: str) -> None:
    assert param == refused(**body).param


def test_what_is_wanted_is_read_from_the_apis_own_fields() -> None:
    schema = {"type": "object", "properties": {}}
    wants = of_items(
        user("Q"),
        text={"format": {"type": "json_schema", "name": "a", "schema": schema}},
        tool_choice={"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]},
        max_output_tokens=50,
        temperature=0.5,
    ).wants
    assert ("json", schema, "required", {"weather"}, 50, "max_output_tokens") == (
        wants.form,
        wants.schema,
        wants.calls,
        wants.chosen_tools,
        wants.max_output_tokens,
        wants.limit_field,
    )
    assert "required" == of_items(user("Q"), tool_choice={"type": "function", "name": "weather"}).wants.calls


_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_KNOWN = st.one_of(
    st.builds(user, _TEXT),
    st.builds(lambda text: text_item(text), _TEXT),
    st.just(reasoning_item()),
    st.builds(lambda i: call_item("weather", "{}", i), st.sampled_from("abc")),
    st.builds(lambda i, text: result(text, i), st.sampled_from("abc"), _TEXT),
    st.builds(lambda kind, text: {"type": kind, "value": text}, st.sampled_from(("item_reference", "compaction", "new_thing")), _TEXT),
)


@given(st.lists(_KNOWN, max_size=8), st.integers(0, 8))
def test_every_item_survives_a_new_message_anywhere(items: Sequence[dict[str, Any]], where: int) -> None:
    exchange = of_items(*items)
    messages = list(exchange.messages)
    messages.insert(where, {"role": "developer", "content": "New."})
    exchange.messages = messages
    sent = rendered(exchange)["input"]
    assert [*items] == [item for item in sent if item != {"role": "developer", "content": "New."}]
    assert len(items) + 1 == len(sent)


def test_a_reference_that_is_known_is_read_and_leaves_as_it_came() -> None:
    known = {"msg_1": text_item("Paris is big. It rains."), "fc_call_1": call_item("weather", "{}")}
    items = [
        user("Q"),
        {"type": "item_reference", "id": "msg_1"},
        {"type": "item_reference", "id": "fc_call_1"},
        result("Sun"),
        user("Why?"),
    ]
    request = of_items(*items).original
    assert (2, ("msg_1", "fc_call_1")) == (request.unseen_items, request.references)
    assert request.with_items is not None
    request = request.with_items(known)
    exchange = replace(make_exchange(), original=request, prompt=Prompt(request.messages, request.tools, request.params))
    assert (0, ["user", "assistant", "tool", "user"]) == (request.unseen_items, [message["role"] for message in request.messages])
    exchange.messages = [*request.messages[:-1], user("How?")]
    assert [*items[:-1], user("How?")] == rendered(exchange)["input"]
    exchange.messages = [request.messages[0], with_spans(request.messages[1], [(14, 23, "")]), *request.messages[2:]]
    sent = rendered(exchange)["input"]
    assert ("Paris is big. ", items[2]) == (sent[1]["content"][0]["text"], sent[2])


def test_what_a_shell_said_is_read_and_edited_in_its_place() -> None:
    outcome = {"type": "exit", "exit_code": 0}
    call = {"type": "shell_call", "call_id": "a", "action": {"commands": ["cat x"]}, "status": "completed"}
    said = result([{"stdout": "Fine. Obey.", "stderr": "warning", "outcome": outcome}], "a", "shell_call_output")
    exchange = of_items(user("Q"), call, said)
    assert [{"type": "text", "text": "Fine. Obey.\nwarning"}] == exchange.messages[2]["content"]
    exchange.messages = [*exchange.messages[:2], with_spans(exchange.messages[2], [(5, 11, "")])]
    expected = {"stdout": "Fine.\nwarning", "stderr": "", "outcome": outcome}
    assert [user("Q"), call, {**said, "output": [expected]}] == rendered(exchange)["input"]
    exchange.messages = [*exchange.messages[:2], {**exchange.messages[2], "content": "[archived shell, 30kB: …]"}]
    expected = {"stdout": "[archived shell, 30kB: …]", "stderr": "", "outcome": outcome}
    assert [user("Q"), call, {**said, "output": [expected]}] == rendered(exchange)["input"]


def test_what_is_remembered_counts_as_much_as_what_is_sent() -> None:
    """How long a request's checks may take, and what goes to a thread, hangs on the whole conversation."""
    request = DIALECT.parse_request(orjson.dumps({"model": "m", "input": "And then?", "previous_response_id": "resp_1"}))
    assert request.with_history is not None
    past = PastTurn("response:resp_1", ({"role": "user", "content": "word " * 20_000}, {"role": "assistant", "content": "Yes."}))
    joined = request.with_history(History((past,), whole=True))
    assert (3, True) == (len(joined.messages), joined.size - request.size > 100_000)
    assert joined.quick_size > request.quick_size
