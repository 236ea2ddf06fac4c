import json

from proxy.testing import chunk
from proxy.wire.chat.completions import ChatDialect

ENTRIES = [{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}, {"token": " you", "logprob": -2, "bytes": None}]


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
