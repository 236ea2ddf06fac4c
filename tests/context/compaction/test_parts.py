from __future__ import annotations

from typing import Any

import pytest

from proxy.context.compaction.parts import Part, apply_compaction, messages_of, parts_of, pieces_of, place_pieces
from proxy.ports import Compaction
from tests.conversations import said, step

ORIGINAL = [said("system", 3), said("user", 3), *step("1", 3), said("assistant", 3), said("user", 3), said("assistant", 3)]
NOTE = {"role": "user", "content": "note"}
RESULT = {**ORIGINAL[3], "content": "archived"}


def spans(parts: list[Part]) -> list[tuple[int, int, bool]]:
    return [(part.start, part.end, part.made) for part in parts]


def test_unchanged_messages_stand_for_themselves() -> None:
    assert [(i, i + 1, False) for i in range(7)] == spans(parts_of(ORIGINAL, ORIGINAL))


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([0, NOTE, 5, 6], [(0, 1, False), (1, 5, True), (5, 6, False), (6, 7, False)]),
        (
            [0, 1, 2, RESULT, 4, 5, 6],
            [(0, 1, False), (1, 2, False), (2, 3, False), (3, 4, True), (4, 5, False), (5, 6, False), (6, 7, False)],
        ),
        ([0, NOTE], [(0, 1, False), (1, 7, True)]),
        ([0, NOTE, NOTE, 5, 6], [(0, 1, False), (1, 5, True), (5, 5, True), (5, 6, False), (6, 7, False)]),
        ([NOTE, 2, RESULT, NOTE], [(0, 2, True), (2, 3, False), (3, 4, True), (4, 7, True)]),
    ],
)
def test_made_messages_stand_for_what_is_missing(pieces: list[Any], expected: list[tuple[int, int, bool]]) -> None:
    assert expected == spans(place_pieces(pieces, ORIGINAL, 7))
    forwarded = [ORIGINAL[piece] if isinstance(piece, int) else piece for piece in pieces]
    assert expected == spans(parts_of(forwarded, ORIGINAL))


def test_a_compaction_is_applied_to_the_very_objects() -> None:
    compaction = Compaction("", 5, (0, NOTE, 4))
    parts = apply_compaction(compaction, parts_of(ORIGINAL, ORIGINAL), ORIGINAL)
    assert parts is not None
    assert all(a is b for a, b in zip([ORIGINAL[0], NOTE, *ORIGINAL[4:]], messages_of(parts), strict=True))
    assert compaction.pieces == pieces_of(parts, 5)


def test_what_an_earlier_stage_took_out_or_replaced_does_not_come_back() -> None:
    masked = {**ORIGINAL[1], "content": "masked"}
    current = parts_of([ORIGINAL[0], masked, *ORIGINAL[3:]], ORIGINAL)  # position 2 is gone
    parts = apply_compaction(Compaction("", 5, (0, 1, 2, RESULT, NOTE)), current, ORIGINAL)
    assert parts is not None
    assert [ORIGINAL[0], masked, RESULT, NOTE, *ORIGINAL[5:]] == messages_of(parts)


@pytest.mark.parametrize("pieces", [(3, 1), (0, 9), (0, 5), (-1,)])
def test_a_compaction_that_cannot_be_is_not_applied(pieces: Any) -> None:
    assert apply_compaction(Compaction("", 5, pieces), parts_of(ORIGINAL, ORIGINAL), ORIGINAL) is None


def test_a_compaction_that_ends_inside_a_made_message_is_not_applied() -> None:
    current = parts_of([ORIGINAL[0], NOTE, *ORIGINAL[5:]], ORIGINAL)
    assert apply_compaction(Compaction("", 3, (0, NOTE)), current, ORIGINAL) is None
