"""Requests of one API as requests of another."""

import hashlib
import json
from itertools import permutations
from typing import Any

import pytest

from proxy.config.settings import Api
from proxy.ports.upstream import Past
from proxy.wire.translation.translate import APIS
from tests.wire.translation.pairs import AGENT, PNG, QUESTION, SCHEMA, SEEN, asked, between, chat, messages, responses, said

PAIRS = list(permutations(APIS, 2))


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_an_agents_request_is_the_same_request(client: Api, server: Api) -> None:
    assert between(client, server, server) == asked(client, server, between(client, server, client))


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_pictures_files_and_a_form_are_the_same(client: Api, server: Api) -> None:
    expected = SEEN[server]
    if client == "gemini":  # nor has a file
        expected = json.loads(json.dumps(expected).replace('"a.pdf"', '"file.pdf"').replace(', "title": "file.pdf"', ""))
    if client in ("messages", "gemini"):  # the form has no name there
        for form in (expected.get("response_format", {}).get("json_schema"), expected.get("text", {}).get("format")):
            if form is not None:
                expected = {**expected, **_named(server, form)}
    assert expected == asked(client, server, SEEN[client])


def _named(server: Api, form: dict[str, Any]) -> dict[str, Any]:
    named = {**form, "name": "answer"}
    return {"response_format": {"type": "json_schema", "json_schema": named}} if server == "chat" else {"text": {"format": named}}


FOUND = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": name} for name in ("b", "c")]}
SEARCHED = [{"type": "tool_use", "id": "t", "name": "search", "input": {}}]
HOSTED = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}


@pytest.mark.parametrize(
    ("turns", "hosted", "offered"),
    [
        ([], [], ["search"]),
        ([{"role": "assistant", "content": SEARCHED}, {"role": "user", "content": [FOUND]}], [], ["search", "b"]),
        ([], [HOSTED], ["search", "a", "b"]),
    ],
    ids=["nothing found", "one found", "the provider would search"],
)
def test_a_deferred_tool_is_offered_once_it_was_found(turns: list[Any], hosted: list[Any], offered: list[str]) -> None:
    later = [{"name": name, "input_schema": {"type": "object"}, "defer_loading": True} for name in ("a", "b")]
    tools = [*hosted, {"name": "search", "input_schema": {"type": "object"}}, *later]
    body = messages(QUESTION, *turns, tools=tools)
    found = asked("messages", "chat", body, dropped=frozenset(("tools.type",)))
    assert offered == [tool["function"]["name"] for tool in found["tools"]]
    if turns:
        assert [{"type": "text", "text": name} for name in ("b", "c")] == found["messages"][-1]["content"]


def test_a_deferred_tool_whose_name_is_no_word_is_never_found() -> None:
    tools = [
        {"name": name, "input_schema": {"type": "object"}, "defer_loading": deferred} for name, deferred in (("a", False), (["b"], True))
    ]
    assert ["a"] == [tool["function"]["name"] for tool in asked("messages", "chat", messages(QUESTION, tools=tools))["tools"]]


@pytest.mark.parametrize(("client", "server"), [(client, server) for client, server in PAIRS if server != "messages"])
def test_a_stream_is_asked_for_with_its_usage(client: Api, server: Api) -> None:
    found = asked(client, server, {**between(client, server, client), "stream": True})
    assert found["stream"] is True
    assert ({"include_usage": True} if server == "chat" else None) == found.get("stream_options")


@pytest.mark.parametrize(("model", "signed"), [("gemini-2.5-pro", False), ("gemini-3-pro", True), ("gemini-flash-latest", True)])
def test_a_call_that_no_signature_came_with_says_so_where_the_model_asks_for_one(model: str, signed: bool) -> None:
    found = asked("chat", "gemini", {**between("chat", "gemini", "chat"), "model": model})
    assert [signed, False] == ["thoughtSignature" in part for part in found["contents"][1]["parts"] if "functionCall" in part]
    by_chat = asked("messages", "chat", {**between("messages", "chat", "messages"), "model": model})["messages"]
    assert [signed, False] == ["extra_content" in call for message in by_chat for call in message.get("tool_calls", ())]


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("models/gemini-2.5-pro", "low", {"thinkingBudget": 1024}),
        ("gemini-3-flash-preview", "none", {"thinkingLevel": "MINIMAL"}),
        ("models/gemini-3.1-flash-lite", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.1-pro-preview", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}),
        ("gemini-flash-latest", "minimal", {"thinkingLevel": "LOW"}),
        ("gemini-flash-latest", "xhigh", {"thinkingLevel": "HIGH"}),
    ],
)
def test_a_model_of_gemini_is_asked_for_the_least_thought_that_it_has(model: str, effort: str, thinking: dict[str, Any]) -> None:
    found = asked("chat", "gemini", {**chat(QUESTION, reasoning_effort=effort), "model": model})
    assert thinking == found["generationConfig"]["thinkingConfig"]


def test_a_chat_client_that_wants_usage_asks_nothing_more_of_messages() -> None:
    body = chat(QUESTION, stream=True, stream_options={"include_usage": True}, max_tokens=5)
    assert {"model": "m", "max_tokens": 5, "messages": [QUESTION], "stream": True} == asked("chat", "messages", body)


@pytest.mark.parametrize(("limit", "expected"), [(None, 4096), (64000, 64000)])
def test_messages_gets_the_models_own_limit_where_the_client_sets_none(limit: int | None, expected: int) -> None:
    assert expected == asked("chat", "messages", chat(QUESTION), limit_of=lambda model: limit)["max_tokens"]


@pytest.mark.parametrize(("newest", "name"), [(True, "max_completion_tokens"), (False, "max_tokens")])
def test_the_limit_has_the_name_that_the_server_knows(newest: bool, name: str) -> None:
    assert 100 == asked("messages", "chat", messages(QUESTION), newest=newest)[name]


@pytest.mark.parametrize(("limit", "sent"), [(1, 16), (16, 16), (17, 17), (0, 0)])
def test_a_limit_that_responses_does_not_take_is_the_least_that_it_takes(limit: int, sent: int) -> None:
    assert sent == asked("messages", "responses", {**messages(QUESTION), "max_tokens": limit})["max_output_tokens"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"temperature": 0.2, "top_p": 1}, {"temperature": 0.2}),
        ({"temperature": 1.0, "top_p": 0.9}, {"top_p": 0.9}),
        ({"temperature": 1, "top_p": 1}, {"temperature": 1}),
        ({"temperature": 0.2, "top_p": 0.9}, {"temperature": 0.2, "top_p": 0.9}),
        ({"top_p": 1}, {"top_p": 1}),
    ],
)
def test_of_temperature_and_top_p_messages_gets_the_one_that_says_something(given: dict[str, Any], sent: dict[str, Any]) -> None:
    found = asked("chat", "messages", chat(QUESTION, **given))
    assert sent == {name: found[name] for name in ("temperature", "top_p") if name in found}


def test_instructions_and_what_the_developer_says_are_the_system_prompt() -> None:
    body = responses({"role": "developer", "content": "Cite."}, said("Hi"), instructions="Be brief.")
    found = asked("responses", "messages", body)
    assert [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Cite."}] == found["system"]
    assert [{"role": "user", "content": "Hi"}] == found["messages"]


def test_a_system_prompt_without_a_word_is_none_before_messages() -> None:
    assert "system" not in asked("chat", "messages", chat({"role": "system", "content": " \n"}, QUESTION))
    parts = [{"type": "text", "text": text} for text in ("Be brief.", "\n\n")]
    assert "Be brief." == asked("chat", "messages", chat({"role": "system", "content": parts}, QUESTION))["system"]


def test_a_system_message_without_a_word_is_left_out() -> None:
    blank = {"role": "system", "content": [{"type": "text", "text": ""}]}
    assert "system" not in asked("chat", "messages", chat(blank, {"role": "system", "content": " \n"}, QUESTION))
    assert "Be brief." == asked("chat", "messages", chat(blank, {"role": "system", "content": "Be brief."}, QUESTION))["system"]


def test_an_answer_that_the_client_has_begun_ends_in_a_word() -> None:
    begun = {"role": "assistant", "content": "Once upon\n a time, \n"}
    found = asked("chat", "messages", chat(QUESTION, begun, QUESTION, begun))["messages"]
    assert [begun["content"], "Once upon\n a time,"] == [one["content"] for one in found if one["role"] == "assistant"]


@pytest.mark.parametrize("given", [{}, {"properties": {}}, {"properties": {}, "type": "object"}])
def test_a_function_whose_schema_has_no_type_takes_an_object(given: dict[str, Any]) -> None:
    tools = [{"type": "function", "function": {"name": "now", "parameters": given}}]
    whole = {"type": "object", "properties": {}, **given}
    assert [{"name": "now", "input_schema": whole}] == asked("chat", "messages", chat(QUESTION, tools=tools))["tools"]
    (declared,) = asked("chat", "gemini", chat(QUESTION, tools=tools))["tools"]
    assert [{"name": "now", "parametersJsonSchema": {"type": "object", **given}}] == declared["functionDeclarations"]


def test_a_function_whose_schema_is_elsewhere_stays_as_it_is() -> None:
    schema = {"$ref": "#/$defs/place", "$defs": {"place": {"type": "object"}}}
    tools = [{"type": "function", "function": {"name": "find", "parameters": schema}}]
    (declared,) = asked("chat", "gemini", chat(QUESTION, tools=tools))["tools"]
    assert schema == declared["functionDeclarations"][0]["parametersJsonSchema"]


def test_what_the_system_says_in_between_stays_there() -> None:
    body = chat(QUESTION, {"role": "assistant", "content": "At noon."}, {"role": "system", "content": "Now in verse."}, QUESTION)
    assert ["user", "assistant", "system", "user"] == [m["role"] for m in asked("chat", "messages", body)["messages"]]


@pytest.mark.parametrize("server", ["messages", "gemini", "responses"])
def test_the_name_of_who_answers_and_of_a_results_function_is_left_out(server: Api) -> None:
    call = {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "c", "content": "18"}
    plain = asked("chat", server, chat(QUESTION, call, result))
    assert plain == asked("chat", server, chat(QUESTION, {**call, "name": "researcher"}, {**result, "name": "f"}))


@pytest.mark.parametrize("server", ["chat", "messages", "gemini"])
@pytest.mark.parametrize("name", ["summary", "generate_summary"])
def test_how_long_a_summary_is_to_be_is_a_hint(server: Api, name: str) -> None:
    asks = [{"effort": "medium", **({name: length} if length else {})} for length in (None, "auto", "concise", "detailed")]
    plain, *others = [asked("responses", server, responses(QUESTION, reasoning=reasoning)) for reasoning in asks]
    assert [plain] * 3 == others


def test_an_input_that_is_a_string_is_the_users_message() -> None:
    assert [QUESTION] == asked("responses", "chat", {"model": "m", "input": QUESTION["content"]})["messages"]


def test_hints_to_a_cache_are_left_out() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    block = {"type": "text", "text": "Hi", **mark}
    tool = {"name": "read", "input_schema": SCHEMA, **mark}
    found = asked("messages", "chat", messages({"role": "user", "content": [block]}, system=[block], tools=[tool]))
    assert [{"role": "system", "content": "Hi"}, {"role": "user", "content": "Hi"}] == found["messages"]
    assert [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}] == found["tools"]


def test_hints_to_openais_cache_too() -> None:
    options = {"prompt_cache_options": {"mode": "explicit", "ttl": "12h", "prewarm": False}, "prompt_cache_key": "k"}
    part = {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    found = asked("responses", "messages", responses({"role": "user", "content": [part]}, **options))
    assert {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]} == found


@pytest.mark.parametrize(
    ("content", "told"),
    [("no such file", "Error: no such file"), ("An error: no such file", "An error: no such file"), ([], "Error: the call failed.")],
)
def test_a_call_that_failed_says_so_where_there_is_no_field_for_it(content: Any, told: str) -> None:
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": content, "is_error": True}
    body = messages(*AGENT["messages"]["messages"][:2], {"role": "user", "content": [result]})
    assert {"role": "tool", "tool_call_id": "call_1", "content": told} == asked("messages", "chat", body)["messages"][-1]


def test_a_picture_that_a_tool_gave_goes_where_results_have_pictures() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG.partition(",")[2]}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "See:"}, image]}
    body = messages(*AGENT["messages"]["messages"][:2], {"role": "user", "content": [result]})
    shown = [{"type": "input_text", "text": "See:"}, {"type": "input_image", "image_url": PNG, "detail": "auto"}]
    assert shown == asked("messages", "responses", body)["input"][-1]["output"]
    told = [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": PNG}}]
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    asked_for = chat(QUESTION, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_1", "content": told})
    assert shown == asked("chat", "responses", asked_for)["input"][-1]["output"]


@pytest.mark.parametrize(("model", "inside"), [("gemini-2.5-pro", False), ("gemini-3-pro", True), ("models/gemini-flash-latest", True)])
def test_a_picture_that_a_tool_gave_stands_in_its_response_from_gemini_3_on(model: str, inside: bool) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG.partition(",")[2]}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
    result = {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "See:"}, image, linked]}
    body = {**messages(*AGENT["messages"]["messages"][:2], {"role": "user", "content": [result]}), "model": model}
    response, *beside = asked("messages", "gemini", body)["contents"][-1]["parts"]
    data = {"inlineData": {"mimeType": "image/png", "data": PNG.partition(",")[2]}}
    link = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}}
    assert ([data] if inside else None, [link] if inside else [data, link]) == (response["functionResponse"].get("parts"), beside)


def test_an_id_that_the_server_would_refuse_is_replaced_in_the_call_and_its_result() -> None:
    call = {"id": "functions.read:0", "type": "function", "function": {"name": "read", "arguments": ""}}
    body = chat(QUESTION, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": call["id"], "content": "x"})
    _, used, result = asked("chat", "messages", body)["messages"]
    expected = "toolu_" + hashlib.sha256(b"functions.read:0").hexdigest()[:24]
    assert [expected, expected] == [used["content"][0]["id"], result["content"][0]["tool_use_id"]]
    assert {} == used["content"][0]["input"]


def test_a_users_name_that_is_too_long_is_hashed() -> None:
    name = "user_" + "0" * 80
    found = asked("messages", "chat", messages(QUESTION, metadata={"user_id": name}))
    assert hashlib.sha256(name.encode()).hexdigest() == found["user"]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"type": "object", "additionalProperties": False}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({}, {"type": "object", "properties": {}}),
        ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
        ({"type": ["object", "null"]}, {"type": ["object", "null"]}),
    ],
)
def test_a_schema_says_that_it_is_of_an_object_and_of_which_properties(given: dict[str, Any], sent: dict[str, Any]) -> None:
    mine = messages(QUESTION, tools=[{"name": "read", "input_schema": given}])
    theirs = chat(QUESTION, tools=[{"type": "function", "function": {"name": "read", "parameters": given}}])
    assert sent == asked("messages", "chat", mine)["tools"][0]["function"]["parameters"]
    assert sent == asked("messages", "responses", mine)["tools"][0]["parameters"]
    assert sent == asked("chat", "messages", theirs)["tools"][0]["input_schema"]


@pytest.mark.parametrize(
    ("choice", "chats", "responses_"),
    [
        ({"type": "auto"}, None, None),
        ({"type": "any"}, "required", "required"),
        ({"type": "none"}, "none", "none"),
        ({"type": "tool", "name": "read"}, {"type": "function", "function": {"name": "read"}}, {"type": "function", "name": "read"}),
    ],
)
def test_every_choice_of_messages_has_its_counterparts(choice: dict[str, Any], chats: Any, responses_: Any) -> None:
    body = messages(QUESTION, tools=AGENT["messages"]["tools"], tool_choice=choice)
    assert [chats, responses_] == [asked("messages", server, body).get("tool_choice") for server in ("chat", "responses")]


def test_allowed_tools_stay_between_openais_apis() -> None:
    flat = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "read"}]}
    nested = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "read"}}]}}
    assert nested == asked("responses", "chat", {**AGENT["responses"], "tool_choice": flat})["tool_choice"]
    assert flat == asked("chat", "responses", {**AGENT["chat"], "tool_choice": nested})["tool_choice"]


def test_a_custom_tool_with_a_grammar_stays_between_openais_apis() -> None:
    grammar = {"syntax": "lark", "definition": "start: /x/"}
    flat = {"type": "custom", "name": "patch", "format": {"type": "grammar", **grammar}}
    call = {"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": "x"}
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"}
    found = asked("responses", "chat", responses(said("Hi"), call, output, tools=[flat]))
    assert [{"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": grammar}}}] == found["tools"]
    assert {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "x"}} == found["messages"][1]["tool_calls"][0]
    back = asked("chat", "responses", found)
    assert ([flat], [call, output]) == (back["tools"], back["input"][1:])


def test_what_claude_code_sends_is_served_by_chat() -> None:
    body = messages(
        QUESTION,
        thinking={"type": "adaptive"},
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        output_config={"effort": "high"},
        metadata={"user_id": "u"},
        stream=True,
    )
    found = asked("messages", "chat", body)
    assert {"model", "messages", "max_tokens", "reasoning_effort", "user", "stream", "stream_options"} == found.keys()


def test_tools_of_a_namespace_have_its_name_where_there_are_none() -> None:
    tool = AGENT["responses"]["tools"][0]
    space = {"type": "namespace", "name": "files", "description": "Of files.", "tools": [tool]}
    call = {"type": "function_call", "call_id": "call_1", "namespace": "files", "name": "read", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    found = asked("responses", "chat", responses(said("Hi"), call, output, tools=[space]))
    assert [("files__read", "Of files.\n\nTo read.")] == [(t["function"]["name"], t["function"]["description"]) for t in found["tools"]]
    assert "files__read" == found["messages"][1]["tool_calls"][0]["function"]["name"]


def test_tools_that_an_item_offers_are_the_requests() -> None:
    space = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec", "description": "To run."}]}
    item = {"type": "additional_tools", "role": "developer", "tools": [space, *AGENT["responses"]["tools"]]}
    body = responses(item, said("Hi"), tools=[{"type": "function", "name": "read", "description": "Not any more."}])
    found = asked("responses", "chat", body)
    assert [("read", "To read."), ("functions__exec", "To run.")] == [
        (tool[tool["type"]]["name"], tool[tool["type"]]["description"]) for tool in found["tools"]
    ]
    assert [{"role": "user", "content": "Hi"}] == found["messages"]


@pytest.mark.parametrize("server", ["chat", "responses"])
def test_nothing_is_chosen_where_there_are_no_tools(server: Api) -> None:
    found = asked("messages", server, messages(QUESTION, tools=[], tool_choice={"type": "none", "disable_parallel_tool_use": True}))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & found.keys()
    assert "required" == asked("messages", server, messages(QUESTION, tool_choice={"type": "any"}))["tool_choice"]


def test_what_codex_sends_is_served_by_chat() -> None:
    body = responses(
        {**said("Hi"), "internal_chat_message_metadata_passthrough": {"turn_id": "1"}},
        instructions="You code.",
        tools=AGENT["responses"]["tools"],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "medium", "summary": "auto"},
        store=False,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="c",
        client_metadata={"turn_id": "1"},
        text={"verbosity": "low"},
    )
    found = asked("responses", "chat", body)
    assert {"model", "messages", "tools", "reasoning_effort", "verbosity"} == found.keys()


@pytest.mark.parametrize("server", ["chat", "messages"])
def test_what_a_request_names_goes_before_its_own(server: Api) -> None:
    past = Past(messages=({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}))
    body = responses(said("And now?"), instructions="Be brief.", previous_response_id="resp_1")
    found = asked("responses", server, body, past)["messages"]
    assert ["Hi", "Hello.", "And now?"] == [message["content"] for message in found if message["role"] != "system"]


def test_items_that_are_named_are_those_that_came_by() -> None:
    items = {
        "fc_1": {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        "rs_1": {"id": "rs_1", "type": "reasoning"},
    }
    body = responses(
        said("Hi"),
        {"type": "item_reference", "id": "rs_1"},
        {"type": "item_reference", "id": "fc_1"},
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
    )
    found = asked("responses", "chat", body, Past(items=items))["messages"]
    assert ["user", "assistant", "tool"] == [message["role"] for message in found]
    assert "call_1" == found[1]["tool_calls"][0]["id"]


def test_an_encrypted_thought_that_leads_to_nothing_is_left_out_before_responses() -> None:
    first, second = ({"type": "thinking", "thinking": text, "signature": f"groundwire:responses:{text}"} for text in ("A", "B"))
    use = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    body = messages(QUESTION, {"role": "assistant", "content": [first, second, use]}, {"role": "user", "content": [result]})
    found = asked("messages", "responses", body)["input"]
    assert ["message", "reasoning", "function_call", "function_call_output"] == [item["type"] for item in found]
    assert "B" == found[1]["encrypted_content"]


@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_the_proxys_own_field_does_not_leave(client: Api, server: Api) -> None:
    body = {**between(client, server, client), "groundwire": {"context": [{"content": "x"}]}}
    assert between(client, server, server) == asked(client, server, body)
