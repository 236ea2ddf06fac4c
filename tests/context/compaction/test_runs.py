from __future__ import annotations

import pytest

from proxy.context.compaction.parts import Part, Run, foldable_runs, parts_of, recent_blocks_start, recent_messages_start
from proxy.context.conversation import transcript
from tests.conversations import Message, said, step

TALK = [said("system", 3), said("user", 3), *step("1", 3, calls=2), said("assistant", 3), said("user", 3, "now"), *step("2", 3)]


def parts(messages: list[Message]) -> list[Part]:
    return parts_of(messages, messages)


@pytest.mark.parametrize(("keep", "start"), [(0, 7), (1, 7), (2, 6), (3, 5), (4, 2), (5, 1), (99, 1)])
def test_recent_blocks_are_counted_without_system_messages(keep: int, start: int) -> None:
    assert start == recent_blocks_start(parts(TALK), keep)


@pytest.mark.parametrize(("keep", "start"), [(1, 7), (2, 7), (3, 6), (4, 5), (5, 2), (7, 2), (8, 1), (99, 1)])
def test_recent_messages_never_cut_a_tool_step(keep: int, start: int) -> None:
    assert start == recent_messages_start(parts(TALK), keep)


def test_system_messages_and_the_last_question_part_the_runs() -> None:
    messages = [*TALK[:5], said("system", 3), *TALK[5:], said("assistant", 3)]
    assert [Run(1, 5), Run(6, 7), Run(8, 11)] == foldable_runs(parts(messages), 11, 7)


def test_a_run_ends_where_the_recent_part_begins() -> None:
    assert [Run(1, 2)] == foldable_runs(parts(TALK), 4, 6)


def test_an_earlier_note_joins_a_run_and_is_none_alone() -> None:
    note = Part({"role": "user", "content": "n"}, 1, 6, made=True)
    rest = parts(TALK)[6:]
    assert [] == foldable_runs([note, *rest], 1, 6)
    assert [Run(0, 2)] == foldable_runs([note, Part(said("assistant", 3), 5, 6), *rest], 2, 6)


def test_a_transcript_holds_every_text_as_it_was() -> None:
    messages = [
        *step("1", 3),
        {"role": "user", "content": [{"type": "text", "text": 'a "b"\n'}, {"type": "image_url", "image_url": {"url": "u"}}]},
    ]
    assert (
        "--- message 0, assistant\n"
        'tool_calls: [{"id":"call_1_0","type":"function","function":{"name":"lookup","arguments":"{\\"id\\": \\"call_1_0\\"}"}}]\n'
        "--- message 1, tool (lookup, call_1_0)\n"
        "call_1_0 flight hotel refund\n"
        "--- message 2, user\n"
        'a "b"\n\n{"type":"image_url","image_url":{"url":"u"}}'
    ) == transcript(messages, 0, 3)
