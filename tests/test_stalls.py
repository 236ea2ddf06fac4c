"""Nothing that stands in a request or an answer makes the server stand still: a part of the matrix of `benchmarks.stalls`, in CI.

A server process with the shipped policies is asked `/health` every 10 ms beside each cell. Where a look takes long, the same cell is sent
twice more and the medians count. Other work has the machine's cores, too: a wait is the server's own where a thread of its held the loop or
the interpreter for long in its own CPU time, and where a look takes far longer than while nothing is asked.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from benchmarks.stall_texts import MANY, PLACES, TEXTS, request_of
from benchmarks.stalls import OWN_S, POLICIES, SIZES, STALL_S, Cell, cells, started

SECONDS = 75
"""For the cells of one run: the texts take turns in an order that is drawn anew each day."""
MANY_CHARS = 600_000
"""In pieces: 75,000 of them, 3 MB of JSON."""
IDLE_SHARE = 3
"""A look may take so many times what the slowest takes on the idle server, where that is more than the limit."""


def test_the_corpus_is_large_and_each_of_its_texts_is_another() -> None:
    made = {name: make(2000) for name, make in TEXTS.items()}
    assert 300 <= len(made) == len(set(made.values()))
    assert all(1000 <= len(text) <= 4000 for text in made.values())


def test_a_text_is_the_same_each_time() -> None:
    assert [make(500) for make in TEXTS.values()] == [make(500) for make in TEXTS.values()]


@pytest.mark.parametrize("place", PLACES)
def test_a_text_stands_in_its_place(place: str) -> None:
    asked = request_of(place, "needle " * 1000)
    there = {
        "user": asked.body["messages"][-1],
        "answer": asked.answer,
        "tool": asked.body.get("tools"),
        "tool result": asked.body["messages"],
    }
    assert "needle needle" in str(there.get(place, asked.body))


@pytest.mark.parametrize("place", MANY)
def test_a_text_that_is_cut_up_is_there_whole(place: str) -> None:
    found = request_of(place, "needle " * 1000).body["messages"]
    assert "needle " * 1000 == "".join(
        part["text"] if place == "parts" else part["content"] for part in (found[0]["content"] if place == "parts" else found[:-1])
    )


def test_every_text_is_drawn_and_the_whole_matrix_is_all_of_it() -> None:
    assert len(TEXTS) * len(PLACES) * len(SIZES) == len(cells(SIZES, list(TEXTS), PLACES))
    assert set(TEXTS) == {cell.text for cell in cells(SIZES, list(TEXTS), PLACES, share=0.01)}


@pytest.mark.cost
@pytest.mark.process
def test_health_answers_beside_any_text(tmp_path: Path) -> None:
    today = int(time.time()) // 86_400
    drawn = cells((20_000,), list(TEXTS), PLACES, share=0.01, seed=today)
    random.Random(today).shuffle(drawn)
    slow, seen, until = list[tuple[Cell, float, float]](), 0, time.monotonic() + SECONDS
    with started(tmp_path, tmp_path / "watch.jsonl") as place:
        idle = max(place.idle(2))
        for cell in drawn:
            if time.monotonic() > until:
                break
            seen += 1
            looked = place.median(cell)
            if looked.worst_s >= max(STALL_S, IDLE_SHARE * idle) and looked.held_s >= OWN_S:
                slow.append((cell, round(looked.worst_s, 3), round(looked.held_s, 3)))
    print(f"{seen} of {len(drawn)} cells, idle {idle * 1000:.0f} ms")
    assert [] == slow
    assert seen >= 60


@pytest.mark.cost
@pytest.mark.process
@pytest.mark.parametrize("place", MANY)
def test_health_answers_beside_a_conversation_of_many_pieces(tmp_path: Path, place: str) -> None:
    with started(tmp_path, tmp_path / "watch.jsonl") as server:
        idle = max(server.idle(2))
        looked = {policy: server.median(Cell("sentences", place, MANY_CHARS, policy, stream=False)) for policy in POLICIES}
    held = {policy: one.held_s for policy, one in looked.items() if one.worst_s >= max(STALL_S, IDLE_SHARE * idle)}
    assert [] == [(policy, held_s) for policy, held_s in held.items() if held_s >= OWN_S]
