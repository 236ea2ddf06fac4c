from typing import Any

import pytest

from proxy.models.tools.words import MAX_DESCRIPTION_CHARS, MAX_QUERY_CHARS, MAX_SEGMENTS, clipped, segments, spaced, terms, tool_text


def tool(name: object, description: object = "", parameters: object = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("searchFlights", "search Flights"),
        ("search_flights", "search flights"),
        ("travel__search-flights", "travel search flights"),
        ("HTTPServerStatus", "HTTP Server Status"),
        ("uber.ride", "uber ride"),
        ("", ""),
    ],
)
def test_a_name_of_any_style_is_read_as_words(name: str, words: str) -> None:
    assert words == spaced(name)


def test_terms_of_word_forms_are_the_same() -> None:
    assert terms("booking flights") == terms("book flight")


def test_terms_leave_out_english_stop_words() -> None:
    assert ("weath", "berlin") == terms("What is the weather in Berlin?")


def test_text_without_spaces_is_read_in_pairs_of_characters() -> None:
    assert ("北京", "京天", "天气") == terms("北京天气")


def test_a_query_of_several_parts_is_taken_apart() -> None:
    assert ["Find a flight to Rome", "book a hotel there"] == segments("Find a flight to Rome and book a hotel there")
    assert ["Buche einen Flug nach Rom", "reserviere ein Hotel"] == segments("Buche einen Flug nach Rom und reserviere ein Hotel")
    assert [] == segments("What is the weather in Berlin?")


def test_many_parts_are_joined_with_their_neighbours() -> None:
    found = segments(". ".join(f"Step number {i} of it" for i in range(20)))
    assert MAX_SEGMENTS >= len(found) > 3
    assert "Step number 0 of it. Step number 1 of it." in found[0]
    assert "Step number 19 of it" in found[-1]


def test_parameters_and_their_descriptions_are_words_of_a_tool() -> None:
    nested = {"type": "object", "properties": {"trip": {"type": "object", "properties": {"departure": {"description": "airport code"}}}}}
    assert {"trip", "departur", "airport", "code"} <= set(tool_text(tool("go", "", nested)).terms)


@pytest.mark.parametrize(
    "broken", [{}, {"function": None}, {"function": 3}, tool(None), tool(3, 4, 5), tool("a", None, {"properties": [1]})]
)
def test_a_broken_tool_has_views(broken: dict[str, Any]) -> None:
    assert isinstance(tool_text(broken).described, str)


def test_another_wording_is_another_key() -> None:
    assert tool_text(tool("a", "one")).key != tool_text(tool("a", "two")).key
    assert tool_text(tool("a", "one")).key == tool_text(tool("a", "one")).key


def test_a_schema_that_holds_itself_many_times_over_ends() -> None:
    schema: dict[str, Any] = {"properties": {"a": {"description": "x"}}}
    schema["properties"]["a"] = schema
    assert tool_text(tool("deep", "", schema)).terms


@pytest.mark.parametrize(
    "name", ["asana__create_task", "mcp__asana__create_task", "asana.create_task", "asana/create_task", "asana:create_task"]
)
def test_a_server_that_stands_before_a_name_is_its_family(name: str) -> None:
    found = tool_text(tool(name, "Adds a task."))
    assert ("asana", "create task. Adds a task.") == (found.family, found.described)


def test_without_a_server_the_family_is_the_first_word() -> None:
    assert "asana" == tool_text(tool("asana_create_task")).family


def test_a_purpose_ends_where_the_details_begin() -> None:
    purpose = "Searches the messages of a mailbox by words, by who sent them, and by the day on which they came in, newest first."
    assert f"find. {purpose}" == tool_text(tool("find", f"{purpose} Args: mailbox: the one to search.\n\nReturns: a list.")).described


def test_long_texts_are_cut() -> None:
    assert MAX_DESCRIPTION_CHARS == len(tool_text(tool("a", "word " * 1000)).described)
    long = "start " + "x" * 10_000 + " end"
    assert clipped(long).startswith("start")
    assert clipped(long).endswith("end")
    assert len(clipped(long)) <= MAX_QUERY_CHARS + 1
