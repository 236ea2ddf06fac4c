"""What always holds of a selection, whatever comes."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Exchange
from proxy.stages.tool_rag import ToolRag, ToolRagOptions
from proxy.testing import make_exchange, make_ports

WORDS = ("search", "book", "mail", "flights", "hotels", "list_all", "getFile", "a")
NAMES = st.sampled_from([*WORDS, *(f"{a}_{b}" for a in WORDS for b in WORDS)])
JUNK = st.sampled_from(
    [{}, {"type": "web_search"}, {"type": "function"}, {"type": "function", "function": {"name": None}}, {"type": 5, "function": []}]
)


@st.composite
def function_tools(draw: st.DrawFn) -> dict[str, Any]:
    return {"type": "function", "function": {"name": draw(NAMES), "description": " ".join(draw(st.lists(NAMES, max_size=4)))}}


@st.composite
def messages(draw: st.DrawFn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for kind in draw(st.lists(st.sampled_from(("user", "call", "result", "text", "odd")), max_size=6)):
        if kind == "call":
            calls = [{"id": "c", "function": {"name": n, "arguments": "{}"}} for n in draw(st.lists(NAMES, min_size=1, max_size=3))]
            found.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif kind == "odd":
            found.append(draw(st.sampled_from([{"role": "user", "content": 5}, {"role": "assistant", "tool_calls": [5]}, {"role": "x"}])))
        else:
            role = {"user": "user", "result": "tool", "text": "assistant"}[kind]
            found.append({"role": role, "content": " ".join(draw(st.lists(NAMES, max_size=5)))})
    return [*found, {"role": "user", "content": " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)))}]


CONVERSATIONS = st.lists(messages(), min_size=1, max_size=4)
TOOLS = st.lists(function_tools() | JUNK, min_size=1, max_size=30)
OPTIONS = st.fixed_dictionaries(
    {
        "above": st.sampled_from((0, 5)),
        "top_k": st.integers(1, 5),
        "min_relevance": st.sampled_from((0.0, 0.5, 1.0)),
        "when_none": st.sampled_from(("keep", "none")),
        "find_tools": st.booleans(),
        "max_tools": st.integers(5, 10),
    }
)
CHOICES = st.sampled_from(("auto", "required", "none", None)) | NAMES.map(lambda n: {"type": "function", "function": {"name": n}})


def selected(stage: ToolRag, said: list[dict[str, Any]], tools: list[dict[str, Any]], choice: Any = None) -> Exchange:
    exchange = make_exchange(said, tools, tool_choice=choice)
    asyncio.run(stage.on_request(exchange))
    return exchange


def make(options: dict[str, Any]) -> ToolRag:
    return ToolRag(ToolRagOptions(**options), make_ports())


def named(tools: Any) -> list[str]:
    return [f["name"] for t in tools if isinstance(f := t.get("function"), dict) and isinstance(f.get("name"), str)]


def clients(exchange: Exchange) -> list[str]:
    return [name for name in named(exchange.tools) if not name.startswith("groundwire_")]


@given(OPTIONS, CONVERSATIONS, TOOLS, CHOICES)
def test_a_request_is_never_left_without_tools_or_without_those_it_rests_on(
    options: Any, conversation: Any, tools: Any, choice: Any
) -> None:
    stage = make(options)
    for said in conversation:
        exchange = selected(stage, said, tools, choice)
        assert exchange.tools
        kept = set(named(exchange.tools))
        called = {c["function"]["name"] for m in said for c in m.get("tool_calls", ()) if isinstance(c, dict)}
        assert kept >= called & set(named(tools))
        if isinstance(choice, dict):
            assert kept >= {choice["function"]["name"]} & set(named(tools))
        rest = [t for t in exchange.tools if t not in tools]
        assert [t["function"]["name"] for t in rest] in ([], ["groundwire_find_tools"])


@given(OPTIONS, CONVERSATIONS, TOOLS)
def test_tools_keep_their_identity_and_none_is_sent_twice(options: Any, conversation: Any, tools: Any) -> None:
    stage = make(options)
    for said in conversation:
        exchange = selected(stage, said, tools)
        given_ids = [id(t) for t in exchange.original.tools]
        sent = [id(t) for t in exchange.tools if id(t) in given_ids]
        assert len(exchange.tools) - len(sent) <= 1
        assert all(sent.count(i) <= given_ids.count(i) for i in sent)


@given(OPTIONS, CONVERSATIONS, TOOLS)
def test_the_same_conversation_gives_the_same_tools(options: Any, conversation: Any, tools: Any) -> None:
    runs = [[list(selected(stage, said, tools).tools) for said in conversation] for stage in (make(options), make(options))]
    assert runs[0] == runs[1]


@given(OPTIONS, CONVERSATIONS, TOOLS)
def test_sending_a_request_again_changes_nothing(options: Any, conversation: Any, tools: Any) -> None:
    stage = make(options)
    for said in conversation:
        first = selected(stage, said, tools)
        assert list(selected(stage, said, tools).tools) == list(first.tools)
        sent = list(first.tools)
        asyncio.run(stage.on_request(first))
        assert list(first.tools) == sent


@given(OPTIONS, CONVERSATIONS, TOOLS)
def test_below_its_limit_a_run_only_grows_at_the_end(options: Any, conversation: Any, tools: Any) -> None:
    stage = make({**options, "max_tools": 1000})
    before: list[Any] = []
    for said in conversation:
        exchange = selected(stage, said, tools)
        reason = exchange.facts.tools.reason if exchange.facts.tools else ""
        if not reason:
            assert list(exchange.tools)[: len(before)] == before
            before = list(exchange.tools)
