"""Steps of budget.feature: the stage budget with the real token counter, alone and with compression."""

from __future__ import annotations

import msgspec
import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.stages.budget import Budget, BudgetOptions
from proxy.stages.compression import Compression
from proxy.wire.http.headers import ResponseHeaders
from tests.features.prompts import PROMPT_TOKENS, Policy, dialogue, message

scenarios("budget.feature")

COUNTERS = ("context.usage_warning_count", "context.compression_triggered_count", "context.critical_alerts_count")


@pytest.fixture
def policy() -> Policy:
    return Policy()


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
    policy.messages = [message("system", system), *dialogue(4, history), last]


@when("it is sent")
def it_is_sent(policy: Policy) -> None:
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
