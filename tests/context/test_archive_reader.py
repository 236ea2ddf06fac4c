"""The tool by which the model reads what has left its prompt, alone and through the running proxy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.context.archive import READ_ARCHIVE, answer_from_archive, archive_tool_for, offer_archive, read_archive_tool, reference
from proxy.errors import StoreUnavailable
from proxy.exchange import ContextUse, Exchange, ToolCall
from proxy.ports import ScratchpadItem
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import MemoryScratchpad, completion, make_exchange, reply, stream, streamed
from tests.conftest import CHAT, Start
from tests.own_tools import call_events, called, calling, function, names, read

CONTENT = json.dumps([{"id": f"HAT{i:03}", "price": i} for i in range(600)])
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [called("get_flights", "{}", "call_0")]}
RESULT = {"role": "tool", "tool_call_id": "call_0", "content": CONTENT}
MESSAGES = [{"role": "user", "content": "Flights?"}, ASSISTANT, RESULT, {"role": "user", "content": "What does HAT599 cost?"}]
FLIGHTS = function("get_flights")


def call(**arguments: Any) -> ToolCall:
    return ToolCall("call_1", READ_ARCHIVE, json.dumps(arguments))


async def archived(*contents: str, pad: MemoryScratchpad | None = None, **more: Any) -> tuple[MemoryScratchpad, Exchange, list[str]]:
    """An exchange whose prompt refers to `contents`."""
    pad = pad or MemoryScratchpad()
    ids = [await pad.put(text.encode(), client="anonymous", run_id="run_test") for text in contents]
    exchange = make_exchange(MESSAGES, [FLIGHTS], **more)
    made = [{"role": "user", "content": reference(key, f"text {i}", len(contents[i]))} for i, key in enumerate(ids)]
    exchange.messages = (*made, *MESSAGES)
    return pad, exchange, ids


# ---- offering ----


async def test_it_is_offered_where_the_prompt_refers_to_the_archive_before_the_clients_tools() -> None:
    _, exchange, _ = await archived("x")
    own = function("groundwire_find_tools")
    exchange.tools = (own, *exchange.tools)
    assert offer_archive(exchange)
    assert [own, read_archive_tool(), FLIGHTS] == list(exchange.tools)
    assert not offer_archive(exchange)
    assert 3 == len(exchange.tools)


async def test_it_is_not_offered_where_nothing_is_archived() -> None:
    exchange = make_exchange(MESSAGES, [FLIGHTS])
    assert not offer_archive(exchange)
    assert exchange.tools is exchange.original.tools


def test_a_reference_that_the_client_wrote_is_none() -> None:
    assert archive_tool_for(make_exchange([{"role": "user", "content": reference("sp_" + "a" * 32, "x", 1)}])) is None


@pytest.mark.parametrize("params", [{"n": 2}, {"tool_choice": "none"}])
async def test_it_is_not_offered_where_its_calls_could_not_be_answered(params: dict[str, Any]) -> None:
    _, exchange, _ = await archived("x", **params)
    assert archive_tool_for(exchange) is None


async def test_a_client_that_brings_a_tool_of_that_name_keeps_it() -> None:
    _, exchange, _ = await archived("x")
    theirs = make_exchange(MESSAGES, [function(READ_ARCHIVE)])
    theirs.messages = exchange.messages
    assert not offer_archive(theirs)
    assert theirs.tools is theirs.original.tools


# ---- answering ----


@pytest.mark.parametrize("form", ["{}", "[archived x, 1B: groundwire_read_archive {}]", " {} ", "{}…", "<{}>"])
@pytest.mark.parametrize("chars", [8, 15, 35])
async def test_an_id_is_understood_in_full_or_in_part(form: str, chars: int) -> None:
    pad, exchange, ids = await archived("one", "two")
    said = form.format(ids[1][:chars])
    assert "[page 1 of 1]\ntwo" == await answer_from_archive(pad, exchange, call(id=said))
    assert "[page 1 of 1]\ntwo" == await answer_from_archive(pad, exchange, call(id=ids[1].removeprefix("sp_")[: chars - 3]))


async def test_without_an_id_the_only_one_is_meant() -> None:
    pad, exchange, _ = await archived("one")
    assert "[page 1 of 1]\none" == await answer_from_archive(pad, exchange, call())


@pytest.mark.parametrize("arguments", [{}, {"id": None}, {"id": ""}, {"id": "flights"}, {"id": ["x"]}, {"id": "sp_"}, {"id": 1}])
async def test_a_call_that_names_none_of_several_is_told_which_there_are(arguments: dict[str, Any]) -> None:
    pad, exchange, ids = await archived("one", "two")
    said = await answer_from_archive(pad, exchange, call(**arguments))
    assert f"There are: {ids[0][:15]} (text 0, 3B), {ids[1][:15]} (text 1, 3B)" in said
    assert said.startswith("Error: expected the id")


@pytest.mark.parametrize("page", [2, "2", 2.0])
async def test_a_page_and_a_search_are_taken_as_they_come(page: Any) -> None:
    pad, exchange, ids = await archived(CONTENT)
    assert (await answer_from_archive(pad, exchange, call(id=ids[0], page=page))).startswith("[page 2 of ")
    assert (await answer_from_archive(pad, exchange, call(id=ids[0], page=None, search=17))).startswith("[")


@pytest.mark.parametrize("page", [0, -3, "last", [1], {}])
async def test_what_is_no_page_number_is_said(page: Any) -> None:
    pad, exchange, ids = await archived("one")
    assert "Error: page: expected a number from 1 on." == await answer_from_archive(pad, exchange, call(id=ids[0], page=page))


async def test_pages_are_smaller_in_a_small_window() -> None:
    pad, exchange, ids = await archived(CONTENT)
    exchange.facts.context_before = ContextUse(100, 2048, True)
    assert len(await answer_from_archive(pad, exchange, call(id=ids[0]))) < 800


async def test_large_content_is_searched_off_the_event_loop() -> None:
    pad, exchange, ids = await archived(CONTENT * 20)
    assert "HAT599" in await answer_from_archive(pad, exchange, call(id=ids[0], search="HAT599"))


async def test_an_unknown_id_is_said_with_those_that_there_are() -> None:
    pad, exchange, ids = await archived("one")
    said = await answer_from_archive(pad, exchange, call(id="sp_" + "0" * 12))
    assert f"Error: sp_000000000000: unknown id. There are: {ids[0][:15]} (text 0, 3B)" == said


async def test_another_clients_item_is_unknown() -> None:
    pad, exchange, _ = await archived("one")
    theirs = await pad.put(b"secret", client="bob", run_id="run_test")
    said = await answer_from_archive(pad, exchange, call(id=theirs))
    assert "unknown id" in said
    assert "secret" not in said


async def test_an_item_of_another_run_is_unknown_unless_the_prompt_refers_to_it() -> None:
    pad, exchange, _ = await archived("one")
    other = await pad.put(b"of another run", client="anonymous", run_id="run_other")
    assert "unknown id" in await answer_from_archive(pad, exchange, call(id=other))
    exchange.messages = ({"role": "user", "content": reference(other, "x", 14)}, *exchange.messages)
    assert "[page 1 of 1]\nof another run" == await answer_from_archive(pad, exchange, call(id=other))


async def test_a_store_that_is_away_is_said() -> None:
    class Away(MemoryScratchpad):
        async def find(self, prefix: str, *, client: str) -> ScratchpadItem | None:
            raise StoreUnavailable("gone")

    pad, exchange, ids = await archived("one", pad=Away())
    assert "Error: the archive cannot be read at the moment" in await answer_from_archive(pad, exchange, call(id=ids[0]))


# ---- through the proxy ----


class Archiving(Stage):
    """Archives every tool result."""

    name = "archiving"
    changes = ("messages", "tools")
    answers = (READ_ARCHIVE,)

    async def on_request(self, exchange: Exchange) -> None:
        given = {id(message) for message in exchange.original.messages if message.get("role") == "tool"}
        exchange.messages = [await self._kept(exchange, m) if id(m) in given else m for m in exchange.messages]
        offer_archive(exchange)

    async def _kept(self, exchange: Exchange, message: Any) -> dict[str, Any]:
        content = message["content"].encode()
        key = await self.ports.scratchpad.put(content, client=exchange.client, run_id=exchange.run_id)
        return {**message, "content": reference(key, "get_flights", len(content))}

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        return await answer_from_archive(self.ports.scratchpad, exchange, call)


class AlsoArchiving(Archiving):
    """Another stage that archives."""

    name = "also_archiving"


ALL = (*STAGES, Archiving, AlsoArchiving)
POLICY = "name: p\ndelivery: {}\nstages: [archiving: {{}}, also_archiving: {{}}]\n"
BODY = {**CHAT, "messages": MESSAGES, "tools": [FLIGHTS]}
SEARCH = called(READ_ARCHIVE, '{"search": "HAT599"}')


@pytest.mark.parametrize("delivery", ["tap", "hold", "gate"])
@pytest.mark.parametrize("streaming", [False, True])
async def test_the_model_reads_the_archive_and_the_client_sees_one_answer(start: Start, delivery: str, streaming: bool) -> None:
    last = completion("599.")
    replies = [stream(call_events(SEARCH)), stream(streamed(["599", "."]))] if streaming else [reply(calling(SEARCH)), reply(last)]
    async with start(*replies, policy=POLICY.format(delivery), stages=ALL) as proxy:
        got = await proxy.post({**BODY, "stream": streaming})
    first, second = proxy.upstream.calls
    assert [[READ_ARCHIVE, "get_flights"]] * 2 == [names(first), names(second)]
    assert first.json["messages"][2]["content"].startswith("[archived get_flights, 1")
    assert first.json["messages"] == second.json["messages"][:4]
    assert '{"id": "HAT599", "price": 599}' in second.json["messages"][-1]["content"]
    assert "599." == (read(got.body).text if streaming else got.json["choices"][0]["message"]["content"])
    if not streaming:
        assert {"prompt_tokens": 18, "completion_tokens": 6, "total_tokens": 24} == got.json["usage"]


@pytest.mark.parametrize("left_out", ["archiving", "also_archiving"])
async def test_either_of_two_stages_can_be_left_out(start: Start, left_out: str) -> None:
    async with start(reply(calling(SEARCH)), reply(completion()), policy=POLICY.format("hold"), stages=ALL) as proxy:
        answer = await proxy.post(BODY, x_groundwire_skip=left_out)
        record = await proxy.record(answer)
    assert "HAT599" in proxy.upstream.calls[1].json["messages"][-1]["content"]
    changes = [c for c in record["detail"]["changes"] if c["what"] == "answered tool"]
    assert [{"archiving": "also_archiving", "also_archiving": "archiving"}[left_out]] == [c["stage"] for c in changes]


async def test_a_client_without_tools_reads_too(start: Start) -> None:
    body = {k: v for k, v in BODY.items() if k != "tools"}
    async with start(reply(calling(SEARCH)), reply(completion("599.")), policy=POLICY.format("tap"), stages=ALL) as proxy:
        got = await proxy.post(body)
    assert [[READ_ARCHIVE]] * 2 == [names(c) for c in proxy.upstream.calls]
    assert "599." == got.json["choices"][0]["message"]["content"]


async def test_another_clients_archive_is_unknown_through_the_proxy(start: Start) -> None:
    async with start(reply(completion()), policy=POLICY.format("hold"), stages=ALL) as proxy:
        await proxy.post(BODY, authorization="Bearer alice")
        text = proxy.upstream.calls[0].json["messages"][2]["content"]
        proxy.upstream.say(reply(calling(called(READ_ARCHIVE, json.dumps({"id": text})))), reply(completion()))
        messages = [*MESSAGES[:2], {**RESULT, "content": "Nothing."}, MESSAGES[3]]
        await proxy.post({**BODY, "messages": messages}, authorization="Bearer bob")
    said = proxy.upstream.calls[-1].json["messages"][-1]["content"]
    assert "unknown id" in said
    assert "HAT" not in said


async def test_the_bytes_sent_before_the_new_turn_stay_the_same(start: Start) -> None:
    async with start(reply(completion("Wait.")), policy=POLICY.format("tap"), stages=ALL) as proxy:
        await proxy.post(BODY, x_groundwire_run_id="r")
        later = [*MESSAGES, {"role": "assistant", "content": "Wait."}, {"role": "user", "content": "Well?"}]
        await proxy.post({**BODY, "messages": later}, x_groundwire_run_id="r")
    first, second = (c.json for c in proxy.upstream.calls)
    assert first["tools"] == second["tools"]
    assert first["messages"] == second["messages"][:4]


# ---- room ----


@pytest.mark.parametrize(
    ("used_tokens", "most_tokens"),
    [(1000, 8192), (6500, 8192 - 6500 - 1024), (6960, 8192 - 6960 - 1024), (8000, 50)],
)
async def test_what_is_read_leaves_room_for_the_answer(used_tokens: int, most_tokens: int) -> None:
    pad, exchange, (key,) = await archived("alpha beta gamma. " * 2000)
    exchange.facts.context, exchange.facts.output_reserve_tokens = ContextUse(used_tokens, 8192), 1024
    got = await answer_from_archive(pad, exchange, call(id=key))
    assert len(got.encode()) <= 2 * most_tokens + 120
    assert ("the context window is full" in got) == (used_tokens > 1000)


async def test_two_reads_of_one_answer_share_the_room() -> None:
    pad, exchange, (key,) = await archived("alpha beta gamma. " * 2000)
    exchange.facts.context, exchange.facts.output_reserve_tokens = ContextUse(3000, 8192), 1024
    first, second = [await answer_from_archive(pad, exchange, call(id=key, page=page)) for page in (1, 2)]
    assert [False, True] == ["the context window is full" in got for got in (first, second)]
    assert len(first.encode()) + len(second.encode()) <= 2 * (8192 - 3000 - 1024) + 120
