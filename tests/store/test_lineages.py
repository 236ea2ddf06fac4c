"""Which run a conversation belongs to, on both databases: two that only begin alike are two."""

import asyncio

import pytest

from proxy.context.lineage import MAX_BEGINNINGS, beginnings_of, opening_of
from proxy.store.conversations import DatabaseLineages
from proxy.store.database import Database
from tests.store.conftest import opened

Talk = list[dict[str, str]]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


OPENING = [{"role": "system", "content": "Be kind."}, user("Hi")]
LEFT = [*OPENING, assistant("Hello!"), user("Left?")]
RIGHT = [*OPENING, assistant("Hello!"), user("Right?")]


async def run_of(lineages: DatabaseLineages, messages: Talk, client: str = "a", route: str = "") -> str:
    return await lineages.run_of(beginnings_of(client, route, messages), client=client, route=route)


async def test_a_conversation_keeps_its_run_while_it_goes_on(database: Database) -> None:
    lineages, talk = DatabaseLineages(database), list(OPENING)
    runs = []
    for i in range(5):
        runs.append(await run_of(lineages, talk))
        talk += [assistant(f"a{i}"), user(f"u{i}")]
    assert [opening_of("a", "", OPENING)] * 5 == runs


async def test_tool_traffic_belongs_to_it(database: Database) -> None:
    lineages = DatabaseLineages(database)
    first = await run_of(lineages, OPENING)
    called = [
        *OPENING,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "r", "tool_call_id": "1"},
    ]
    assert first == await run_of(lineages, called)  # type: ignore[arg-type]
    assert first == await run_of(lineages, [*called, assistant("Done."), user("Thanks")])  # type: ignore[list-item]


async def test_who_goes_on_otherwise_leaves_the_run(database: Database) -> None:
    lineages = DatabaseLineages(database)
    first = await run_of(lineages, OPENING)
    left, right = await run_of(lineages, LEFT), await run_of(lineages, RIGHT)
    assert (first, True) == (left, right != first)
    further = [assistant("Yes."), user("And then?")]
    assert (left, right) == (await run_of(lineages, [*LEFT, *further]), await run_of(lineages, [*RIGHT, *further]))


async def test_the_same_opening_after_a_conversation_has_gone_on_is_another(database: Database) -> None:
    lineages = DatabaseLineages(database)
    first = await run_of(lineages, OPENING)
    assert first == await run_of(lineages, OPENING)  # asked once more
    await run_of(lineages, LEFT)
    second = await run_of(lineages, OPENING)
    assert second != first
    assert second == await run_of(lineages, RIGHT)
    assert first == await run_of(lineages, [*LEFT, assistant("Yes."), user("And then?")])


async def test_an_answer_that_was_asked_for_again_stays_until_both_go_on(database: Database) -> None:
    lineages = DatabaseLineages(database)
    runs = {await run_of(lineages, talk) for talk in (OPENING, LEFT, LEFT, [*LEFT, assistant("1"), user("x")])}
    assert 1 == len(runs)
    assert await run_of(lineages, [*LEFT, assistant("2"), user("x")]) not in runs


async def test_a_conversation_met_in_the_middle_goes_by_its_opening_and_others_that_open_alike_do_not(database: Database) -> None:
    lineages = DatabaseLineages(database)
    left, right, anew = await run_of(lineages, LEFT), await run_of(lineages, RIGHT), await run_of(lineages, OPENING)
    assert (opening_of("a", "", OPENING), 3) == (left, len({left, right, anew}))
    further = [assistant("Yes."), user("And then?")]
    assert (left, right) == (await run_of(lineages, [*LEFT, *further]), await run_of(lineages, [*RIGHT, *further]))


async def test_of_a_conversation_met_so_late_that_its_opening_is_not_looked_for_the_run_is_its_own(database: Database) -> None:
    lineages = DatabaseLineages(database)
    talk = [*OPENING, *(message for i in range(MAX_BEGINNINGS) for message in (assistant(f"a{i}"), user(f"u{i}")))]
    run = await run_of(lineages, talk)
    assert run != opening_of("a", "", OPENING)
    assert run == await run_of(lineages, [*talk, assistant("Yes."), user("And then?")])


@pytest.mark.parametrize(("client", "route"), [("b", ""), ("a", "/rag")])
async def test_clients_and_routes_are_apart(client: str, route: str, database: Database) -> None:
    lineages = DatabaseLineages(database)
    await run_of(lineages, OPENING)
    left = await run_of(lineages, LEFT)
    assert left != await run_of(lineages, OPENING, client, route)
    assert await run_of(lineages, OPENING, client, route) == await run_of(lineages, RIGHT, client, route)


async def test_workers_agree_on_a_fork(url: str) -> None:
    async with opened(url) as one, opened(url) as two:
        workers = DatabaseLineages(one), DatabaseLineages(two)
        assert 1 == len(set(await asyncio.gather(*(run_of(worker, OPENING) for worker in workers))))
        left, right = await asyncio.gather(run_of(workers[0], LEFT), run_of(workers[1], RIGHT))
        assert left != right
        assert [left, right] == [await run_of(workers[1], LEFT), await run_of(workers[0], RIGHT)]


def test_only_the_longest_beginnings_are_looked_for() -> None:
    talk = [message for i in range(200) for message in (user(f"u{i}"), assistant(f"a{i}"))]
    assert MAX_BEGINNINGS == len(beginnings_of("a", "", talk).hashes)
