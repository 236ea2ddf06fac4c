"""Requests for decisions as clients of both shapes send them, and answers in the form that their documentation and SDKs have."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ContextLengthExceeded, InvalidRequest
from proxy.ports.decisions import Answer, Decision, Question
from proxy.wire.decisions import asked
from proxy.wire.decisions.asked import (
    Billing,
    DecisionClient,
    GeminiShape,
    OpenAIShape,
    SystemOneShape,
    answer,
    billing_of,
    fields_of,
    read_billing,
)
from proxy.wire.decisions.served import DecisionServer, OpenAIServed, ServedCall, SystemOneServed

OPENAI: dict[str, Any] = {
    "model": "gpt-6-luna",
    "input": "I was charged twice.",
    "questions": [
        {"type": "predicate", "name": "twice", "instructions": "The customer was charged twice."},
        {"type": "choice", "instructions": "Which?", "choices": [{"value": "bill", "description": "Money"}, {"value": True}]},
        {"type": "score", "name": "twice", "instructions": "How urgent?", "levels": [{"label": "low"}, {"label": "high"}]},
    ],
    "safety_identifier": "user-7",
}
SYSTEM_ONE: dict[str, Any] = {
    "model": "jev-latest",
    "state": {"subject": "Refund", "body": "I was charged twice."},
    "questions": {
        "twice": {"type": "noul", "instructions": "Charged twice?", "criteria": {"true": "Two charges.", "false": None}},
        "which": {"type": "choice", "criteria": {"bill": "Money", "other": None}},
        "urgent": {"type": "score", "instructions": "How urgent?", "criteria": ["low", "high"]},
    },
}


def body(fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_openai_s_request_is_read() -> None:
    found = OpenAIServed().parse(body(OPENAI))
    assert ("gpt-6-luna", "I was charged twice.") == (found.model, found.state)
    assert (
        Question(name="0", kind="predicate", instructions="The customer was charged twice."),
        Question(name="1", instructions="Which?", choices=("bill", "true"), descriptions=("Money", "")),
        Question(name="2", kind="score", instructions="How urgent?", choices=("low", "high")),
    ) == found.questions


def test_system_one_s_request_is_read() -> None:
    found = SystemOneServed().parse(body(SYSTEM_ONE))
    assert ("jev-latest", '{"subject":"Refund","body":"I was charged twice."}') == (found.model, found.state)
    assert (
        Question(name="twice", kind="predicate", instructions="Charged twice?", descriptions=("Two charges.", "")),
        Question(name="which", instructions="", choices=("bill", "other"), descriptions=("Money", "")),
        Question(name="urgent", kind="score", instructions="How urgent?", choices=("low", "high")),
    ) == found.questions


def test_openai_s_input_may_be_a_conversation() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Where is it?"}, {"type": "input_json", "data": {"order": 7}}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"order":7}'},
        {"type": "function_call_output", "call_id": "c", "output": "delivered"},
    ]
    state = OpenAIServed().parse(body({**OPENAI, "input": items})).state
    assert 'Where is it?\n{"order":7}\n\nI look.\n\n{"order":7}\n\ndelivered' == state


def test_openai_s_answer() -> None:
    found = OpenAIServed().parse(body(OPENAI))
    answers = {"0": Answer({"yes": 0.9, "no": 0.1}), "1": Answer({"bill": 0.2, "true": 0.8}), "2": Answer({"low": 0.25, "high": 0.75})}
    assert {
        "model": "judge-1",
        "answers": [
            {"type": "predicate", "name": "twice", "probability": 0.9},
            {
                "type": "choice",
                "name": None,
                "choice": True,
                "confidence": 0.8,
                "probabilities": [{"value": "bill", "probability": 0.2}, {"value": True, "probability": 0.8}],
            },
            {
                "type": "score",
                "name": "twice",
                "score": 0.75,
                "confidence": 0.75,
                "probabilities": [{"value": 0, "label": "low", "probability": 0.25}, {"value": 1, "label": "high", "probability": 0.75}],
            },
        ],
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 9,
        },
    } == json.loads(found.render(Decision(answers, 9), "judge-1"))


def test_openai_s_refusals() -> None:
    found = OpenAIServed().parse(body(OPENAI))
    told = json.loads(found.render(Decision({"0": Answer(problem="refused")}), "judge-1"))["answers"]
    assert [{"type": "refusal", "name": "twice"}, {"type": "refusal", "name": None}, {"type": "refusal", "name": "twice"}] == told


def test_system_one_s_answer_and_its_refusals() -> None:
    found = SystemOneServed().parse(body(SYSTEM_ONE))
    answers = {
        "twice": Answer({"yes": 0.9, "no": 0.1}),
        "urgent": Answer({"low": 0.25, "high": 0.75}),
        "which": Answer(problem="a question"),
    }
    assert {
        "model": "judge-1",
        "answers": {
            "twice": {"type": "noul", "noul": 0.9},
            "urgent": {
                "type": "score",
                "score": 0.75,
                "confidence": 0.75,
                "legend": {"0": "low", "1": "high"},
                "probabilities": {"0": 0.25, "1": 0.75},
            },
        },
        "refusals": {"which": "a question"},
        "usage": {"input_tokens": 9, "output_tokens": 0},
    } == json.loads(found.render(Decision(answers, 9), "judge-1"))


def changed(fields: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """`fields` with another value at `path`; ... leaves it out."""
    made = json.loads(json.dumps(fields))
    at = made
    for step in path[:-1]:
        at = at[step]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return made


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        (("model",), ..., "model"),
        (("input",), 7, "input"),
        (("input",), [{"role": "user", "content": [IMAGE]}], "input[0].content[0]"),
        (("input",), [{"role": "user", "content": [{"type": "input_audio"}]}], "input[0].content[0].type"),
        (("input",), [{"type": "reasoning"}], "input[0].type"),
        (("input",), [{"role": "robot", "content": "x"}], "input[0].role"),
        (("questions",), [], "questions"),
        (("questions",), {}, "questions"),
        (("questions",), [{}] * 401, "questions"),
        (("questions", 0), "q", "questions[0]"),
        (("questions", 0, "type"), "noul", "questions[0].type"),
        (("questions", 0, "name"), 7, "questions[0].name"),
        (("questions", 0, "instructions"), ..., "questions[0].instructions"),
        (("questions", 0, "instructions"), [IMAGE], "questions[0].instructions[0]"),
        (("questions", 1, "choices"), [{"value": "one"}], "questions[1].choices"),
        (("questions", 1, "choices", 1), {"value": "bill"}, "questions[1].choices"),
        (("questions", 1, "choices", 1, "value"), 7, "questions[1].choices[1].value"),
        (("questions", 1, "choices", 0, "description"), 7, "questions[1].choices[0].description"),
        (("questions", 2, "levels"), ..., "questions[2].levels"),
        (("questions", 2, "levels"), [{"label": str(i)} for i in range(11)], "questions[2].levels"),
    ],
)
def test_openai_s_errors_name_the_field(path: Any, value: Any, param: str) -> None:
    served = OpenAIServed()
    with pytest.raises(InvalidRequest) as caught:
        served.parse(body(changed(OPENAI, path, value)))
    status, told = served.error(caught.value)
    error = json.loads(told)["error"]
    assert (400, param, "invalid_request", "invalid_request_error") == (status, error["param"], error["code"], error["type"])
    assert error["message"].startswith(f"{param}: ")


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("model",), ..., ["model"]),
        (("state",), ..., ["state"]),
        (("images",), ["data:image/png;base64,AA=="], ["images"]),
        (("assets",), {"a": {"type": "image"}}, ["assets"]),
        (("questions",), {}, ["questions"]),
        (("questions",), [], ["questions"]),
        (("questions", "twice", "type"), "box", ["questions", "twice", "type"]),
        (("questions", "twice"), {"type": "noul"}, ["questions", "twice", "instructions"]),
        (("questions", "twice", "criteria"), "yes", ["questions", "twice", "criteria"]),
        (("questions", "which", "criteria"), ["bill"], ["questions", "which", "criteria"]),
        (("questions", "which", "criteria", "bill"), 7, ["questions", "which", "criteria", "bill"]),
        (("questions", "urgent", "criteria"), [], ["questions", "urgent", "criteria"]),
        (("questions", "urgent", "criteria", 1), 7, ["questions", "urgent", "criteria", 1]),
        (("questions", "urgent", "criteria", 1), "low", ["questions", "urgent", "criteria"]),
    ],
)
def test_system_one_s_errors_name_the_field(path: Any, value: Any, place: list[Any]) -> None:
    served = SystemOneServed()
    with pytest.raises(InvalidRequest) as caught:
        served.parse(body(changed(SYSTEM_ONE, path, value)))
    status, told = served.error(caught.value)
    assert (422, [["body", *place]]) == (status, [one["loc"] for one in json.loads(told)["detail"]])


@pytest.mark.parametrize("served", [OpenAIServed(), SystemOneServed()])
@pytest.mark.parametrize("sent", [b"", b"{", b"[]", b"7", b"[" * 1100])
def test_what_is_no_object_is_an_error(served: DecisionServer, sent: bytes) -> None:
    with pytest.raises(InvalidRequest):
        served.parse(sent)


@pytest.mark.parametrize("served", [OpenAIServed(), SystemOneServed()])
def test_an_error_that_is_of_no_field(served: DecisionServer) -> None:
    status, told = served.error(ContextLengthExceeded("too long"))
    assert (400, "context_length_exceeded") == (status, json.loads(told)["error"]["code"])


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.floats() | st.none() | st.integers() | st.booleans() | st.text(max_size=3))
)
def test_an_answer_sums_to_one_or_says_why_there_is_none(found: Any) -> None:
    made = answer(Question(name="q", instructions="Which?", choices=("a", "b", "c")), found)
    assert bool(made.probabilities) != bool(made.problem)
    if made.probabilities:
        assert ["a", "b", "c"] == list(made.probabilities)
        assert abs(sum(made.probabilities.values()) - 1) < 1e-9
        assert all(0 <= chance <= 1 for chance in made.probabilities.values())


def test_usage_of_every_provider() -> None:
    openai = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 1}
    google = {"total_input_tokens": 9, "total_output_tokens": 1, "total_cached_tokens": 4}
    fireworks = {"input_tokens": 9, "output_tokens": 1, "cached_input_tokens": 4}
    for usage in (openai, google, fireworks):
        found = billing_of({"usage": usage})
        assert (9, 1, 4) == (found.input_tokens, found.output_tokens, found.cached_tokens)


@pytest.mark.parametrize("figure", [-1, 10**400, 2**63, 1e308], ids=["negative", "huge", "count", "float"])
def test_usage_that_cannot_be_true_is_none(figure: float) -> None:
    found = billing_of({"usage": {"input_tokens": figure, "output_tokens": figure, "cost": figure}})
    assert (None, None) == (found.usage, found.usd)


def test_an_answer_of_its_own_called_result_is_not_taken_for_an_envelope() -> None:
    assert ["answers", "result"] == sorted(fields_of(b'{"answers": {}, "result": {"answers": {"x": 1}}}'))


WORDS = (
    "type",
    "name",
    "instructions",
    "choices",
    "value",
    "levels",
    "label",
    "criteria",
    "content",
    "role",
    "text",
    "probabilities",
    "noul",
)
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
"""JSON with the shapes' own words in it."""
PLACES = [("questions", 0), ("questions", 1, "choices"), ("input",), ("questions",), ("questions", 2, "levels", 0)]
NAMED = [("questions", "twice"), ("questions", "which", "criteria"), ("state",), ("questions",), ("questions", "urgent", "criteria", 0)]


def read_or_refused(served: DecisionServer, fields: Any) -> ServedCall | None:
    try:
        return served.parse(body(fields))
    except InvalidRequest as error:
        status, told = served.error(error)
        assert json.loads(told)["error"]["message"] and status in (400, 422)  # noqa: PT018 - the error is what is looked at
        return None


@given(st.sampled_from(PLACES), ANY)
def test_whatever_openai_s_request_holds_it_is_read_or_refused(path: Any, value: Any) -> None:
    found = read_or_refused(OpenAIServed(), changed(OPENAI, path, value))
    if found is not None:
        assert len(found.questions) == len({question.name for question in found.questions}) >= 1
        assert found.render(Decision({}), "m")


@given(st.sampled_from(NAMED), ANY)
def test_whatever_system_one_s_request_holds_it_is_read_or_refused(path: Any, value: Any) -> None:
    found = read_or_refused(SystemOneServed(), changed(SYSTEM_ONE, path, value))
    if found is not None:
        even = {one.name: Answer({option: 1 / len(one.options) for option in one.options}) for one in found.questions}
        assert list(even) == list(json.loads(found.render(Decision(even), "m"))["answers"])


ASKED = (
    Question(name="a", kind="predicate", instructions="It has."),
    Question(name="b", instructions="Which?", choices=("x", "y")),
    Question(name="c", kind="score", instructions="How?", choices=("low", "high")),
)


@pytest.mark.parametrize("shape", [OpenAIShape(), SystemOneShape(), GeminiShape()])
@given(answers=st.lists(ANY, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c"]), ANY, max_size=3) | ANY)
def test_whatever_a_server_answers_each_question_has_probabilities_or_a_problem(shape: DecisionClient, answers: Any) -> None:
    try:
        found = shape.parse_answers({"answers": answers}, ASKED)
    except ValueError:
        return
    assert ["a", "b", "c"] == list(found)
    for question in ASKED:
        one = found[question.name]
        assert bool(one.probabilities) != bool(one.problem)
        if one.probabilities:
            assert set(question.options) == set(one.probabilities)
            assert abs(sum(one.probabilities.values()) - 1) < 1e-9


def test_of_a_compressed_answer_no_more_is_read_than_one_can_be_long(monkeypatch: pytest.MonkeyPatch) -> None:
    body = gzip.compress(b'{"usage": {"prompt_tokens": 7}, "model": "m", "x": "' + b"a" * 3_000_000 + b'"}')
    assert "m" == read_billing(body, "gzip").model
    monkeypatch.setattr(asked, "MOST_DECODED_BYTES", 1_000_000)
    assert Billing() == read_billing(body, "gzip")
