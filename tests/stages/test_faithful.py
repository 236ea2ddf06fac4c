import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.context.faithful import CONTEXT_FAITHFUL_SYSTEM_SUFFIX, LANGUAGES, build_context_block, texts
from proxy.context.passages import RETRIEVAL_TOOLS, find_passages
from proxy.exchange import Answer, Choice, Evidence, Exchange, Message, Verdict
from proxy.pipeline import Pipeline
from proxy.stages.faithful.stage import Faithful, FaithfulOptions
from proxy.testing import chunk, completion, make_exchange, make_ports, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import Running

Start = Callable[..., AbstractAsyncContextManager[Running]]
SUFFIX = CONTEXT_FAITHFUL_SYSTEM_SUFFIX
PLAIN = texts("en").system_suffix_plain
SYSTEM = {"role": "system", "content": "You are a guide."}
ASK = {"role": "user", "content": "How tall is the Eiffel Tower?"}
TOLD = {"role": "user", "content": "<context>The tower is 330 m tall.</context>\n\nHow tall is the tower in Paris?"}
READ = {"type": "function", "function": {"name": "file_search", "parameters": {"type": "object", "properties": {}}}}
MAIL = {"type": "function", "function": {"name": "send_mail", "parameters": {"type": "object", "properties": {}}}}
HINT = Evidence("The tower is 330 m tall.", "guide.md", score=0.9)


async def run(
    messages: Sequence[Message],
    tools: Sequence[Any] = (),
    passages: Sequence[Evidence] = (),
    options: Mapping[str, Any] | None = None,
    **params: Any,
) -> tuple[Exchange, Verdict]:
    """One pass through a pipeline of this stage alone."""
    exchange = make_exchange(messages, tools, **params)
    exchange.original = replace(exchange.original, passages=tuple(passages))
    exchange.evidence = tuple(passages)
    await Pipeline([Faithful(FaithfulOptions(**(options or {})), make_ports())], RETRIEVAL_TOOLS).request(exchange)
    return exchange, exchange.verdicts[-1]


def system_text(exchange: Exchange) -> Any:
    return exchange.messages[0]["content"]


# ---- when ----


async def test_without_context_nothing_changes() -> None:
    exchange, verdict = await run([SYSTEM, ASK], [MAIL])
    assert exchange.messages is exchange.original.messages
    assert ("unchecked", {"reason": "no context"}, []) == (verdict.outcome, verdict.detail, exchange.changes)


@pytest.mark.parametrize(
    ("messages", "tools", "grounds"),
    [
        ([SYSTEM, TOLD], [], ["passages"]),
        ([SYSTEM, ASK], [MAIL, READ], ["retrieval_tool"]),
        ([SYSTEM, ASK], [{"type": "function", "function": {"name": "files__file_search"}}], ["retrieval_tool"]),
        ([SYSTEM, ASK, {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "web_search"}}]}], [], ["retrieval_tool"]),
        ([SYSTEM, {"role": "function", "name": "web_search", "content": "It is 330 m."}], [], ["passages"]),
    ],
)
async def test_context_or_a_retrieval_tool_brings_the_rules(messages: list[Message], tools: list[Any], grounds: list[str]) -> None:
    exchange, verdict = await run(messages, tools)
    assert "You are a guide." + SUFFIX == system_text(exchange)
    assert grounds == verdict.detail["grounds"]
    assert [{"stage": "faithful", "what": "rules", "language": "en", "variant": "full"}] == exchange.changes


@pytest.mark.parametrize("name", ["read_file", "files__read_file", "web_extract", "browser", "fetch_url", "read_document"])
async def test_a_tool_that_reads_brings_the_rules_and_its_results_are_no_passages(name: str) -> None:
    tool = {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": name}}]}
    exchange, verdict = await run([SYSTEM, ASK, call, {"role": "tool", "tool_call_id": "1", "content": "It is 330 m tall."}], [tool])
    assert "You are a guide." + SUFFIX == system_text(exchange)
    assert (["retrieval_tool"], 0) == (verdict.detail["grounds"], len(exchange.passages))


@pytest.mark.parametrize("name", ["write_file", "browser_click", "edit_file", "bash", "read_inbox", "send_mail"])
async def test_a_tool_that_does_something_else_brings_none(name: str) -> None:
    exchange, _ = await run([SYSTEM, ASK], [{"type": "function", "function": {"name": name}}])
    assert exchange.messages is exchange.original.messages


async def test_always_brings_them_without_context_too() -> None:
    exchange, _ = await run([SYSTEM, ASK], options={"when": "always"})
    assert "You are a guide." + SUFFIX == system_text(exchange)


async def test_with_passages_alone_a_tool_that_could_search_brings_none() -> None:
    exchange, verdict = await run([SYSTEM, ASK], [READ], options={"when": "passages"})
    assert exchange.messages is exchange.original.messages
    assert "no context" == verdict.detail["reason"]


@pytest.mark.parametrize(
    ("asked", "last"),
    [
        ((), f"4. {texts('en').rules.rpartition('4. ')[2]}"),
        (("citations",), f"5. {texts('en').cited.rpartition('5. ')[2]}"),
        (("confidence",), f"5. {texts('en').rated.rpartition('6. ')[2]}"),
    ],
)
async def test_what_the_rules_ask_for_is_the_policy_s_to_say(asked: tuple[str, ...], last: str) -> None:
    exchange, _ = await run([SYSTEM, TOLD], options={"when": "passages", "ask_for": asked})
    assert last == system_text(exchange).split("\n")[-1]


async def test_marks_that_nobody_asked_for_stay() -> None:
    exchange, _ = await run([SYSTEM, TOLD], options={"ask_for": (), "show_citations": False, "show_confidence": False})
    exchange.answer = Answer((Choice(0, text="It is 330 m tall [1]. Confidence: HIGH"),))
    stage = Faithful(FaithfulOptions(ask_for=(), show_citations=False, show_confidence=False), make_ports())
    assert await stage.on_answer(exchange) is None


# ---- where ----


async def test_they_stand_once_at_the_end_of_the_first_system_message() -> None:
    second = {"role": "system", "content": "Be kind."}
    exchange, _ = await run([{"role": "developer", "content": "You are a guide."}, TOLD, second])
    assert [{"role": "developer", "content": "You are a guide." + SUFFIX}, TOLD, second] == list(exchange.messages)


async def test_unchanged_messages_stay_the_same_objects() -> None:
    exchange, _ = await run([SYSTEM, TOLD])
    assert exchange.messages[1] is TOLD
    assert {"role": "system", "content": "You are a guide."} == SYSTEM


async def test_without_a_system_message_there_is_a_new_one() -> None:
    exchange, _ = await run([TOLD])
    assert [{"role": "system", "content": SUFFIX.strip()}, TOLD] == list(exchange.messages)


async def test_a_system_message_in_parts_keeps_its_parts() -> None:
    parts = [{"type": "text", "text": "A"}, {"type": "text", "text": "B", "cache_control": {"type": "ephemeral"}}]
    exchange, _ = await run([{"role": "system", "content": parts, "name": "ops"}, TOLD])
    assert {"role": "system", "name": "ops", "content": [parts[0], {**parts[1], "text": "B" + SUFFIX}]} == exchange.messages[0]


@pytest.mark.parametrize("rules", [rules for code in LANGUAGES for rules in texts(code).system_suffixes])
async def test_rules_that_the_client_added_itself_are_not_added_again(rules: str) -> None:
    exchange, verdict = await run([{"role": "system", "content": "You are a guide." + rules}, TOLD])
    assert exchange.messages is exchange.original.messages
    assert "already there" == verdict.detail["reason"]


# ---- which ----


@pytest.mark.parametrize("params", [{"guided_regex": "[a-z]+"}, {"tool_choice": "required"}])
async def test_a_fixed_format_asks_for_no_citations(params: dict[str, Any]) -> None:
    exchange, verdict = await run([SYSTEM, TOLD], [READ], **params)
    assert "You are a guide." + PLAIN == system_text(exchange)
    assert "plain" == verdict.detail["variant"]


@pytest.mark.parametrize(
    ("expected", "messages"),
    [
        ("de", [SYSTEM, {"role": "user", "content": "Wie hoch ist der Eiffelturm?"}]),
        ("es", [SYSTEM, {"role": "user", "content": "¿Qué altura tiene la Torre Eiffel?"}]),
        ("fr", [SYSTEM, {"role": "user", "content": "Quelle est la hauteur de la tour Eiffel ?"}]),
        ("en", [SYSTEM, {"role": "user", "content": "Quanto è alta la torre Eiffel, per favore?"}]),
        ("de", [{"role": "system", "content": "Du bist ein freundlicher Reiseführer."}, {"role": "user", "content": "Hi"}]),
        ("de", [{"role": "user", "content": "Wie hoch ist er?"}, {"role": "assistant", "content": "330 m"}, ASK]),
        ("de", [{"role": "user", "content": "<context>It is one of the tallest towers.</context>\nWie hoch ist der Turm?"}]),
    ],
)
async def test_the_language_is_that_of_the_first_user_message(expected: str, messages: list[Message]) -> None:
    _, verdict = await run(messages, [READ])
    assert expected == verdict.detail["language"]


async def test_the_policy_may_fix_the_language() -> None:
    exchange, _ = await run([SYSTEM, TOLD], options={"language": "es"})
    assert system_text(exchange).endswith(texts("es").system_suffix)


# ---- passages that come as hints ----


async def test_they_stand_numbered_before_the_question() -> None:
    exchange, verdict = await run([SYSTEM, ASK], passages=[HINT])
    content = exchange.messages[1]["content"]
    assert build_context_block([HINT]) in content
    assert "Question: How tall is the Eiffel Tower?\n" in content
    assert 1 == verdict.detail["passages"]
    assert {"stage": "faithful", "what": "passages", "passages": 1} == exchange.changes[-1]


@pytest.mark.parametrize(
    ("template", "start", "end"),
    [
        ("rag", "## Retrieved Context", texts("en").template_rated),
        ("prefix", "Answer from ONLY the provided context", ASK["content"]),
        ("none", "## Retrieved Context", ASK["content"]),
    ],
)
async def test_templates(template: str, start: str, end: str) -> None:
    exchange, _ = await run([ASK], passages=[HINT], options={"template": template})
    assert exchange.messages[1]["content"].startswith(start)
    assert exchange.messages[1]["content"].endswith(end)
    assert ASK["content"] in exchange.messages[1]["content"]


@pytest.mark.parametrize("template", ["rag", "prefix"])
async def test_the_template_asks_for_no_more_than_the_policy(template: str) -> None:
    exchange, _ = await run([ASK], passages=[HINT], options={"template": template, "ask_for": ()})
    words = texts("en")
    said = "\n".join(str(message["content"]) for message in exchange.messages)
    assert [] == [text for text in (words.template_cited, words.template_rated, words.prefix_cited) if text in said]


async def test_a_fixed_format_gets_the_bare_block() -> None:
    exchange, _ = await run([ASK], passages=[HINT], response_format={"type": "json_object"})
    assert build_context_block([HINT]) + "\n\n" + ASK["content"] == exchange.messages[1]["content"]


async def test_no_more_than_max_passages() -> None:
    exchange, _ = await run([ASK], passages=[Evidence(f"fact {i}") for i in range(5)], options={"max_passages": 2})
    assert ["fact 0", "fact 1"] == [p.content for p in find_passages(exchange.messages)]
    assert 5 == len(exchange.evidence)


async def test_only_what_an_earlier_stage_left() -> None:
    exchange = make_exchange([ASK])
    exchange.evidence = (HINT, Evidence("Unrelated."))
    exchange.passages = [HINT]
    await Faithful(FaithfulOptions(), make_ports()).on_request(exchange)
    assert [HINT.content] == [p.content for p in find_passages(exchange.messages)]


async def test_the_rules_stay_when_an_earlier_stage_left_every_passage_out() -> None:
    exchange = make_exchange([SYSTEM, ASK])
    exchange.evidence = (HINT,)
    await Faithful(FaithfulOptions(), make_ports()).on_request(exchange)
    assert ["You are a guide." + SUFFIX, ASK["content"]] == [m["content"] for m in exchange.messages]


async def test_a_passage_that_stands_in_the_prompt_is_not_repeated() -> None:
    exchange, _ = await run([SYSTEM, TOLD], passages=[HINT])
    assert exchange.messages[1] is TOLD


async def test_images_and_other_parts_stay_and_the_last_text_is_wrapped() -> None:
    parts = [
        {"type": "text", "text": "Look."},
        {"type": "image_url", "image_url": {"url": "data:,"}},
        {"type": "text", "text": "How tall?"},
    ]
    exchange, _ = await run([{"role": "user", "content": parts}], passages=[HINT])
    content = exchange.messages[1]["content"]
    assert (3, True, True) == (len(content), content[0] is parts[0], content[1] is parts[1])
    assert "Question: How tall?\n" in content[2]["text"]


async def test_a_message_of_an_image_alone_gets_a_text_part() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    exchange, _ = await run([{"role": "user", "content": [image]}], passages=[HINT])
    assert [{"type": "text", "text": build_context_block([HINT])}, image] == exchange.messages[1]["content"]


async def test_in_a_tool_loop_they_stay_with_the_users_message() -> None:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "send_mail", "arguments": "{}"}}],
    }
    result = {"role": "tool", "tool_call_id": "1", "content": "sent"}
    exchange, _ = await run([SYSTEM, ASK, call, result], [MAIL], [HINT])
    assert HINT.content in exchange.messages[1]["content"]
    assert (call, result) == tuple(exchange.messages[2:])


async def test_without_a_user_message_the_rules_stand_alone() -> None:
    exchange, _ = await run([SYSTEM], passages=[HINT])
    assert ["You are a guide." + SUFFIX] == [m["content"] for m in exchange.messages]


# ---- invariants ----

CONTENT = st.sampled_from(
    [
        "How tall?",
        "",
        "Wie hoch ist der Turm?",
        None,
        "<context>a b</context> What?",
        [],
        [{"type": "text", "text": "x"}, {"type": "image_url"}],
        [{"type": "text"}],
    ]
)
MESSAGES = st.lists(
    st.builds(lambda r, c: {"role": r, "content": c}, st.sampled_from(["system", "developer", "user", "assistant", "tool"]), CONTENT),
    max_size=6,
)
HINTS = st.lists(st.builds(Evidence, st.sampled_from(["fact one", "### Passage 1\nx", " ", "a b", "## End of it"])), max_size=3)
OPTIONS = st.fixed_dictionaries(
    {
        "template": st.sampled_from(["rag", "prefix", "none"]),
        "max_passages": st.integers(1, 3),
        "when": st.sampled_from(["passages", "retrieval", "always"]),
    }
)


@given(MESSAGES, HINTS, OPTIONS)
async def test_twice_changes_nothing_more(messages: list[Message], hints: list[Evidence], options: dict[str, Any]) -> None:
    exchange, _ = await run(messages, [READ], hints, options)
    once, changes = exchange.messages, len(exchange.changes)
    await Faithful(FaithfulOptions(**options), make_ports()).on_request(exchange)
    assert (once, changes) == (exchange.messages, len(exchange.changes))


@given(MESSAGES, HINTS, OPTIONS)
async def test_no_message_is_lost_or_reordered(messages: list[Message], hints: list[Evidence], options: dict[str, Any]) -> None:
    before = json.dumps(messages)
    exchange, _ = await run(messages, [READ], hints, options)
    kept = exchange.messages[len(exchange.messages) - len(messages) :]
    assert [m["role"] for m in messages] == [m["role"] for m in kept]
    assert before == json.dumps(messages)
    assert all(new is old for new, old in zip(kept, messages, strict=True) if old["role"] in ("assistant", "tool"))


# ---- through the running proxy ----

POLICY = "name: t\ndelivery: hold\nstages:\n  - faithful: {}\n"


def body(*messages: Message, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages), **more}


async def test_the_upstream_sees_the_rules_once_and_the_record_says_so(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        answer = await proxy.post(body(SYSTEM, TOLD))
        sent = proxy.upstream.calls[0].json["messages"]
        record = await proxy.record(answer)
    assert 1 == json.dumps(sent).count("## CONTEXT-FAITHFUL: using the context")
    assert "rules" in json.dumps(record["detail"]["changes"])
    assert "unchecked" == answer.verdict


async def test_hints_reach_the_upstream_as_numbered_passages(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        await proxy.post(body(SYSTEM, ASK, groundwire={"context": [{"content": HINT.content, "source": "guide.md", "score": 0.9}]}))
        sent = proxy.upstream.calls[0].json
    assert "groundwire" not in sent
    assert "### Passage 1 [Source: guide.md] (relevance: 0.90)\nThe tower is 330 m tall." in sent["messages"][1]["content"]


async def test_the_prefix_has_the_same_bytes_in_every_turn(start: Start) -> None:
    first = body(SYSTEM, TOLD)
    again = {"role": "user", "content": "<context>It opened in 1889.</context>\n\nUnd wann wurde er eröffnet?"}
    second = body(SYSTEM, TOLD, {"role": "assistant", "content": "330 m [Passage 1]"}, again)
    async with start(policy=POLICY) as proxy:
        await proxy.post(first)
        await proxy.post(second)
        sent = [call.body.partition(b'"messages":[')[2] for call in proxy.upstream.calls]
    assert sent[1].startswith(sent[0].rpartition(b"]")[0])


async def test_json_mode_gets_the_rules_that_leave_json_alone(start: Start) -> None:
    async with start(policy=POLICY) as proxy:
        await proxy.post(body(SYSTEM, TOLD, response_format={"type": "json_object"}))
        sent = proxy.upstream.calls[0].json
    assert SYSTEM["content"] + PLAIN == sent["messages"][0]["content"]
    assert {"type": "json_object"} == sent["response_format"]


async def test_streaming(start: Start) -> None:
    events = streamed(["It is ", "330 m [Passage 1]."])
    async with start(stream(events), policy=POLICY.replace("hold", "tap")) as proxy:
        answer = await proxy.post(body(SYSTEM, TOLD, stream=True))
        sent = proxy.upstream.calls[0].json
    assert b"".join(events) == answer.body
    assert sent["messages"][0]["content"].endswith(SUFFIX)
    assert chunk({"content": "It is "}) in answer.body


async def test_content_parts_with_an_image(start: Start) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    parts = [{"type": "text", "text": "How tall is this tower?"}, image]
    async with start(policy=POLICY) as proxy:
        await proxy.post(body({"role": "user", "content": parts}, groundwire={"context": [{"content": HINT.content}]}))
        content = proxy.upstream.calls[0].json["messages"][1]["content"]
    assert image == content[1]
    assert HINT.content in content[0]["text"]


async def test_a_german_conversation(start: Start) -> None:
    frage = {"role": "user", "content": "Wie hoch ist der Eiffelturm?"}
    async with start(policy=POLICY) as proxy:
        await proxy.post(body(frage, groundwire={"context": [{"content": "Der Turm ist 330 m hoch.", "source": "Führer"}]}))
        system, user = proxy.upstream.calls[0].json["messages"]
    assert texts("de").system_suffix.strip() == system["content"]
    assert "### Passage 1 [Quelle: Führer]\nDer Turm ist 330 m hoch." in user["content"]
    assert "Frage: Wie hoch ist der Eiffelturm?\n" in user["content"]
    assert user["content"].endswith(texts("de").template_rated)


async def test_the_policys_retrieval_tools_count(start: Start) -> None:
    tool = {"type": "function", "function": {"name": "crm__lookup_account", "parameters": {"type": "object", "properties": {}}}}
    async with start(policy=POLICY + "retrieval_tools: [lookup_*]\n") as proxy:
        await proxy.post(body(SYSTEM, ASK, tools=[tool]))
        await proxy.post(body(SYSTEM, ASK, tools=[READ]))
        sent = [call.json["messages"][0]["content"] for call in proxy.upstream.calls]
    assert [SYSTEM["content"] + SUFFIX, SYSTEM["content"]] == sent


async def test_a_request_without_context_passes_in_its_own_bytes(start: Start) -> None:
    raw = b'{"model": "gpt-4o",  "messages": [{"role":"user","content":"Hi"}]}'
    async with start(reply({"choices": []}), policy=POLICY) as proxy:
        await proxy.post(raw)
        assert raw == proxy.upstream.calls[0].body


# ---- marks that end users should not see ----

MARKED = "The tower is 330 m tall [Passage 1]. It stands in Paris. [Passage 1]\n\nConfidence: HIGH"
BARE = "The tower is 330 m tall. It stands in Paris."
HIDING = (
    "name: hiding\ndelivery: {}\nstages: [faithful: {{show_citations: false, show_confidence: false}}, citations: {{}}, confidence: {{}}, "
    "claims: {{embed: false}}]\n"
)
HINTED = {"groundwire": {"context": [{"content": "The tower is 330 m tall. It stands in Paris.", "source": "guide.md"}]}}


def body_of(question: str = "How tall is the tower, and where?", **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": question}], **HINTED, **more}


async def delivered(start: Start, delivery: str, body: Mapping[str, Any], text: str = MARKED, size: int = 7) -> tuple[str, Any]:
    """What the client reads, and the record's facts."""
    streams = delivery == "gate"
    answer = stream(streamed([text[i : i + size] for i in range(0, len(text), size)])) if streams else reply(completion(text))
    async with start(answer, policy=HIDING.format(delivery)) as proxy:
        got = await proxy.post({**body, "stream": streams})
        record = await proxy.record(got)
    if not streams:
        return got.json["choices"][0]["message"]["content"], record["detail"]["facts"]
    reader = ChatDialect().stream()
    reader.feed(got.body)
    assert reader.done
    return reader.answer.text, record["detail"]["facts"]


@pytest.mark.parametrize(("delivery", "size"), [("hold", 7), ("gate", 1), ("gate", 7), ("gate", 1000)])
async def test_marks_leave_the_answer_and_stay_in_the_record(start: Start, delivery: str, size: int) -> None:
    text, facts = await delivered(start, delivery, body_of(), size=size)
    assert (BARE, [2, 2], "HIGH") == (text.strip(), list(facts["citations"]), facts["confidence"])


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_a_clients_own_request_leaves_them_in(start: Start, delivery: str) -> None:
    text, _ = await delivered(start, delivery, body_of("How tall is it? Cite your sources and state your confidence."))
    assert MARKED == text


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_json_answers_are_left_alone(start: Start, delivery: str) -> None:
    said = '{"text": "The tower is 330 m tall [Passage 1]."}'
    text, _ = await delivered(start, delivery, body_of(response_format={"type": "json_object"}), said)
    assert said == text


def test_to_take_marks_out_the_answer_must_wait() -> None:
    assert [False, True, True] == [
        Faithful.blocks_answers(FaithfulOptions(**options)) for options in ({}, {"show_citations": False}, {"show_confidence": False})
    ]
