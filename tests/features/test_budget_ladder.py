"""Steps of budget.feature: the stage budget with the real token counter, alone and with compression."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.context.archive import references_in
from proxy.stages.budget import Budget, BudgetOptions
from proxy.stages.compression import Compression
from proxy.wire.http.headers import ResponseHeaders
from tests.cost import below
from tests.features.prompts import PROMPT_TOKENS, Policy, dialogue, message, text, tool_step

scenarios("budget.feature")


def tool(number: int, tokens: int) -> dict[str, Any]:
    """A tool whose descriptions take about so many tokens."""
    half = text(tokens // 2 - 10, number)
    parameters = {"type": "object", "properties": {"place": {"type": "string", "description": half}, "description": {"type": "string"}}}
    function = {"name": f"plan_day_{number}", "description": half, "parameters": parameters}
    return {"type": "function", "function": function}


COUNTERS = ("context.usage_warning_count", "context.compression_triggered_count", "context.critical_alerts_count")


@pytest.fixture
def policy() -> Policy:
    return Policy()


@pytest.fixture
def forwarded() -> list[Any]:
    """What the first request forwarded."""
    return []


@given(parsers.parse("a model with a window of {tokens:d} tokens"))
def a_window(policy: Policy, tokens: int) -> None:
    policy.window_tokens = tokens


@given(parsers.parse("a policy that warns at {warn:d}%, asks for compression at {compress:d}% and is critical at {critical:d}%"))
def a_policy(policy: Policy, warn: int, compress: int, critical: int) -> None:
    policy.use(Budget, warn_at=warn / 100, compress_at=compress / 100, critical_at=critical / 100)


@given("the conversation of OpenAI's cookbook")
def cookbook(policy: Policy, datatable: list[list[str]]) -> None:
    head, *rows = datatable
    policy.messages = [{key: value for key, value in zip(head, row, strict=True) if value} for row in rows]


@given(parsers.parse("a prompt of {tokens:d} tokens"))
def a_prompt(policy: Policy, tokens: int) -> None:
    policy.messages = dialogue(21, tokens - PROMPT_TOKENS)


@given(parsers.parse("a prompt at {percent:d}% of the window"))
def a_share(policy: Policy, percent: int) -> None:
    policy.messages = dialogue(21, -(-percent * policy.window_tokens // 100) - PROMPT_TOKENS)


@given(parsers.parse("the client asks for an answer of {tokens:d} tokens"))
def an_answer(policy: Policy, tokens: int) -> None:
    policy.params = {"max_tokens": tokens}


@given(
    parsers.parse("allocations of {system:d} tokens for the system message, {history:d} for the history and {question:d} for the question")
)
def allocations(policy: Policy, system: int, history: int, question: int) -> None:
    given_tokens = {"system_instructions": system, "conversation_history": history, "current_query": question}
    policy.use(Budget, allocations=given_tokens)


@given(parsers.parse("a prompt with {system:d} tokens of system message, {history:d} of history and {question:d} of question"))
def by_component(policy: Policy, system: int, history: int, question: int) -> None:
    last = message("user", question - PROMPT_TOKENS, 9)
    policy.messages = [message("system", system), *dialogue(20, history), last]


@given(parsers.parse('the text "{said}"'))
def a_text(policy: Policy, said: str) -> None:
    policy.messages = [{"role": "user", "content": said}]


@given("the policy also compresses")
def also_compresses(policy: Policy) -> None:
    policy.use(Compression)


@given(parsers.parse('an allocation of {tokens:d} tokens for "{name}"'))
def an_allocation(policy: Policy, tokens: int, name: str) -> None:
    policy.use(Budget, allocations={name: tokens})
    policy.messages = dialogue(5, 300)


@given(parsers.parse("{count:d} tools whose descriptions take {tokens:d} tokens"))
def tools(policy: Policy, count: int, tokens: int) -> None:
    policy.params = {"tools": [tool(i, tokens // count) for i in range(count)]}


@given(parsers.parse("the {place} says of the user {count:d} things that take {tokens:d} tokens"))
def remembered(policy: Policy, place: str, count: int, tokens: int) -> None:
    lines = "\n".join(f"- Likes walk {i} {text(tokens // count - 7, i)}" for i in range(count))
    memory = f"You are an assistant.\n\n<user_preferences>\n{lines}\n</user_preferences>\n\nBe polite."
    if place == "system message":
        policy.messages = [{"role": "system", "content": memory}, *dialogue(5, 300)]
    elif place == "last question":
        policy.messages = [*dialogue(4, 240), {"role": "user", "content": memory}]
    else:
        first, result = tool_step("call_1", lines)
        call = {**first["tool_calls"][0], "function": {"name": "get_memories", "arguments": "{}"}}
        policy.messages = [message("user", 40), {**first, "tool_calls": [call]}, result, message("user", 40, 1)]


@given(parsers.parse("allocations of {a:d}, {b:d}, {c:d}, {d:d}, {e:d} and {f:d} tokens, in the document's order"))
def document_s_allocations(policy: Policy, a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    names = ("system_instructions", "user_preferences", "conversation_history", "tool_descriptions", "current_query", "available_for_tools")
    policy.use(Budget, allocations=dict(zip(names, (a, b, c, d, e, f), strict=True)))


@when("it is sent")
def it_is_sent(policy: Policy, forwarded: list[Any]) -> None:
    policy.send()
    forwarded.append(policy.sent if policy.refused is None else None)


@when("it is sent again with one more turn")
def one_more_turn(policy: Policy) -> None:
    policy.messages = [*policy.messages, message("assistant", 30, 60), message("user", 30, 61)]
    policy.send()


@when("the policy also compresses and it is sent again")
def with_compression(policy: Policy) -> None:
    policy.use(Compression)
    policy.send()


@then(parsers.parse("it is counted as exactly {tokens:d} tokens"))
def counted(policy: Policy, tokens: int) -> None:
    use = policy.exchange.facts.context
    assert use is not None
    assert (tokens, True) == (use.used_tokens, use.exact)


@then("the components add up to it")
def components(policy: Policy) -> None:
    use = policy.exchange.facts.context
    assert use is not None
    assert use.used_tokens == sum(use.components.values())
    assert {"system_instructions", "current_query"} == {name for name, tokens in use.components.items() if tokens}


@then(parsers.parse('the response\'s header is "{value}"'))
def the_header(policy: Policy, value: str) -> None:
    assert (
        value
        == dict(ResponseHeaders(Budget.headers)(policy.exchange.facts, (), record_id="", policy="", verdict="", overhead_ms=0.0))[
            b"x-groundwire-context"
        ].decode()
    )


@then(parsers.parse('"{model}" counts it as {tokens:d} tokens, a hundred times in less than a second'))
def counts(policy: Policy, model: str, tokens: int) -> None:
    info, said = policy.tokens.model(model), policy.messages[0]["content"]
    assert tokens == policy.tokens.count_text(said, info)  # the vocabulary is read now
    with below(1.0):
        assert {tokens} == {policy.tokens.count_text(said, info) for _ in range(100)}


@then("it is accepted")
def accepted(policy: Policy) -> None:
    assert policy.refused is None
    assert policy.exchange.messages is policy.exchange.original.messages


@then("it is refused")
def refused(policy: Policy) -> None:
    assert policy.refused is not None
    assert (400, "context_length_exceeded", "messages") == (policy.refused.status, policy.refused.code, policy.refused.param)


@then(parsers.parse("the error names the {window}, {used} and {reserve} tokens and advises to compress or to split"))
def the_error(policy: Policy, window: str, used: str, reserve: str) -> None:
    said = str(policy.refused)
    assert [] == [part for part in (window, used, reserve, "Compress context or split content") if part not in said]


@then("the refusal is counted")
def refusal_counted(policy: Policy) -> None:
    assert 1 == policy.counted("context.length_exceeded_count")


@then(parsers.parse("over its allocation is: {names}"))
def over(policy: Policy, names: str) -> None:
    verdict = policy.verdict("budget")
    expected = [] if names == "nothing" else names.split(", ")
    found = verdict.detail.get("over_allocation", {})
    assert sorted(expected) == sorted(found)
    assert ("allocation_exceeded" if expected else "") == verdict.code
    assert all(use["used_tokens"] > use["allocated_tokens"] for use in found.values())
    assert len(expected[:1]) == policy.counted("context.allocation_exceeded_count")


@then(parsers.parse('"{name}" takes at most {tokens:d} tokens of what is sent'))
def takes_at_most(policy: Policy, name: str, tokens: int) -> None:
    use = policy.exchange.facts.context
    assert use is not None
    assert 0 < use.components[name] <= tokens
    assert use.components[name] == policy.verdict("budget").detail["compressed_to_allocation"][name]


@then(parsers.parse("at least {tokens:d} tokens of the window are left"))
def left(policy: Policy, tokens: int) -> None:
    assert policy.window_tokens - policy.sent_tokens >= tokens


@then("the system message and the question are sent as they came")
def essentials(policy: Policy) -> None:
    assert (policy.messages[0], policy.messages[-1]) == (policy.sent[0], policy.sent[-1])


@then(parsers.parse('the warning is "{code}" for "{name}"'))
def warned_for(policy: Policy, code: str, name: str) -> None:
    verdict = policy.verdict("budget")
    assert ("warn", code, [name]) == (verdict.outcome, verdict.code, list(verdict.detail["compressed_to_allocation"]))
    assert 1 == policy.counted("context.allocation_compressed_count")


@then(parsers.parse('the response\'s compression header begins with "{value}"'))
def compression_header(policy: Policy, value: str) -> None:
    given_headers = dict(
        ResponseHeaders(Compression.headers)(policy.exchange.facts, (), record_id="", policy="", verdict="", overhead_ms=0.0)
    )
    assert given_headers[b"x-groundwire-compression"].decode().startswith(value)


@then("what was sent first begins what is sent now")
def same_prefix(policy: Policy, forwarded: list[Any]) -> None:
    assert forwarded[0] == policy.sent[: len(forwarded[0])]


@then("every tool is sent with its name and its parameters")
def all_tools(policy: Policy) -> None:
    functions = [t["function"] for t in policy.exchange.tools]
    assert [t["function"]["name"] for t in policy.exchange.original.tools] == [f["name"] for f in functions]
    assert all(["place", "description"] == list(f["parameters"]["properties"]) for f in functions)


@then("the tools are sent as they came")
def untouched_tools(policy: Policy) -> None:
    assert policy.exchange.tools is policy.exchange.original.tools


@then("the components add up to what is used")
def sum_of_components(policy: Policy) -> None:
    use = policy.exchange.facts.context
    assert use is not None
    assert use.used_tokens == sum(use.components.values())


@then("the newest thing is sent, and the oldest can be read back by a reference")
def newest_and_oldest(policy: Policy) -> None:
    lines = [line for line in policy.messages[0]["content"].splitlines() if line.startswith("- ")]
    sent = policy.sent[0]["content"]
    assert (True, False) == (lines[-1] in sent, lines[0] in sent)
    (reference,) = references_in(policy.sent)
    assert lines[0] in policy.read_archive(reference.id)


@then("the rest of the system message is sent as it came")
def rest_of_system(policy: Policy) -> None:
    sent = policy.sent[0]["content"]
    assert sent.startswith("You are an assistant.\n\n<user_preferences>\n[archived user preferences, ")
    assert sent.endswith("</user_preferences>\n\nBe polite.")


@then(parsers.parse("the policy is accepted in a window of {tokens:d} tokens"))
def policy_accepted(policy: Policy, tokens: int) -> None:
    _, options = policy.stages["budget"]
    assert tokens == sum(msgspec.convert({**options, "window": tokens}, BudgetOptions).allocations.given().values())


@then(parsers.parse("the policy is refused because they add up to {total:d} tokens"))
def policy_refused(policy: Policy, total: int) -> None:
    _, options = policy.stages["budget"]
    with pytest.raises(msgspec.ValidationError, match=f"add up to {total} tokens, more than the window's {policy.window_tokens}"):
        msgspec.convert({**options, "window": policy.window_tokens}, BudgetOptions)


@then(parsers.re(r'the warning is "(?P<code>\w*)"'))
def the_warning(policy: Policy, code: str) -> None:
    verdict = policy.verdict("budget")
    assert ("warn" if code else "unchecked", code) == (verdict.outcome, verdict.code)


@then(parsers.re(r'the counter that has risen is "(?P<name>[\w.]*)"'))
def the_counter(policy: Policy, name: str) -> None:
    assert [name] * bool(name) == [counter for counter in COUNTERS if policy.counted(counter)]


@then(parsers.parse("compression does {what}"))
def compression_does(policy: Policy, what: str) -> None:
    report = policy.exchange.facts.compression
    assert report is not None
    if what == "nothing":
        assert ((), "below-threshold") == (report.strategies, report.reason)
        return
    verdict = policy.verdict("compression")
    assert ("unchecked", "and hard" in what) == (verdict.outcome, verdict.detail["aggressive"])
    crossed = "context_usage_critical" if "and hard" in what else "context_usage_compress"
    assert ("warn", crossed) == (policy.verdict("budget").outcome, policy.verdict("budget").code)
    assert policy.sent_tokens <= 0.6 * policy.window_tokens
