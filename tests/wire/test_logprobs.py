import json

from proxy.testing import chunk, completion
from proxy.wire.chat.completions import ChatDialect

ENTRIES = [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}, {"token": " you", "logprob": -2, "bytes": None}]
EXPECTED = (("Hi", -0.1), (" you", -2.0))


def test_a_body_has_its_tokens_log_probabilities() -> None:
    body = completion("Hi you")
    body["choices"][0]["logprobs"] = {"content": ENTRIES, "refusal": None}
    assert {0: EXPECTED} == ChatDialect().parse_answer(json.dumps(body).encode()).logprobs


def test_a_stream_has_its_tokens_log_probabilities_choice_by_choice() -> None:
    reader = ChatDialect().stream()
    for i, entry in enumerate(ENTRIES):
        for index in (0, 1):
            event = json.loads(chunk({"content": entry["token"]}, index=index).removeprefix(b"data: "))
            event["choices"][0]["logprobs"] = {"content": [entry]} if index == 1 or i == 0 else None
            reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
    assert {0: EXPECTED[:1], 1: EXPECTED} == reader.answer.logprobs


def test_what_is_no_log_probability_is_left_out() -> None:
    for odd in (True, [], {"content": None}, {"content": [1, {"token": "a"}, {"token": None, "logprob": -1}]}):
        body = completion("a")
        body["choices"][0]["logprobs"] = odd
        assert not ChatDialect().parse_answer(json.dumps(body).encode()).logprobs.get(0)


def event_with(delta: dict[str, object], logprobs: object) -> bytes:
    event = json.loads(chunk(delta).removeprefix(b"data: "))
    event["choices"][0]["logprobs"] = logprobs
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def choice_of(raw: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(raw.removeprefix(b"data: "))["choices"][0]
    return found


def test_an_events_log_probabilities_go_with_the_words_that_they_belong_to() -> None:
    reader = ChatDialect().stream()
    (piece,) = reader.feed(event_with({"content": "Hi"}, {"content": ENTRIES[:1]}))
    same, other = choice_of(reader.with_text(piece, "Hi")), choice_of(reader.with_text(piece, "Ho"))
    assert ({"content": "Hi"}, {"content": ENTRIES[:1]}) == (same["delta"], same["logprobs"])
    assert ({"content": "Ho"}, None) == (other["delta"], other["logprobs"])


def test_a_refusal_in_other_words_is_still_a_refusal_and_has_no_log_probabilities() -> None:
    reader = ChatDialect().stream()
    (piece,) = reader.feed(event_with({"role": "assistant", "refusal": "I won't."}, {"refusal": ENTRIES[:1]}))
    other = choice_of(reader.with_refusal(piece, "I can't."))
    assert (True, {"role": "assistant", "refusal": "I can't."}, None) == (piece.refusal, other["delta"], other["logprobs"])
