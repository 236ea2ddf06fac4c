"""Which tools are selected: the pure functions."""

from typing import Any

import pytest

from proxy.stages.tool_rag.selection import (
    CONTEXT_CHARS,
    QUERY_CHARS,
    best,
    called_names,
    catalogue_of,
    clipped,
    confusion_risk,
    grown,
    kin,
    least_relevance_of_late,
    likely_enough,
    must_keep,
    name_of,
    task_of,
    tools_of,
    words_of,
)


def tool(name: str, description: str = "", **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None, *names: str) -> dict[str, Any]:
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": n, "arguments": "{}"}} for i, n in enumerate(names)]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


# ---- the task ----


def test_the_query_is_the_last_user_message_and_the_context_what_came_before() -> None:
    messages = [user("Find a flight to Oslo."), assistant("Here are three."), user("Book the first one.")]
    assert task_of(messages) == ("Book the first one.", "Find a flight to Oslo.\nHere are three.")


def test_in_an_agents_loop_the_context_has_the_calls_and_the_heads_of_their_results() -> None:
    messages = [user("Plan my trip."), assistant(None, "travel__searchFlights"), {"role": "tool", "content": "x" * 5000}]
    query, context = task_of(messages)
    called, result = context.splitlines()
    assert (query, called, len(result) < 250) == ("Plan my trip.", "travel search flights", True)


def test_a_user_message_in_parts_counts_by_its_text() -> None:
    assert (
        task_of([user([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:"}}])])[0]
        == "What is this?"
    )


def test_a_user_message_without_text_is_passed_over() -> None:
    assert task_of([user("Read it out."), user([{"type": "image_url"}])])[0] == "Read it out."


def test_without_a_user_message_the_system_text_is_the_query() -> None:
    assert task_of([{"role": "system", "content": "Send the daily report."}])[0] == "Send the daily report."


@pytest.mark.parametrize("messages", [[], [{"role": "user", "content": None}], [{"role": "tool", "content": 5}], [{"role": "user"}]])
def test_a_conversation_that_says_nothing_has_no_query(messages: list[dict[str, Any]]) -> None:
    assert task_of(messages)[0] == ""


def test_pasted_content_is_cut_to_its_head_and_tail() -> None:
    query, _ = task_of([user("Translate this:" + "x" * 100_000 + "into Danish")])
    assert (query[:15], query[-11:], len(query) <= QUERY_CHARS) == ("Translate this:", "into Danish", True)


def test_the_context_is_bounded_and_keeps_its_end() -> None:
    _, context = task_of([user("go"), *(assistant(f"{i} " + "y" * 1000) for i in range(50))])
    assert len(context) <= CONTEXT_CHARS
    assert context.splitlines()[-1].startswith("49 ")


def test_short_text_is_not_clipped() -> None:
    assert clipped("abc", 3) == "abc"


def test_calls_are_read_in_every_form() -> None:
    messages = [
        assistant(None, "a", "b"),
        {"role": "assistant", "function_call": {"name": "legacy", "arguments": "{}"}},
        {"role": "function", "name": "result_of", "content": "1"},
        {
            "role": "assistant",
            "tool_calls": [{"type": "custom", "custom": {"name": "own"}}, None, {"function": None}, {"function": {"name": 5}}],
        },
        {"role": "assistant", "tool_calls": "broken"},
        assistant(None, "a"),
    ]
    assert called_names(messages) == ["a", "b", "legacy", "result_of", "own"]


@pytest.mark.parametrize(
    ("name", "words"), [("travel__searchFlights", "travel search flights"), ("send-mail.v2", "send mail v2"), ("", "")]
)
def test_names_become_words(name: str, words: str) -> None:
    assert words_of(name) == words


# ---- tools ----


@pytest.mark.parametrize(
    "broken",
    [{}, {"type": "function"}, {"type": "function", "function": {"name": 5}}, {"type": "function", "function": {"name": ""}}, {"type": 7}],
)
def test_a_tool_without_a_name_is_not_ranked_and_always_kept(broken: dict[str, Any]) -> None:
    catalogue = catalogue_of([tool("a"), broken])
    assert catalogue.rankable == (0,)
    assert tools_of(catalogue, must_keep(catalogue, [], (), [])) == (broken,)


def test_built_in_and_custom_tools_are_never_ranked_and_never_dropped() -> None:
    others = [
        {"type": "web_search"},
        {"type": "code_interpreter"},
        {"type": "custom", "custom": {"name": "grep"}},
        {"type": "custom", "name": "x"},
    ]
    catalogue = catalogue_of([tool("a"), *others])
    assert catalogue.ranked_tools == (tool("a"),)
    assert must_keep(catalogue, [], (), []) == {"web_search:", "code_interpreter:", "custom:grep", "custom:x"}


def test_a_tool_without_a_type_is_taken_for_a_function() -> None:
    assert name_of({"function": {"name": "a"}}) == "a"


def test_tools_of_one_name_stay_together() -> None:
    twins = [tool("a", "one"), tool("b"), tool("a", "two")]
    catalogue = catalogue_of(twins)
    assert best(catalogue, (0.2, 0.5, 0.9), 2) == {"a": 0.9, "b": 0.5}
    assert [t["function"]["description"] for t in tools_of(catalogue, ["a"])] == ["one", "two"]


def test_what_was_called_chosen_or_matches_a_pattern_stays() -> None:
    catalogue = catalogue_of([tool(name) for name in ("called", "chosen", "mail__send", "mail__read", "other", "groundwire_restore")])
    kept = must_keep(catalogue, [assistant(None, "called", "gone")], ["chosen"], ["mail__*"])
    assert kept == {"called", "chosen", "mail__send", "mail__read", "groundwire_restore"}


def test_the_best_are_the_most_relevant_first_and_of_equals_the_first() -> None:
    catalogue = catalogue_of([tool(name) for name in "abcd"])
    assert list(best(catalogue, (0.7, 0.9, 0.7, 0.6), 3, 0.7)) == ["b", "a", "c"]
    assert list(best(catalogue, (0.7, 0.9, 0.7, 0.6), 2, 0.7)) == ["b", "a"]


FLIGHTS = catalogue_of(
    [
        tool("search_flights", "Search for flights to a destination."),
        tool("search_hotels", "Search for hotels in a city."),
        tool("book_flight", "Books a seat."),
        tool("cancel_flights", "Cancel flights."),
        tool("get_flight_status", "Tell whether a flight is late."),
    ]
)


def test_tools_of_the_same_object_come_with_the_best_the_most_relevant_first() -> None:
    assert kin(FLIGHTS, (0.9, 0.5, 0.01, 0.2, 0.3), ["search_flights"], 5) == {"cancel_flights": 0.2, "book_flight": 0.01}


def test_the_verb_of_a_name_is_the_word_that_the_description_begins_with() -> None:
    names = ("asana_create_task", "asana_delete_task", "asana_create_tag")
    catalogue = catalogue_of([tool(name, f"{name.split('_')[1].title()}s it in the workspace") for name in names])
    assert kin(catalogue, (0.9, 0.1, 0.2), ["asana_create_task"], 5) == {"asana_delete_task": 0.1}


def test_a_name_of_one_word_has_no_kin() -> None:
    assert kin(catalogue_of([tool("search"), tool("book"), tool("search_all")]), (0.9, 0.8, 0.7), ["search"], 5) == {}


def test_kin_are_bounded() -> None:
    many = catalogue_of([tool(f"verb{i}_order") for i in range(40)])
    assert list(kin(many, [0.5] * 40, ["verb0_order"], 2)) == ["verb1_order", "verb2_order"]
    assert kin(many, [0.5] * 40, ["verb0_order"], 0) == {}


# ---- a run's set ----

CATALOGUE = catalogue_of([tool(name) for name in "abcdefgh"])


def test_new_tools_join_at_the_end_in_the_requests_order() -> None:
    assert grown(CATALOGUE, ("f", "a"), {"e", "b", "a"}, 20) == ("f", "a", "b", "e")


def test_what_is_not_offered_now_is_remembered() -> None:
    assert grown(CATALOGUE, ("gone", "a"), {"b"}, 20) == ("gone", "a", "b")


def test_past_its_limit_the_set_is_chosen_afresh() -> None:
    assert grown(CATALOGUE, ("h", "g", "f", "e"), {"b", "a"}, 4) == ("a", "b")


def test_it_is_not_chosen_afresh_when_most_of_it_is_still_needed() -> None:
    assert grown(CATALOGUE, ("h", "g", "f", "e"), {"a", "h", "g", "f"}, 4) == ("h", "g", "f", "e", "a")


def test_names_of_earlier_catalogues_are_not_kept_for_ever() -> None:
    assert grown(CATALOGUE, (*(f"old{i}" for i in range(600)), "a"), {"b"}, 4) == ("a", "b")


@pytest.mark.parametrize(
    ("tools", "share", "risk"),
    [(30, 0.0, "low"), (31, 0.0, "high"), (30, 0.09, "low"), (5, 0.1, "medium"), (5, 0.25, "high")],
)
def test_the_risk_of_confusion(tools: int, share: float, risk: str) -> None:
    assert confusion_risk(tools, share) == risk


@pytest.mark.parametrize(
    ("relevance", "kept"),
    [
        ((0.8, *[0.1] * 30), 3),
        ((0.4, 0.3, 0.01, 0.0), 3),
        ((0.2, 0.1, 0.1, 0.1, 0.1, 0.0), 5),
        ([0.1] * 40, 6),
        ([0.0] * 40, 3),
        ((), 3),
    ],
    ids=["one is sure", "two hold nearly all", "five do", "all alike", "none", "no tools"],
)
def test_where_no_tool_is_sure_more_are_kept_up_to_twice_as_many(relevance, kept):
    assert kept == likely_enough(relevance, 3)


# ---- what joins late ----


@pytest.mark.parametrize(
    ("ratio", "behind", "withheld", "least"),
    [
        (0.0, 100_000, 0, 0.0),  # no price of reading a cache: nothing is lost
        (9.0, 0, 1_000, 0.0),
        (9.0, 1_000, 1_000, 0.0),  # the tools withheld saved more than it costs
        (9.0, 2_000, 1_000, 0.5),  # 0.9 by its price alone; what the request is about joins
        (0.25, 9_000, 1_000, 0.2),
    ],
)
def test_a_tool_joins_late_where_it_is_worth_what_the_cache_costs_or_what_the_request_is_about(
    ratio: float, behind: int, withheld: float, least: float
) -> None:
    assert pytest.approx(least) == least_relevance_of_late(ratio, behind, withheld)
