import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from proxy.errors import ContextLengthExceeded, Overloaded, PolicyBlocked, StoreUnavailable
from proxy.exchange import Answer, Choice, Evidence, Exchange, Sentence, ToolCall, Verdict
from proxy.offloop import LARGE, check, run_in_thread_if_large
from proxy.pipeline import Pipeline
from proxy.ports.deadline import left_s
from proxy.ports.stage import SentenceStage, Stage, StageOptions
from proxy.testing import make_exchange, make_ports


def stage_of(name: str = "probe", options: StageOptions | None = None, base: type[Stage] = Stage, **hooks: object) -> Stage:
    kind = type("Probe", (base,), {"name": name, **hooks})
    return kind(options or StageOptions(), make_ports())


async def test_stages_run_in_order_and_leave_their_verdicts_and_timings() -> None:
    async def first(self: Stage, exchange: Exchange) -> Verdict:
        exchange.messages = ({"role": "user", "content": "changed"},)
        return Verdict("first", "pass")

    async def second(self: Stage, exchange: Exchange) -> Verdict:
        return Verdict("second", "warn", code=str(exchange.messages[0]["content"]))

    exchange = make_exchange()
    await Pipeline([stage_of("first", on_request=first), stage_of("second", on_request=second)]).request(exchange)
    assert ["pass", "warn"] == [v.outcome for v in exchange.verdicts]
    assert ["changed"] == exchange.warnings
    assert ["first.request", "second.request"] == list(exchange.timings)


async def is_left_behind(stages: list[Stage], skip: frozenset[str] = frozenset(), said: str = "How tall is it?") -> bool:
    """Whether the passage that a client sends beside this message does not reach the model."""
    exchange, pipeline = make_exchange([{"role": "user", "content": said}]), Pipeline(stages)
    exchange.original, exchange.skip = replace(exchange.original, passages=(Evidence("The tower is 330 m tall."),)), skip
    await pipeline.request(exchange)
    found = await pipeline.left_behind(exchange)
    assert found is None or ("unchecked", "context_not_in_prompt", {"passages": 1}) == (found.outcome, found.code, found.detail)
    return found is not None


async def test_passages_that_no_stage_hands_over_are_told_of() -> None:
    async def hand_over(self: Stage, exchange: Exchange) -> None: ...

    async def prompts(self: Stage, exchange: Exchange) -> None:
        exchange.messages = ({"role": "user", "content": f"By this: {exchange.original.passages[0].content}"},)

    async def answers(self: Stage, exchange: Exchange) -> None:
        exchange.answer = Answer((Choice(0, "330 m"),))

    handing = stage_of("hands", hand_over=hand_over)
    assert await is_left_behind([stage_of()])
    assert await is_left_behind([stage_of(), handing], frozenset({"hands"}))
    assert not await is_left_behind([handing], frozenset({"all"}))
    assert not await is_left_behind([handing])
    assert not await is_left_behind([stage_of(on_request=prompts)])
    assert not await is_left_behind([stage_of(on_request=answers)])
    assert not await is_left_behind([stage_of()], said="The tower is 330 m tall. Is it?")


async def test_a_stage_that_fails_is_an_error_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(self: Stage, exchange: Exchange) -> None:
        exchange.messages = ()
        raise KeyError("bug")

    exchange = make_exchange()
    await Pipeline([stage_of(on_request=broken)]).request(exchange)
    assert "error" == exchange.outcome
    assert exchange.messages is exchange.original.messages
    assert "stage probe (request) failed" in caplog.text


async def test_a_stage_past_its_time_budget_is_an_error() -> None:
    async def slow(self: Stage, exchange: Exchange) -> None:
        await asyncio.Event().wait()

    exchange = make_exchange()
    await Pipeline([stage_of(options=StageOptions(timeout_ms=1), on_request=slow)]).request(exchange)
    assert ["check_timeout"] == exchange.warnings


async def test_a_hook_that_waits_again_and_again_knows_of_its_end_and_has_one() -> None:
    left: list[float] = []

    async def waits(stage: object, exchange: object) -> None:
        try:
            while True:
                left.append(left_s())
                await asyncio.sleep(0.001)
        finally:
            await asyncio.sleep(0)  # what it has to put in order is still done
            left.append(-1.0)

    exchange = make_exchange()
    await Pipeline([stage_of(options=StageOptions(timeout_ms=30), on_request=waits)]).request(exchange)
    assert ["check_timeout"] == [verdict.code for verdict in exchange.verdicts]
    assert 0.03 >= left[0] > left[1]
    assert -1.0 == left[-1]
    assert left_s() == float("inf")


@pytest.mark.parametrize(("reading", "warning"), [(True, "unchecked_model_loading"), (False, "check_timeout")])
async def test_time_spent_on_a_first_reading_is_no_error_of_any_stage(reading: bool, warning: str) -> None:
    async def slow(self: Stage, exchange: Exchange) -> None:
        await asyncio.Event().wait()

    exchange = make_exchange()
    stage = stage_of(options=StageOptions(timeout_ms=1), on_request=slow)
    await Pipeline([stage], reading_since=lambda moment: reading).request(exchange)
    assert [warning] == [verdict.code for verdict in exchange.verdicts]
    assert ("unchecked" if reading else "error") == exchange.verdicts[0].outcome


async def test_a_first_reading_excuses_no_bug_of_a_stage_that_needs_no_model() -> None:
    async def broken(self: Stage, exchange: Exchange) -> None:
        raise KeyError("bug")

    exchange = make_exchange()
    await Pipeline([stage_of(on_request=broken)], reading_since=lambda moment: True).request(exchange)
    assert ["check_failed"] == exchange.warnings


def spending(options: StageOptions) -> Stage:
    """A stage that never ends by itself."""

    def compute() -> None:
        while True:
            check()

    async def hook(self: Stage, exchange: Exchange) -> None:
        await run_in_thread_if_large(LARGE, compute)

    return stage_of(options=options, on_request=hook, on_answer=hook)


async def test_a_check_of_the_request_past_its_processor_time_is_an_error() -> None:
    exchange = make_exchange()
    await Pipeline([spending(StageOptions(cpu_ms=5))]).request(exchange)
    assert ["check_over_budget"] == exchange.warnings


async def test_an_answer_past_its_processor_time_is_unchecked() -> None:
    exchange = make_exchange()
    exchange.answer = Answer((Choice(0, "It is so."),))
    await Pipeline([spending(StageOptions(cpu_ms=5))]).answer(exchange)
    assert [("unchecked", "unchecked_over_budget")] == [(v.outcome, v.code) for v in exchange.verdicts]


async def test_closed_is_503_where_the_processor_time_is_used_up() -> None:
    exchange = make_exchange()
    exchange.answer = Answer((Choice(0, "It is so."),))
    with pytest.raises(Overloaded) as caught:
        await Pipeline([spending(StageOptions(cpu_ms=5, on_error="closed"))]).answer(exchange)
    assert "check_over_budget" == caught.value.param


async def test_the_stages_share_the_exchanges_processor_time() -> None:
    exchange = make_exchange()
    exchange.work.spend(1000)
    exchange.answer = Answer((Choice(0, "It is so."),))
    await Pipeline([spending(StageOptions(cpu_ms=1e9))]).answer(exchange)
    assert ["unchecked_over_budget"] == [v.code for v in exchange.verdicts]


async def test_on_error_closed_refuses_what_could_not_be_checked() -> None:
    async def broken(self: Stage, exchange: Exchange) -> None:
        raise RuntimeError

    with pytest.raises(PolicyBlocked) as caught:
        await Pipeline([stage_of(options=StageOptions(on_error="closed"), on_request=broken)]).request(make_exchange())
    assert "check_failed" == caught.value.param


async def test_what_may_succeed_the_next_time_is_a_503() -> None:
    async def slow(self: Stage, exchange: Exchange) -> None:
        await asyncio.Event().wait()

    stage = stage_of(options=StageOptions(on_error="closed", timeout_ms=1), on_request=slow)
    exchange = make_exchange()
    with pytest.raises(Overloaded) as caught:
        await Pipeline([stage]).request(exchange)
    assert ("check_timeout", (("retry-after", "1"),)) == (caught.value.param, caught.value.headers)
    assert "error" == exchange.outcome


async def test_what_measures_the_prompt_sees_what_the_others_have_made_of_it() -> None:
    async def measure(self: Stage, exchange: Exchange) -> Verdict:
        return Verdict("measure", "warn", code=str(len(exchange.messages)))

    async def add(self: Stage, exchange: Exchange) -> None:
        exchange.messages = [*exchange.messages, {"role": "user", "content": "one more"}]

    exchange = make_exchange()
    before = len(exchange.messages)
    await Pipeline([stage_of("measure", measures=True, on_forward=measure), stage_of("add", on_forward=add)]).request(exchange)
    assert [str(before + 1)] == exchange.warnings


async def test_a_block_ends_the_request_with_its_code_and_message() -> None:
    async def block(self: Stage, exchange: Exchange) -> Verdict:
        return Verdict("probe", "block", code="poisoned_context", message="not true")

    exchange = make_exchange()
    with pytest.raises(PolicyBlocked) as caught:
        await Pipeline([stage_of(on_request=block)]).request(exchange)
    assert ("poisoned_context", "not true") == (caught.value.param, caught.value.message)
    assert "block" == exchange.outcome


async def test_an_error_that_a_stage_raises_for_the_client_is_also_a_verdict() -> None:
    async def refuse(self: Stage, exchange: Exchange) -> None:
        raise ContextLengthExceeded("too long", param="messages")

    exchange = make_exchange()
    with pytest.raises(ContextLengthExceeded):
        await Pipeline([stage_of(on_request=refuse)]).request(exchange)
    assert "block" == exchange.outcome


@pytest.mark.parametrize("skip", ["probe", "all"])
async def test_a_skipped_stage_does_not_run(skip: str) -> None:
    async def never(self: Stage, exchange: Exchange) -> None:
        raise AssertionError("ran")

    exchange = make_exchange()
    exchange.skip = frozenset((skip,))
    pipeline = Pipeline([stage_of(on_request=never, on_answer=never)])
    await pipeline.request(exchange)
    await pipeline.answer(exchange)
    assert (False, [], False) == (pipeline.ran(exchange), exchange.verdicts, pipeline.judges_answers(exchange))


async def test_sentence_stages_see_what_the_one_before_left() -> None:
    async def shout(self: Stage, exchange: Exchange, sentence: Sentence) -> Verdict:
        return Verdict("shout", "warn", replacement=sentence.text.upper())

    async def exclaim(self: Stage, exchange: Exchange, sentence: Sentence) -> Verdict:
        return Verdict("exclaim", "warn", replacement=sentence.text + "!")

    stages = [stage_of("shout", base=SentenceStage, on_sentence=shout), stage_of("exclaim", base=SentenceStage, on_sentence=exclaim)]
    assert "HI!" == await Pipeline(stages).sentence(make_exchange(), Sentence("hi", 0, 0, 0, True))


async def test_cancellation_passes_through() -> None:
    started = asyncio.Event()

    async def wait(self: Stage, exchange: Exchange) -> None:
        started.set()
        await asyncio.Event().wait()

    exchange = make_exchange()
    task = asyncio.create_task(Pipeline([stage_of(on_request=wait)]).request(exchange))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [] == exchange.verdicts


async def test_a_stage_that_reads_passages_gets_hints_first_then_those_found_in_the_messages() -> None:
    exchange = make_exchange([{"role": "user", "content": "<context>found</context> Why?"}])
    exchange.original = msgspec.structs.replace(exchange.original, passages=(Evidence("hint"),))
    exchange.evidence = exchange.original.passages
    await Pipeline([stage_of(reads_passages=True)], ["wiki"]).request(exchange)
    assert ["hint", "found"] == [p.content for p in exchange.passages] == [e.content for e in exchange.evidence]
    assert ("wiki",) == exchange.retrieval_tools


async def test_a_failed_stage_leaves_the_passages_as_they_were() -> None:
    async def broken(self: Stage, exchange: Exchange) -> Verdict:
        exchange.passages = ()
        raise ValueError

    exchange = make_exchange()
    exchange.passages = (Evidence("kept"),)
    await Pipeline([stage_of(on_request=broken)]).request(exchange)
    assert ["kept"] == [p.content for p in exchange.passages]


@pytest.mark.parametrize(
    ("skip", "answered_by"),
    [((), "first"), (("first",), "second"), (("second",), "first"), (("third",), "first"), (("first", "second"), "")],
)
async def test_of_several_stages_that_offer_a_tool_the_first_active_one_answers(skip: tuple[str, ...], answered_by: str) -> None:
    async def answer(self: Stage, exchange: Exchange, call: ToolCall) -> str:
        return self.name

    pipeline = Pipeline([stage_of(name, answers=("read",), on_tool_call=answer) for name in ("first", "second")])
    exchange = make_exchange()
    exchange.tools = ({"type": "function", "function": {"name": "read"}},)
    exchange.skip = frozenset(skip)
    assert frozenset({"read"} if answered_by else ()) == pipeline.own_calls.offered(exchange)
    if answered_by:
        assert [answered_by] == await pipeline.own_calls.answer(exchange, [ToolCall("1", "read", "{}")])


async def test_answers_are_judged_after_the_stages_that_a_stage_waits_for() -> None:
    order: list[str] = []

    async def note(self: Stage, exchange: Exchange) -> None:
        order.append(self.name)

    def listed(name: str, *after: str) -> Stage:
        return stage_of(name, on_answer=note, answers_after=after)

    stages = [listed("first"), listed("citations", "claims"), listed("confidence", "claims", "citations"), listed("claims"), listed("last")]
    await Pipeline(stages).answer(make_exchange())
    assert ["first", "claims", "citations", "confidence", "last"] == order


async def test_sentences_are_judged_in_the_order_of_answers() -> None:
    order: list[str] = []

    async def note(self: Stage, exchange: Exchange, sentence: Sentence) -> None:
        order.append(self.name)

    stages = [stage_of(name, base=SentenceStage, on_sentence=note, answers_after=after) for name, after in (("b", ("a",)), ("a", ()))]
    await Pipeline(stages).sentence(make_exchange(), Sentence("It is.", 0, 0, 0, True))
    assert ["a", "b"] == order


def test_stages_that_wait_for_each_other_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="a, b"):
        Pipeline([stage_of("a", answers_after=("b",)), stage_of("b", answers_after=("a",))])


async def test_no_sentence_waits_for_a_stage_that_does_not_look_at_any() -> None:
    assert not Pipeline([stage_of(base=SentenceStage, judges_sentences=False)]).judges_sentences(make_exchange())


async def test_every_stage_lets_go_of_an_exchange_that_has_ended_whatever_another_does(caplog: pytest.LogCaptureFixture) -> None:
    released: list[str] = []

    def broken(self: Stage, exchange: Exchange) -> None:
        released.append(self.name)
        raise KeyError("bug")

    def fine(self: Stage, exchange: Exchange) -> None:
        released.append(self.name)

    Pipeline([stage_of("first", release=broken), stage_of("second", release=fine)]).release(make_exchange())
    assert ["first", "second"] == released
    assert "stage first (release) failed" in caplog.text


async def test_what_left_is_told_to_every_stage_that_was_not_left_out(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    async def learn(self: Stage, exchange: Exchange) -> None:
        told.append(self.name)
        if self.name == "broken":
            raise KeyError("bug")

    exchange = make_exchange()
    exchange.answer = Answer((Choice(0, "Hi"),))
    exchange.skip = frozenset({"left_out"})
    await Pipeline([stage_of(name, on_done=learn) for name in ("left_out", "broken", "last")]).done(exchange)
    assert ["broken", "last"] == told
    assert "stage broken (done) failed" in caplog.text


async def test_what_a_stage_cannot_learn_without_the_store_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def learn(self: Stage, exchange: Exchange) -> None:
        raise StoreUnavailable("the disk is gone")

    exchange = make_exchange()
    exchange.answer = Answer((Choice(0, "Hi"),))
    await Pipeline([stage_of("learner", on_done=learn)]).done(exchange)
    (line,) = caplog.records
    assert (f"{exchange.id}: stage learner (done) learns nothing: the disk is gone", None) == (line.getMessage(), line.exc_info)


async def test_of_sentences_that_hold_the_first_verdict_is_kept_and_every_other_finding() -> None:
    async def judge(self: Stage, exchange: Exchange, sentence: Sentence) -> Verdict:
        outcome, code = ("warn", sentence.text.strip()) if "odd" in sentence.text else ("pass", "")
        return Verdict(self.name, outcome, code=code, replacement="Mended." if "mend" in sentence.text else None)

    pipeline = Pipeline([stage_of("one", base=SentenceStage, on_sentence=judge), stage_of("two", base=SentenceStage, on_sentence=judge)])
    exchange = make_exchange()
    for i, text in enumerate(("Fine. ", "Fine too. ", "odd 1. ", "odd 2. ", "mend me.")):
        await pipeline.sentence(exchange, Sentence(text, 0, i, 0, final=False))
    kept = [(v.stage, v.outcome, v.code, v.replacement) for v in exchange.verdicts]
    each = [(name, "pass", "", None) for name in ("one", "two")]
    odd = [(name, "warn", f"odd {n}.", None) for n in (1, 2) for name in ("one", "two")]
    assert [*each, *odd, ("one", "pass", "", "Mended.")] == kept


# ---- what only tells, while the model is asked ----


async def test_what_only_tells_runs_while_the_model_is_asked_and_stands_in_the_policys_place() -> None:
    ran: list[str] = []

    async def tell(self: Stage, exchange: Exchange) -> Verdict:
        ran.append("told")
        return Verdict("tells", "warn", code="told")

    async def change(self: Stage, exchange: Exchange) -> Verdict:
        exchange.messages = ({"role": "user", "content": "changed"},)
        return Verdict("changes", "pass")

    exchange = make_exchange()
    pipeline = Pipeline([stage_of("tells", read_only=True, on_request=tell), stage_of("changes", on_request=change)])
    await pipeline.begin(exchange)
    assert ([], ["changes"]) == (ran, [verdict.stage for verdict in exchange.verdicts])
    await pipeline.wait_for_background(exchange)
    assert (["told"], ["tells", "changes"]) == (ran, [verdict.stage for verdict in exchange.verdicts])


async def test_what_only_tells_and_fails_takes_nothing_back_that_was_done_meanwhile() -> None:
    begun, changed = asyncio.Event(), asyncio.Event()

    async def broken(self: Stage, exchange: Exchange) -> None:
        begun.set()
        await changed.wait()
        raise KeyError("bug")

    async def forward(self: Stage, exchange: Exchange) -> None:
        await begun.wait()
        exchange.messages = ({"role": "user", "content": "meanwhile"},)
        exchange.facts.clashes = 3

    exchange = make_exchange()
    pipeline = Pipeline([stage_of("tells", read_only=True, on_request=broken), stage_of("forward", on_forward=forward)])
    await pipeline.begin(exchange)
    changed.set()
    await pipeline.wait_for_background(exchange)
    assert ("error", "meanwhile", 3) == (exchange.outcome, exchange.messages[0]["content"], exchange.facts.clashes)


async def test_what_only_tells_is_waited_for_where_the_policy_refuses_what_it_cannot_check() -> None:
    async def broken(self: Stage, exchange: Exchange) -> None:
        raise RuntimeError

    with pytest.raises(PolicyBlocked):
        await Pipeline([stage_of(options=StageOptions(on_error="closed"), read_only=True, on_request=broken)]).begin(make_exchange())


async def test_what_only_tells_ends_with_an_exchange_that_nobody_waits_for() -> None:
    ended = asyncio.Event()

    async def tell(self: Stage, exchange: Exchange) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    exchange = make_exchange()
    pipeline = Pipeline([stage_of(read_only=True, on_request=tell)])
    await pipeline.begin(exchange)
    telling = pipeline._background[exchange.id].task
    await asyncio.sleep(0.01)
    pipeline.release(exchange)
    await asyncio.wait((telling,))
    assert (True, {}) == (ended.is_set(), pipeline._background)


async def test_an_answer_in_the_models_stead_leaves_nothing_to_tell() -> None:
    async def answers(self: Stage, exchange: Exchange) -> None:
        exchange.answer = Answer((Choice(0, "Nothing was found."),))

    async def tell(self: Stage, exchange: Exchange) -> Verdict:
        return Verdict("tells", "warn", code="told")

    exchange = make_exchange()
    await Pipeline([stage_of("tells", read_only=True, on_request=tell), stage_of("answers", on_request=answers)]).request(exchange)
    assert [] == exchange.verdicts


async def test_an_answer_that_comes_before_all_is_told_leaves_none_of_it_out() -> None:
    answered = asyncio.Event()

    async def wait(self: Stage, exchange: Exchange) -> Verdict:
        await answered.wait()
        return Verdict("waits", "pass")

    async def tell(self: Stage, exchange: Exchange) -> Verdict:
        return Verdict("tells", "warn", code="told")

    exchange = make_exchange()
    stages = [stage_of("waits", read_only=True, on_request=wait), stage_of("tells", read_only=True, on_request=tell)]
    pipeline = Pipeline(stages)
    await pipeline.begin(exchange)
    exchange.answer = Answer((Choice(0, "Paris."),))
    answered.set()
    await pipeline.wait_for_background(exchange)
    assert ["waits", "tells"] == [verdict.stage for verdict in exchange.verdicts]
