"""The simulated agent: its tasks can be done and can fail, its model reads guidance as the proxy renders it, its runs are counted right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks.reflection import Bench, loaded, worse
from benchmarks.reflection_agent import Habits, Model, read_guidance, read_line, said
from benchmarks.reflection_ways import CLEAN, HARMLESS, KINDS, WAYS, make_task
from benchmarks.reflection_world import ASK, ERRORS_TOLD, Action, Agent, Outcome, Reply, Run, World
from proxy.ports.failures import FailureRecord
from proxy.stages.reflection.wording import CLOSING, OPENING, TONGUES, line_of

SEEDS = range(12)


def record(adjustment: Mapping[str, Any], *, subject: str = "search", code: str = "timeout", signal: str = "tool_error") -> FailureRecord:
    return FailureRecord(
        id="fl_1",
        client="c",
        run_id="r",
        policy="p",
        record_id="gw_1",
        step_id="1",
        phase="tool",
        signal_type=signal,
        code=code,  # type: ignore[arg-type]
        severity="medium",
        subject=subject,
        fingerprint="fp_1",
        action_key="k",
        observed_outcome={"code": code},
        context_refs=(),
        created_at=0.0,
        attempted_action={"kind": "tool_call", "tool": subject, "arguments": {"limit": 50}},
        recommended_adjustment=adjustment,
    )


async def alone(kind: str, seed: int, *, heed: float = 0.0, told: str = "") -> Run:
    """A run with no proxy in between; `told` stands at the end of every prompt."""
    task = make_task(kind, seed)
    agent, model = Agent(task), Model(task, Habits(heed=heed))

    async def post(body: Mapping[str, Any]) -> Reply:
        messages = [*body["messages"][:-1], {**body["messages"][-1], "content": f"{body['messages'][-1]['content']}\n\n{told}"}]
        return Reply(200, said(model.step(messages, agent.truth), f"call_{agent.run.steps}"))

    return await agent.work(post)


def block(*lines: str) -> str:
    return "\n".join((OPENING, *lines, CLOSING))


# ---- tasks ----


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_way_leads_to_the_end_without_a_failure(kind: str) -> None:
    for seed in SEEDS:
        task = make_task(kind, seed)
        world = World(task, granted=True)
        for goal in task.goals:
            found = [world.call(call) for call in goal.parts.values()]
            assert [("", part) for part in goal.parts] == [(outcome.failed, outcome.part) for outcome in found]


@pytest.mark.parametrize("kind", WAYS)
def test_every_tempting_call_fails(kind: str) -> None:
    for seed in SEEDS:
        task = make_task(kind, seed)
        world = World(task)
        for goal in task.goals:
            for call in goal.parts.values() if goal.after else ():
                world.call(call)
            assert all(world.call(call).failed for call in goal.tempting)


def test_a_task_is_the_same_for_a_seed_and_another_for_another() -> None:
    assert make_task(WAYS[0], 3).user == make_task(WAYS[0], 3).user
    assert make_task(WAYS[0], 3).user != make_task(WAYS[0], 4).user


def test_every_call_of_a_tool_words_its_error_with_new_numbers() -> None:
    texts = set()
    for seed in SEEDS:
        task = make_task(WAYS[0], seed)
        wrong = next(goal for goal in task.goals if goal.tempting).tempting[0]
        world = World(task)
        texts.add(world.call(wrong).text == world.call(wrong).text)
    assert {True, False} == texts  # some wordings have no number


# ---- guidance ----

MEANT = {
    "cap_output": "cap",
    "paginate": "cap",
    "change_arguments": "change",
    "fix_arguments": "fix",
    "use_other_tool": "other",
    "use_known_tool": "known",
    "rephrase_query": "rephrase",
    "use_result": "result",
    "retry_later": "later",
    "ask_human": "ask",
    "stop_repeating": "another",
    "say_not_found": "give up",
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "cap_output": {"argument": "limit", "max": 10},
    "paginate": {"argument": "limit", "max": 10, "page_argument": "page"},
    "fix_arguments": {"argument": "limit"},
    "use_other_tool": {"tools": ["find"]},
    "use_known_tool": {"tools": ["find"]},
}


@pytest.mark.parametrize("kind", MEANT)
def test_the_model_understands_every_adjustment_that_is_about_a_call(kind: str) -> None:
    for given in ({}, PARAMETERS.get(kind, {})):
        if kind in ("cap_output", "paginate") and not given:
            continue
        advice = read_line(line_of(record({"type": kind, **given})), ("search", "find"))
        assert advice is not None
        assert (MEANT[kind], "search") == (advice.kind, advice.tool)


def test_every_adjustment_is_one_that_the_model_knows_or_that_is_about_no_call() -> None:
    assert {"return_valid_json", "reduce_context", "follow_correction"} == set(TONGUES["en"].advice) - set(MEANT)


@pytest.mark.parametrize("kind", ["cap_output", "paginate"])
@pytest.mark.parametrize("seen", [True, False])
def test_a_cap_comes_with_its_argument_and_number(kind: str, seen: bool) -> None:
    given = record({"type": kind, "argument": "limit" if seen else "rows", "max": 10})
    advice = read_line(line_of(given), ("search",))
    assert advice is not None
    assert ("limit" if seen else "rows", 10) == (advice.argument, advice.most)


def test_broken_fields_are_named() -> None:
    errors = [{"pointer": "/guests", "keyword": "type"}, {"pointer": "/level", "keyword": "enum"}]
    advice = read_line(line_of(record({"type": "fix_arguments", "errors": errors}, code="invalid_arguments")), ("search",))
    assert advice is not None
    assert "fix" == advice.kind
    assert {"guests", "level"} <= set(advice.words)


def test_guidance_is_found_where_it_stands_and_nowhere_else() -> None:
    line = line_of(record({"type": "ask_human"}))
    told = read_guidance([{"role": "tool", "content": f"Result.\n- search is down: retry later.\n\n{block(line)}"}], ("search",))
    assert ["ask"] == [advice.kind for advice in told]
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": block(line)}]
    assert 1 == len(read_guidance([{"role": "user", "content": parts}], ("search",)))
    assert [] == read_guidance([{"role": "tool", "content": f"Result.\n{line}"}], ("search",))


def test_the_naive_peers_list_is_read_from_the_system_prompt() -> None:
    text = f"You are an agent.\n\n{ERRORS_TOLD}\n- search: {{}} timed out"
    assert [("error", "search")] == [(a.kind, a.tool) for a in read_guidance([{"role": "system", "content": text}], ())]


# ---- the model ----


@pytest.mark.parametrize("kind", KINDS)
async def test_paired_runs_begin_with_the_same_calls(kind: str) -> None:
    for seed in SEEDS:
        one, other = await alone(kind, seed, heed=0.0), await alone(kind, seed, heed=1.0)
        assert [call.key for call, _ in one.calls] == [call.key for call, _ in other.calls]  # nothing was told


@pytest.mark.parametrize("kind", KINDS[:-2])
async def test_left_alone_the_model_fails_again_and_again(kind: str) -> None:
    runs = [await alone(kind, seed) for seed in SEEDS]
    assert all(run.failures for run in runs if not kind.startswith("6"))
    assert any(run.repeats > 1 for run in runs)


@pytest.mark.parametrize("kind", [HARMLESS, CLEAN])
async def test_where_nothing_tempts_it_the_model_does_not_fail(kind: str) -> None:
    runs = [await alone(kind, seed) for seed in SEEDS]
    assert {(True, 0)} == {(run.solved, run.failures) for run in runs}


async def test_what_only_a_person_can_open_stays_closed() -> None:
    assert {(False, 20)} == {(run.solved, run.steps) for run in [await alone(WAYS[7], seed) for seed in SEEDS]}


async def test_good_advice_is_followed() -> None:
    for seed in SEEDS:
        task = make_task(WAYS[0], seed)
        wrong = next(goal for goal in task.goals if goal.tempting).tempting[0]
        size = next(name for name, value in wrong.arguments.items() if value == 50)
        run = await alone(WAYS[0], seed, heed=1.0, told=block(f"- {wrong.tool} timed out with {size}=50: ask for at most 10 and page."))
        assert (True, 0) == (run.solved, run.failures)


async def test_wrong_advice_leads_astray() -> None:
    def advice(seed: int) -> str:
        goal = next(goal for goal in make_task(WAYS[1], seed).goals if goal.tempting)
        return block(f"- {goal.tempting[0].tool} found nothing: use other words in query.")

    runs = [(await alone(WAYS[1], seed, heed=1.0, told=advice(seed)), await alone(WAYS[1], seed)) for seed in SEEDS]
    assert sum(run.failures for run, _ in runs) > sum(base.failures for _, base in runs)


async def test_advice_about_something_harmless_keeps_the_model_from_it() -> None:
    task = next(task for seed in range(100) if "poll_export" in (task := make_task(HARMLESS, seed)).names)
    told = block("- poll_export was called again with the same arguments and result: read the result of call_1 instead.")
    assert (await alone(HARMLESS, task.seed, heed=0.0, told=told)).solved
    assert not (await alone(HARMLESS, task.seed, heed=1.0, told=told)).solved


async def test_told_to_ask_the_model_asks_once_and_goes_on() -> None:
    for seed in SEEDS:
        tool = next(goal for goal in make_task(WAYS[7], seed).goals if goal.tempting).tempting[0].tool
        run = await alone(WAYS[7], seed, heed=1.0, told=block(f"- {tool} was denied permission: ask the user."))
        assert (True, 1, 0) == (run.solved, run.asked, run.failures)


# ---- counting ----

SEARCH = Action("search", {"query": "a", "limit": 50})
FAILED, FINE = Outcome("timed out", "timeout"), Outcome("rows", part="part-1")


def test_a_repeat_is_the_same_call_failing_again() -> None:
    same = Action("search", {"limit": 50, "query": " A "})
    run = Run("", 0, calls=[(SEARCH, FAILED), (same, FAILED), (SEARCH.but(limit=40), FAILED), (SEARCH, FINE), (SEARCH, FINE)])
    assert (3, 1, 2) == (run.failures, run.repeats, run.repeats_by_kind)


def test_another_kind_of_failure_is_no_repeat_by_kind() -> None:
    run = Run("", 0, calls=[(SEARCH, FAILED), (SEARCH.but(limit=1), Outcome("no", "denied"))])
    assert (0, 0) == (run.repeats, run.repeats_by_kind)


def test_a_run_without_success_takes_as_many_steps_as_it_may() -> None:
    assert (3, 20) == (Run("", 0, solved=True, steps=3).steps_to_success, Run("", 0, stopped=True, steps=3).steps_to_success)


def test_a_run_is_worse_when_it_is_not_solved_or_takes_longer_or_fails_more() -> None:
    base = Run("", 0, solved=True, steps=5, calls=[(SEARCH, FAILED)])
    assert [] == worse(base, base)
    assert ["not solved"] == worse(Run("", 0, steps=5), base)
    assert ["more steps", "more failures"] == worse(Run("", 0, solved=True, steps=6, calls=[(SEARCH, FAILED)] * 2), base)
    assert [] == worse(Run("", 0, steps=4), Run("", 0, steps=20))


async def test_a_question_is_due_after_three_failures_of_one_call() -> None:
    async def due(failures: int) -> list[bool]:
        task = make_task(WAYS[7], 1)
        wrong = next(goal for goal in task.goals if goal.tempting).tempting[0]
        agent = Agent(task)

        async def post(body: Mapping[str, Any]) -> Reply:
            if agent.run.steps <= failures:
                return Reply(200, said(wrong, f"call_{agent.run.steps}"))
            return Reply(200, said(ASK, ""), asked=not agent.run.questions)

        return (await agent.work(post)).questions

    assert ([False], [True]) == (await due(2), await due(3))


@pytest.mark.slow  # a running proxy
async def test_an_agent_s_run_goes_through_the_running_proxy() -> None:
    async with Bench(loaded()) as bench:
        run = await bench.run(CLEAN, 1, ("with", 0.8))
    assert run.steps > 1
