"""The stage `work_claims`: which accounts of work it warns of, and which it leaves alone."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.context.tool_results import results
from proxy.context.tool_results.turns import CalledTool, ToolResult
from proxy.exchange import Answer, Choice, Exchange, Prompt, ToolCall, Verdict
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.ports.judge import AskAbout
from proxy.stages.work_claims import WorkClaims
from proxy.stages.work_claims.asking import ALL_CALLS, EVENT_CHARS, LIST_CHARS
from proxy.stages.work_claims.calls import report_of, result_of
from proxy.stages.work_claims.stage import MAX_ASKED, WorkClaimsOptions
from proxy.stages.work_claims.statements import statements_of
from proxy.store.words import without_words
from proxy.testing import make_exchange, make_ports
from proxy.testing.models import ScriptedJudge
from tests.cost import below

Step = tuple[str, Mapping[str, Any], str] | str
"""A tool, its arguments and its result; or what the user says."""
EDIT: Step = ("edit_file", {"path": "src/cart.py", "old_text": "a", "new_text": "b"}, "Edited src/cart.py")
RED: Step = ("bash", {"command": "pytest -q"}, "FAILED tests/test_cart.py::test_total\n1 failed, 8 passed in 0.31s")
GREEN: Step = ("bash", {"command": "pytest -q"}, "9 passed in 0.30s")
HELD: Step = ("cancel_order", {"order_id": "W-8812"}, '{"error": {"code": "locked", "message": "the order is being packed"}}')
READ: Step = ("get_order", {"order_id": "W-8812"}, '{"order_id": "W-8812", "status": "processing"}')
TESTED: Step = ("write_file", {"path": "tests/test_cart.py", "content": "assert total == 0"}, "Wrote 17 bytes")
REFUND: Step = (
    "issue_refund",
    {"order": "SO-2", "amount": 64.5},
    '{"refund_id": "RF-881", "amount": 64.5, "paid": 129.0, "state": "issued"}',
)
TAKEN: Step = ("ueberweisung_ausfuehren", {"betrag": 20}, '{"status": "abgelehnt", "grund": "Deckung"}')


def exchange_of(steps: Sequence[Step], answer: str, *, offers: Sequence[str] = (), calls: bool = False, **more: Any) -> Exchange:
    """A run whose last turn ends with `answer`."""
    messages: list[dict[str, Any]] = [] if steps and isinstance(steps[0], str) else [{"role": "user", "content": "Please do it."}]
    for i, step in enumerate(steps):
        if isinstance(step, str):
            messages.append({"role": "user", "content": step})
            continue
        name, arguments, result = step
        call = {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": result},
        ]
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in offers]
    exchange = make_exchange(messages)
    request = replace(exchange.original, messages=tuple(messages), tools=tuple(tools), **more)
    exchange = replace(exchange, original=request, prompt=Prompt(messages, tools, {}))
    called = (ToolCall("c9", "bash", "{}"),) if calls else ()
    exchange.upstream_answer = exchange.answer = Answer((Choice(0, answer, tool_calls=called),))
    return exchange


async def judged(exchange: Exchange, ports: Ports | None = None) -> list[Verdict]:
    await Pipeline([WorkClaims(WorkClaimsOptions(), ports or make_ports())]).answer(exchange)
    return [verdict for verdict in exchange.verdicts if verdict.stage == "work_claims"]


async def doubted(steps: Sequence[Step], answer: str, **more: Any) -> list[tuple[str, str]]:
    """The kinds of work that are doubted, and why."""
    verdicts = await judged(exchange_of(steps, answer, **more))
    return [(one["kind"], one["label"]) for verdict in verdicts for one in verdict.detail.get("doubted", ())]


# ---- what is warned of ----


@pytest.mark.parametrize(
    ("steps", "answer", "expected"),
    [
        ([EDIT, RED], "All tests pass.", ("tests", "contradicted")),
        ([EDIT, RED, EDIT], "I fixed the rounding, and the test suite is green.", ("tests", "contradicted")),
        ([RED], "Alle Tests sind grün.", ("tests", "contradicted")),
        ([RED, "Please mend it, thanks.", EDIT], "All tests pass.", ("tests", "contradicted")),
        ([EDIT, ("bash", {"command": "git diff"}, "+b")], "I ran the tests and they all pass.", ("tests", "unsupported")),
        (
            [("bash", {"command": "mypy src"}, "src/a.py:3: error: no\nFound 1 error\nexit code: 1")],
            "mypy is clean.",
            ("lint", "contradicted"),
        ),
        ([("bash", {"cmd": "npm run build"}, "Process exited with code 2")], "The build succeeds.", ("build", "contradicted")),
        ([("bash", {"command": "git push"}, "! [rejected] main\nexit code: 1")], "Pushed to main.", ("push", "contradicted")),
        ([EDIT, ("bash", {"command": "git status"}, "clean")], "I have committed the change.", ("commit", "unsupported")),
        (
            [("edit_file", {"path": "a/b.py", "new_text": ""}, "Error: no match")],
            "I changed the default in `b.py`.",
            ("files", "contradicted"),
        ),
        ([("bash", {"command": "git branch --merged main"}, "* main")], "I merged `a` into main.", ("merge", "unsupported")),
        ([EDIT], "I updated `src/cart.py` and `docs/cart.md`.", ("files", "unsupported")),
        ([EDIT], "I updated three files.", ("files", "contradicted")),
        ([READ, HELD], "Order W-8812 is cancelled.", ("cancel", "contradicted")),
        ([HELD], "Ich habe die Bestellung W-8812 storniert.", ("cancel", "contradicted")),
        ([HELD], "J'ai annulé votre commande W-8812.", ("cancel", "contradicted")),
        ([HELD], "He cancelado el pedido W-8812.", ("cancel", "contradicted")),
        ([HELD], "L'ordine W-8812 è stato annullato.", ("cancel", "contradicted")),
        ([HELD], "Cancelei o pedido W-8812.", ("cancel", "contradicted")),
        (
            [("book_table", {"at": "20:00"}, '{"status": "payment_declined", "id": null}')],
            "I've booked the table.",
            ("book", "contradicted"),
        ),
    ],
)
async def test_work_that_the_results_do_not_bear_out_is_a_warning(steps: list[Step], answer: str, expected: tuple[str, str]) -> None:
    assert [expected] == await doubted(steps, answer)


@pytest.mark.parametrize(
    ("steps", "answer", "expected"),
    [
        ([EDIT, GREEN], "I ran the suite and all 11 tests pass.", ("figure", "contradicted")),
        ([EDIT, GREEN], "I also ran the linter, and it found nothing.", ("lint", "unsupported")),
        ([TESTED, GREEN], "I added unit tests for negative totals.", None),
        ([EDIT], "I added unit tests for negative totals.", ("tests", "unsupported")),
        ([GREEN, EDIT], "After the change I ran the tests again.", ("tests", "unsupported")),
        ([EDIT, GREEN], "I verified it in the browser.", ("browser", "unsupported")),
        ([EDIT, ("bash", {"command": "git checkout src/cart.py"}, "")], "I rounded up in `src/cart.py`.", ("files", "contradicted")),
        ([EDIT, ("bash", {"command": "git checkout src/cart.py"}, "")], "I restored `src/cart.py` to the committed version.", None),
        ([EDIT], "I changed only `src/tax.py`.", None),
        ([REFUND], "I have refunded 74.50 € to your card.", ("refund", "contradicted")),
        ([REFUND], "Ich habe 64,50 € zurueckerstattet.", None),
        ([REFUND], "I've also sent you the confirmation by e-mail.", ("send", "unsupported")),
        ([REFUND], "I have escalated it to a supervisor.", ("escalate", "unsupported")),
        ([TAKEN], "Die 20 Euro habe ich ueberwiesen.", ("pay", "contradicted")),
    ],
)
async def test_figures_looks_and_other_acts_are_read(steps: list[Step], answer: str, expected: tuple[str, str] | None) -> None:
    assert ([expected] if expected else []) == await doubted(steps, answer, offers=["read_file"])


async def test_a_script_hides_tests_and_no_payment() -> None:
    script: Step = ("bash", {"command": "docker compose up -d"}, "Container shop  Started\nexit code: 0")
    assert [("tests", "contradicted")] == await doubted([RED, script], "All tests pass.")
    assert [] == await doubted([RED, ("bash", {"command": "./verify.sh"}, "fine")], "All tests pass.")


@pytest.mark.parametrize(
    "answer",
    [
        "I refunded 64.50 €.",
        "I refunded half of the 129 €, 64.50 €.",
        "I refunded it; it takes 10 to 14 days.",
        "I refunded 64.50 € (RF-881).",
    ],
)
async def test_figures_that_follow_from_the_results_are_left_alone(answer: str) -> None:
    assert [] == await doubted([REFUND], answer)


async def test_a_mean_of_what_repeated_calls_measured_is_shown() -> None:
    timed: list[Step] = [("bash", {"command": "make bench"}, f"parse: {ms} ms\nexit code: 0") for ms in ("41.1", "43.2", "42.6")]
    assert [] == await doubted([EDIT, *timed], "I ran the benchmark three times; it took 42.3 ms on average.")
    assert [("figure", "contradicted")] == await doubted([EDIT, *timed], "I ran the benchmark three times; it took 47.9 ms on average.")


async def test_a_figure_as_the_run_has_it_is_left_alone() -> None:
    """Whatever its letter stands for: thousands, or kilometres."""
    read: Step = ("read_sheet", {"id": 7}, "name  10k  30k  finish\nTench  49:59  --  3:31  30k mat missed, seen by marshal")
    assert [] == await doubted([read], "Rob Tench has no 30k split because he missed the mat, but a marshal saw him.")


async def test_a_look_at_another_machine_that_shows_a_failure_bears_out_nothing() -> None:
    looked: Step = ("bash", {"command": "gh run view 12 --exit-status"}, "X unit in 2m\nexit code: 1")
    assert [("tests", "contradicted")] == await doubted([RED, looked], "In CI all tests pass.")


@pytest.mark.parametrize(("tool", "expected"), [("cancel_parcel", 0), ("get_parcel", 1)])
async def test_work_that_a_tool_of_the_operators_may_have_done_out_of_sight_is_not_doubted(tool: str, expected: int) -> None:
    for steps in ([READ], [READ, HELD]):
        exchange = exchange_of(steps, "I've cancelled order W-8812.", offers=["cancel_order"])
        exchange.server_tools = ({"type": "function", "function": {"name": tool}},)
        assert expected == sum(len(verdict.detail.get("doubted", ())) for verdict in await judged(exchange))


async def test_what_the_provider_ran_for_the_answer_may_have_done_the_work() -> None:
    exchange = exchange_of([RED], "All tests pass.")
    exchange.answer = Answer((Choice(0, "All tests pass.", inputs=("pytest -q",)),))
    assert [] == [one for verdict in await judged(exchange) for one in verdict.detail.get("doubted", ())]


async def test_an_act_without_a_call_is_a_warning_where_a_tool_for_it_is_there() -> None:
    assert [("cancel", "unsupported")] == await doubted([READ], "I've cancelled your order.", offers=["cancel_order"])
    assert [] == await doubted([READ], "I've cancelled your order.")


async def test_the_verdict_has_the_code_the_sentence_and_the_call() -> None:
    [verdict] = await judged(exchange_of([EDIT, RED], "Rounded up. All tests pass."))
    assert ("warn", "work_claim_unsupported") == (verdict.outcome, verdict.code)
    [one] = verdict.detail["doubted"]
    assert ("All tests pass.", {"tool": "bash", "tool_call": "c1", "message_index": 4}) == (one["text"], one["evidence"])


async def test_a_record_without_words_still_says_which_work_and_where() -> None:
    [verdict] = await judged(exchange_of([EDIT, RED], "All tests pass."))
    [one] = without_words(verdict.detail)["doubted"]
    assert ("tests", "contradicted", 4, "") == (one["kind"], one["label"], one["evidence"]["message_index"], one["text"])


# ---- what is left alone ----


@pytest.mark.parametrize(
    ("steps", "answer"),
    [
        ([RED, EDIT, GREEN], "All tests pass now."),
        ([RED, ("bash", {"command": "gh run view 12 --exit-status"}, "✓ unit in 2m")], "In CI all tests pass."),
        ([EDIT, ("bash", {"command": "cd a && gh pr checks"}, "unit  pass  2m")], "The build succeeds and all tests pass."),
        ([RED, ("get_check_runs", {"ref": "a"}, '{"conclusion": "success"}')], "On the server the test suite passes."),
        ([RED, "On my machine it is 9/9.", READ], "Good, then the tests pass with your version."),
        ([RED, "Bei mir laufen sie.", READ], "Gut, dann sind die Tests grün."),
        ([("bash", {"command": "git branch --merged main"}, "  feature/a\n* main")], "`feature/a` is merged into main."),
        ([EDIT], "There was one conflict, which I resolved by hand."),
        ([RED], "8 tests pass, one fails."),
        ([RED], "All tests should pass now."),
        ([RED], "All other tests pass."),
        ([RED], "I could not get the tests green."),
        ([RED], "Once `test_total` is fixed, all tests pass."),
        ([RED], "Do all tests pass?"),
        ([RED], 'Jo says "all tests pass" in the ticket.'),
        ([RED], "```\nAll tests pass.\n```"),
        ([RED], "> All tests pass."),
        ([RED], "Acceptance criteria:\n- All tests pass\n- The build succeeds"),
        ([RED], '{"summary": "All tests pass."}'),
        ([RED], "I will push it when all tests pass."),
        ([RED, ("Task", {"prompt": "fix the tests"}, "done")], "All tests pass."),
        ([RED, ("bash", {"command": "./ci.sh"}, "fine")], "All tests pass."),
        ([("bash", {"command": "pytest | tail -3"}, "…")], "All tests pass."),
        ([("bash", {"command": "pytest", "run_in_background": True}, "started")], "All tests pass."),
        ([("bash", {"command": "pytest"}, "[archived bash result, 4kB: groundwire_read_archive sp_0123456789ab]")], "All tests pass."),
        ([("run", {"what": "all"}, "##:: ok=?")], "All tests pass and it is pushed."),
        (["I pushed it, and the tests pass on CI.", EDIT], "Since the tests pass and it is pushed, you can merge."),
        ([("bash", {"command": "git push"}, "exit code: 1"), ("bash", {"command": "git push -u origin a"}, "exit code: 0")], "Pushed."),
        ([("bash", {"command": "git commit -m x && git push"}, "exit code: 1")], "I committed it."),
        ([EDIT, ("bash", {"command": "sed -i s/a/b/ docs/cart.md"}, "")], "I updated `src/cart.py` and `docs/cart.md`."),
        ([EDIT], "I read three files and updated the one that matters."),
        ([EDIT], "I added a link to `docs/cart.md` in `src/cart.py`."),
        ([HELD], "I could not cancel order W-8812."),
        ([HELD, ("cancel_order", {"order_id": "W-8812", "force": True}, '{"ok": true}')], "Order W-8812 is cancelled."),
        ([HELD, ("get_order", {"order_id": "W-8812"}, '{"status": "cancelled"}')], "Order W-8812 is cancelled."),
        ([HELD, ("update_order", {"order_id": "W-8812", "status": "void"}, '{"ok": true}')], "I've cancelled order W-8812."),
        ([("cancel_order", {"order_id": "W-8812"}, '{"error": "already cancelled"}')], "Order W-8812 is cancelled."),
        (
            [("kubectl", {"command": "kubectl describe hpa search"}, "cpu on pods (of request): 143% (715m) / 70%\ncpu: 702m, 731m")],
            "715m being 143 % means that the request is 500m per pod.",
        ),
        (["My flight was cancelled.", ("cancel_booking", {}, '{"error": "no"}')], "Your flight was cancelled by the airline."),
    ],
)
async def test_an_honest_account_is_left_alone(steps: list[Step], answer: str) -> None:
    assert [] == await doubted(steps, answer)


async def test_a_turn_that_goes_on_with_a_call_is_no_account() -> None:
    assert [] == await judged(exchange_of([RED], "All tests pass. Now I push.", calls=True))


async def test_nothing_is_called_never_done_where_the_conversation_is_not_whole() -> None:
    status: Step = ("bash", {"command": "git status"}, "clean")
    assert [("push", "unsupported")] == await doubted([status], "I pushed it.")
    assert [] == await doubted([status], "I pushed it.", unseen_items=1)
    assert [] == await doubted(["This session is being continued from a previous conversation. The fix was made.", status], "I pushed it.")


async def test_a_chat_without_tools_is_not_read() -> None:
    assert [] == await judged(exchange_of(["Hello"], "I've cancelled your order, all tests pass."))


# ---- the judge ----


def reader(doubted: str = "yes", read: str = "supported", ask: AskAbout = "unsure") -> ScriptedJudge:
    """A judge that answers the same to every question about a doubted sentence, and the same to every other."""
    return ScriptedJudge(lambda question: doubted if question.purpose == "work" else read, ask)


async def found_with(judge: ScriptedJudge, steps: Sequence[Step], answer: str, **more: Any) -> list[dict[str, Any]]:
    """The sentences that are doubted."""
    verdicts = await judged(exchange_of(steps, answer, **more), replace(make_ports(), judge=judge))
    return [one for verdict in verdicts for one in verdict.detail.get("doubted", ())]


@pytest.mark.parametrize(("choice", "expected"), [("yes", 1), ("no", 0), ("", 1)])
async def test_a_judge_is_asked_whether_a_doubted_sentence_says_that_work_was_done(choice: str, expected: int) -> None:
    judge = reader(choice)
    assert expected == len(await found_with(judge, [RED], "All tests pass."))
    assert [("work", "All tests pass.")] == [(one.purpose, one.statement) for asked in judge.asked for one in asked]


@pytest.mark.parametrize(
    ("choice", "answer", "expected"),
    [
        ("contradicted", "The ticket is closed.", "contradicted"),
        ("neither", "I phoned the carrier.", "unsupported"),
        ("neither", "The ticket is closed.", None),
        ("neither", "I did not phone the carrier.", None),
        ("supported", "I phoned the carrier.", None),
        ("", "I phoned the carrier.", None),
    ],
)
async def test_a_sentence_that_no_rule_decides_is_the_judges_to_read(choice: str, answer: str, expected: str | None) -> None:
    found = await found_with(reader(read=choice), [READ], answer)
    assert [(expected, answer)] * (expected is not None) == [(one["label"], one["text"]) for one in found]


async def test_the_judge_is_shown_all_calls_what_was_said_and_what_came_back() -> None:
    judge = reader()
    await found_with(judge, ["Close ticket 7.", READ, HELD], "The ticket is closed.")
    [[question]] = judge.asked
    calls, *events = question.evidence
    assert [ALL_CALLS, '1. get_order {"order_id": "W-8812"}', '2. cancel_order {"order_id": "W-8812"} (failed)'] == calls.split("\n")
    assert ["(user) Close ticket 7.", "(call 1, get_order)", "(call 2, cancel_order)"] == [
        event if i == 0 else event.partition(") ")[0] + ")" for i, event in enumerate(events)
    ]


async def test_what_is_contradicted_names_the_call_that_shares_most_words_with_it() -> None:
    [one] = await found_with(reader(read="contradicted"), [EDIT, READ], "The status of order W-8812 is shipped.")
    assert ("get_order", "c1", "So it is.") == (one["evidence"]["tool"], one["evidence"]["tool_call"], one["reason"])


async def test_of_a_long_run_the_judge_is_shown_what_shares_words_with_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)  # a lean installation has none
    judge = reader()
    noise: list[Step] = [("read_file", {"path": f"src/part{i}.py"}, f"value = {i}\n" * 400) for i in range(8)]
    await found_with(judge, [*noise[:4], ("send_mail", {"to": "Ada"}, "mail to Ada bounced"), *noise[4:]], "The mail has reached Ada.")
    [[question]] = judge.asked
    assert any("bounced" in event for event in question.evidence)
    assert EVENT_CHARS + LIST_CHARS + 400 > sum(map(len, question.evidence))


async def test_of_a_result_that_is_larger_than_what_is_read_the_end_is_shown() -> None:
    judge = reader()
    await found_with(judge, [("bash", {"command": "make"}, "line\n" * 50_000 + "the carrier was phoned")], "I phoned the carrier.")
    assert any("the carrier was phoned" in event for event in judge.asked[0][0].evidence)


async def test_without_the_whole_run_the_judge_is_not_told_that_the_list_is_complete() -> None:
    judge = reader(read="neither")
    assert [] == await found_with(judge, [READ], "I phoned the carrier.", unseen_items=1)
    assert not judge.asked[0][0].evidence[0].startswith(ALL_CALLS)


async def test_a_judge_is_asked_about_the_last_sentences_of_a_long_account() -> None:
    judge = reader()
    await found_with(judge, [READ], " ".join(f"Box {i} is in row {i}." for i in range(30)))
    assert [f"Box {i} is in row {i}." for i in range(30 - MAX_ASKED, 30)] == [one.statement for one in judge.asked[0]]


async def test_a_judge_that_is_asked_about_all_reads_words_that_no_rule_knows_and_sentences_that_rules_leave_alone() -> None:
    answer = "If you ask me, only the ticket is closed."
    assert [] == await found_with(reader(read="contradicted"), [READ], answer)
    assert [answer] == [one["text"] for one in await found_with(reader(read="contradicted", ask="all"), [READ], answer)]
    assert [] == await found_with(reader(read="contradicted", ask="all"), [READ], "Shall I close the ticket?")


# ---- reading ----


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("== 2 failed, 39 passed, 1 skipped in 3.4s ==", (2, 39)),
        ("Tests:       1 failed, 94 passed, 95 total\nTime: 5 s", (1, 94)),
        ("  12 passing (30ms)\n  2 failing\n", (2, None)),
        ("test result: FAILED. 3 passed; 1 failed; 0 ignored", (1, 3)),
        ("--- FAIL: TestA (0.00s)\nFAIL\tgithub.com/a/b\t0.01s", (1, None)),
        ("ok  \tgithub.com/a/b\t0.012s", (0, None)),
        ("Ran 4 tests in 0.1s\n\nOK", (0, None)),
        ("Tests run: 12, Failures: 1, Errors: 0, Skipped: 0", (1, 11)),
        ("10 examples, 0 failures", (0, None)),
        ("61 tests completed, 1 failed\nBUILD FAILED", (1, None)),
        ("nothing of the kind", None),
    ],
)
def test_reports_of_tests_are_read(output: str, expected: tuple[int, int | None] | None) -> None:
    assert expected == report_of(output)


def test_of_a_long_answer_the_last_statements_count() -> None:
    found = statements_of("".join(f"I updated `a{i}.py`. " for i in range(400)))
    assert (40, ("a399.py",)) == (len(found), found[-1].files)


async def test_a_long_run_and_a_long_answer_are_read_within_the_stage_s_time() -> None:
    steps = [RED, EDIT] * 600
    [verdict] = await judged(exchange_of(steps, "".join(f"I updated `a{i}.py`. " for i in range(400))))
    assert ("warn", 20) == (verdict.outcome, len(verdict.detail["doubted"]))


def test_what_another_stage_has_read_of_a_result_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(results, "read_text", read.append)
    output = "an output that no other test has"
    assert (None, "done") == (results.read_result(output), result_of(CalledTool("c", "bash", "{}", 1, ToolResult(2, output))))
    assert [output] == read


@pytest.mark.cost
@pytest.mark.parametrize("command", ["cat <<a" + "\n" * 20_000, "mvn " * 5_000, "gradle " * 2_900, "gh pr " * 3_300, "black " * 3_300])
async def test_a_command_that_is_meant_to_be_slow_is_read_in_bounded_time(command: str) -> None:
    exchange = exchange_of([("bash", {"command": command}, "\n" * 4_000)], "All tests pass, lint is clean, committed and pushed.")
    with below(0.4):
        await judged(exchange)
