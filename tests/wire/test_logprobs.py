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
