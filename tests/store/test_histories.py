"""Turns of conversations that their provider holds, on both databases."""

import pytest
from msgspec.structs import replace

from proxy.exchange.histories import PastTurn
from proxy.store import conversations as module
from proxy.store.conversations import DatabaseHistories
from proxy.store.database import Database


def turn(name: str, *texts: str, own: bool = False) -> PastTurn:
    return PastTurn("response:" + name, tuple({"role": "user", "content": text} for text in texts), own)


async def test_a_turn_is_found_with_all_before_it(database: Database) -> None:
    kept = DatabaseHistories(database)
    turns = [turn("1", "a", "b"), turn("2", "c", own=True), turn("3", "d")]
    for one, before in zip(turns, ("", "response:1", "response:2"), strict=True):
        await kept.add(one, before, client="a")
    found = await kept.find("response:3", client="a")
    assert (tuple(turns), True) == (found.turns, found.whole)
    assert tuple(turns[:1]) == (await kept.find("response:1", client="a")).turns


async def test_two_that_fork_share_what_they_have_in_common(database: Database) -> None:
    kept = DatabaseHistories(database)
    for one, before in ((turn("1", "a"), ""), (turn("2", "b"), "response:1"), (turn("3", "c"), "response:1")):
        await kept.add(one, before, client="a")
    assert (turn("1", "a"), turn("3", "c")) == (await kept.find("response:3", client="a")).turns


async def test_what_was_not_seen_leaves_a_history_that_is_not_whole(database: Database) -> None:
    kept = DatabaseHistories(database)
    await kept.add(turn("2", "b"), "response:1", client="a")
    found = await kept.find("response:2", client="a")
    assert ((turn("2", "b"),), False) == (found.turns, found.whole)
    unknown = await kept.find("response:9", client="a")
    assert ((), False) == (unknown.turns, unknown.whole)


async def test_a_turn_that_is_kept_twice_goes_on_from_the_one_before(database: Database) -> None:
    kept, turns = DatabaseHistories(database), [turn("1", "a"), turn("2", "b")]
    for one in (turns[0], turns[1], turns[1]):
        await kept.add(one, "conversation:c", client="a")
    assert tuple(turns) == (await kept.find("conversation:c", client="a")).turns


async def test_a_conversations_name_is_its_last_turns(database: Database) -> None:
    kept = DatabaseHistories(database)
    for one in (turn("1", "a"), turn("2", "b")):
        await kept.add(one, "conversation:c", client="a")
    found = await kept.find("conversation:c", client="a")
    assert ((turn("1", "a"), turn("2", "b")), False) == (found.turns, found.whole)


async def test_nobody_finds_what_another_client_sent(database: Database) -> None:
    kept = DatabaseHistories(database)
    await kept.add(turn("1", "a"), "", client="a")
    assert () == (await kept.find("response:1", client="b")).turns


async def test_a_turn_that_is_too_long_is_not_kept_and_ends_what_is_seen(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TURN_BYTES", 200)
    kept = DatabaseHistories(database)
    await kept.add(turn("1", "a" * 200), "", client="a")
    await kept.add(turn("2", "b"), "response:1", client="a")
    found = await kept.find("response:2", client="a")
    assert ((turn("2", "b"),), False) == (found.turns, found.whole)


async def test_the_results_that_a_turns_provider_waits_for_are_found_with_it(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TURN_BYTES", 200)
    kept, results = DatabaseHistories(database), ({"role": "tool", "tool_call_id": "c", "content": "found"},)
    for one, before in ((turn("1", "a" * 200), ""), (turn("2", "b", own=True), "response:1"), (turn("3", "c"), "response:2")):
        await kept.add(replace(one, results=() if one.own else results), before, client="a")
    found = [(await kept.find("response:" + name, client="a")).results for name in ("1", "2", "3", "4")]
    assert [results, results, results, ()] == found


async def test_a_client_has_room_for_so_many_turns(database: Database) -> None:
    times = iter(range(100))
    kept = DatabaseHistories(database, per_client=2, clock=lambda: float(next(times)))
    for name in ("1", "2", "3"):
        await kept.add(turn(name, name), "", client="a")
    await kept.add(turn("1", "x"), "", client="b")
    found = [len((await kept.find("response:" + name, client="a")).turns) for name in ("1", "2", "3")]
    assert [0, 1, 1] == found
    assert 1 == len((await kept.find("response:1", client="b")).turns)


async def test_items_are_found_by_their_ids_and_their_client(database: Database) -> None:
    kept = DatabaseHistories(database)
    await kept.add(turn("1", "a"), "", client="a", items={"msg_1": {"type": "message"}, "rs_1": {"type": "reasoning"}})
    assert {"msg_1": {"type": "message"}} == await kept.items(["msg_1", "msg_2"], client="a")
    assert {} == await kept.items(["msg_1"], client="b")
