"""Conversations made of templates: as many as asked for, the same with a seed, each with its document and what is wrong in it."""

import json

from benchmarks.harmless_made import PLACES, QUESTIONS, made


def test_as_many_of_each_side_and_the_same_with_the_same_seed() -> None:
    right, wrong = made(40, seed=3)
    assert (40, 40) == (len(right), len(wrong))
    assert (right, wrong) == made(40, seed=3)
    assert right != made(40, seed=4)[0]
    assert 80 == len({row.id for row in (*right, *wrong)})


def test_the_document_reaches_the_model_in_every_place() -> None:
    right, _ = made(80, seed=3)
    assert set(PLACES) == {row.kind.split(" ")[1] for row in right}
    for row in right:
        turn = list(row.turns())[-1]
        sent = json.dumps(turn.body, ensure_ascii=False)
        assert any(question in sent for question in QUESTIONS[row.language])
        assert len(sent) > 200
        assert turn.reply["content"]


def test_what_is_wrong_stands_in_the_last_answer() -> None:
    right, wrong = made(60, seed=5)
    assert [] == [row for row in right if row.harm is not None]
    for row in wrong:
        assert row.harm is not None
        assert row.harm.turn == len(row.messages) - 1
        assert row.harm.planted in row.messages[row.harm.turn]["content"]
