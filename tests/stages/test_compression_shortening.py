"""Tools above their allocation lose words of their descriptions, all of them alike."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Tool
from proxy.exchange.answers import OutputRequirements
from proxy.models.tokens.counter import TiktokenCounter
from proxy.stages.compression.allocations import fitting_tools, shorten_tool

WORDS = "customer order invoice delivery address number date amount supplier warehouse status payment region".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def counter() -> TiktokenCounter:
    made = TiktokenCounter({})
    made.load()
    return made


def tool(i: int, sentences: int, parameters: int, source: random.Random) -> dict[str, Any]:
    def text(count: int) -> str:
        return " ".join(" ".join(source.choices(WORDS, k=10)).capitalize() + "." for _ in range(count))

    properties = {f"p{j}": {"type": "string", "description": text(1)} for j in range(parameters)}
    schema = {"type": "object", "properties": properties, "required": ["p0"]}
    return {"type": "function", "function": {"name": f"do_{i}", "description": text(sentences), "parameters": schema}}


@pytest.mark.parametrize(("tools", "sentences", "parameters"), [(20, 3, 3), (24, 1, 4), (8, 6, 5), (45, 2, 1)])
@pytest.mark.parametrize("share", [0.95, 0.8, 0.67])
async def test_the_tools_fit_their_allocation_and_stay_the_same_tools(
    counter: TiktokenCounter, tools: int, sentences: int, parameters: int, share: float
) -> None:
    async def size(some: Sequence[Tool]) -> int:
        return (await counter.count_request((), some, OutputRequirements(), counter.model("gpt-4o"))).components.get("tool_descriptions", 0)

    source = random.Random(4)
    given_tools = [tool(i, sentences, parameters, source) for i in range(tools)]
    most = int(share * await size(given_tools))
    found = await fitting_tools(given_tools, [True] * tools, most, size)
    assert found is not None
    assert await size(found) <= most
    assert found == await fitting_tools(given_tools, [True] * tools, most, size)
    for before, after in zip(given_tools, found, strict=True):
        assert before["function"]["name"] == after["function"]["name"]
        assert list(before["function"]["parameters"]["properties"]) == list(after["function"]["parameters"]["properties"])
        assert before["function"]["description"].startswith(after["function"]["description"])


async def words_of(tools: Sequence[Tool]) -> int:
    return sum(len(str(tool).split()) for tool in tools)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.booleans()), min_size=1, max_size=8),
    st.floats(0, 1),
)
def test_what_comes_back_fits_and_foreign_tools_are_untouched(shapes: list[tuple[int, int, bool]], share: float) -> None:
    async def check() -> None:
        source = random.Random(1)
        tools = [tool(i, sentences, parameters, source) for i, (sentences, parameters, _) in enumerate(shapes)]
        own = [mine for _, _, mine in shapes]
        most = int(share * await words_of(tools))
        found = await fitting_tools(tools, own, most, words_of)
        if found is not None:
            assert await words_of(found) <= most
            assert all(a is b for a, b, mine in zip(tools, found, own, strict=True) if not mine)

    asyncio.run(check())


def test_a_parameter_named_description_stays() -> None:
    schema = {"type": "object", "properties": {"description": {"type": "string", "description": "One. Two."}}}
    found = shorten_tool({"type": "function", "function": {"name": "a", "parameters": schema}}, 0, 1)
    assert {"description": {"type": "string"}} == found["function"]["parameters"]["properties"]
