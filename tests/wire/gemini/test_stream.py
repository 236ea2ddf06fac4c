"""What a chunk tells of places in its answer's text, or repeats of it, when that text leaves as it is and when it leaves as another."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.testing import ScriptedVerifiers, stream
from proxy.wire.dialect import Changes
from proxy.wire.gemini.answers import relocate_citations
from proxy.wire.gemini.stream import GeminiStream
from tests import gemini
from tests.claims import LONDON, PARIS, TOWER, WHERE, judged_by_words
from tests.conftest import Start


def chunk(said: str, **more: object) -> bytes:
    return gemini.event({"candidates": [{"content": {"parts": [gemini.text(said)], "role": "model"}, "index": 0, **more}]})


def supporting(start: object, end: int) -> dict[str, Any]:
    return {"groundingSupports": [{"segment": {"startIndex": start, "endIndex": end}}]}


IN_MIDST = [chunk("High tide. "), chunk("At noon. ", groundingMetadata=supporting(11, 20)), chunk("High tide.", finishReason="STOP")]


def supports_of(raw: bytes) -> list[Any]:
    (candidate,) = gemini.read(raw)["candidates"]
    found: list[Any] = candidate["groundingMetadata"]["groundingSupports"]
    return found


def test_places_told_in_the_midst_of_an_unchanged_text_leave_as_they_came() -> None:
    reader = GeminiStream(separate=True)
    pieces = [piece for raw in IN_MIDST for piece in reader.feed(raw)]  # what follows is read before anything leaves
    assert [piece.raw for piece in pieces] == [reader.encode_outgoing(piece) for piece in pieces]
    assert supporting(11, 20)["groundingSupports"] == supports_of(b"".join(piece.raw for piece in pieces))


def test_places_told_in_the_midst_of_a_changed_text_move_with_their_words() -> None:
    reader = GeminiStream(separate=True)
    pieces = [piece for raw in IN_MIDST for piece in reader.feed(raw)]
    changed = reader.apply_changes(pieces, Changes({0: "At noon. High tide, I think."}))
    (support,) = supports_of(b"".join(map(reader.encode_outgoing, changed)))
    assert (0, 9) == (support["segment"]["startIndex"], support["segment"]["endIndex"])


def test_they_do_so_where_another_reader_has_read_them_again() -> None:
    reader, again = GeminiStream(separate=True), GeminiStream()
    held = [piece for raw in IN_MIDST for piece in reader.feed(raw)]
    out = [reader.encode_outgoing(piece) for raw in IN_MIDST for piece in again.feed(raw)]
    assert (5, IN_MIDST) == (len(held), out)


def test_places_of_what_has_left_are_not_taken_for_those_of_what_came_after_it() -> None:
    reader, again = GeminiStream(separate=True), GeminiStream()
    for i in range(20):  # an object that is gone leaves its identity to the next one
        said = chunk("High tide. ", groundingMetadata=supporting(11 * i, 11 * i + 11))
        assert 2 == len([reader.encode_outgoing(piece) for piece in reader.feed(said)])
    late = chunk("High tide. ", groundingMetadata=supporting(220, 231))
    held = [*reader.feed(late)]
    del held
    assert [late] == [reader.encode_outgoing(piece) for piece in again.feed(late)]


CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
IN_PARTS = [
    [gemini.text("London it is. "), gemini.text("High ")],
    [gemini.text("tide. ")],
    [CODE],
    [gemini.text("At noon ")],
    [gemini.text("high tide.")],
]
"""Three parts, as chunks that belong together are joined."""


@pytest.mark.parametrize(
    ("place", "moved"),
    [
        ((0, 19, 23, "tide"), (0, 5, 9)),
        ((2, 13, 17, "tide"), (2, 13, 17)),
        ((2, 0, 7, "At noon"), (2, 0, 7)),
        ((0, 0, 6, "London"), None),
    ],
)
def test_a_place_in_a_stream_counts_from_the_beginning_of_its_part(
    place: tuple[int, int, int, str], moved: tuple[int, int, int] | None
) -> None:
    reader = GeminiStream(separate=True)
    segment = {"partIndex": place[0], "startIndex": place[1], "endIndex": place[2], "text": place[3]}
    events = [gemini.event({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}]}) for parts in IN_PARTS]
    last = chunk("", finishReason="STOP", groundingMetadata={"groundingSupports": [{"segment": segment}]})
    first, *rest = [piece for raw in (*events, last) for piece in reader.feed(raw)]
    sent = reader.with_text(first, "") + b"".join(map(reader.encode_outgoing, rest))
    supports = [support for raw in sent.split(b"\r\n\r\n") if b"groundingSupports" in raw for support in supports_of(raw + b"\r\n\r\n")]
    found = [tuple(one["segment"].get(name, 0) for name in ("partIndex", "startIndex", "endIndex")) for one in supports]
    assert ([moved] if moved else []) == found


@pytest.mark.parametrize("start", ["eleven", [1], {"a": 1}])
def test_a_place_that_is_no_number_goes_with_a_changed_text(start: object) -> None:
    candidate = relocate_citations({"groundingMetadata": supporting(start, 19)}, "High tide. At noon.", "At noon.")
    assert {"groundingMetadata": {"groundingSupports": []}} == candidate


@pytest.mark.parametrize("delivery", ["gate", "hold"])
async def test_a_redacted_sentence_is_in_none_of_its_log_probabilities(start: Start, delivery: str) -> None:
    policy = f"name: c\ndelivery: {delivery}\nstages: [claims: {{action: redact, embed: false}}]\n"
    tokens = {"chosenCandidates": [{"token": word, "logProbability": -0.1} for word in f"{PARIS} {LONDON}".split(" ")]}
    events = gemini.streamed(gemini.text(f"{PARIS} {LONDON}"), logprobsResult=tokens)
    async with start(stream(events), kind="gemini", policy=policy, verifiers=ScriptedVerifiers(judged_by_words)) as proxy:
        ask = {"contents": [gemini.said(gemini.text(WHERE))], "groundwire": {"context": [{"content": TOWER, "source": "tower.txt"}]}}
        answer = await proxy.post(ask, gemini.STREAM)
    assert PARIS in gemini.text_of(gemini.read(answer.body))
    assert b"London" not in answer.body
