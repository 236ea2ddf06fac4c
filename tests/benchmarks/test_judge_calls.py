"""What `benchmarks.judge_calls` counts."""

from benchmarks.judge_calls import line, open_to_it


def test_a_claim_of_a_record_is_counted_where_the_judge_would_be_asked() -> None:
    told = {"text": "So it is.", "label": "supported", "score": 0.6, "decided_by": "model"}
    assert [True, False, False] == [open_to_it(one) for one in (told, {**told, "score": 0.9}, {**told, "decided_by": "literal"})]


def test_an_answer_is_one_call_however_many_statements_it_is_about() -> None:
    assert ["rows", "4", "50 [15, 85]", "67", "2.0"] == line("rows", [3, 1, 0, -1])
