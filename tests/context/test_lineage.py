"""How a conversation's run is told: by its turns, and by what stays of its system message."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.lineage import beginnings_of, opening_of, prefix_hashes, steady, without_passing_fields
from proxy.exchange import Message

RULES = "You are a coding agent.\nWork carefully and test what you change."


def turns(system: str, spoken: int) -> list[dict[str, Any]]:
    said = [{"role": role, "content": f"{role} {i}"} for i in range(spoken) for role in ("user", "assistant")]
    return [{"role": "system", "content": system}, *said, {"role": "user", "content": "go on"}]


MOVING = [
    "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; cch={i:05x};\n" + RULES,
    "It is 10:{i:02d} now. " + RULES.replace("\n", " "),
    RULES + "\nTokens used so far: {i}",
    "Heute ist Montag, der {i}. Mai.\n" + RULES,
    RULES + "\n<env>\nDate: 2026-11-{i:02d}\nChanged files:\n M src/file{i}.py\n</env>",
]


@pytest.mark.parametrize("system", MOVING)
def test_what_moves_in_a_system_message_names_no_run(system: str) -> None:
    openings = {opening_of("c", "/r", turns(system.format(i=i), 0)) for i in range(1, 9)}
    assert len(openings) == 1


@pytest.mark.parametrize("system", MOVING)
def test_what_moves_in_a_system_message_breaks_no_run(system: str) -> None:
    for i in range(1, 6):
        before, after = (beginnings_of("c", "/r", turns(system.format(i=n), n)) for n in (i, i + 1))
        longer = turns(system.format(i=i + 9), i)
        longer += [{"role": "assistant", "content": "done"}, {"role": "user", "content": "more"}]
        assert before.hashes[0] in beginnings_of("c", "/r", longer).hashes
        assert after.hashes[0] not in before.hashes


def test_a_system_message_that_changes_altogether_breaks_a_run_only_where_it_opens() -> None:
    first = beginnings_of("c", "/r", turns("Speak like a pirate at all times.", 3))
    longer = [*turns("You are a lawyer and nothing else.", 3), {"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    assert first.hashes[0] in beginnings_of("c", "/r", longer).hashes


def test_the_same_opening_under_other_rules_is_another_run() -> None:
    one, other = (beginnings_of("c", "/r", turns(system, 0)) for system in (RULES, "You are a lawyer and nothing else."))
    assert not {one.opening, *one.hashes} & {other.opening, *other.hashes}


def marked(text: str) -> list[dict[str, Any]]:
    """As Cline and others write the last user messages for a provider that caches."""
    return [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]


def test_a_mark_for_the_providers_cache_that_moves_on_breaks_no_run() -> None:
    def asked(turn: int) -> list[dict[str, Any]]:
        """The conversation on the client's turn `turn`, its last two user messages marked."""
        found: list[dict[str, Any]] = [{"role": "system", "content": marked(RULES)}]
        for i in range(turn):
            found += [
                {"role": "user", "content": marked(f"user {i}") if i > turn - 3 else f"user {i}"},
                {"role": "assistant", "content": "so"},
            ]
        return found[:-1]

    whole = [beginnings_of("c", "/r", asked(turn)) for turn in range(1, 6)]
    assert len({one.opening for one in whole}) == 1
    assert all(before.hashes[0] in after.hashes for before, after in pairwise(whole))
    assert prefix_hashes(asked(3), [1, 4]) == prefix_hashes(asked(5), [1, 4])


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "b"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]},
        {"role": "user", "content": [{"type": "text", "text": "a", "annotations": []}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]},
        {"role": "user", "content": "a", "name": "ann"},
    ],
)
def test_what_says_something_else_has_another_hash(other: dict[str, Any]) -> None:
    assert prefix_hashes([{"role": "user", "content": marked("a")}], [1]) != prefix_hashes([other], [1])


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "reasoning_details"])
def test_thoughts_that_a_client_leaves_out_of_older_answers_leave_their_hash(field: str) -> None:
    said = {"role": "assistant", "content": "a", "tool_calls": [{"id": "1"}]}
    assert prefix_hashes([said], [1]) == prefix_hashes([{**said, field: "hm"}], [1])


def test_a_message_without_marks_is_not_copied() -> None:
    message = {"role": "user", "content": "a"}
    assert message is without_passing_fields(message)


def test_clients_and_routes_are_apart() -> None:
    found = {beginnings_of(client, route, turns(RULES, 2)).hashes[0] for client in "ab" for route in ("", "/r")}
    assert len(found) == 4


def test_only_sentences_that_stay_are_steady() -> None:
    text = "x-a-b: 1\nToday is Monday the first. You are kind to everybody. Ok.\nIt is 3 o'clock.\nSay what you know. Be brief, please."
    assert steady(text) == ("You are kind to everybody.", "Say what you know.", "Be brief, please.")


def _plainly(messages: Sequence[Message], end: int, *, turns_only: bool) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for message in messages[:end]:
        moves = turns_only and message.get("role") in ("system", "developer")
        data = b"system" if moves else orjson.dumps(without_passing_fields(message), option=orjson.OPT_SORT_KEYS)
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


CALLS = [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
    optional={
        "content": st.one_of(st.none(), st.sampled_from(["a", "b", "ü", ""]), st.just([{"type": "text", "text": "a"}])),
        "tool_calls": st.just(CALLS),
        "tool_call_id": st.sampled_from(["c", None, 1]),
        "name": st.sampled_from(["n", None, 1, True]),
        "cache_control": st.just({"type": "ephemeral"}),
    },
)


@given(st.lists(st.lists(MESSAGE, max_size=3), max_size=5), st.booleans())
def test_what_is_known_of_a_conversation_changes_no_hash_of_a_longer_one(parts: list[list[Message]], turns_only: bool) -> None:
    messages: list[Message] = []
    for turn in parts:
        messages = [*map(dict, messages), *turn]
        ends = range(len(messages) + 1)
        assert prefix_hashes(messages, ends, turns_only=turns_only) == {end: _plainly(messages, end, turns_only=turns_only) for end in ends}
