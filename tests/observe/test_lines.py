"""What a list shows of an exchange on its line: the code that decided it, what shadow mode held back, first words, cost."""

from typing import Any

import pytest
from msgspec.structs import replace

from proxy.errors import PolicyBlocked, UpstreamTimeout
from proxy.exchange import Answer, Choice, ToolCall, Usage, Verdict
from proxy.observe.finished import Finished
from proxy.observe.recording import answer_of, first_words, prices_of, question_of, reason_of, would_of
from proxy.ports import ModelInfo
from proxy.testing import make_exchange

BLOCK, WARN = Verdict("claims", "block", code="hallucination_detected"), Verdict("budget", "warn", code="context_usage_high")
WRONG = Verdict("claims", "warn", code="claims_contradicted")
OVERRATED = tuple(Verdict("confidence", "warn", code=code) for code in ("overclaimed", "insufficient_confidence"))
SUSPICIOUS, CONFUSED = Verdict("poisoning", "warn", code="context_suspicious"), Verdict("tool_rag", "warn", code="tool_confusion")
REASONS: list[tuple[str, dict[str, Any], tuple[Verdict, ...]]] = [
    ("", {"verdict": "pass", "status": 200}, (Verdict("tool_rag", "pass", code="tool_confusion"),)),
    ("context_usage_high", {"verdict": "warn", "status": 200}, (WARN,)),
    ("hallucination_detected", {"verdict": "block", "status": 400}, (WARN, BLOCK, WARN)),
    ("context_suspicious", {"verdict": "warn", "status": 200}, (WARN, SUSPICIOUS, CONFUSED)),
    ("tool_confusion", {"verdict": "warn", "status": 200}, (WARN, CONFUSED)),
    ("claims_contradicted", {"verdict": "warn", "status": 200}, (WRONG, *OVERRATED)),
    ("overclaimed", {"verdict": "warn", "status": 200}, (WARN, OVERRATED[0])),
    ("upstream_timeout", {"verdict": "upstream_error", "status": 504, "error": UpstreamTimeout("late")}, ()),
    ("status_404", {"verdict": "skipped", "status": 404}, ()),
]


@pytest.mark.parametrize(("expected", "ended", "verdicts"), REASONS)
def test_the_reason_is_the_code_of_what_decided_the_outcome(expected: str, ended: dict[str, Any], verdicts: tuple[Verdict, ...]) -> None:
    exchange = make_exchange()
    exchange.verdicts.extend(verdicts)
    assert expected == reason_of(Finished(id="gw_1", exchange=exchange, **ended))


def test_what_a_policy_refused_is_told_by_its_sub_code() -> None:
    error = PolicyBlocked("no", param="poisoned_context")
    assert "poisoned_context" == reason_of(Finished(id="gw_1", status=400, verdict="block", error=error))


@pytest.mark.parametrize(("woulds", "expected"), [((), "nothing"), (("", "edit"), "edit"), (("edit", "block", "ask"), "block")])
def test_shadow_mode_keeps_the_gravest_thing_that_it_held_back(woulds: tuple[Any, ...], expected: str) -> None:
    exchange = make_exchange()
    exchange.verdicts.extend(Verdict("claims", "warn", would=would) for would in woulds)
    enforced = would_of(exchange)
    exchange.enforced = False
    assert ("", expected) == (enforced, would_of(exchange))


def test_first_words_are_on_one_line_without_secrets() -> None:
    words = first_words("My key is\n sk-proj-abcDEF1234567890abcDEF, " + "and so on " * 40)
    assert ("My key is sk-[masked]", True, True) == (words[:21], "\n" not in words, len(words) < 170)


def test_first_words_end_between_two_words() -> None:
    assert "printers " * 17 + "…" == first_words("printers " * 40)
    assert "x" * 160 + " …" == first_words("x" * 200)  # a script without spaces, or one long word


def test_the_last_question_and_the_answer_or_its_calls_are_told() -> None:
    exchange = make_exchange([{"role": "user", "content": "first"}, {"role": "user", "content": [{"type": "text", "text": "last"}]}])
    calls = Choice(0, tool_calls=(ToolCall("c1", "search", "{}"),))
    exchange.answer = Answer((calls,))
    asked, called = question_of(exchange), answer_of(exchange)
    exchange.answer = Answer((replace(calls, text="Found."),))
    assert ("last", "calls search", "Found.") == (asked, called, answer_of(exchange))


def test_a_price_is_that_of_the_model_as_its_upstream_names_it() -> None:
    def model(name: str) -> ModelInfo:
        return ModelInfo(name, None, input_usd_per_token=1e-6 if name == "azure/m" else None, output_usd_per_token=2e-6)

    price = prices_of({"cloud": "azure/", "here": None}, model)
    assert [0.002, None, None] == [price(name, "m", Usage(1000, 500)) for name in ("cloud", "here", "other")]
