"""Steps of compression.feature: the stages budget and compression with the real token counter."""

from __future__ import annotations

from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.context.archive import read_archive_tool, references_in
from proxy.context.conversation import problems
from proxy.context.summaries import is_summary, summary_text
from proxy.stages.budget import Budget
from proxy.stages.compression import Compression
from proxy.testing import WordCounter
from proxy.wire.http.headers import ResponseHeaders
from tests.apis import Api
from tests.features.prompts import MESSAGE_TOKENS, MODEL, PROMPT_TOKENS, Message, Policy, dialogue, message, text, tool_step

scenarios("compression.feature")
pytestmark = pytest.mark.usefixtures("api")

ARCHIVE_REFERENCE_WORDS = 5


@pytest.fixture
def policy(api: Api) -> Policy:
    made = Policy()
    made.api = api
    made.use(Budget)
    return made


@pytest.fixture
def told() -> dict[str, Any]:
    """What a step wants a later one to know."""
    return {}


def invoices(tokens: int) -> str:
    """A tool's result of about so many tokens: a line an invoice."""
    return "\n".join(f"invoice {i}, customer C-{4000 + 7 * i}, café Žižkov, total {i * 13 % 97}.{i % 10}0 EUR" for i in range(tokens // 27))


def parallel_step(results: list[str]) -> list[Message]:
    """One message that calls a tool several times, and the results."""
    steps = [tool_step(f"call_{i}", result) for i, result in enumerate(results)]
    calls = [call for asked, _ in steps for call in asked["tool_calls"]]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *(answer for _, answer in steps)]


def detail(policy: Policy) -> Any:
    return policy.verdict("compression").detail


def header(policy: Policy) -> str:
    return dict(ResponseHeaders(Compression.headers)(policy.exchange.facts, (), record_id="", policy="", verdict="", overhead_ms=0.0))[
        b"x-groundwire-compression"
    ].decode()


# ---- given ----


@given(parsers.parse("a model with a window of {tokens:d} tokens"))
def a_window(policy: Policy, tokens: int) -> None:
    policy.window_tokens = tokens


@given(parsers.parse("a policy that compresses at {at:d}% of it down to {target:d}%, and hard at {hard:d}%"))
def a_policy(policy: Policy, at: int, target: int, hard: int) -> None:
    policy.use(Compression, at=at / 100, target=target / 100, aggressive_at=hard / 100)


@given(parsers.re(r"the only strategy is (?P<strategy>\w+)"))
@given(parsers.re(r"the only strategy is (?P<strategy>\w+), for all but the last message"))
def only_strategy(policy: Policy, strategy: str) -> None:
    """With as little as possible that stays for being recent."""
    policy.use(Compression, strategies=[strategy], keep_recent=1)


@given(parsers.parse("a conversation of {count:d} messages that takes {tokens:d} tokens"))
def a_conversation(policy: Policy, count: int, tokens: int) -> None:
    first = "assistant" if count % 2 == 0 else "user"
    policy.messages = dialogue(count, tokens - PROMPT_TOKENS, first)


@given(parsers.parse("{count:d} messages of {tokens:d} tokens each"))
def messages_of_a_size(policy: Policy, count: int, tokens: int) -> None:
    policy.messages = dialogue(count, count * tokens, "assistant")


@given(parsers.parse("the first {count:d} of them are {old:d} minutes old, the others {young:d}"))
def of_an_age(policy: Policy, count: int, old: int, young: int) -> None:
    policy.ages_s = {i: 60.0 * (old if i < count else young) for i in range(len(policy.messages))}


@given(parsers.parse('the user said in between "{words}"'))
def said_in_between(policy: Policy, words: str) -> None:
    """At the end of an early message, in place of as many tokens."""
    at = next(i for i, m in enumerate(policy.messages) if i > 2 and m["role"] == "user")
    given_tokens = policy.size([policy.messages[at]]) - PROMPT_TOKENS
    shorter = message("user", given_tokens - policy.size([{"role": "user", "content": words}]), at)
    padded = {"role": "user", "content": f"{shorter['content']} {words}"}
    while policy.size([padded]) - PROMPT_TOKENS < given_tokens:
        padded["content"] = f"so {padded['content']}"
    policy.messages[at] = padded


@given(parsers.parse("a last question of {tokens:d} tokens"))
def a_last_question(policy: Policy, tokens: int) -> None:
    policy.messages = [*policy.messages, message("user", tokens, 99)]


@given(parsers.parse("a tool's result of {tokens:d} tokens that the model has answered"))
def a_result(policy: Policy, tokens: int) -> None:
    model = policy.tokens.model(MODEL)
    lines = invoices(tokens)
    result = lines + " so" * (tokens - policy.tokens.count_text(lines, model))
    assert tokens == policy.tokens.count_text(result, model)
    asked, after = message("user", 60, 1), [message("assistant", 60, 2), message("user", 60, 3)]
    policy.messages = [asked, *tool_step("call_7", result), *after]


@given("a conversation at 85% of the window")
def a_mixed_conversation(policy: Policy, datatable: list[list[str]]) -> None:
    sizes = [int(row[1]) for row in datatable[1:]]
    minutes = [float(row[2] or 600) for row in datatable[1:]]
    system, old, middle, question, result, last = sizes
    step = parallel_step([text(result // 6, i) for i in range(6)])
    over = policy.size(step) - result  # the calls, and what is around the results
    parts: list[list[Message]] = [
        [message("system", system)],
        dialogue(6, old),
        dialogue(10, middle),
        [message("user", question, 40)],
        step,
        [message("assistant", 50, 41), message("user", last - 50 - over + 3, 42)],
    ]
    policy.messages = [m for part in parts for m in part]
    ages = [60.0 * age for part, age in zip(parts, minutes, strict=True) for _ in part]
    policy.ages_s = dict(enumerate(ages))


@given("every word counts as a token")
def words_are_tokens(policy: Policy) -> None:
    policy.counts(WordCounter())


@given(parsers.parse("a prompt of {tokens:d} tokens of which all but {rest:d} can be archived"))
def can_be_archived(policy: Policy, tokens: int, rest: int) -> None:
    stays = rest - policy.size([], [read_archive_tool()]) - ARCHIVE_REFERENCE_WORDS
    step = tool_step("call_1", "row " * (tokens - stays))
    policy.messages = [{"role": "user", "content": "please " * (stays - 20)}, *step]
    policy.messages += [{"role": "assistant", "content": "yes " * 10}, {"role": "user", "content": "and " * 10}]


@given(parsers.parse("a conversation at {percent:f}% of the window, with tool results"))
def a_long_run(policy: Policy, percent: float) -> None:
    start, end = [message("system", 60, 50)], [message("user", 40, 51)]
    steps = [m for i in range(3) for m in tool_step(f"call_{i}", f"run {i}\n{invoices(1000)}")]
    missing = round(percent / 100 * policy.window_tokens) - policy.size([*start, *steps, *end])
    policy.messages = [*start, *dialogue(19, missing - 300), *steps, message("assistant", 300, 52), *end]


@given(parsers.parse("an agent's task at {percent:f}% of the window, whose last tool call the model has not read the result of"))
def a_task(policy: Policy, percent: float) -> None:
    start, last = [message("system", 60, 50), message("user", 40, 51)], tool_step("call_last", text(80, 52))
    steps = [m for i in range(5) for m in tool_step(f"call_{i}", f"run {i}\n{invoices(1100)}")]
    missing = round(percent / 100 * policy.window_tokens) - policy.size([*start, *steps, *last])
    policy.messages = [*start, message("assistant", missing, 53), *steps, *last]


@given(parsers.parse("a system message that alone brings the prompt to {percent:f}% of the window"))
def a_huge_system_message(policy: Policy, percent: float) -> None:
    chat = dialogue(3, 60)
    used = policy.size(chat)
    policy.messages = [message("system", round(percent / 100 * policy.window_tokens) - used), *chat]


# ---- when ----


@when("it is sent")
def it_is_sent(policy: Policy, told: dict[str, Any]) -> None:
    policy.send()
    told["sent"] = policy.sent


@when("it is sent again with one more turn")
def one_more_turn(policy: Policy) -> None:
    policy.messages = [*policy.messages, message("assistant", 30, 60), message("user", 30, 61)]
    policy.send()


@when("the model reads the archive page by page")
def reads(policy: Policy, told: dict[str, Any]) -> None:
    told["read"] = policy.read_whole(policy.only_reference().id)


@when(parsers.parse('the model searches the archive for "{words}"'))
def searches(policy: Policy, told: dict[str, Any], words: str) -> None:
    told["found"] = policy.read_archive(policy.only_reference().id, search=words)


# ---- then: sizes ----


@then(parsers.parse("the prompt was {percent:f}% of the window"))
def was(policy: Policy, percent: float) -> None:
    joined = len(policy.messages) - len(policy.exchange.original.messages)  # Responses makes a text and the calls behind it one message
    before = policy.before_tokens + joined * MESSAGE_TOKENS
    assert percent == round(100 * before / policy.window_tokens, 1)


@then(parsers.parse("at most {percent:d}% of the window is forwarded"))
def at_most(policy: Policy, percent: int) -> None:
    assert policy.sent_tokens <= percent / 100 * policy.window_tokens
    assert policy.sent_tokens == detail(policy)["after_tokens"]
    assert [] == problems(policy.sent)


@then(parsers.parse("less than {percent:d}% of the window is forwarded"))
def less_than(policy: Policy, percent: int) -> None:
    assert policy.sent_tokens < percent / 100 * policy.window_tokens
    assert [] == problems(policy.sent)


@then(parsers.parse("between {least:d}% and {most:d}% of the window is forwarded"))
def between(policy: Policy, least: int, most: int) -> None:
    assert least / 100 <= policy.sent_tokens / policy.window_tokens <= most / 100
    assert [] == problems(policy.sent)


@then("the newest messages that are forwarded follow each other, as they were")
def verbatim(policy: Policy) -> None:
    kept = [m for m in policy.sent if m in policy.messages]
    assert len(kept) > len(policy.messages) // 2
    assert kept == policy.messages[-len(kept) :]


@then(parsers.parse("the compression ratio is above {ratio:f}"))
def ratio_above(policy: Policy, ratio: float) -> None:
    assert detail(policy)["ratio"] > ratio


# ---- then: what is forwarded ----


@then("the client's own messages are forwarded")
def untouched(policy: Policy) -> None:
    assert policy.exchange.messages is policy.exchange.original.messages
    assert policy.exchange.tools is policy.exchange.original.tools


@then(parsers.parse("the first {count:d} are not in the prompt any more"))
def are_gone(policy: Policy, count: int) -> None:
    said = [m["content"] for m in policy.sent]
    assert not any(m["content"] in said for m in policy.messages[:count])


@then(parsers.parse("the other {count:d} are, byte for byte"))
def are_there(policy: Policy, count: int) -> None:
    assert policy.messages[-count:] == policy.sent[-count:]
    assert count + 1 == len(policy.sent)


@then(parsers.parse("the {count:d} can be read back by a reference"))
def readable(policy: Policy, count: int) -> None:
    whole = policy.read_whole(policy.only_reference().id)
    assert all(m["content"] in whole for m in policy.messages[:count])


@then(parsers.parse("a summary of at most {tokens:d} tokens and the last question are forwarded"))
def a_summary_and_the_question(policy: Policy, tokens: int) -> None:
    summary, question = policy.sent
    assert policy.messages[-1] == question
    assert is_summary(summary)
    said, _, _ = summary_text(summary).partition("\n[archived ")
    assert said
    assert policy.size([summary]) - PROMPT_TOKENS <= tokens


@then(parsers.parse('the summary still says "{a}", "{b}" and "{c}"'))
def still_says(policy: Policy, a: str, b: str, c: str) -> None:
    (summary,) = [m for m in policy.sent if is_summary(m)]
    assert [] == [words for words in (a, b, c) if words not in summary_text(summary)]


@then(parsers.parse("a reference of at most {tokens:d} tokens stands in place of the result"))
def a_reference(policy: Policy, tokens: int) -> None:
    content = policy.sent[2]["content"]
    assert references_in([policy.sent[2]])
    assert policy.tokens.count_text(content, policy.tokens.model(MODEL)) <= tokens


@then("the call is still answered")
def still_answered(policy: Policy) -> None:
    assert policy.messages[1] == policy.sent[1]
    assert ("tool", "call_7") == (policy.sent[2]["role"], policy.sent[2]["tool_call_id"])
    assert [] == problems(policy.sent)


@then("the reference tells which tool it was and the result's size")
def tells(policy: Policy) -> None:
    reference = policy.only_reference()
    size = len(policy.messages[2]["content"].encode())
    assert ("list_invoices", f"{size / 1000:.1f}kB") == (reference.what, reference.size)


@then("it gets the result byte for byte")
def byte_for_byte(policy: Policy, told: dict[str, Any]) -> None:
    assert policy.messages[2]["content"].encode() == told["read"].encode()


@then(parsers.parse("it is shown the line of invoice {number:d}"))
def shown(told: dict[str, Any], number: int) -> None:
    assert "[1 matches of" in told["found"]
    assert f"customer C-{4000 + 7 * number}," in told["found"]


@then("the system message and the new question are forwarded as they were")
def essentials(policy: Policy) -> None:
    assert (policy.messages[0], policy.messages[-1]) == (policy.sent[0], policy.sent[-1])


@then("the system message, the task, the last call and its result are forwarded as they were")
def task_and_last_call(policy: Policy) -> None:
    assert (policy.messages[:2], policy.messages[-2:]) == (policy.sent[:2], policy.sent[-2:])


@then("every tool's result can still be read")
def results_readable(policy: Policy) -> None:
    """In the archive, or in the prompt."""
    read = [policy.read_whole(reference.id) for reference in references_in(policy.sent)]
    whole = "\n".join([*read, *(str(m["content"]) for m in policy.sent)])
    assert all(m["content"] in whole for m in policy.messages if m["role"] == "tool")


@then("what was forwarded first begins what is forwarded now")
def same_prefix(policy: Policy, told: dict[str, Any]) -> None:
    assert told["sent"] == policy.sent[: len(told["sent"])]
    assert len(told["sent"]) + 2 == len(policy.sent)


# ---- then: what is reported ----


@then(parsers.re(r"compression was (?P<no>not )?aggressive"))
def aggressive(policy: Policy, no: str | None) -> None:
    assert (no is None) == detail(policy)["aggressive"]


@then(parsers.parse("compression passes with a target of {target:d} tokens"))
def passes(policy: Policy, target: int) -> None:
    assert ("unchecked", target) == (policy.verdict("compression").outcome, detail(policy)["target_tokens"])


@then("the response's header and the record agree on what was done")
def they_agree(policy: Policy) -> None:
    found = detail(policy)
    worked = "+".join(step["strategy"] for step in found["strategies"] if step["freed_tokens"])
    assert f"{worked};{found['before_tokens']}->{found['after_tokens']};{found['ratio']:.1f}x" == header(policy)


@then(parsers.parse('the response\'s header is "{value}"'))
def the_header(policy: Policy, value: str) -> None:
    assert value == header(policy)


@then(parsers.parse('the response\'s header begins with "{value}"'))
def the_header_begins(policy: Policy, value: str) -> None:
    assert header(policy).startswith(value)


@then(parsers.parse("the strategies freed tokens, in this order: {names}"))
def in_order(policy: Policy, names: str) -> None:
    steps = detail(policy)["strategies"]
    assert names.split(", ") == [step["strategy"] for step in steps]
    assert all(step["before_tokens"] - step["after_tokens"] == step["freed_tokens"] > 0 for step in steps)


@then("each strategy began with what the one before it had left")
def in_sequence(policy: Policy) -> None:
    steps = detail(policy)["strategies"]
    assert [policy.before_tokens, *(s["after_tokens"] for s in steps)] == [*(s["before_tokens"] for s in steps), policy.sent_tokens]


@then(parsers.parse("{strategy} was not tried"))
def not_tried(policy: Policy, strategy: str) -> None:
    assert strategy not in [step["strategy"] for step in detail(policy)["strategies"]]


@then(parsers.parse("the record and the metrics say a ratio of {ratio:f}"))
def the_ratio(policy: Policy, ratio: float) -> None:
    found = detail(policy)
    assert (ratio, ratio) == (found["ratio"], found["strategies"][0]["ratio"])
    metrics: Any = policy.metrics.as_json()["compression"]
    assert ratio == metrics["context.compression_ratio_avg"]


@then(parsers.parse('the warning is "{code}", with usage {used:d}, target {target:d} and advice'))
def the_warning(policy: Policy, code: str, used: int, target: int) -> None:
    verdict = policy.verdict("compression")
    assert ("warn", code) == (verdict.outcome, verdict.code)
    assert (used, target) == (detail(policy)["after_tokens"], detail(policy)["target_tokens"])
    assert "shorten the system message" in detail(policy)["advice"]


@then("the failure is counted")
def counted(policy: Policy) -> None:
    assert 1 == policy.counted("context.compression_failures")


@then("every strategy says why it did nothing")
def reasons(policy: Policy) -> None:
    assert ["trim", "summarize", "archive"] == [step["strategy"] for step in detail(policy)["strategies"]]
    assert all(step["reason"] == "nothing-left" for step in detail(policy)["strategies"])
    assert "none;nothing-left" == header(policy)


@then(parsers.parse('it is refused with "{code}"'))
def refused(policy: Policy, code: str) -> None:
    assert policy.refused is not None
    assert code == policy.refused.code
