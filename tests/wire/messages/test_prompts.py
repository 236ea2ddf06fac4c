"""What goes upstream: the client's bytes wherever no stage changed anything, and nothing new before what the provider caches."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.conversation import blocks_of, problems, with_text_after
from proxy.context.passages.finding import find_passages
from proxy.errors import InvalidRequest
from proxy.exchange import Exchange
from proxy.stages.faithful.stage import with_suffix
from proxy.wire.messages.dialect import MessagesDialect
from tests.messages import ASK, THINKING, exchange_of, result, text, tool, use

DIALECT = MessagesDialect()
MARK = {"cache_control": {"type": "ephemeral"}}
BODY = (
    b'{ "model":"claude-sonnet-4-5", "max_tokens": 1.0e2,\n "system": [ {"type":"text", "text":"Be \\u00fcber brief.",'
    b' "cache_control":{"type":"ephemeral"}} ],\n "messages": [ {"role": "user",  "content":"Hi", "x":1.50},\n'
    b' {"role":"assistant","content":[ {"type":"thinking","thinking":"Hm\\u2026","signature":"Eq+/="}, {"type":"text","text":"I look."},'
    b' {"type":"tool_use","id":"t1","name":"read","input":{"n":1.0}} ]},\n'
    b' {"role":"user","content":[ {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"It is 5."} ,'
    b' {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}],"is_error":false}, {"type":"text","text":"And?"}'
    b' ]} ], "future_field": {"a":[1,2.0e0]}, "temperature": 1.0 }'
)
PIECES = [
    b'{"type":"text", "text":"Be \\u00fcber brief.", "cache_control":{"type":"ephemeral"}}',
    b'{"role": "user",  "content":"Hi", "x":1.50}',
    b'{"type":"thinking","thinking":"Hm\\u2026","signature":"Eq+/="}',
    b'{"type":"tool_use","id":"t1","name":"read","input":{"n":1.0}}',
    b'{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}',
    b'"future_field":{"a":[1,2.0e0]}',
]


def sent(exchange: Exchange) -> Any:
    return json.loads(DIALECT.render_request(exchange))


def changed(exchange: Exchange, role: str, old: str, new: str) -> Exchange:
    """The exchange with `old` replaced in the texts of messages of this role, as a stage does."""

    def part(one: Any) -> Any:
        return {**one, "text": one["text"].replace(old, new)} if isinstance(one, dict) and old in str(one.get("text")) else one

    def content(given: Any) -> Any:
        return given.replace(old, new) if isinstance(given, str) else [part(one) for one in given] if given else given

    exchange.messages = [{**m, "content": content(m["content"])} if m["role"] == role else m for m in exchange.messages]
    return exchange


# ---- reading ----


def test_items_become_chat_messages() -> None:
    request = DIALECT.parse_request(BODY)
    assert ["system", "user", "assistant", "tool", "user"] == [m["role"] for m in request.messages]
    call = {"id": "t1", "type": "function", "function": {"name": "read", "arguments": '{"n":1.0}'}}
    assert ([call], "t1") == (request.messages[2]["tool_calls"], request.messages[3]["tool_call_id"])
    assert [] == problems(request.messages)


def test_parameters_are_wishes() -> None:
    schema = {"type": "object"}
    wants = exchange_of(
        {
            **ASK,
            "temperature": 0.5,
            "tool_choice": {"type": "tool", "name": "a"},
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
        }
    ).wants
    assert ("json", schema, "required", {"a"}, 100, {"temperature": 0.5}) == (
        wants.form,
        wants.schema,
        wants.calls,
        wants.chosen_tools,
        wants.max_output_tokens,
        wants.sampling,
    )


def test_an_answer_that_the_client_has_begun_is_no_free_text() -> None:
    exchange = exchange_of({**ASK, "messages": [*ASK["messages"], {"role": "assistant", "content": "The tide"}]})
    assert not exchange.wants.free_text


def test_search_results_and_documents_are_passages_wherever_they_stand() -> None:
    found = {"type": "search_result", "source": "https://tides.example", "title": "Tides", "content": [text("High water is at noon.")]}
    paper = {"type": "document", "title": "Log", "source": {"type": "text", "media_type": "text/plain", "data": "Low water is at six."}}
    items = [
        {"role": "user", "content": [paper, text("When?")]},
        {"role": "assistant", "content": [use("look")]},
        {"role": "user", "content": [result([found])]},
    ]
    passages = find_passages(exchange_of({**ASK, "messages": items}).messages)
    assert [("Low water is at six.", "Log", 0), ("High water is at noon.", "https://tides.example", 2)] == [
        (passage.content, passage.source, passage.message_index) for passage in passages
    ]


def test_a_conversation_looks_the_same_wherever_the_client_puts_its_cache_marks_and_whether_it_brings_old_thoughts() -> None:
    first = [{"role": "user", "content": [{**text("Read a.txt."), **MARK}]}]
    then = [
        {"role": "user", "content": "Read a.txt."},
        {"role": "assistant", "content": [THINKING, text("I read."), use()]},
        {"role": "user", "content": [{**result([text("It is 5.")]), **MARK}]},
    ]
    later = [
        then[0],
        {"role": "assistant", "content": then[1]["content"][1:]},
        {"role": "user", "content": [result("It is 5.")]},
        {"role": "assistant", "content": "Five."},
        {"role": "user", "content": [{**text("And b.txt?"), **MARK}]},
    ]
    seen = [exchange_of({**ASK, "messages": items}).messages for items in (first, then, later)]
    assert (list(seen[0]), list(seen[1])) == (list(seen[1][:1]), list(seen[2][:3]))


# ---- provenance ----


def test_an_untouched_request_goes_out_in_its_own_bytes() -> None:
    assert BODY == DIALECT.render_request(exchange_of(BODY))


@pytest.mark.parametrize(("role", "old"), [("user", "And"), ("tool", "is 5"), ("assistant", "look"), ("system", "brief")])
def test_an_edit_changes_its_block_alone(role: str, old: str) -> None:
    exchange = changed(exchange_of(BODY), role, old, "NEW")
    rendered = DIALECT.render_request(exchange)
    assert json.loads(BODY.replace(old.encode(), b"NEW")) == json.loads(rendered)
    assert [] == [piece for piece in PIECES if piece not in rendered and old.encode() not in piece and b'"x"' not in piece]


def test_changed_arguments_change_their_call_alone() -> None:
    exchange = exchange_of(BODY)
    call = exchange.messages[2]["tool_calls"][0]
    other = {**call, "function": {**call["function"], "arguments": '{"n": 2}'}}
    exchange.messages = [*exchange.messages[:2], {**exchange.messages[2], "tool_calls": [other]}, *exchange.messages[3:]]
    rendered = DIALECT.render_request(exchange)
    assert json.loads(BODY.replace(b'{"n":1.0}', b'{"n":2}')) == json.loads(rendered)
    assert PIECES[2] in rendered


def test_a_rewritten_turn_of_calls_keeps_the_thinking_in_front() -> None:
    exchange = exchange_of(BODY)
    exchange.messages = [*exchange.messages[:2], {**exchange.messages[2], "content": "Short."}, *exchange.messages[3:]]
    assert ["thinking", "text", "tool_use"] == [block["type"] for block in sent(exchange)["messages"][1]["content"]]


def test_messages_that_were_taken_out_and_put_in_are_gone_and_there() -> None:
    exchange = exchange_of(BODY)
    note = {"role": "user", "content": "[Summary of what was said.]"}
    exchange.messages = [exchange.messages[0], note, *exchange.messages[2:]]
    rendered = DIALECT.render_request(exchange)
    assert [note, *json.loads(BODY)["messages"][1:]] == json.loads(rendered)["messages"]
    assert [PIECES[1]] == [piece for piece in PIECES if piece not in rendered]


def test_a_result_without_its_neighbour_stays_an_item() -> None:
    exchange = exchange_of(BODY)
    exchange.messages = exchange.messages[:4]
    assert ["tool_result"] == [block["type"] for block in sent(exchange)["messages"][-1]["content"]]


def test_the_user_begins_though_the_first_message_has_gone() -> None:
    exchange = exchange_of(BODY)
    exchange.messages = [exchange.messages[0], *exchange.messages[2:]]
    assert ["user", "assistant", "user"] == [item["role"] for item in sent(exchange)["messages"]]


def test_hints_are_read_and_stripped() -> None:
    item = {"role": "user", "content": [text("A"), result("R", "x"), text("B")], "groundwire": {"timestamp": 5}}
    exchange = exchange_of({**ASK, "messages": [item], "groundwire": {"context": [{"content": "P"}]}})
    assert ({0: {"timestamp": 5}, 1: {"timestamp": 5}, 2: {"timestamp": 5}}, "P") == (
        exchange.original.message_hints,
        exchange.original.passages[0].content,
    )
    assert {**ASK, "messages": [{"role": "user", "content": item["content"]}]} == sent(exchange)


def test_a_changed_passage_is_written_back_into_its_search_result() -> None:
    found = {"type": "search_result", "source": "s", "title": "T", "content": [text("It is 5.")], "citations": {"enabled": True}}
    exchange = changed(exchange_of({**ASK, "messages": [{"role": "user", "content": [found, text("Q")]}]}), "user", "5", "6")
    assert [{**found, "content": [text("It is 6.")]}, text("Q")] == sent(exchange)["messages"][0]["content"]


@pytest.mark.parametrize("mark", [{}, MARK])
@pytest.mark.parametrize(
    "shown",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}, "title": "T"},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "tool_reference", "tool_name": "read"},
    ],
)
def test_a_text_in_place_of_an_image_or_a_file_is_a_text(shown: Any, mark: Any) -> None:
    items = [
        ASK["messages"][0],
        {"role": "assistant", "content": [use("look")]},
        {"role": "user", "content": [result([{**shown, **mark}])]},
    ]
    exchange = exchange_of({**ASK, "messages": items})
    exchange.messages = [*exchange.messages[:-1], {**exchange.messages[-1], "content": "[archived look, 9B: …]"}]
    assert result([{**text("[archived look, 9B: …]"), **mark}]) == sent(exchange)["messages"][-1]["content"][0]


def test_results_that_the_proxy_adds_are_one_turn_of_the_users() -> None:
    exchange = exchange_of({**ASK, "tools": [tool("a")]})
    calls = [{"id": f"t{i}", "type": "function", "function": {"name": "find", "arguments": "{}"}} for i in (1, 2)]
    results = [{"role": "tool", "tool_call_id": f"t{i}", "content": "R"} for i in (1, 2)]
    exchange.messages = [*exchange.messages, {"role": "assistant", "content": [THINKING], "tool_calls": calls}, *results]
    turn, answered = sent(exchange)["messages"][1:]
    assert [THINKING, use("find", {}, "t1"), use("find", {}, "t2")] == turn["content"]
    assert {"role": "user", "content": [result("R", "t1"), result("R", "t2")]} == answered


ENABLED = {"type": "enabled", "budget_tokens": 2000}
CLEARS_THOUGHTS, CLEARS_RESULTS = {"type": "clear_thinking_20251015", "keep": "all"}, {"type": "clear_tool_uses_20250919"}


def with_a_made_turn_of_calls(**more: Any) -> Any:
    exchange = exchange_of({**ASK, **more})
    call = {"id": "t1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    exchange.messages = [*exchange.messages, {"role": "assistant", "content": None, "tool_calls": [call]}]
    return sent(exchange)


def test_a_made_turn_of_calls_without_thinking_is_asked_on_without_it() -> None:
    assert "thinking" not in with_a_made_turn_of_calls(thinking=ENABLED)


@pytest.mark.parametrize(
    ("edits", "left"),
    [
        ([CLEARS_THOUGHTS], None),
        ([CLEARS_THOUGHTS, CLEARS_RESULTS], {"edits": [CLEARS_RESULTS]}),
        ([CLEARS_RESULTS], {"edits": [CLEARS_RESULTS]}),
    ],
)
def test_where_the_model_is_not_to_think_no_edit_of_thoughts_is_asked_for(edits: Any, left: Any) -> None:
    assert left == with_a_made_turn_of_calls(thinking=ENABLED, context_management={"edits": edits}).get("context_management")


def test_a_model_that_decides_itself_when_to_think_goes_on_so() -> None:
    asked = {"thinking": {"type": "adaptive"}, "context_management": {"edits": [CLEARS_THOUGHTS]}}
    found = with_a_made_turn_of_calls(**asked)
    assert asked == {name: found[name] for name in asked}


# ---- tools ----


def test_tools_leave_in_their_bytes_and_the_cache_mark_of_one_left_out_passes_on() -> None:
    tools = [tool("a"), tool("b"), {**tool("c"), **MARK}]
    exchange = exchange_of({**ASK, "tools": tools})
    own = {"type": "function", "function": {"name": "groundwire_find", "parameters": {"type": "object"}}}
    exchange.tools = [own, *exchange.tools[:2]]
    found = {"name": "groundwire_find", "input_schema": {"type": "object"}}
    assert [found, tools[0], {**tools[1], **MARK}] == sent(exchange)["tools"]


def test_a_providers_own_tool_is_none_of_the_stages_business() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    exchange = exchange_of({**ASK, "tools": [search, tool("a"), tool("b", defer_loading=True)]})
    assert [search, None, True] == [exchange.tools[0], exchange.tools[1].get("defer_loading"), exchange.tools[2]["defer_loading"]]


# ---- what the provider caches ----


def suffixed(body: dict[str, Any]) -> Any:
    exchange = exchange_of(body)
    exchange.messages = with_suffix(exchange.messages, "\n\nStay with the passages.")
    return sent(exchange)


def test_without_any_cache_the_rules_stand_in_the_system_prompt() -> None:
    assert "Be brief.\n\nStay with the passages." == suffixed({**ASK, "system": "Be brief."})["system"]
    assert "Stay with the passages." == suffixed(ASK)["system"]


def test_rules_stand_behind_a_cached_system_prompt() -> None:
    system = [{**text("Be brief."), **MARK}]
    assert [*system, text("Stay with the passages.")] == suffixed({**ASK, "system": system})["system"]


@pytest.mark.parametrize("system", [None, " ", "Be brief.", [{**text("Be brief."), **MARK}]], ids=["none", "blank", "text", "blocks"])
def test_rules_stand_behind_cached_messages(system: Any) -> None:
    said = [{**text("When?"), **MARK}]
    body = {**ASK, **({"system": system} if system else {}), "messages": [{"role": "user", "content": said}]}
    got = suffixed(body)
    assert (system, [*said, text("Stay with the passages.")]) == (got.get("system"), got["messages"][0]["content"])


def test_where_everything_is_cached_the_mark_stands_before_what_was_added() -> None:
    got = suffixed({**ASK, "cache_control": MARK["cache_control"]})
    assert [{**text("When does the tide turn?"), **MARK}, text("Stay with the passages.")] == got["messages"][0]["content"]
    assert "cache_control" not in got


def test_what_is_added_to_a_cached_block_becomes_one_behind_it() -> None:
    said = [text("First."), {**text("When?"), **MARK}]
    exchange = exchange_of({**ASK, "messages": [{"role": "user", "content": said}]})
    assert [*said, text("Mind this.")] == sent(changed(exchange, "user", "When?", "When?\n\nMind this."))["messages"][0]["content"]


@pytest.mark.parametrize("said", ["When?", [{**text("When?"), **MARK}], [text("First."), {**text("When?"), **MARK}]])
@pytest.mark.parametrize("beside", ["behind", "before", "left out"])
def test_what_is_cached_stays_where_messages_are_added_or_left_out_beside_it(said: Any, beside: str) -> None:
    earlier = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": [{**text("Yes?"), **MARK}]}]
    exchange = exchange_of({**ASK, "messages": [*earlier, {"role": "user", "content": said}]})
    noted = with_text_after(exchange.messages[-1], "Mind this.")
    assert noted is not None
    call = {"id": "own", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    turn = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "own", "content": "At noon."}]
    others = list(exchange.messages[:-1])
    sides = {"behind": (others, turn), "before": ([*others, {"role": "user", "content": "They met."}], []), "left out": ([], [])}
    before, behind = sides[beside]
    exchange.messages = [*before, noted, *behind]
    blocks = [text(said)] if isinstance(said, str) else said
    expected = {"role": "user", "content": [*blocks, text("Mind this.")]}
    assert expected == sent(exchange)["messages"][-1 - len(behind)]


# ---- bad input ----


@pytest.mark.parametrize("field", ["model", "messages"])
def test_what_is_needed_is_named(field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        DIALECT.parse_request(json.dumps({key: value for key, value in ASK.items() if key != field}).encode())
    assert field == caught.value.param


# ---- properties ----

BLOCKS = st.sampled_from([text("Plain."), {**text("Cached."), **MARK}, {"type": "future", "x": [1]}, {"type": "document", "source": 5}])
SPOKEN = st.one_of(st.text(min_size=1, max_size=9), st.lists(BLOCKS, min_size=1, max_size=3))
TURN = st.builds(
    lambda said, n, more: [
        {"role": "assistant", "content": [THINKING, text("I look."), *(use("read", {"n": i}, f"{n}-{i}") for i in range(n % 3))]},
        {"role": "user", "content": [*(result("R", f"{n}-{i}") for i in range(n % 3)), text("Go on."), *more]},
        {"role": "assistant", "content": said},
    ],
    SPOKEN,
    st.integers(0, 9),
    st.lists(BLOCKS, max_size=2),
)
ITEMS = st.lists(TURN, max_size=3).map(lambda turns: [{"role": "user", "content": "Hi"}, *(item for turn in turns for item in turn)])


@given(ITEMS, st.one_of(st.none(), SPOKEN))
def test_a_copy_of_every_message_is_the_request_again(items: list[Any], system: Any) -> None:
    body = {**ASK, "messages": items, **({"system": system} if system else {})}
    exchange = exchange_of(body)
    exchange.messages = [dict(message) for message in exchange.messages]
    got = sent(exchange)
    assert body == got


@given(ITEMS, st.data())
def test_calls_and_results_stay_together_whatever_leaves(items: list[Any], data: st.DataObject) -> None:
    exchange = exchange_of({**ASK, "messages": items})
    blocks = blocks_of(exchange.messages)
    kept = data.draw(st.lists(st.booleans(), min_size=len(blocks), max_size=len(blocks)))
    left = [m for keep, block in zip(kept, blocks, strict=True) if keep for m in exchange.messages[block.start : block.end]]
    if not left:
        return
    exchange.messages = left
    again = exchange_of(DIALECT.render_request(exchange))
    assert [] == problems(again.messages)
    thought = [m for m in left if m["role"] == "assistant" and m.get("tool_calls")]
    items_with_calls = [i for i in sent(exchange)["messages"] if i["role"] == "assistant" and "tool_use" in json.dumps(i)]
    assert [THINKING] * len(thought) == [item["content"][0] for item in items_with_calls]


def test_images_and_files_are_counted_by_their_size_not_their_letters() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo" + "A" * 40_000}}
    paper = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0" + "A" * 40_000}}
    exchange = exchange_of({**ASK, "messages": [{"role": "user", "content": [image, paper, text("What is it?")]}]})
    assert ["image_url", "file", "text"] == [part["type"] for part in exchange.messages[0]["content"]]
    assert sent(changed(exchange, "user", "What", "Who"))["messages"][0]["content"] == [image, paper, text("Who is it?")]


@given(ITEMS, SPOKEN, st.one_of(st.none(), SPOKEN), st.booleans())
def test_no_breakpoint_is_added_and_nothing_new_stands_before_one(items: list[Any], asked: Any, system: Any, everything: bool) -> None:
    items = [*items, {"role": "user", "content": asked}]
    body = {**ASK, "messages": items, **({"system": system} if system else {}), **(MARK if everything else {})}
    exchange = exchange_of(body)
    exchange.messages = with_suffix(exchange.messages, "\n\nStay with it.")
    noted = with_text_after(exchange.messages[-1], "Mind this.")
    assert noted is not None
    exchange.messages = [*exchange.messages[:-1], noted]
    rendered = DIALECT.render_request(exchange).decode()
    assert rendered.count("cache_control") <= json.dumps(body).count("cache_control")
    got = json.loads(rendered)
    prompt = json.dumps([got.get("system"), got["messages"]])
    if "cache_control" in json.dumps(items) or everything:
        assert prompt.rfind("cache_control") < min(prompt.find(new) for new in ("Stay with it.", "Mind this."))
