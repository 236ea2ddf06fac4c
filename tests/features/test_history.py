"""Steps of history.feature: the stages budget and history with the real token counter."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.context.summaries import is_summary, summary_text
from proxy.stages.budget import Budget
from proxy.stages.history import History
from tests.features.prompts import PROMPT_TOKENS, Policy, dialogue

scenarios("history.feature")


@pytest.fixture
def policy() -> Policy:
    made = Policy()
    made.use(Budget)
    return made


@pytest.fixture
def forwarded() -> list[Any]:
    """What each request forwarded."""
    return []


def detail(policy: Policy) -> Any:
    verdict = policy.verdict("history")
    assert ("warn", "DISTRACTION") == (verdict.outcome, verdict.code)
    return verdict.detail


@given(parsers.parse("a policy that watches over histories from {messages:d} messages or {tokens:d} tokens on"))
def a_policy(policy: Policy, messages: int, tokens: int) -> None:
    policy.use(History, max_messages=messages, max_tokens=tokens)


@given(parsers.parse("the policy's action is {action}"))
def the_action(policy: Policy, action: str) -> None:
    policy.use(History, action=action)


@given(parsers.parse("a history of {messages:d} messages and {tokens:d} tokens"))
def a_history(policy: Policy, messages: int, tokens: int) -> None:
    """The tokens are those of the whole prompt, with the three that start the reply."""
    policy.messages = dialogue(messages, tokens - 3, "user" if messages % 2 else "assistant")


@when("it is sent")
def it_is_sent(policy: Policy, forwarded: list[Any]) -> None:
    policy.send()
    forwarded.append(policy.sent)


@when(parsers.parse("it is sent again with {count:d} more messages"))
def sent_again(policy: Policy, forwarded: list[Any], count: int) -> None:
    policy.messages = [*policy.messages, *dialogue(count, 120 * count, "assistant")]
    policy.send()
    forwarded.append(policy.sent)


@then(parsers.parse("the distraction is {severity}"))
def the_distraction(policy: Policy, severity: str) -> None:
    assert severity == detail(policy)["severity"]
    assert (len(policy.messages), policy.size(policy.messages)) == (detail(policy)["messages"], detail(policy)["tokens"])
    assert 1 == policy.counted("context.distraction_count")


@then(parsers.parse("the recommended action is {action}"))
def recommended(policy: Policy, action: str) -> None:
    assert (action, "none") == (detail(policy)["recommended_action"], detail(policy)["result"])


@then(parsers.parse('the alert says "{text}"'))
def the_alert_says(policy: Policy, text: str) -> None:
    assert ("DISTRACTION", text) == (policy.verdict("history").code, detail(policy)["message"])


@then("there is no alert")
def no_alert(policy: Policy) -> None:
    assert policy.silent("history")


@then("the client's own messages are forwarded")
def untouched(policy: Policy) -> None:
    assert policy.exchange.messages is policy.exchange.original.messages
    assert policy.exchange.tools is policy.exchange.original.tools


@then(parsers.re(r"a (?P<what>summary|reference) is forwarded, and the last (?P<count>\d+) messages as they were"))
def shortened(policy: Policy, what: str, count: str) -> None:
    first, *rest = policy.sent
    assert policy.messages[-int(count) :] == rest
    said = summary_text(first)
    assert said.startswith("[archived messages 0 to ") == (what == "reference")


@then(parsers.parse("the summary takes at most {tokens:d} tokens"))
def summary_size(policy: Policy, tokens: int) -> None:
    said, _, _ = summary_text(policy.sent[0]).partition("\n[archived ")
    assert said
    assert policy.size([policy.sent[0]]) - PROMPT_TOKENS <= tokens


@then(parsers.parse("the other {count:d} can be read back by its reference"))
def readable(policy: Policy, count: int) -> None:
    reference = policy.only_reference()
    assert f"messages 0 to {count - 1}" == reference.what
    whole = policy.read_whole(reference.id)
    assert all(m["content"] in whole for m in policy.messages[:count])


@then(parsers.parse("the other {count:d} stay evidence for the answer"))
def stay_evidence(policy: Policy, count: int) -> None:
    assert [m["content"] for m in policy.messages[:count]] == [e.content for e in policy.exchange.evidence]


@then(parsers.parse("the record says that {before:d} messages became {after:d}"))
def recorded(policy: Policy, before: int, after: int) -> None:
    found = detail(policy)
    assert (before, after, found["action"]) == (found["messages"], found["messages_after"], found["result"])
    assert found["tokens_after"] < found["tokens"]


@then("what was forwarded first begins what is forwarded now")
def same_prefix(forwarded: list[Any]) -> None:
    assert forwarded[0] == forwarded[-1][: len(forwarded[0])]
    assert len(forwarded[0]) < len(forwarded[-1])


@then("there is a new summary, in place of the first")
def a_new_summary(policy: Policy, forwarded: list[Any]) -> None:
    assert 1 == sum(is_summary(m) for m in policy.sent)
    assert forwarded[0][0] != policy.sent[0]
    assert policy.messages[-5:] == policy.sent[1:]
