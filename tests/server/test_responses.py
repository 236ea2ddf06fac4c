"""``POST /v1/responses`` from end to end, with OpenAI's own client on the other side."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import openai
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from proxy.delivery.own_tools import NOT_RUN
from proxy.exchange import Answer, Choice, Exchange
from proxy.ports.stage import Stage
from proxy.testing import reply, stream
from tests.conftest import Running, Start
from tests.delivery.test_delivery import ALL as JUDGES
from tests.delivery.test_delivery import policy
from tests.delivery.test_retry import AGAIN, Chooser
from tests.own_tools import FIND, GATE, HOLD, TAP, Finder, Listening, Passing
from tests.responses_api import Item, call_item, decoded, encode, events, reasoning_item, refusal_item, response, text_item

ADAPTER: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ASK = {"model": "gpt-5", "input": "Hi"}
STREAM = {**ASK, "stream": True}
PATH = "/v1/responses"
NOTHING_CHECKED = "unchecked_no_answer_check"
LONG = text_item("A first LIE here. This is fine. More NOISE now. The end.")


class Own(Stage):
    """Answers in the model's stead."""

    name = "own"

    async def on_request(self, exchange: Exchange) -> None:
        exchange.answer = Answer((Choice(0, text="I do not know.", finish_reason="stop"),))


ALL = (*JUDGES, Finder, Passing, Listening, Own, Chooser)


def client(proxy: Running) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="sk-client", base_url=proxy.url + "/v1", max_retries=0)


def checked(body: bytes) -> list[Item]:
    """The events, each as the API has it, numbered without a gap."""
    found = decoded(body)
    for one in found:
        ADAPTER.validate_python(one)
    assert list(range(len(found))) == [one["sequence_number"] for one in found]
    return found


def told(found: Sequence[Item], output: int = 0) -> set[str]:
    """What the events that tell the first text of an item say it is."""
    texts = {"".join(one["delta"] for one in found if one["type"] == "response.output_text.delta" and one["output_index"] == output)}
    for one in found:
        if one.get("output_index") == output and one["type"] == "response.output_text.done":
            texts.add(one["text"])
        elif one.get("output_index") == output and one["type"] == "response.content_part.done":
            texts.add(one["part"]["text"])
        elif one.get("output_index") == output and one["type"] == "response.output_item.done":
            texts.add(one["item"]["content"][0]["text"])
    return texts | {found[-1]["response"]["output"][output]["content"][0]["text"]}


@pytest.mark.parametrize("kind", ["gate", "hold"])
async def test_a_redaction_is_told_the_same_everywhere(start: Start, kind: str) -> None:
    chunks = events(reasoning_item(), LONG, call_item("weather", '{"a": 1}'))
    async with start(stream(chunks), policy=policy(kind, "censor"), stages=ALL) as proxy:
        found = checked((await proxy.post(STREAM, PATH)).body)
    assert {"[removed] This is fine. The end."} == told(found, 1)
    assert [reasoning_item(), call_item("weather", '{"a": 1}')] == [found[-1]["response"]["output"][i] for i in (0, 2)]


@pytest.mark.parametrize(("kind", "last"), [("gate", "A LIE. Fine."), ("hold", "A LIE. Fine."), ("gate", "Fine. Here is POISON.")])
async def test_a_text_that_the_last_event_repeats_is_the_one_that_left(start: Start, kind: str, last: str) -> None:
    """Some servers say the whole text beside ``output``, as SDKs derive it."""
    parts = [text_item("I look. ", identity="msg_0"), text_item(last)]
    *chunks, end = events(*parts)
    repeated = encode({**decoded(end)[0], "response": response(*parts, output_text="I look. " + last)})
    async with start(stream([*chunks, repeated]), policy=policy(kind, "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    ended = decoded(got.body)[-1]["response"]
    assert "".join(part["text"] for item in ended["output"] for part in item["content"]) == ended["output_text"]
    assert not any(word in got.body for word in (b"LIE", b"POISON"))


async def test_a_text_that_a_whole_body_repeats_is_the_one_that_left(start: Start) -> None:
    body = response(text_item("I look. ", identity="msg_0"), LONG, output_text="I look. " + LONG["content"][0]["text"])
    async with start(reply(body), policy=policy("hold", "censor"), stages=ALL) as proxy:
        got = await proxy.post(ASK, PATH)
    assert "I look. [removed] This is fine. The end." == got.json["output_text"]


async def test_a_redaction_changes_a_whole_body(start: Start) -> None:
    async with start(reply(response(reasoning_item(), LONG)), policy=policy("hold", "censor"), stages=ALL) as proxy:
        got = await proxy.post(ASK, PATH)
    assert response(reasoning_item(), text_item("[removed] This is fine. The end.")) == got.json


async def test_several_texts_are_judged_apart(start: Start) -> None:
    chunks = events(text_item("I look", identity="msg_0"), text_item("A LIE. Fine."))
    async with start(stream(chunks), policy=policy("gate", "censor"), stages=ALL) as proxy:
        found = checked((await proxy.post(STREAM, PATH)).body)
    assert ({"I look"}, {"[removed] Fine."}) == (told([one for one in found if one.get("output_index") != 1]), told(found, 1))


@pytest.mark.parametrize("kind", ["gate", "hold"])
async def test_a_block_is_an_incomplete_response_or_an_error_before_it(start: Start, kind: str) -> None:
    chunks = events(text_item("This is fine. Here is POISON. The end."))
    async with start(stream(chunks), policy=policy(kind, "censor"), stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    if kind == "hold":
        assert (400, "policy_blocked", "poisoned_context") == (got.status, got.json["error"]["code"], got.json["error"]["param"])
        return
    found = checked(got.body)
    assert ("response.incomplete", {"reason": "content_filter"}) == (found[-1]["type"], found[-1]["response"]["incomplete_details"])
    assert {"This is fine."} == {text.strip() for text in told(found)}


async def test_a_call_leaves_only_when_the_whole_answer_has_been_judged(start: Start) -> None:
    chunks = events(text_item("LATE news."), call_item("pay", "{}"), text_item("After.", identity="msg_2"))
    async with start(stream(chunks), stream(chunks), policy=policy("gate", "censor", "score"), stages=ALL) as proxy:
        blocked = checked((await proxy.post(STREAM, PATH)).body)
        passed = checked((await proxy.post({**STREAM, "input": "x"}, PATH, x_groundwire_skip="score")).body)
    assert ["message"] == [one["item"]["type"] for one in blocked if one["type"] == "response.output_item.done"]
    assert "content_filter" == blocked[-1]["response"]["incomplete_details"]["reason"]
    assert decoded(b"".join(chunks)) == passed


async def test_a_refusal_streams_through_the_gate(start: Start) -> None:
    chunks = events(refusal_item("I will not do that."))
    async with start(stream(chunks), policy=policy("gate", "censor"), stages=ALL) as proxy:
        assert decoded(b"".join(chunks)) == checked((await proxy.post(STREAM, PATH)).body)


@pytest.mark.parametrize("kind", ["tap", "gate", "hold"])
async def test_the_verdict_stands_in_the_response(start: Start, kind: str) -> None:
    replies = stream(events(LONG)), reply(response(LONG))
    async with start(*replies, policy=policy(kind, "score"), stages=ALL) as proxy:
        found = checked((await proxy.post(STREAM, PATH, x_groundwire_inline="1")).body)
        whole = await proxy.post(ASK, PATH, x_groundwire_inline="1")
    assert ("unsure", "unsure") == (found[-1]["response"]["groundwire"]["verdict"], whole.json["groundwire"]["verdict"])


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_own_answer_is_a_valid_response(start: Start, streamed: bool) -> None:
    async with start(policy=policy("hold", "own"), stages=ALL) as proxy, client(proxy) as ai:
        if streamed:
            async with ai.responses.stream(model="gpt-5", input="Hi") as running:
                got: Any = await running.get_final_response()
        else:
            got = await ai.responses.create(model="gpt-5", input="Hi")
    assert ("I do not know.", "completed", []) == (got.output_text, got.status, proxy.upstream.calls)
    assert got.id.startswith("resp_gw_")


async def test_an_own_answer_without_the_form_that_was_asked_for_is_a_refusal(start: Start) -> None:
    form = {"format": {"type": "json_schema", "name": "a", "schema": {"type": "object"}}}
    async with start(policy=policy("hold", "own"), stages=ALL) as proxy:
        whole = await proxy.post({**ASK, "text": form}, PATH)
        found = checked((await proxy.post({**STREAM, "text": form}, PATH)).body)
    assert {"type": "refusal", "refusal": "I do not know."} == whole.json["output"][0]["content"][0]
    assert ["I do not know."] == [one["refusal"] for one in found if one["type"] == "response.refusal.done"]


@pytest.mark.parametrize("kind", [TAP, GATE, HOLD])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_call_of_an_own_tool_is_answered_and_not_seen(start: Start, kind: str, streamed: bool) -> None:
    first = (reasoning_item("rs_0"), call_item(FIND, '{"q": "hotel"}', "own_1"))
    second = (reasoning_item("rs_1"), text_item("Booked it."), call_item("book_hotel", "{}", "call_2"))
    replies = [stream(events(*o, id=i)) if streamed else reply(response(*o, id=i)) for o, i in ((first, "resp_1"), (second, "resp_2"))]
    body = {**(STREAM if streamed else ASK), "tools": [{"type": "web_search"}]}
    async with start(*replies, policy=kind, stages=ALL) as proxy:
        got = await proxy.post(body, PATH)
    asked = proxy.upstream.calls[1].json
    assert [{"role": "user", "content": "Hi"}, *first] == asked["input"][:3]
    assert {"type": "function_call_output", "call_id": "own_1", "output": "found for hotel"} == asked["input"][3]
    assert ["web_search", "function", "function"] == [tool["type"] for tool in asked["tools"]]
    found = checked(got.body) if streamed else []
    final = found[-1]["response"] if streamed else got.json
    assert ([*second], "resp_2", 24) == (final["output"], final["id"], final["usage"]["total_tokens"])
    assert FIND not in json.dumps([one for one in found if "output_index" in one])
    assert [0, 1, 2] == sorted({one["output_index"] for one in found if "output_index" in one}) or not streamed


async def test_text_before_an_own_call_stays_in_the_stream_and_in_the_response(start: Start) -> None:
    first = (text_item("I look.", identity="msg_0"), reasoning_item(), call_item(FIND, '{"q": "a"}', "own_1"))
    async with start(stream(events(*first)), stream(events(text_item("Here."))), policy=TAP, stages=ALL) as proxy:
        found = checked((await proxy.post(STREAM, PATH)).body)
    assert [text_item("I look.", identity="msg_0"), text_item("Here.")] == found[-1]["response"]["output"]
    assert 1 == sum(one["type"] == "response.created" for one in found)
    assert ({"I look."}, {"Here."}) == (told(found, 0), told(found, 1))


async def test_reasoning_that_the_provider_does_not_keep_goes_back_only_encrypted(start: Start) -> None:
    open_item = {"id": "rs_2", "type": "reasoning", "summary": []}
    first = (reasoning_item(), open_item, call_item(FIND, '{"q": "a"}', "own_1"))
    async with start(reply(response(*first)), reply(response(LONG)), policy=TAP, stages=ALL) as proxy:
        await proxy.post({**ASK, "store": False}, PATH)
    assert [first[0], first[2]] == proxy.upstream.calls[1].json["input"][1:3]


@pytest.mark.parametrize("streamed", [False, True])
async def test_another_answer_is_asked_for_and_its_cost_told(start: Start, streamed: bool) -> None:
    answers = [(reasoning_item(), text_item("A BAD one.")), (text_item("A good LIE one."),)]
    replies = [stream(events(*a, id=f"resp_{i}")) if streamed else reply(response(*a, id=f"resp_{i}")) for i, a in enumerate(answers)]
    async with start(*replies, policy=policy("hold", "chooser"), stages=ALL) as proxy:
        got = await proxy.post({**(STREAM if streamed else ASK), "previous_response_id": "resp_x"}, PATH)
    asked = proxy.upstream.calls[1].json
    assert ([{"role": "user", "content": "Hi"}, {"role": "user", "content": AGAIN}], "resp_x") == (
        asked["input"],
        asked["previous_response_id"],
    )
    final = checked(got.body)[-1]["response"] if streamed else got.json
    assert ("A good [removed] one.", "resp_1", 24) == (
        final["output"][0]["content"][0]["text"],
        final["id"],
        final["usage"]["total_tokens"],
    )


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_calls_arguments_are_mended(start: Start, streamed: bool) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tools = [{"type": "function", "name": "weather", "parameters": parameters}]
    item = call_item("weather", '{"city": "Paris",}')
    answer = stream(events(reasoning_item(), item)) if streamed else reply(response(reasoning_item(), item))
    async with start(answer, policy=policy("hold", "schema")) as proxy:
        got = await proxy.post({**(STREAM if streamed else ASK), "tools": tools}, PATH)
    found = checked(got.body) if streamed else []
    output = found[-1]["response"]["output"] if streamed else got.json["output"]
    mended = output[1]["arguments"]
    assert {"city": "Paris"} == json.loads(mended)
    told = [one["item"]["arguments"] for one in found if one["type"] == "response.output_item.done" and one["output_index"] == 1]
    told += ["".join(one["delta"] for one in found if one["type"] == "response.function_call_arguments.delta")] if streamed else []
    assert all(mended == arguments for arguments in told)


async def test_errors_are_openais_with_the_fields_path(start: Start) -> None:
    async with start() as proxy, client(proxy) as ai:
        with pytest.raises(openai.BadRequestError) as caught:
            await ai.responses.create(model="gpt-5", input=[{"role": "user", "content": "x"}, 5])  # type: ignore[list-item]
    assert ("input[1]", "invalid_request") == (caught.value.param, caught.value.code)


async def test_an_upstreams_error_passes_as_it_is(start: Start) -> None:
    error = {"error": {"message": "No such response", "type": "invalid_request_error", "param": "previous_response_id", "code": "x"}}
    async with start(reply(error, status=400)) as proxy:
        got = await proxy.post(ASK, PATH)
    assert (400, error) == (got.status, got.json)


async def test_a_stream_that_breaks_off_ends_as_failed(start: Start) -> None:
    async with start(stream(events(LONG)[:6]), policy=policy("gate", "censor"), stages=ALL) as proxy:
        found = checked((await proxy.post(STREAM, PATH)).body)
    assert ["error", "response.failed"] == [one["type"] for one in found[-2:]]


async def test_a_body_with_input_at_chat_completions_is_a_response(start: Start) -> None:
    async with start(reply(response(LONG)), policy=policy("hold", "censor"), stages=ALL) as proxy:
        got = await proxy.post(ASK)
        wrong = await proxy.post({"model": "m", "input": 5})
    assert (text_item("[removed] This is fine. The end."), "/v1/responses") == (got.json["output"][0], proxy.upstream.calls[0].path)
    assert (400, "input") == (wrong.status, wrong.json["error"]["param"])


async def test_what_stands_below_is_passed_on(start: Start) -> None:
    async with start(reply({"object": "response.input_tokens", "input_tokens": 3})) as proxy:
        got = await proxy.post(ASK, PATH + "/input_tokens")
        await proxy.get(PATH + "/resp_1/input_items?limit=2")
    assert ("skipped", 3) == (got.verdict, got.json["input_tokens"])
    assert ["/v1/responses/input_tokens", "/v1/responses/resp_1/input_items?limit=2"] == [call.path for call in proxy.upstream.calls]


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (404, {"message": "Invalid URL (POST /v1/responses/input_tokens)", "param": None, "code": None}, 200),
        (404, {"message": "Resource not found", "code": "404"}, 200),
        (405, {"message": "no", "code": "not_found"}, 200),
        (404, {"message": "no such model", "code": "model_not_found"}, 404),
        (404, {"message": "no such model", "code": "DeploymentNotFound"}, 404),
        (404, {"message": "no such model", "param": "model", "code": 404}, 404),
        (429, {"message": "slow", "code": None}, 429),
    ],
)
async def test_tokens_are_counted_here_only_where_the_upstream_cannot(
    start: Start, status: int, error: dict[str, Any], expected: int
) -> None:
    async with start(reply({"error": error}, status)) as proxy:
        got = await proxy.post({"model": "m", "input": "How high is it?", "instructions": "Be brief."}, PATH + "/input_tokens")
    assert expected == got.status
    if expected == 200:
        assert ("response.input_tokens", "tokens_estimated") == (got.json["object"], got.headers["x-groundwire-warnings"])
        assert 7 < got.json["input_tokens"] < 30
    else:
        assert {"error": error} == got.json


@pytest.mark.parametrize("elsewhere", [{"previous_response_id": "resp_1"}, {"conversation": {"id": "c_1"}}, {"prompt": {"id": "p_1"}}])
async def test_what_stands_elsewhere_is_not_counted_as_nothing(start: Start, elsewhere: dict[str, Any]) -> None:
    async with start(reply({"detail": "Not Found"}, 404)) as proxy:
        got = await proxy.post({"model": "m", "input": "Go on.", **elsewhere}, PATH + "/input_tokens")
    assert (400, next(iter(elsewhere))) == (got.status, got.json["error"]["param"])


async def test_the_client_library_streams_with_tools_through_the_gate(start: Start) -> None:
    chunks = events(reasoning_item(), LONG, call_item("weather", '{"a": 1}'))
    async with (
        start(stream(chunks), policy=policy("gate", "censor"), stages=ALL) as proxy,
        client(proxy) as ai,
        ai.responses.stream(model="gpt-5", input="Hi") as running,
    ):
        got = await running.get_final_response()
    assert ("[removed] This is fine. The end.", "weather") == (got.output_text, got.output[2].to_dict()["name"])


async def test_the_prompt_and_the_answer_are_counted_and_recorded(start: Start) -> None:
    budget = "name: budget\ndelivery: tap\nstages: [budget: {window: 2000}]\n"
    async with start(reply(response(LONG)), policy=budget) as proxy:
        got = await proxy.post({**ASK, "instructions": "Be brief."}, PATH)
        record = await proxy.record(got)
    assert (9, 3, "/responses") == (record["prompt_tokens"], record["completion_tokens"], record["path"])
    assert 0 < record["prompt_tokens_before"] < 30


def following(previous: str, text: str = "And then?", **more: object) -> dict[str, object]:
    return {**ASK, "input": text, "previous_response_id": previous, **more}


def codes(record: Any) -> dict[str, Any]:
    return {verdict["code"]: verdict["detail"] for verdict in record["detail"].get("verdicts", ()) if verdict["stage"] == "server"}


class Reader(Stage):
    """Notes the conversation that it sees."""

    name = "reader"
    seen: list[list[tuple[str, Any]]] = []

    async def on_request(self, exchange: Exchange) -> None:
        type(self).seen.append([(message["role"], message["content"]) for message in exchange.messages])


class Slow(Stage):
    """Judges an answer when it may."""

    name = "slow"
    go: asyncio.Event

    async def on_answer(self, exchange: Exchange) -> None:
        await self.go.wait()


class Forgetful(Stage):
    """Takes the first message out."""

    name = "forgetful"
    changes = ("messages",)

    async def on_request(self, exchange: Exchange) -> None:
        exchange.messages = exchange.messages[1:]


class OwnOnce(Stage):
    """Answers a question about names in the model's stead."""

    name = "own_once"

    async def on_request(self, exchange: Exchange) -> None:
        if exchange.messages[-1]["content"] == "Whose?":
            exchange.answer = Answer((Choice(0, text="Which of the two?", finish_reason="stop"),))


READING = (*ALL, Reader, Slow, Forgetful, OwnOnce)


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_came_by_here_is_seen_where_a_request_names_it(start: Start, streamed: bool) -> None:
    Reader.seen = []
    answers = [(text_item("First."), "resp_1"), (text_item("Second."), "resp_2"), (text_item("Third."), "resp_3")]
    replies = [stream(events(item, id=i)) if streamed else reply(response(item, id=i)) for item, i in answers]
    more = {"stream": True} if streamed else {}
    async with start(*replies, policy=policy("hold", "reader", "censor"), stages=READING) as proxy:
        bodies = [{**ASK, **more, "instructions": "Be brief."}, following("resp_1", **more), following("resp_2", "Go on", **more)]
        records = [await proxy.record(await proxy.post(body, PATH)) for body in bodies]
    assert [("system", "Be brief."), ("user", "Hi")] == Reader.seen[0]
    past = [("user", "Hi"), ("assistant", "First."), ("user", "And then?"), ("assistant", "Second.")]
    assert [*past, ("user", "Go on")] == Reader.seen[2]
    assert bodies == [call.json for call in proxy.upstream.calls]
    assert [{}, {"turns": 1, "messages": 2}, {"turns": 2, "messages": 4}] == [codes(record).get("history_seen", {}) for record in records]
    assert ["1", "2", "3"] == [record["step_id"] for record in records]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_can_be_gone_on_from_while_its_checks_run(start: Start, streamed: bool) -> None:
    Reader.seen, Slow.go = [], asyncio.Event()
    replies = [stream(events(text_item("First."), id="resp_1")) if streamed else reply(response(text_item("First."), id="resp_1"))]
    async with start(*replies, reply(response(LONG)), policy=policy("tap", "reader", "slow"), stages=READING) as proxy:
        await proxy.post(STREAM if streamed else ASK, PATH)
        async with asyncio.timeout(1.5):  # less than a server waits for a turn to be kept
            await proxy.post(following("resp_1"), PATH)
        Slow.go.set()
    assert [("user", "Hi"), ("assistant", "First."), ("user", "And then?")] == Reader.seen[1]


async def test_an_answer_can_be_gone_on_from_when_its_last_event_is_there(start: Start) -> None:
    Reader.seen, over = [], asyncio.Event()
    said = events(text_item("First."), id="resp_1")
    lingering = stream([*said, b": still here\n\n"], wait={len(said): over})
    async with start(lingering, reply(response(LONG)), policy=policy("tap", "reader"), stages=READING) as proxy, client(proxy) as ai:
        async for event in await ai.responses.create(model="gpt-5", input="Hi", stream=True):
            if event.type == "response.completed":
                async with asyncio.timeout(1.5):
                    await proxy.post(following("resp_1"), PATH, authorization="Bearer sk-client")
                over.set()
    assert [("user", "Hi"), ("assistant", "First."), ("user", "And then?")] == Reader.seen[1]


async def test_what_did_not_come_by_here_is_said_to_be_unseen(start: Start) -> None:
    Reader.seen = []
    async with start(reply(response(LONG)), policy=policy("hold", "reader"), stages=READING) as proxy:
        unknown = await proxy.post(following("resp_0"), PATH)
        in_conversation = await proxy.post({**ASK, "conversation": {"id": "conv_1"}}, PATH)
        bare = await proxy.post({**ASK, "previous_response_id": None}, PATH)
        nothing_new = await proxy.post({"model": "gpt-5", "previous_response_id": "resp_0"}, PATH)
        named = await proxy.post({**ASK, "input": [{"type": "item_reference", "id": "msg_9"}, {"role": "user", "content": "x"}]}, PATH)
    told = [got.headers.get("x-groundwire-warnings") for got in (unknown, in_conversation, bare, nothing_new, named)]
    assert ["history_not_seen", "history_not_seen", NOTHING_CHECKED, "history_not_seen", "history_not_seen"] == told
    assert ["warn", "warn"] == [unknown.verdict, in_conversation.verdict]
    assert [("user", "And then?")] == Reader.seen[0]


async def test_the_turns_of_a_conversation_are_seen_as_far_as_they_came_by_here(start: Start) -> None:
    Reader.seen = []
    replies = [reply(response(text_item(text), id=f"resp_{i}")) for i, text in enumerate(("First.", "Second."))]
    async with start(*replies, policy=policy("hold", "reader"), stages=READING) as proxy:
        for text in ("One", "Two", "Three"):
            got = await proxy.post({**ASK, "input": text, "conversation": "conv_1"}, PATH)
    assert "history_not_seen" == got.headers["x-groundwire-warnings"]
    past = [("user", "One"), ("assistant", "First."), ("user", "Two"), ("assistant", "Second.")]
    assert [*past, ("user", "Three")] == Reader.seen[2]


async def test_a_history_is_its_clients_alone(start: Start) -> None:
    Reader.seen = []
    async with start(reply(response(LONG)), policy=policy("hold", "reader"), stages=READING, api_key="forward") as proxy:
        await proxy.post(ASK, PATH, authorization="Bearer a")
        foreign = await proxy.post(following("resp_1"), PATH, authorization="Bearer b")
        own = await proxy.post(following("resp_1"), PATH, authorization="Bearer a")
    assert "history_not_seen" == foreign.headers["x-groundwire-warnings"]
    assert NOTHING_CHECKED == own.headers["x-groundwire-warnings"]
    assert [1, 1, 3] == [len(seen) for seen in Reader.seen]


async def test_what_the_provider_does_not_keep_is_not_kept_here(start: Start) -> None:
    async with start(reply(response(LONG)), policy=policy("hold", "reader"), stages=READING) as proxy:
        await proxy.post({**ASK, "store": False}, PATH)
        got = await proxy.post(following("resp_1"), PATH)
    assert "history_not_seen" == got.headers["x-groundwire-warnings"]


async def test_what_the_provider_holds_is_not_changed_and_the_record_says_so(start: Start) -> None:
    async with start(reply(response(LONG)), policy=policy("hold", "forgetful"), stages=READING) as proxy:
        await proxy.post({**ASK, "input": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}, PATH)
        got = await proxy.post(following("resp_1"), PATH)
        record = await proxy.record(got)
    assert {"messages": 1} == codes(record)["history_not_changed"]
    assert following("resp_1", [{"role": "user", "content": "And then?"}]) in (  # type: ignore[arg-type]
        proxy.upstream.calls[1].json,
        {**proxy.upstream.calls[1].json, "input": [{"role": "user", "content": proxy.upstream.calls[1].json["input"]}]},
    )


async def test_a_client_can_go_on_from_an_answer_that_the_provider_does_not_know(start: Start) -> None:
    async with start(reply(response(LONG)), policy=policy("hold", "own_once"), stages=READING) as proxy:
        asked = (await proxy.post({**ASK, "input": "Whose?"}, PATH)).json
        await proxy.post(following(asked["id"], "The first"), PATH)
        again = (await proxy.post(following("resp_1", "Whose?"), PATH)).json
        await proxy.post(following(again["id"], "The second"), PATH)
    own = {"role": "assistant", "content": "Which of the two?"}
    first, second = (call.json for call in proxy.upstream.calls)
    assert "previous_response_id" not in first
    assert [{"role": "user", "content": "Whose?"}, own, {"role": "user", "content": "The first"}] == first["input"]
    assert "resp_1" == second["previous_response_id"]
    assert [{"role": "user", "content": "Whose?"}, own, {"role": "user", "content": "The second"}] == second["input"]


MIXED = (reasoning_item(), call_item(FIND, '{"q": "hotel"}', "own_1"), call_item("weather", "{}"))
CLIENTS = {"type": "function_call_output", "call_id": "call_1", "output": "Sun"}


@pytest.mark.parametrize("kind", [TAP, GATE, HOLD])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("named", ["previous_response_id", "conversation"])
async def test_the_next_request_brings_what_a_call_gave_that_the_client_does_not_know_of(
    start: Start, kind: str, streamed: bool, named: str
) -> None:
    answers = [(MIXED, "resp_1"), ((text_item("Done."),), "resp_2"), ((text_item("Bye."),), "resp_3")]
    replies = [stream(events(*o, id=i)) if streamed else reply(response(*o, id=i)) for o, i in answers]
    more = {"stream": True} if streamed else {}
    names = ["conv_1"] * 3 if named == "conversation" else [None, "resp_1", "resp_2"]
    async with start(*replies, policy=kind, stages=ALL) as proxy:
        for name, given in zip(names, ("Hi", [CLIENTS], "Thanks"), strict=True):
            await proxy.post({**ASK, **more, "input": given, named: name}, PATH)
    _, second, third = (call.json for call in proxy.upstream.calls)
    own = {"type": "function_call_output", "call_id": "own_1", "output": "found for hotel"}
    assert ([own, CLIENTS], "Thanks") == (second["input"], third["input"])
    assert names[1:] == [second[named], third[named]]


async def test_a_hidden_call_that_was_not_run_has_a_result_that_says_so(start: Start) -> None:
    cut = response(*MIXED[:2], status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    async with start(reply(cut), reply(response(LONG, id="resp_2")), policy=TAP, stages=ALL) as proxy:
        await proxy.post(ASK, PATH)
        await proxy.post(following("resp_1"), PATH)
    told = {"type": "function_call_output", "call_id": "own_1", "output": NOT_RUN}
    assert [told, {"role": "user", "content": "And then?"}] == proxy.upstream.calls[1].json["input"]


async def test_a_client_that_brings_the_result_of_a_hidden_call_is_not_spoken_for(start: Start) -> None:
    brought = {"type": "function_call_output", "call_id": "own_1", "output": "nothing"}
    async with start(reply(response(*MIXED)), reply(response(LONG, id="resp_2")), policy=TAP, stages=ALL) as proxy:
        await proxy.post(ASK, PATH)
        await proxy.post(following("resp_1", [brought, CLIENTS]), PATH)  # type: ignore[arg-type]
    assert [brought, CLIENTS] == proxy.upstream.calls[1].json["input"]


async def test_what_a_request_only_names_is_seen_if_it_came_by_here(start: Start) -> None:
    Reader.seen = []
    first = (reasoning_item(), text_item("I look."), call_item("weather", "{}"))
    body = [
        {"role": "user", "content": "Weather?"},
        *({"type": "item_reference", "id": item["id"]} for item in first),
        {"type": "function_call_output", "call_id": "call_1", "output": "Sun"},
    ]
    async with start(reply(response(*first)), reply(response(LONG)), policy=policy("hold", "reader"), stages=READING) as proxy:
        await proxy.post({**ASK, "input": body[:1]}, PATH)
        got = await proxy.post({**ASK, "input": body}, PATH)
        foreign = await proxy.post({**ASK, "input": body}, PATH, authorization="Bearer b")
    assert body == proxy.upstream.calls[1].json["input"]
    said = [{"type": "text", "text": "I look."}]
    assert [("user", "Weather?"), ("assistant", said), ("tool", "Sun")] == Reader.seen[1]
    assert (NOTHING_CHECKED, 404, 2) == (got.headers.get("x-groundwire-warnings"), foreign.status, len(proxy.upstream.calls))
