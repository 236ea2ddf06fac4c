"""The pairs of the benchmark of promises are what its README says, and its runner counts rightly."""

import json
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from benchmarks import promise, promise_tables
from benchmarks.promise_data import LANGUAGES, Api, Kind, OffTopic, Pair, Shape, Where, differing, off_topic, pairs, sentences
from benchmarks.promise_replay import Seen, _filtered, _payloads, _pieces, _verdict

PAIRS, OFF_TOPIC = pairs(), off_topic()


# ---- the data ----


def test_there_are_enough_of_every_kind_shape_and_language() -> None:
    kinds, shapes, languages = (Counter(getattr(pair, name) for pair in PAIRS) for name in ("kind", "shape", "language"))
    assert len(PAIRS) >= 132
    assert dict.fromkeys(get_args(Kind), True) == {kind: n >= 10 for kind, n in kinds.items()}
    assert all(shapes[shape] >= 15 for shape in ("prose", "table", "csv", "json", "log"))
    assert set(get_args(Shape)) == set(shapes)
    assert all(languages[language] >= 12 for language in LANGUAGES)
    assert 0.40 <= languages["en"] / len(PAIRS) <= 0.50


def test_apis_and_streams_are_about_even() -> None:
    n = len(PAIRS)
    apis = Counter(pair.api for pair in PAIRS)
    assert set(get_args(Api)) == set(apis)
    assert max(apis.values()) - min(apis.values()) <= 0.05 * n
    assert abs(sum(pair.stream for pair in PAIRS) - n / 2) <= 0.05 * n
    assert set(get_args(Where)) == {pair.where for pair in PAIRS}


def test_nothing_stands_there_twice() -> None:
    for name in ("id", "evidence", "question", "right", "wrong"):
        values = [getattr(row, name) for row in PAIRS]
        assert len(values) == len(set(values)), name
    assert len({row.id for row in (*PAIRS, *OFF_TOPIC)}) == len(PAIRS) + len(OFF_TOPIC)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_exactly_one_sentence_differs(pair: Pair) -> None:
    assert pair.right != pair.wrong
    assert len(differing(pair.right, pair.wrong)) == 1
    assert len(differing(pair.wrong, pair.right)) <= 1
    assert pair.planted in pair.wrong
    assert 1 <= len(sentences(pair.right)) <= 5


@pytest.mark.parametrize("row", [*PAIRS, *OFF_TOPIC], ids=lambda row: row.id)
def test_a_client_sends_question_and_evidence(row: Pair | OffTopic) -> None:
    path, body = row.request()
    assert {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages"}[row.api] == path
    assert row.stream is body["stream"]
    sent = json.dumps(body, ensure_ascii=False)
    for text in (row.question, *(line for passage in row.passages for line in passage["content"].splitlines())):
        assert json.dumps(text, ensure_ascii=False)[1:-1] in sent or json.dumps(json.dumps(text, ensure_ascii=False)[1:-1])[1:-1] in sent
    assert (row.where == "hint") is ("groundwire" in body)
    assert (row.where == "tool") is ("tools" in body)


def test_pasted_evidence_stands_in_the_first_turn() -> None:
    (row,) = [pair for pair in PAIRS if pair.id == "de-mailverlauf"]
    _, body = row.request()
    roles, contents = zip(*((turn["role"], turn["content"]) for turn in body.get("messages") or body["input"]), strict=True)
    assert ("user", "assistant", "user") == roles
    assert contents[0].endswith(f"\n{row.earlier[0]['user']}")
    assert row.evidence in contents[0]
    assert (row.earlier[0]["assistant"], row.question) == contents[1:]


def test_passages_have_their_sources() -> None:
    (row,) = [pair for pair in PAIRS if pair.id == "en-lease-clause"]
    assert ["lease.md#pets", "lease.md#repairs", "lease.md#subletting"] == [passage["source"] for passage in row.passages]
    assert not any("===" in passage["content"] for passage in row.passages)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is open. Nobody came!", ["It is open.", "Nobody came!"]),
        ("Am 16. September war Dr. Wuttke da.", ["Am 16. September war Dr. Wuttke da."]),
        ("J. Amin pays 16. He said so.", ["J. Amin pays 16.", "He said so."]),
        ("- one\n- two", ["- one", "- two"]),
    ],
)
def test_sentences_end_where_they_end(text: str, expected: list[str]) -> None:
    assert expected == sentences(text)


def test_a_change_that_stands_twice_is_refused(tmp_path: Path) -> None:
    row = {"id": "x", "kind": "number", "shape": "prose", "where": "user", "api": "chat", "stream": False, "evidence": "e", "question": "q"}
    for language in LANGUAGES:
        (tmp_path / f"{language}.yaml").write_text(json.dumps([row | {"right": "two and two", "change": ["two", "three"]}]), "utf-8")
    with pytest.raises(ValueError, match="x: 'two' stands 2 times"):
        pairs(tmp_path)


# ---- the arithmetic ----


def seen(verdict: str = "pass", faithfulness: float | None = None, **found: Any) -> Seen:
    usual: dict[str, Any] = {"codes": (), "blocked": False, "asked": False, "changed": False, "judged": ()}
    return Seen(verdict, faithfulness, **(usual | found))


def judged(*found: tuple[Seen, Seen]) -> list[promise.Judged]:
    return [promise.Judged(PAIRS[i], right, wrong) for i, (right, wrong) in enumerate(found)]


def test_a_wrong_answer_is_flagged_or_has_one_of_the_other_verdicts() -> None:
    others = ("pass", "unsure", "unchecked", "error", "warn")
    found = promise.counts(judged(*((seen(), seen(verdict)) for verdict in others), (seen(), seen("pass", changed=True))))
    assert (1, 1, 1, 1, 2) == tuple(found[f"wrong_{name}"] for name in ("pass", "unsure", "unchecked", "error", "flagged"))
    assert 6 == found["right_pass"]


@pytest.mark.parametrize("harm", ["blocked", "asked", "changed"])
def test_a_right_answer_that_did_not_leave_as_it_was_is_harmed(harm: str) -> None:
    found = promise.counts(judged((seen(**{harm: True}), seen()), (seen("warn"), seen()), (seen("error"), seen())))
    assert (1, 2) == (found["right_harmed"], found["right_warned"])


@pytest.mark.parametrize(
    ("right", "wrong", "expected"), [(0.9, 0.2, 1.0), (0.2, 0.9, 0.0), (0.7, 0.7, 0.5), (None, 0.4, 1.0), (None, 0.6, 0.0)]
)
def test_the_header_separates_wrong_from_right(right: float | None, wrong: float | None, expected: float) -> None:
    found = promise.counts(judged((seen(faithfulness=right), seen(faithfulness=wrong))))
    assert expected == found["auroc"][0]
    assert (0.5 if right is None else 0.0) == found["faithfulness_missing"]


def test_limits_are_shares_of_the_pairs() -> None:
    quiet = [(seen(), seen("unsure"))] * 8
    found = {"policy": "rag", **promise.counts(judged(*quiet, (seen(), seen("pass")), (seen(), seen("pass"))))}
    assert [] == promise.passed(found)
    passing = {"policy": "rag", **promise.counts(judged(*quiet[:7], *[(seen("warn"), seen("pass"))] * 3))}
    assert ["rag: right warned 3 of 10, limit 3%", "rag: wrong pass 3 of 10, limit 20%"] == promise.passed(passing)
    assert [] == promise.passed(passing | {"policy": "agent"})


def test_questions_off_topic_are_refused_warned_of_or_neither() -> None:
    became = (seen(asked=True), seen("block", blocked=True), seen("warn"), seen("pass"), seen("unchecked"))
    result = promise.Result("rag", judged((seen(), seen())), list(zip(OFF_TOPIC, became, strict=False)))
    assert {"n": 5, "refused": 2, "warned": 1, "silent": 2} == promise.figures(result)["off_topic"]


def test_groups_come_to_the_whole() -> None:
    result = promise.Result("rag", judged(*[(seen(), seen("unsure"))] * 40), [])
    for groups in promise.figures(result)["groups"].values():
        assert 40 == sum(group["n"] for group in groups.values())


# ---- what a client reads ----


async def test_the_inline_verdict_counts_where_the_header_is_pending() -> None:
    inline = {"verdict": "warn", "facts": {"faithfulness": 0.5}, "verdicts": []}
    assert ("warn", 0.5) == (await _verdict({"x-groundwire-verdict": "pending"}, [{}, {"groundwire": inline}]))[:2]
    assert ("warn", 0.5) == (await _verdict({"x-groundwire-verdict": "pending"}, [{"response": {"groundwire": inline}}]))[:2]
    assert ("block", None) == (await _verdict({"x-groundwire-verdict": "block"}, [{"error": {}}]))[:2]


def test_events_and_whole_answers_are_read() -> None:
    assert [{"a": 1}, {"b": 2}] == _payloads(b'event: x\ndata: {"a": 1}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n')
    assert [{"a": 1}] == _payloads(b'{"a": 1}')
    assert ["Hi"] == _pieces("messages", [{"type": "message", "content": [{"type": "text", "text": "Hi"}]}])
    assert ["Hi"] == _pieces("responses", [{"type": "response.output_text.delta", "delta": "Hi"}])
    assert _filtered({"choices": [{"finish_reason": "content_filter"}]})
    assert _filtered({"type": "message_delta", "delta": {"stop_reason": "refusal"}})
    assert _filtered({"type": "response.incomplete", "response": {"status": "incomplete"}})
    assert not _filtered({"choices": [{"finish_reason": "stop"}]})


def test_a_pair_through_the_running_proxy() -> None:
    rows = [pair for pair in PAIRS if pair.id in ("en-ward-rota", "de-lohn", "en-titration")]
    (result,) = promise.run(["observe"], rows, [])
    assert [(False, False)] * 3 == [(one.right.harmed, one.wrong.harmed) for one in result.judged]


# ---- the tables of README and docs/quality.md ----


def test_a_table_has_the_shares_of_every_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"n": 100, "right_harmed": 0, "right_warned": 1, "wrong_flagged": 8, "wrong_pass": 3}
    results = tmp_path / "promise.json"
    results.write_text(json.dumps({"policies": [{"policy": name, **figures} for name in promise.CHECKED]}), "utf-8")
    monkeypatch.setattr(promise_tables, "RESULTS", results)
    assert "| rag | 0% [0%, 4%] | 1% [0%, 5%] | 8% [4%, 15%] | 3% [1%, 8%] |" in promise_tables.short().splitlines()


@pytest.mark.parametrize(
    ("policies", "only", "judge", "name"),
    [
        ("default,rag,strict", "", None, "promise.json"),
        ("rag", "", None, "promise_part.json"),
        ("default,rag,strict", "de-", None, "promise_part.json"),
        ("default,rag,strict", "", "chat", "promise_oracle_all.json"),
    ],
)
def test_only_a_whole_run_changes_what_the_tables_are_made_of(policies: str, only: str, judge: str | None, name: str) -> None:
    assert name == promise.written_to(Namespace(policies=policies, only=only, judge=judge, ask="all")).name
