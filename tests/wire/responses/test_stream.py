"""The events of a streamed response: read, and leaving with other texts."""

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from proxy.errors import UpstreamUnreachable
from proxy.exchange import Answer
from proxy.wire.dialect import Changes, StreamPiece, changes_of
from proxy.wire.responses.stream import ResponsesStream
from tests.responses_api import Item, call_item, decoded, encode, event, events, reasoning_item, refusal_item, response, text_item

ADAPTER: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
EVERYTHING = events(
    reasoning_item(),
    text_item("Let me see.", identity="msg_0", phase="commentary"),
    text_item("Paris has 2 million people. It rains.", "More 😀."),
    call_item("weather", '{"city": "Paris"}'),
)


def read(chunks: Sequence[bytes]) -> tuple[ResponsesStream, list[StreamPiece]]:
    stream = ResponsesStream()
    return stream, [piece for chunk in chunks for piece in stream.feed(chunk)] + stream.finish()


def left(chunks: Sequence[bytes], verdict: dict[str, object] | None = None) -> bytes:
    """All events, leaving as they are."""
    stream, pieces = read(chunks)
    return b"".join(stream.encode_outgoing(piece) for piece in pieces if not piece.done) + stream.end(verdict)


def changed(chunks: Sequence[bytes], change: Callable[[Answer], Answer]) -> bytes:
    """The events of the answer that `change` makes of the one they tell."""
    stream, pieces = read(chunks)
    pieces = stream.apply_changes([piece for piece in pieces if not piece.done], changes_of(stream.answer, change(stream.answer)))
    return b"".join(stream.encode_outgoing(piece) for piece in pieces) + stream.end()


@pytest.mark.parametrize("is_whole", [False, True])
def test_what_a_shell_is_to_do_is_what_a_call_takes(is_whole: bool) -> None:
    commands = ["ls -l", "rm -r notes"]
    item = {"id": "sh_1", "type": "shell_call", "call_id": "c1", "status": "in_progress", "action": {"commands": []}}
    told = [event("response.output_item.added", output_index=0, item=item)]
    for i, command in enumerate(commands):
        at = {"output_index": 0, "command_index": i}
        told.append(event("response.shell_call_command.added", command="", **at))
        told += [event("response.shell_call_command.delta", delta=part, **at) for part in (command[:2], command[2:])]
        told.append(event("response.shell_call_command.done", command=command, **at))
    printed = {"stdout": "a file", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    told.append(event("response.shell_call_output_content.done", output_index=1, command_index=0, output=[printed]))
    patch = event("response.apply_patch_call_operation_diff.delta", output_index=2, delta="+one")
    done = event("response.output_item.done", output_index=0, item={**item, "action": {"commands": commands}})
    stream, _ = read([*map(encode, [*told, patch, *([done] if is_whole else [])])])
    inputs = set(stream.answer.choices[0].inputs) - {"commands"}  # a field's name
    assert ({*commands, "+one"}, "") == (inputs, stream.unreadable)


def check(stream: bytes) -> list[Item]:
    """The events, each as the API has it, numbered without a gap."""
    found = decoded(stream)
    for one in found:
        ADAPTER.validate_python(one)
    assert list(range(len(found))) == [one["sequence_number"] for one in found]
    return found


def texts_told(found: Sequence[Item], output: int, content: int = 0) -> list[str]:
    """What every event that tells a text says it is: its deltas joined, its end, its part's, its item's, its response's."""
    here = [one for one in found if (one.get("output_index"), one.get("content_index")) == (output, content)]
    item = next(one for one in found if one["type"] == "response.output_item.done" and one["output_index"] == output)["item"]
    return [
        "".join(one["delta"] for one in here if one["type"] == "response.output_text.delta"),
        *(one["text"] for one in here if one["type"] == "response.output_text.done"),
        *(one["part"]["text"] for one in here if one["type"] == "response.content_part.done"),
        item["content"][content]["text"],
        found[-1]["response"]["output"][output]["content"][content]["text"],
    ]


def test_what_is_not_changed_leaves_in_its_own_bytes() -> None:
    check(b"".join(EVERYTHING))
    assert b"".join(EVERYTHING) == left(EVERYTHING)


def test_the_answer_is_put_together_from_all_events() -> None:
    stream, _ = read(EVERYTHING)
    choice = stream.answer.choices[0]
    assert "Let me see.\n\nParis has 2 million people. It rains.\n\nMore 😀." == choice.text
    assert ("Hm.", "tool_calls", '{"city": "Paris"}') == (choice.reasoning, choice.finish_reason, choice.tool_calls[0].arguments)
    assert (9, 3, 4) == tuple(getattr(stream.answer.usage, name) for name in ("prompt_tokens", "completion_tokens", "cached_tokens"))
    assert (True, True, "") == (stream.complete, stream.done, stream.unreadable)


@given(st.lists(st.integers(0, 9000), max_size=12))
def test_where_the_stream_is_cut_changes_nothing(cuts: list[int]) -> None:
    whole = b"".join(EVERYTHING)
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    assert whole == left([whole[a:b] for a, b in pairwise(places)])


def test_a_changed_text_is_told_the_same_everywhere() -> None:
    sent = changed(EVERYTHING, lambda answer: answer.with_text(0, answer.text.replace("2 million", "many").replace("Let me", "I")))
    found = check(sent)
    assert {"I see."} == set(texts_told(found, 1))
    assert {"Paris has many people. It rains."} == set(texts_told(found, 2))
    assert {"More 😀."} == set(texts_told(found, 2, 1))
    assert call_item("weather", '{"city": "Paris"}') == found[-1]["response"]["output"][3]


def test_a_changed_refusal_is_told_the_same_everywhere() -> None:
    found = check(changed(events(refusal_item("No, you fool, I will not.")), lambda answer: answer.with_refusal(0, "No.")))
    assert ["No."] == [one["delta"] for one in found if one["type"] == "response.refusal.delta"]
    assert ["No."] == [one["refusal"] for one in found if one["type"] == "response.refusal.done"]
    assert "No." == found[-1]["response"]["output"][0]["content"][0]["refusal"]


def test_annotations_follow_the_text_and_go_with_their_words() -> None:
    def cited(start: int, end: int) -> Item:
        return {"type": "url_citation", "url": "https://a", "title": "A", "start_index": start, "end_index": end}

    text = "The tower is old. It is 400 m tall. See here."
    chunks = events(text_item(text, annotations=[cited(0, 17), cited(18, 35), cited(36, 45)]))
    found = check(changed(chunks, lambda answer: answer.with_text(0, "The tower is old. Gone. See here.")))
    now = [cited(0, 17), cited(24, 33)]
    told = [one for one in found if one["type"] == "response.output_text.annotation.added"]
    assert (now, [0, 1]) == ([one["annotation"] for one in told], [one["annotation_index"] for one in told])
    assert now == found[-1]["response"]["output"][0]["content"][0]["annotations"]


def test_changed_arguments_are_told_the_same_everywhere() -> None:
    stream, pieces = read(EVERYTHING)
    pieces = stream.apply_changes([piece for piece in pieces if not piece.done], Changes(arguments={0: {0: '{"city": "Rome"}'}}))
    found = check(b"".join(stream.encode_outgoing(piece) for piece in pieces) + stream.end())
    assert ['{"city": "Rome"}'] == [one["delta"] for one in found if one["type"] == "response.function_call_arguments.delta"]
    told = [one["arguments"] for one in found if one["type"] == "response.function_call_arguments.done"]
    assert ['{"city": "Rome"}'] * 2 == [*told, found[-1]["response"]["output"][3]["arguments"]]


def test_the_verdict_stands_in_the_response_that_ends_the_stream() -> None:
    found = check(left(EVERYTHING, {"verdict": "pass"}))
    assert {"verdict": "pass"} == found[-1]["response"]["groundwire"]


def test_the_usage_of_other_answers_is_added_at_the_end() -> None:
    stream, pieces = read(EVERYTHING)
    others = [{"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}]
    sent = b"".join(stream.encode_outgoing(stream.with_usage(piece, others)) for piece in pieces if not piece.done) + stream.end()
    assert (10, 5, 15) == tuple(check(sent)[-1]["response"]["usage"][name] for name in ("input_tokens", "output_tokens", "total_tokens"))


def test_a_block_closes_what_is_open() -> None:
    stream, pieces = read(events(reasoning_item(), text_item("Fine words here. Bad words.")))
    at = next(i for i, piece in enumerate(pieces) if piece.text.startswith("here."))
    sent = b"".join(stream.encode_outgoing(piece) for piece in pieces[:at]) + stream.encode_block([0]) + stream.end()
    found = check(sent)
    assert ("response.incomplete", {"reason": "content_filter"}) == (found[-1]["type"], found[-1]["response"]["incomplete_details"])
    assert {"Fine words "} == set(texts_told(found, 1))
    assert "incomplete" == found[-1]["response"]["output"][1]["status"]
    Response.model_validate(found[-1]["response"])


def test_a_failure_is_an_error_event_and_a_failed_response() -> None:
    stream, pieces = read(EVERYTHING[:9])
    found = check(b"".join(stream.encode_outgoing(piece) for piece in pieces) + stream.encode_failure(UpstreamUnreachable("gone")))
    assert ["error", "response.failed"] == [one["type"] for one in found[-2:]]
    assert ("upstream_unreachable", "gone") == (found[-2]["code"], found[-1]["response"]["error"]["message"])


def test_text_that_no_delta_told_is_read_before_the_event_that_tells_it() -> None:
    told = [one for one in decoded(b"".join(events(text_item("One. Two.")))) if one["type"] != "response.output_text.delta"]
    kept = [encode({**one, "sequence_number": number}) for number, one in enumerate(told)]
    stream, pieces = read(kept)
    assert ("One. Two.", "") == (stream.answer.text, stream.unreadable)
    assert b"".join(kept) == left(kept)
    pieces = stream.apply_changes([piece for piece in pieces if not piece.done], Changes({0: "One."}))
    sent = decoded(b"".join(stream.encode_outgoing(piece) for piece in pieces) + stream.end())
    assert ["One."] * 4 == texts_told(sent, 0)[1:]


@pytest.mark.parametrize(
    "strange",
    [
        event("response.output_text.done", item_id="msg_1", output_index=0, content_index=0, text="Other.", logprobs=[]),
        event("response.shouting.delta", item_id="msg_1", output_index=0, delta="Hey"),
        event("response.content_part.done", output_index=0, content_index=0, part={"type": "poem", "text": "Hey"}),
    ],
)
def test_text_that_is_not_read_is_told(strange: Item) -> None:
    chunks = events(text_item("One."))
    at = next(i for i, one in enumerate(chunks) if b"output_text.done" in one)
    stream, _ = read([*chunks[:at], encode(strange), *chunks[at:]])
    assert "" != stream.unreadable


def test_an_unknown_event_survives_in_its_place() -> None:
    chunks = events(text_item("One. Two."))
    new = encode(event("response.sparkle.added", output_index=0, sparkle={"a": 1}))
    chunks = [*chunks[:5], new, *chunks[5:]]
    assert b"".join(chunks) == left(chunks)
    sent = changed(chunks, lambda answer: answer.with_text(0, "One."))
    assert [5] == [i for i, one in enumerate(decoded(sent)) if one["type"] == "response.sparkle.added"]


def reordered(*output: Item, renames: bool) -> list[bytes]:
    """A stream whose end has its items the other way round, perhaps with other ids."""
    *told, last = decoded(b"".join(events(*output)))
    items = [{**item, **{name: f"{item[name]}_2" for name in ("id", "call_id") if renames and name in item}} for item in reversed(output)]
    return [encode(one) for one in (*told, {**last, "response": {**last["response"], "output": items}})]


@pytest.mark.parametrize("renames", [False, True])
def test_items_that_the_end_orders_anew_are_the_same_items(renames: bool) -> None:
    chunks = reordered(text_item("One. Two."), reasoning_item(), call_item("a", "{}"), renames=renames)
    stream, _ = read(chunks)
    choice = stream.answer.choices[0]
    assert ("One. Two.", "Hm.", 1, "") == (choice.text, choice.reasoning, len(choice.tool_calls), stream.unreadable)
    assert b"".join(chunks) == left(chunks)
    sent = decoded(changed(chunks, lambda answer: answer.with_text(0, "One.")))
    assert ["function_call", "reasoning", "message"] == [item["type"] for item in sent[-1]["response"]["output"]]
    assert "One." == sent[-1]["response"]["output"][2]["content"][0]["text"]


def test_a_servers_end_mark_stays_behind_the_end() -> None:
    chunks = [*events(text_item("One.")), b"data: [DONE]\n\n"]
    assert b"".join(chunks) == left(chunks)
    assert left(chunks, {"a": 1}).endswith(b"data: [DONE]\n\n")


def test_an_error_event_is_the_upstreams_error() -> None:
    stream, _ = read([*EVERYTHING[:3], encode(event("error", code="server_error", message="Oh", param=None, sequence_number=3))])
    assert stream.error is not None
    assert "Oh" == stream.error["message"]
    failed, _ = read(events(ends="failed", error={"code": "server_error", "message": "Oh"}))
    assert (True, {"code": "server_error", "message": "Oh"}) == (failed.complete, failed.error)


def test_an_incomplete_response_says_why() -> None:
    stream, _ = read(events(text_item("One"), ends="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert "length" == stream.answer.choices[0].finish_reason


def test_the_whole_response_validates() -> None:
    Response.model_validate(response(reasoning_item(), text_item("x"), call_item("a", "{}")))
    assert json.loads(EVERYTHING[-1].split(b"data: ")[1])["response"]["output"][0] == reasoning_item()
