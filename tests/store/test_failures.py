"""Failure records, on both databases."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.errors import StoreUnavailable
from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failures import Failure
from proxy.store.database import Database, StoreRejected
from proxy.store.failure_rows import failure_id
from proxy.store.failures import DatabaseFailures
from tests.stages.reflection.kept import known
from tests.store.conftest import opened

RUN = {"client": "alice", "run_id": "r"}
STEP = {**RUN, "policy": "agent@0123abcd", "step_id": "s1", "record_id": "gw_1"}
EVERYTHING = {"fingerprints": (), "subjects": ()}


def failure(name: str = "f1", **changes: Any) -> Failure:
    fields: dict[str, Any] = {
        "signal_type": "tool_error",
        "code": "timeout",
        "severity": "medium",
        "phase": "tool",
        "subject": "search_docs",
        "attempted_action": {"kind": "tool_call", "tool": "search_docs", "tool_call_ids": ["call_1"], "arguments": {"limit": 50}},
        "observed_outcome": {"code": "timeout", "status": 504},
        "recommended_adjustment": {"type": "cap_output", "at_most": 10},
        "context_refs": ({"message": 3}, {"tool_call": "call_1"}),
        "fingerprint": name,
        "action_key": "k",
        "cause": "c",
        "position": 3,
    }
    return Failure(**{**fields, **changes})


def occurred(name: str = "f1", cause: str = "c1", **changes: Any) -> FailureEvent:
    return FailureEvent(kind="occurred", fingerprint=name, cause=cause, failure=failure(name, cause=cause, **changes))


def event(kind: Any, name: str = "f1", cause: str = "c2", **changes: Any) -> FailureEvent:
    return FailureEvent(kind=kind, fingerprint=name, cause=cause, **changes)


def counting(database: Database) -> DatabaseFailures:
    """A store whose every operation is a second after the one before."""
    clock = iter(range(1, 10_000))
    return DatabaseFailures(database, clock=lambda: float(next(clock)))


def names(records: Sequence[FailureRecord]) -> list[str]:
    return [record.fingerprint for record in records]


async def test_a_failure_is_kept_with_all_that_is_known_of_it(database: Database) -> None:
    store = DatabaseFailures(database, clock=lambda: 12.5)
    (kept,) = await store.apply([occurred()], **STEP)
    expected = FailureRecord(
        id=failure_id("alice", "r", "f1"),
        client="alice",
        run_id="r",
        policy="agent",
        record_id="gw_1",
        step_id="s1",
        phase="tool",
        signal_type="tool_error",
        code="timeout",
        severity="medium",
        subject="search_docs",
        fingerprint="f1",
        action_key="k",
        attempted_action=failure().attempted_action,
        observed_outcome=failure().observed_outcome,
        recommended_adjustment=failure().recommended_adjustment,
        context_refs=failure().context_refs,
        created_at=12.5,
        last_seen_step_id="s1",
        last_seen_at=12.5,
        updated_at=12.5,
    )
    assert expected == kept == await store.get(kept.id)
    assert [expected] == await store.relevant(**RUN, **EVERYTHING) == await known(store, **RUN, fingerprints=["f1"])
    assert [expected] == [one.record for one in (await store.revisions(kept.id))[0]]


@given(first=st.tuples(*[st.text()] * 3), second=st.tuples(*[st.text()] * 3))
@example(first=("ab", "", "f"), second=("a", "b", "f"))
def test_two_failures_have_one_id_only_if_client_run_and_fingerprint_are_the_same(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    assert (first == second) == (failure_id(*first) == failure_id(*second))


async def test_the_same_failure_again_counts_up_in_a_revision_of_its_own(database: Database) -> None:
    store = counting(database)
    await store.apply([occurred()], **STEP)
    (again,) = await store.apply([occurred(cause="c2", severity="high")], **{**STEP, "step_id": "s2", "record_id": "gw_2"})
    shown, more = await store.revisions(again.id)
    assert (2, "s1", "s2", "gw_1", "high") == (
        again.occurrence_count,
        again.step_id,
        again.last_seen_step_id,
        again.record_id,
        again.severity,
    )
    assert ([2, 1], [2, 1], False) == ([r.record.revision for r in shown], [r.record.occurrence_count for r in shown], more)


async def test_a_turn_that_is_seen_again_changes_nothing(database: Database) -> None:
    store = counting(database)
    turn = [occurred(), occurred("f2"), event("injected"), occurred(cause="c3")]
    kept = await store.apply(turn, **STEP)
    assert kept == await store.apply(turn, **{**STEP, "step_id": "s9"})
    assert 3 == len((await store.revisions(kept[0].id))[0])


async def test_an_event_twice_in_one_turn_counts_once(database: Database) -> None:
    (kept,) = await DatabaseFailures(database).apply([occurred(), occurred()], **STEP)
    assert 1 == kept.occurrence_count


async def test_what_changed_nothing_once_changes_nothing_later(database: Database) -> None:
    store = counting(database)
    passed = event("progress", cause="p2")
    await store.apply([occurred(), event("progress", cause="p1"), passed], **STEP)
    (kept,) = await store.apply([occurred(cause="c2"), passed], **STEP)
    assert 1 == kept.stuck_count


async def test_what_was_told_of_a_failure_before_it_was_known_is_passed_over_for_good(database: Database) -> None:
    store = counting(database)
    assert [] == await store.apply([event("resolved")], **STEP)
    (kept,) = await store.apply([event("resolved"), occurred(), event("resolved")], **STEP)
    assert ("active", 1) == (kept.status, kept.revision)


async def test_one_cause_may_make_events_of_two_kinds(database: Database) -> None:
    (kept,) = await DatabaseFailures(database).apply([occurred(cause="c"), event("injected", cause="c")], **STEP)
    assert (2, True) == (kept.revision, kept.guided)


async def test_the_records_come_in_the_order_of_the_events_each_once(database: Database) -> None:
    store = DatabaseFailures(database)
    turn = [occurred("z"), occurred("a"), occurred("z", "c2"), event("resolved", "never known"), occurred("m")]
    assert ["z", "a", "m"] == names(await store.apply(turn, **STEP))
    assert [2, 1, 1] == [record.occurrence_count for record in await store.apply(turn, **STEP)]
    assert [] == await store.apply([], **STEP)


async def test_hundreds_of_events_at_once_are_as_good_as_one(database: Database) -> None:
    store = DatabaseFailures(database)
    turn = [occurred(f"f{n % 700}", f"c{n}") for n in range(1400)]
    kept = await store.apply(turn, **STEP)
    assert (700, {2}) == (len(kept), {record.occurrence_count for record in kept})
    assert kept == await store.apply(turn, **STEP) == await known(store, **RUN, fingerprints=[f"f{n}" for n in range(700)])


async def test_workers_that_see_the_same_turns_at_once_count_them_once(url: str) -> None:
    turns = [[occurred(f"f{n}", f"c{turn}") for n in (range(6) if turn % 2 else range(5, -1, -1))] for turn in range(8)]
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseFailures(database) for database in (first, second)]
        await asyncio.gather(*(worker.apply(turn, **STEP) for turn in turns for worker in workers))
        kept = await known(workers[0], **RUN, fingerprints=[f"f{n}" for n in range(6)])
        listed = [[one.record.revision for one in (await workers[1].revisions(record.id))[0]] for record in kept]
    assert [8] * 6 == [record.occurrence_count for record in kept]
    assert [list(range(8, 0, -1))] * 6 == listed


async def test_a_person_and_a_worker_at_once_both_count(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        worker, person = DatabaseFailures(first), DatabaseFailures(second)
        (kept,) = await worker.apply([occurred()], **STEP)
        turns = [worker.apply([occurred(cause=f"c{n}")], **STEP) for n in range(2, 7)]
        await asyncio.gather(*turns, *(person.feedback(kept.id, True, by="ann") for _ in range(5)))
        (found,) = await known(worker, **RUN, fingerprints=["f1"])
    assert (6, 5, 11) == (found.occurrence_count, found.helpful_count, found.revision)


async def test_a_client_never_sees_or_changes_anothers(database: Database) -> None:
    store = DatabaseFailures(database)
    (kept,) = await store.apply([occurred()], **STEP)
    for other in ({"client": "bob"}, {"client": "alicer", "run_id": ""}, {"client": ""}, {"client": "alice\0"}, {"client": "Alice"}):
        owner = {**RUN, **other}
        await store.apply([event("resolved")], **{**STEP, **other})
        wanted = {"fingerprints": ["f1"], "subjects": ["search_docs"]}
        assert [] == await store.relevant(**owner, **wanted) == await known(store, **owner, fingerprints=["f1"])
        assert [] == await store.relevant(client=owner["client"] + "x", run_id=None, **wanted)
    assert kept == await store.get(kept.id)


async def test_names_that_are_cut_in_the_database_still_tell_clients_apart(database: Database) -> None:
    store = DatabaseFailures(database)
    long = "x" * 600
    await store.apply([occurred()], **{**STEP, "client": long + "a"})
    assert [] == await store.relevant(client=long + "b", run_id=None, fingerprints=["f1"], subjects=[])
    assert 1 == len(await store.relevant(client=long + "a", run_id=None, fingerprints=["f1"], subjects=[]))


async def test_a_run_has_its_own_and_a_client_those_of_all_its_runs(database: Database) -> None:
    store = counting(database)
    await store.apply([occurred("f1"), occurred("f2")], **STEP)
    await store.apply([occurred("f1")], **{**STEP, "run_id": "s"})
    assert ["r", "r"] == [record.run_id for record in await store.relevant(**RUN, **EVERYTHING)]
    found = await store.relevant(client="alice", run_id=None, fingerprints=["f1"], subjects=())
    assert [("f1", "s"), ("f1", "r"), ("f2", "r")] == [(record.fingerprint, record.run_id) for record in found]


@pytest.mark.parametrize("run_id", ["r", None])
async def test_relevant_are_those_with_a_fingerprint_then_a_subject_then_the_others_last_seen_first(
    database: Database, run_id: str | None
) -> None:
    store = counting(database)
    for number, subject in enumerate(["a", "b", "a", "c", "b", "c"]):
        await store.apply([occurred(f"f{number}", subject=subject)], **STEP)
    await store.apply([occurred("f2", "again", subject="a")], **STEP)
    asked = {"client": "alice", "run_id": run_id, "fingerprints": ["f3", "f0", "never"], "subjects": ["b", "a", "never"]}
    assert ["f3", "f0", "f2", "f4", "f1", "f5"] == names(await store.relevant(**asked))
    assert ["f3", "f0", "f2"] == names(await store.relevant(**asked, limit=3))
    assert ["f2", "f5", "f4", "f3"] == names(await store.relevant(**{**asked, "fingerprints": (), "subjects": ()}, limit=4))


@pytest.mark.parametrize("run_id", ["r", None])
async def test_many_fingerprints_and_subjects_give_the_same_as_few(database: Database, run_id: str | None) -> None:
    store = counting(database)
    for number in range(12):
        await store.apply([occurred(f"f{number}", subject=f"tool{number % 4}")], **STEP)
    few = {"fingerprints": ["f3", "f0"], "subjects": ["tool1", "tool2"]}
    many = {name: [*values, *(f"none{n}" for n in range(900)), *values] for name, values in few.items()}
    last = {name: values[::-1] for name, values in many.items()}
    expected = ["f3", "f0", "f10", "f9", "f6", "f5", "f2", "f1", "f11", "f8"]
    for asked in (few, many, last):
        assert expected == names(await store.relevant(client="alice", run_id=run_id, **asked, limit=10))


@pytest.mark.parametrize("across_runs", [False, True])
@pytest.mark.parametrize("many", [0, 500])
async def test_to_apply_and_find_at_once_gives_what_one_after_the_other_does(database: Database, across_runs: bool, many: int) -> None:
    turns = [
        [occurred("f1"), occurred("f2", subject="other")],
        [event("resolved", "f1"), occurred("f3", "c9", subject="a")],
        [occurred("f1", "again"), event("resolved", "f2", "never"), event("resolved", "f4", "of what is not known")],
        [occurred("f1", "again")],
    ]
    asked = {"fingerprints": ["f3", *(f"none{n}" for n in range(many))], "subjects": ["other"], "limit": 3}
    store = DatabaseFailures(database, clock=lambda: 50.0)
    await store.apply([occurred("f9", subject="other")], **{**STEP, "run_id": "s"})
    for turn in turns:
        applied, found = await store.apply_and_find(turn, **STEP, across_runs=across_runs, **asked)
        assert await store.apply(turn, **STEP) == applied
        assert await store.relevant(client="alice", run_id=None if across_runs else "r", **asked) == found
    assert (["f3", "f9", "f1"] if across_runs else ["f3", "f1"]) == names(found)


async def test_another_worker_s_failure_between_look_and_change_is_counted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(url) as first, opened(url) as second:
        slow, quick = DatabaseFailures(first), DatabaseFailures(second)
        await quick.apply([occurred()], **STEP)
        look = slow._seen

        async def late(*given: Any, **named: Any) -> Any:
            seen = await look(*given, **named)
            monkeypatch.setattr(slow, "_seen", look)
            await quick.apply([occurred(cause="c2"), occurred("f2")], **STEP)
            return seen

        monkeypatch.setattr(slow, "_seen", late)
        applied, _ = await slow.apply_and_find([occurred(cause="c3"), occurred("f2")], **STEP, across_runs=False, **EVERYTHING)
    assert [("f1", 3), ("f2", 1)] == [(record.fingerprint, record.occurrence_count) for record in applied]


async def test_what_is_resolved_or_superseded_is_known_but_not_relevant(database: Database) -> None:
    store = DatabaseFailures(database)
    await store.apply([occurred("a"), occurred("b"), occurred("c")], **STEP)
    await store.apply([event("resolved", "a"), event("superseded", "b")], **STEP)
    assert ["c"] == names(await store.relevant(**RUN, fingerprints=["a", "b"], subjects=["search_docs"]))
    found = await known(store, **RUN, fingerprints=["b", "never", "a", "b"])
    assert [("b", "superseded"), ("a", "resolved")] == [(record.fingerprint, record.status) for record in found]
    assert [] == await known(store, **RUN, fingerprints=[])


async def test_what_was_resolved_and_comes_again_is_relevant_again(database: Database) -> None:
    store = counting(database)
    await store.apply([occurred(), event("resolved")], **STEP)
    await store.apply([occurred(cause="c3")], **STEP)
    assert ["f1"] == names(await store.relevant(**RUN, **EVERYTHING))


async def test_hostile_text_is_kept_as_far_as_both_databases_can(database: Database) -> None:
    store = DatabaseFailures(database)
    odd = "nul \0 lone \ud800 世界"
    told = occurred(odd, odd, subject=odd, code="timeout", action_key=odd, attempted_action={odd: [odd, 1e400, 2**80]})
    where = {"client": odd, "run_id": odd}
    step = {**where, "policy": odd + "@0", "step_id": odd, "record_id": odd}
    (kept,) = await store.apply([told], **step)
    tame = "nul \ufffd lone \ufffd 世界"
    assert [tame] * 8 == [
        getattr(kept, n) for n in ["client", "run_id", "policy", "step_id", "record_id", "subject", "fingerprint", "action_key"]
    ]
    assert {odd: [odd, float("inf"), 2**80]} == kept.attempted_action
    assert [kept] == await store.relevant(**where, fingerprints=[odd], subjects=[odd])
    assert [kept] == await store.apply([told], **step) == (await store.list(client=odd, run_id=odd, subject=odd, policy=odd))[0]
    resolved = await store.resolve(kept.id, "resolved", by=odd, reason=odd * 1000, cause=odd)
    assert resolved is not None
    assert (tame, 4000) == (resolved.by, len(resolved.reason))
    assert [None, ([], False)] == [await store.get(odd), await store.revisions(odd, 5, odd)]


async def test_what_is_no_json_is_refused_and_nothing_is_kept(database: Database) -> None:
    store = DatabaseFailures(database)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(StoreRejected):
        await store.apply([occurred("a"), occurred("b", observed_outcome={"x": endless})], **STEP)
    assert [] == await store.relevant(**RUN, **EVERYTHING)


@pytest.mark.parametrize(("status", "made_by"), [("resolved", "resolved"), ("superseded", "superseded")])
async def test_a_person_sets_the_status_once_and_may_open_it_again(database: Database, status: Any, made_by: str) -> None:
    store = counting(database)
    (kept,) = await store.apply([occurred()], **STEP)
    first = await store.resolve(kept.id, status, by="ann", reason="fixed")
    assert first is not None
    assert (status, made_by, "ann", "fixed", 2) == (first.status, first.event, first.by, first.reason, first.revision)
    assert first == await store.resolve(kept.id, status, by="ann", reason="fixed")
    opened_again = await store.resolve(kept.id, "active", by="bob")
    assert opened_again is not None
    assert ("active", "reopened", 3) == (opened_again.status, opened_again.event, opened_again.revision)
    assert opened_again == await store.resolve(kept.id, "active", by="bob")


async def test_feedback_counts_each_time_but_once_for_a_cause(database: Database) -> None:
    store = counting(database)
    (kept,) = await store.apply([occurred()], **STEP)
    for helpful, cause in ((True, ""), (True, ""), (False, "x"), (False, "x"), (True, "x")):
        last = await store.feedback(kept.id, helpful, by="ann", cause=cause)
    assert last is not None
    assert (3, 1, 5) == (last.helpful_count, last.harmful_count, last.revision)


async def test_a_request_of_a_person_that_is_sent_again_does_not_undo_what_came_since(database: Database) -> None:
    store = counting(database)
    (kept,) = await store.apply([occurred()], **STEP)
    for _ in range(2):
        await store.resolve(kept.id, "resolved", by="ann", cause="x")
        (kept,) = await store.apply([occurred(cause="c2")], **STEP)
    assert ("active", 2) == (kept.status, kept.occurrence_count)


async def test_of_what_is_not_there_a_person_can_say_nothing(database: Database) -> None:
    store = DatabaseFailures(database)
    assert [None] * 3 == [
        await store.get("fl_none"),
        await store.resolve("fl_none", "resolved", by="a"),
        await store.feedback("fl_none", True, by="a"),
    ]
    assert ([], False) == await store.revisions("fl_none")


FILTERS = [
    ({}, "dcba"),
    ({"status": "resolved"}, "b"),
    ({"run_id": "s"}, "c"),
    ({"client": "bob"}, "d"),
    ({"policy": "strict@0"}, "d"),
    ({"signal_type": "loop"}, "c"),
    ({"code": "same_call", "run_id": "s"}, "c"),
    ({"severity": "critical"}, "b"),
    ({"subject": "other"}, "a"),
    ({"subject": "other", "status": "resolved"}, ""),
    ({"client": None}, "dcba"),
]


async def test_lists_are_newest_first_and_can_be_filtered(database: Database) -> None:
    store = counting(database)
    await store.apply([occurred("a", subject="other")], **STEP)
    await store.apply([occurred("b", severity="low"), occurred("b", "c2", severity="critical"), event("resolved", "b")], **STEP)
    await store.apply([occurred("c", signal_type="loop", code="same_call")], **{**STEP, "run_id": "s"})
    await store.apply([occurred("d")], **{**STEP, "client": "bob", "policy": "strict"})
    assert FILTERS == [(filters, "".join(names((await store.list(**filters))[0]))) for filters, _ in FILTERS]


async def test_lists_and_revisions_come_in_pages(database: Database) -> None:
    store = DatabaseFailures(database, clock=lambda: 1_700_000_000.0)  # all at one moment
    kept = await store.apply([occurred(f"f{n}") for n in range(3)], **STEP)
    page, more = await store.list(2)
    rest, none = await store.list(2, page[-1].id)
    assert ({r.id for r in kept}, 3, True, False) == ({r.id for r in (*page, *rest)}, len(page) + len(rest), more, none)
    await store.apply([occurred("f0", f"c{n}") for n in range(2, 5)], **STEP)
    last, more = await store.revisions(kept[0].id, 3)
    first, none = await store.revisions(kept[0].id, 3, last[-1].id)
    assert ([4, 3, 2, 1], True, False) == ([one.record.revision for one in (*last, *first)], more, none)


async def test_a_revision_stays_as_it_was(database: Database) -> None:
    store = counting(database)
    kept = [(await store.apply([occurred(cause=f"c{n}")], **STEP))[0] for n in range(3)]
    await store.resolve(kept[0].id, "resolved", by="ann")
    assert kept == [one.record for one in reversed((await store.revisions(kept[0].id))[0])][:3]


async def test_everything_outlives_a_restart(url: str) -> None:
    turn = [occurred(), event("injected"), occurred("f2")]
    async with opened(url) as database:
        kept = await DatabaseFailures(database).apply(turn, **STEP)
    async with opened(url) as database:
        store = DatabaseFailures(database)
        assert kept == await store.apply(turn, **STEP) == await known(store, **RUN, fingerprints=["f1", "f2"])
        assert 2 == len((await store.revisions(kept[0].id))[0])


async def test_a_record_of_a_later_version_can_still_be_read(database: Database) -> None:
    store = DatabaseFailures(database)
    (kept,) = await store.apply([occurred(severity="catastrophic")], **STEP)
    assert ("catastrophic", tuple) == (kept.severity, type(kept.context_refs))


async def test_without_a_store_it_raises() -> None:
    store = DatabaseFailures(Database("sqlite://"))
    attempts = (
        store.apply([occurred()], **STEP),
        store.relevant(**RUN, **EVERYTHING),
        store.get("fl_1"),
        store.list(),
        store.revisions("fl_1"),
        store.resolve("fl_1", "resolved", by="a"),
        store.feedback("fl_1", True, by="a"),
    )
    for attempt in attempts:
        with pytest.raises(StoreUnavailable):
            await attempt


def test_a_record_is_as_the_interface_names_it() -> None:
    wanted = (
        "run_id step_id phase signal_type severity fingerprint attempted_action observed_outcome recommended_adjustment context_refs "
        "created_at status occurrence_count last_seen_step_id helpful_count harmful_count"
    )
    assert set(wanted.split()) <= {field.name for field in msgspec.structs.fields(FailureRecord)}
