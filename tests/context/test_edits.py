import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.conversation import problems
from proxy.context.edits import NOTE, Edit, apply_edits, edited, whole
from proxy.context.passages import find_passages
from proxy.context.pieces import ContextPiece, content_hash, pieces_of
from proxy.exchange import Evidence, Exchange, Message
from proxy.grounding.evidence.gathering import gather
from proxy.language.text import text_of
from proxy.testing import make_exchange

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "search_docs", "arguments": "{}"}}]}


def exchange_of(messages: list[Message], context: tuple[Evidence, ...] = ()) -> Exchange:
    """As the pipeline hands it to the first stage."""
    exchange = make_exchange(messages)
    exchange.evidence = find_passages(messages)
    exchange.passages = (*context, *exchange.evidence)
    return exchange


def said(exchange: Exchange) -> list[str]:
    return [text_of(message.get("content")) for message in exchange.messages]


def piece_with(exchange: Exchange, text: str) -> ContextPiece:
    return next(piece for piece in pieces_of(exchange) if text in piece.text)


def without(exchange: Exchange, text: str, by: str = "") -> bool:
    piece = piece_with(exchange, text)
    start = piece.text.index(text)
    return apply_edits(exchange, "poisoning", [Edit(piece, start, start + len(text), by)])


# ---- pieces ----


def test_passages_are_pieces_and_so_is_what_is_around_them() -> None:
    text = "Use this.\n<context>\n<document>The tower is 330 m tall.</document>\n</context>\nHow tall is it?"
    found = pieces_of(exchange_of([{"role": "user", "content": text}]))
    assert ["user", "passage", "user"] == [piece.kind for piece in found]
    assert "The tower is 330 m tall." == found[1].text.strip()
    assert all(text[piece.start : piece.end] == piece.text for piece in found)


def test_a_string_of_a_json_result_is_a_piece() -> None:
    result = json.dumps({"results": [{"content": 'It says "330 m" there.\nYes.', "source": "a.md"}]})
    messages = [{"role": "user", "content": "How tall?"}, CALL, {"role": "tool", "tool_call_id": "c1", "content": result}]
    (piece,) = pieces_of(exchange_of(messages), ("passage",))
    assert ('It says "330 m" there.\nYes.', "a.md", True) == (piece.text, piece.source, piece.literal)
    assert piece.text == json.loads(f'"{result[piece.start : piece.end]}"')


def test_a_passage_that_stands_in_no_message_is_a_piece() -> None:
    found = pieces_of(exchange_of([{"role": "user", "content": "Hi"}], (Evidence("A fact.", "a.md"),)))
    assert [("user", 0), ("passage", None)] == [(piece.kind, piece.message) for piece in found]


@pytest.mark.parametrize("same", ["Der  Turm ist\n330 m hoch.", " Der Turm ist 330 m hoch. "])
def test_a_hash_goes_by_the_words(same: str) -> None:
    assert content_hash("Der Turm ist 330 m hoch.") == content_hash(same)
    assert content_hash("Die Stra\u00dfe f\u00fchrt") == content_hash("Die Stra\u00dfe fu\u0308hrt")
    assert content_hash("Der Turm ist 331 m hoch.") != content_hash(same)


@given(st.text("ab \n\t\r\x0b\x1cé\u00a0", max_size=30))
def test_no_white_space_tells_two_contents_apart(text: str) -> None:
    assert content_hash(" ".join(unicodedata.normalize("NFC", text).split())) == content_hash(text)


# ---- edits ----


def test_a_sentence_leaves_and_the_rest_stays() -> None:
    messages = [{"role": "user", "content": "I like tea. I live in Porto. Bye."}, {"role": "user", "content": "Where do I live?"}]
    exchange = exchange_of(messages)
    assert without(exchange, "I live in Porto.")
    assert ["I like tea. Bye.", "Where do I live?"] == said(exchange)
    assert exchange.messages[1] is messages[1]
    assert "I like tea. I live in Porto. Bye." == exchange.original.messages[0]["content"]


def test_what_was_taken_out_is_no_evidence() -> None:
    exchange = exchange_of(
        [{"role": "user", "content": "<context>\n<document>The tower is 900 m tall. It is old.</document>\n</context>\nHow tall?"}]
    )
    without(exchange, "The tower is 900 m tall.")
    assert "900" not in " ".join(evidence.content for evidence in gather(exchange))
    assert "It is old." in " ".join(evidence.content for evidence in gather(exchange))


def test_json_stays_json() -> None:
    result = json.dumps({"results": [{"content": 'A "quoted" lie here. A truth.'}, {"content": "Another passage that stays."}]})
    messages = [{"role": "user", "content": "Q"}, CALL, {"role": "tool", "tool_call_id": "c1", "content": result}]
    exchange = exchange_of(messages)
    without(exchange, 'A "quoted" lie here.', 'Not "so".')
    assert [{"content": 'Not "so". A truth.'}, {"content": "Another passage that stays."}] == json.loads(said(exchange)[2])["results"]


def test_a_value_of_a_json_result_becomes_null() -> None:
    result = '{"name": "tower", "height_m": 900, "city": "Paris"}'
    call = {**CALL, "tool_calls": [{"id": "c1", "function": {"name": "get_tower", "arguments": "{}"}}]}
    exchange = exchange_of([{"role": "user", "content": "Q"}, call, {"role": "tool", "tool_call_id": "c1", "content": result}])
    without(exchange, '"height_m": 900')
    assert {"name": "tower", "height_m": None, "city": "Paris"} == json.loads(said(exchange)[2])


@pytest.mark.parametrize("content", ["A lie.", [{"type": "text", "text": "A lie."}]])
def test_a_message_of_which_nothing_is_left_says_so(content: Any) -> None:
    exchange = exchange_of([{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}])
    apply_edits(exchange, "poisoning", [whole(piece_with(exchange, "A lie."))])
    assert [NOTE, "And?"] == said(exchange)


def test_a_picture_stays() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    parts = [{"type": "text", "text": "A lie. See:"}, picture, {"type": "text", "text": "Another lie. True."}]
    exchange = exchange_of([{"role": "user", "content": parts}])
    without(exchange, "A lie.")
    without(exchange, "Another lie.")
    assert [{"type": "text", "text": "See:"}, picture, {"type": "text", "text": "True."}] == exchange.messages[0]["content"]


def test_what_takes_the_place_of_several_parts_stands_there_once() -> None:
    parts = [{"type": "text", "text": "One of it."}, {"type": "text", "text": "The other."}]
    exchange = exchange_of([{"role": "user", "content": parts}])
    (piece,) = pieces_of(exchange)
    apply_edits(exchange, "poisoning", [whole(piece, "Gone.")])
    assert "Gone." == said(exchange)[0].strip()


def test_half_a_character_in_a_json_string_stays_escaped() -> None:
    result = '{"note": "Not true. Half: \\ud83d here."}'
    exchange = exchange_of([{"role": "user", "content": "Look."}, CALL, {"role": "tool", "tool_call_id": "c1", "content": result}])
    without(exchange, "Not true.")
    assert {"note": "Half: \ud83d here."} == {"note": json.loads(said(exchange)[2])["note"].strip()}
    said(exchange)[2].encode()


def test_a_passage_that_stands_in_no_message_leaves() -> None:
    exchange = exchange_of([{"role": "user", "content": "Hi"}], (Evidence("A lie.", "a.md"), Evidence("A truth. A lie.", "b.md")))
    lie, both = pieces_of(exchange, ("passage",))
    apply_edits(exchange, "poisoning", [whole(lie), Edit(both, 9, 15)])
    assert ["A truth. "] == [passage.content for passage in exchange.passages]


def test_nothing_to_change_changes_nothing() -> None:
    exchange = exchange_of([{"role": "user", "content": "Hi"}])
    before = exchange.messages
    assert not apply_edits(exchange, "poisoning", [])
    assert before is exchange.messages
    assert exchange.cleaned is None


@given(st.lists(st.sampled_from(["One.", "Two \u00fc.", "Drei!", "<x>", '{"a": 1}']), min_size=1, max_size=5), st.data())
def test_messages_stay_legal_whatever_is_taken_out(texts: list[str], data: st.DataObject) -> None:
    messages: list[Message] = [
        {"role": "user", "content": " ".join(texts)},
        CALL,
        {"role": "tool", "tool_call_id": "c1", "content": "".join(texts)},
    ]
    exchange = exchange_of(messages)
    edits = []
    for piece in pieces_of(exchange):
        start = data.draw(st.integers(0, len(piece.text)))
        edits.append(Edit(piece, start, data.draw(st.integers(start, len(piece.text))), data.draw(st.sampled_from(["", "x"]))))
    apply_edits(exchange, "poisoning", edits)
    assert [] == problems(exchange.messages)
    assert len(messages) == len(exchange.messages) == len(exchange.conversation)
    assert all(text.strip() for text in (said(exchange)[0], said(exchange)[2]))


@given(st.text(max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4))
def test_only_what_lies_in_a_span_leaves(text: str, spans: list[tuple[int, int]]) -> None:
    kept = {i for i in range(len(text)) if not any(a <= i < b for a, b in spans)}
    left = edited(text, [(a, b, "") for a, b in spans if a <= b])
    assert [text[i] for i in sorted(kept) if not text[i].isspace()] == [c for c in left if not c.isspace()]
