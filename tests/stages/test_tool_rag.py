"""Tool selection as a stage: on the request, in the model's searches, after the answer."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from proxy.errors import StoreUnavailable
from proxy.exchange import Answer, Choice, ContextUse, Exchange, Tool, ToolCall, Verdict
from proxy.pipeline import Pipeline
from proxy.ports import ModelInfo, Ports, ToolRanking, ToolRun
from proxy.ports.deadline import with_deadline
from proxy.stages.tool_rag import ToolRag, ToolRagOptions
from proxy.testing import CountedNames, MemoryToolRuns, SharedWords, WordCounter, make_exchange, make_ports

FIND, STAGE = "groundwire_find_tools", "proxy.stages.tool_rag.stage"
NAMES = [f"{verb}_{noun}" for noun in ("flights", "hotels", "mail", "files", "events") for verb in ("search", "book", "delete")]


def tool(name: str, description: str = "does it") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": {}}}}


TOOLS = [tool(name) for name in NAMES]


def stage(ports: Ports | None = None, **options: Any) -> ToolRag:
    return ToolRag(ToolRagOptions(**{"above": 10, "min_relevance": 0.6, "kin": 0, **options}), ports or make_ports())


def asking(
    text: str = "search flights", tools: Sequence[Tool] = TOOLS, before: Sequence[Any] = (), after: Sequence[Any] = (), **params: Any
) -> Exchange:
    return make_exchange([*before, {"role": "user", "content": text}, *after], tools, **params)


def names(exchange: Exchange) -> list[str]:
    return [t["function"]["name"] for t in exchange.tools]


def header(exchange: Exchange) -> str:
    found = exchange.facts.tools
    assert found is not None
    return f"{found.offered}->{found.kept}" + (f";{found.reason}" if found.reason else "")


def called(*names: str) -> dict[str, Any]:
    calls = [{"id": "c", "type": "function", "function": {"name": n, "arguments": "{}"}} for n in names]
    return {"role": "assistant", "content": None, "tool_calls": calls}


class Fixed:
    """A ranker that says the same of every request."""

    def __init__(self, value: float | Exception | None, *, shortlist: bool = False) -> None:
        self.value, self.shortlist = value, shortlist

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        if isinstance(self.value, Exception):
            raise self.value
        return None if self.value is None else ToolRanking((self.value,) * len(tools), shortlist=self.shortlist)

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        raise AssertionError


# ---- selecting ----


async def test_tools_of_the_best_ones_object_come_with_it_however_low_their_relevance() -> None:
    exchange = asking()
    await stage(kin=2, min_relevance=0.99).on_request(exchange)
    assert names(exchange) == [FIND, "search_flights", "book_flights", "delete_flights"]


async def test_the_best_ones_kin_come_beyond_top_k() -> None:
    exchange = asking()
    await stage(kin=2, min_relevance=0.99, top_k=1).on_request(exchange)
    assert names(exchange) == [FIND, "search_flights", "book_flights", "delete_flights"]


async def test_up_to_the_threshold_the_tools_pass_untouched() -> None:
    exchange = asking(tools=TOOLS[:10])
    assert await stage().on_request(exchange) is None
    assert exchange.tools is exchange.original.tools
    assert header(exchange) == "10->10;below-threshold"


async def test_a_request_without_tools_has_no_selection() -> None:
    exchange = asking(tools=())
    assert await stage(above=0).on_request(exchange) is None
    assert exchange.facts.tools is None


async def test_above_it_the_relevant_tools_go_after_the_search_tool_as_the_same_objects() -> None:
    exchange = asking("please search and book flights")
    verdict = await stage().on_request(exchange)
    assert names(exchange) == [FIND, "search_flights", "book_flights"]
    assert [t is TOOLS[i] for i, t in enumerate(exchange.tools[1:])] == [True, True]
    assert header(exchange) == "15->2"
    assert verdict is not None
    assert (verdict.outcome, verdict.code) == ("unchecked", "CONFUSION")


async def test_the_record_says_what_all_tools_would_cost_and_what_was_kept() -> None:
    verdict = await stage(make_ports(tokens=WordCounter(1000))).on_request(asking())
    assert verdict is not None
    before, kept = verdict.detail["confusion"], verdict.detail["kept"]
    assert (before["tools"], before["risk"], before["share"]) == (15, "medium", before["description_tokens"] / 1000)
    assert (kept["tools"], kept["names"], kept["description_tokens"] < before["description_tokens"]) == (1, ["search_flights"], True)
    assert verdict.detail["relevance"] == {"search_flights": 1.0}


async def test_the_budgets_window_and_count_are_used_where_it_ran() -> None:
    exchange = asking()
    exchange.facts.context_before = ContextUse(0, 1000, True, {"tool_descriptions": 250})
    verdict = await stage().on_request(exchange)
    assert verdict is not None
    assert verdict.detail["confusion"] == {"tools": 15, "description_tokens": 250, "share": 0.25, "risk": "high"}


async def test_no_more_than_top_k_are_added() -> None:
    exchange = asking("search book delete flights hotels mail")
    await stage(top_k=4).on_request(exchange)
    assert header(exchange) == "15->4"


async def test_when_none_is_relevant_the_best_stay_if_the_policy_keeps_them() -> None:
    exchange = asking("flights")
    await stage(top_k=3, min_relevance=0.9).on_request(exchange)
    assert names(exchange) == [FIND, "search_flights", "book_flights", "delete_flights"]


async def test_when_none_is_relevant_and_the_policy_keeps_none_only_the_search_is_left() -> None:
    exchange = asking("flights")
    await stage(min_relevance=0.9, when_none="none").on_request(exchange)
    assert names(exchange) == [FIND]
    assert header(exchange) == "15->0"


@pytest.mark.parametrize("more", [{"find_tools": False}, {"tool_choice": "required"}])
async def test_the_best_stay_where_nothing_at_all_would_be_left_to_call(more: dict[str, Any]) -> None:
    exchange = asking("flights", **{k: v for k, v in more.items() if k == "tool_choice"})
    await stage(top_k=2, min_relevance=0.9, when_none="none", **{k: v for k, v in more.items() if k != "tool_choice"}).on_request(exchange)
    assert header(exchange) == "15->2"


async def test_what_was_called_chosen_or_always_stays_is_there_too() -> None:
    exchange = asking(before=[called("delete_mail")], tool_choice={"type": "function", "function": {"name": "book_files"}})
    await stage(always=("*_events",)).on_request(exchange)
    assert names(exchange) == [FIND, "search_flights", "delete_mail", "book_files", "search_events", "book_events", "delete_events"]


async def test_tools_that_cannot_be_ranked_keep_their_place() -> None:
    odd = [{"type": "web_search"}, {"type": "function", "function": {}}]
    exchange = asking(tools=[odd[0], *TOOLS, odd[1]])
    await stage().on_request(exchange)
    assert list(exchange.tools[1:]) == [odd[0], TOOLS[0], odd[1]]


async def test_tools_that_an_earlier_stage_offers_stay_in_front_and_are_not_counted() -> None:
    exchange = asking()
    own = tool("groundwire_restore")
    exchange.tools = (*exchange.tools, own)
    await stage().on_request(exchange)
    assert (names(exchange), header(exchange)) == ([FIND, "groundwire_restore", "search_flights"], "15->1")


async def test_when_all_tools_are_needed_they_go_as_they_are_and_the_record_says_so() -> None:
    exchange, counters = asking(), CountedNames()
    verdict = await stage(make_ports(counters=counters), always=("*",)).on_request(exchange)
    assert exchange.tools is exchange.original.tools
    assert verdict is not None
    assert (verdict.outcome, verdict.code, header(exchange)) == ("unchecked", "tool_confusion", "15->15;all-needed")
    assert counters.counts["context.confusion_incidents_count"] == 1


async def test_tools_none_of_which_can_be_ranked_go_as_they_are() -> None:
    exchange = asking(tools=[{"type": "mcp", "server_label": str(n)} for n in range(11)])
    await stage(make_ports(ranker=Fixed(RuntimeError()))).on_request(exchange)
    assert (exchange.tools is exchange.original.tools, header(exchange)) == (True, "11->11;all-needed")


async def test_names_of_mcp_servers_are_matched_by_patterns() -> None:
    exchange = asking("nothing", [tool(f"travel__{name}") for name in NAMES] + [tool("github__create_issue")])
    await stage(when_none="none", always=("github__*",)).on_request(exchange)
    assert names(exchange) == [FIND, "github__create_issue"]


# ---- failing open ----


async def test_while_the_catalogue_is_indexed_all_tools_go() -> None:
    exchange = asking()
    verdict = await stage(make_ports(ranker=Fixed(None))).on_request(exchange)
    assert exchange.tools is exchange.original.tools
    assert verdict is not None
    assert (verdict.outcome, verdict.code, header(exchange)) == ("unchecked", "tool_confusion", "15->15;indexing")


async def test_a_choice_out_of_a_short_list_is_one_and_says_so() -> None:
    exchange = asking()
    verdict = await stage(make_ports(ranker=Fixed(0.9, shortlist=True))).on_request(exchange)
    assert verdict is not None
    assert ("CONFUSION", "shortlist", "15->5") == (verdict.code, verdict.detail["ranking"], header(exchange))


async def test_a_run_that_has_its_tools_keeps_them_while_the_catalogue_is_indexed() -> None:
    runs = MemoryToolRuns()
    await stage(make_ports(tool_runs=runs)).on_request(asking())
    exchange = asking(after=[called("book_mail"), {"role": "tool", "content": "ok"}])
    verdict = await stage(make_ports(tool_runs=runs, ranker=Fixed(None))).on_request(exchange)
    assert names(exchange) == [FIND, "search_flights", "book_mail"]
    assert verdict is not None
    assert verdict.detail["ranking"] == "indexing"


async def test_a_ranker_that_fails_leaves_all_tools_and_says_error() -> None:
    exchange = asking()
    await Pipeline([stage(make_ports(ranker=Fixed(RuntimeError("no model"))))]).request(exchange)
    assert (exchange.tools, header(exchange), exchange.outcome) == (exchange.original.tools, "15->15;error", "error")


async def test_a_request_that_says_nothing_keeps_all_tools() -> None:
    exchange = make_exchange([{"role": "user", "content": []}], TOOLS)
    await stage().on_request(exchange)
    assert header(exchange) == "15->15;no-query"


# ---- a run ----


def turn(ports: Ports, *, client: str = "anonymous", run: str = "r", **options: Any) -> Any:
    async def send(text: str, *, behind: int = 0, **more: Any) -> Exchange:
        exchange = asking(text, **more)
        exchange.facts.context_before = ContextUse(250 + behind, 20_000, True, {"tool_descriptions": 250})
        exchange.run_id, exchange.client = run, client
        await stage(ports, **options).on_request(exchange)
        return exchange

    return send


async def test_within_a_run_tools_are_only_added_at_the_end() -> None:
    send = turn(make_ports())
    await send("book mail")
    await send("search flights")
    assert names(await send("delete hotels")) == [FIND, "book_mail", "search_flights", "delete_hotels"]


async def test_the_search_tool_stays_the_same_as_the_set_grows() -> None:
    send = turn(make_ports())
    assert (await send("book mail")).tools[0] == (await send("search flights")).tools[0]


class OneTool:
    """A ranker that knows one tool, and how relevant it is, for each query."""

    def __init__(self, by_query: dict[str, tuple[str, float]]) -> None:
        self._by_query = by_query

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        name, relevance = self._by_query[query]
        return ToolRanking(tuple(relevance if one["function"]["name"] == name else 0.0 for one in tools))

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        raise AssertionError


class PricedWords(WordCounter):
    """Words of a model whose provider reads its cache at a tenth."""

    def model(self, name: str) -> ModelInfo:
        return msgspec.structs.replace(
            super().model(name), input_usd_per_token=1e-6, cached_usd_per_token=1e-7, written_usd_per_token=1.25e-6
        )


@pytest.mark.parametrize(("relevance", "history", "joins"), [(0.4, 9000, False), (0.6, 9000, True), (0.4, 10, True)])
async def test_late_in_a_run_a_tool_joins_that_is_worth_writing_the_cache_anew(relevance: float, history: int, joins: bool) -> None:
    send = turn(
        make_ports(
            ranker=OneTool({"search flights": ("search_flights", 0.9), "book it": ("book_hotels", relevance)}), tokens=PricedWords()
        ),
        min_relevance=0.3,
    )
    first = names(await send("search flights"))
    later = names(await send("book it", behind=history))
    assert ([FIND, "search_flights"], [*first, *(["book_hotels"] if joins else [])]) == (first, later)


async def test_in_an_agents_loop_nothing_is_added_because_nothing_is_relevant() -> None:
    send = turn(make_ports(), min_relevance=0.9)
    first = await send("flights")
    loop = await send("flights", after=[called("search_flights"), {"role": "tool", "tool_call_id": "c", "content": "hotels mail"}])
    assert names(loop) == names(first)


async def test_small_talk_adds_nothing_to_a_run() -> None:
    send = turn(make_ports())
    first = await send("search flights")
    assert names(await send("thank you")) == names(first)


async def test_a_new_question_adds_its_best_tools_though_none_is_relevant_enough() -> None:
    send = turn(make_ports(), min_relevance=0.9, top_k=2)
    await send("search flights")
    assert names(await send("hotels")) == [FIND, "search_flights", "search_hotels", "book_hotels"]


async def test_past_max_tools_a_run_is_chosen_afresh_with_what_was_called() -> None:
    send = turn(make_ports(), max_tools=5)
    await send("search book delete hotels mail", before=[called("delete_events")])
    assert names(await send("search flights", before=[called("delete_events")])) == [FIND, "search_flights", "delete_events"]


async def test_runs_clients_and_routes_are_apart() -> None:
    ports = make_ports()
    await turn(ports)("book mail")
    assert names(await turn(ports, run="other")("search flights")) == [FIND, "search_flights"]
    assert names(await turn(ports, client="bob")("search flights")) == [FIND, "search_flights"]
    elsewhere = asking()
    elsewhere.run_id, elsewhere.route = "r", "/rag"
    await stage(ports).on_request(elsewhere)
    assert names(elsewhere) == [FIND, "search_flights"]


async def test_a_catalogue_that_changes_keeps_what_is_still_there() -> None:
    send = turn(make_ports())
    await send("book mail")
    await send("search flights")
    later = await send("delete hotels", tools=[t for t in TOOLS if t["function"]["name"] != "book_mail"])
    assert names(later) == [FIND, "search_flights", "delete_hotels"]
    assert names(await send("delete hotels")) == [FIND, "book_mail", "search_flights", "delete_hotels"]


async def test_two_workers_at_once_end_with_one_order() -> None:
    class Slow(SharedWords):
        async def rank(self, *args: Any, **named: Any) -> ToolRanking | None:
            await asyncio.sleep(0)
            return await super().rank(*args, **named)

    runs = MemoryToolRuns()
    workers = [turn(make_ports(tool_runs=runs, ranker=Slow())) for _ in range(2)]
    await asyncio.gather(workers[0]("book mail"), workers[1]("search flights"))
    both = [await worker("delete hotels") for worker in workers]
    assert names(both[0]) == names(both[1])
    assert set(names(both[0])) == {FIND, "book_mail", "search_flights", "delete_hotels"}


class BrokenRuns:
    """A store that is away for reading, for writing, or never answers."""

    def __init__(self, *, reads: bool, hangs: bool = False) -> None:
        self.reads, self.hangs = reads, hangs

    async def get(self, run: str, *, client: str) -> ToolRun:
        return ToolRun() if self.reads else await self._fail()

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        return await self._fail()

    async def _fail(self) -> Any:
        if self.hangs:
            await asyncio.Event().wait()
        raise StoreUnavailable("away")


@pytest.mark.parametrize(
    "runs", [BrokenRuns(reads=False), BrokenRuns(reads=True), BrokenRuns(reads=False, hangs=True), BrokenRuns(reads=True, hangs=True)]
)
async def test_without_a_store_each_request_is_selected_for_itself(runs: BrokenRuns) -> None:
    exchange = asking()
    verdict = await stage(with_deadline(make_ports(tool_runs=runs), 50), timeout_ms=50).on_request(exchange)
    assert names(exchange) == [FIND, "search_flights"]
    assert verdict is not None
    assert (verdict.outcome, verdict.detail["run"]) == ("unchecked", "not-stored")


# ---- the way back ----


def call(arguments: str) -> ToolCall:
    return ToolCall("call_1", FIND, arguments)


async def searched(
    arguments: str, exchange: Exchange | None = None, ports: Ports | None = None, **options: Any
) -> tuple[dict[str, Any], Exchange]:
    exchange, rag = exchange or asking(), stage(ports, **options)
    await rag.on_request(exchange)
    return json.loads(await rag.on_tool_call(exchange, call(arguments))), exchange


async def test_the_search_tool_says_how_many_tools_there_are() -> None:
    exchange = asking()
    await stage().on_request(exchange)
    assert "all 15 tools" in exchange.tools[0]["function"]["description"]


async def test_a_search_returns_schemas_and_adds_the_tools_it_found() -> None:
    reply, exchange = await searched('{"query": "delete a mail"}')
    assert reply["tools"][0] == TOOLS[NAMES.index("delete_mail")]["function"]
    assert names(exchange)[:3] == [FIND, "search_flights", "delete_mail"]
    assert exchange.tools[2] is TOOLS[NAMES.index("delete_mail")]


async def test_a_search_lists_a_few_and_says_how_many_more_match(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{STAGE}.MAX_FOUND", 2)
    reply, exchange = await searched('{"query": "mail"}')
    assert ([t["name"] for t in reply["tools"]], reply["more_matches"]) == (["search_mail", "book_mail"], 1)
    assert header(exchange) == "15->3"


async def test_what_was_found_stays_in_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{STAGE}.MAX_FOUND", 1)
    ports = make_ports()
    await searched('{"query": "delete mail"}', ports=ports)
    later = asking("search flights")
    await stage(ports).on_request(later)
    assert names(later) == [FIND, "search_flights", "delete_mail"]


async def test_a_search_names_what_is_listed_already() -> None:
    reply, exchange = await searched('{"query": "search flights"}')
    assert reply["already_listed"] == ["search_flights"]
    assert names(exchange).count("search_flights") == 1


async def test_an_exact_name_is_found_whatever_the_ranker_says() -> None:
    reply, _ = await searched('{"query": "the tool delete_events please"}', ports=make_ports(ranker=Fixed(0.0)), top_k=1, when_none="keep")
    assert [t["name"] for t in reply["tools"]] == ["delete_events"]


async def test_a_search_without_a_match_lists_close_names() -> None:
    reply, exchange = await searched('{"query": "mailing of mail"}', ports=make_ports(ranker=Fixed(0.0)), top_k=1, when_none="keep")
    assert (reply["tools"], reply["closest_names"][:3]) == ([], ["search_mail", "book_mail", "delete_mail"])
    assert header(exchange) == "15->1"


@pytest.mark.parametrize("arguments", ["", "{", "[]", "{}", '{"query": 5}', '{"query": ""}', "null", "7"])
async def test_a_call_that_asks_for_nothing_is_told_what_to_ask(arguments: str) -> None:
    reply, exchange = await searched(arguments)
    assert "Expected arguments" in reply["error"]
    assert header(exchange) == "15->1"


@pytest.mark.parametrize(
    "arguments", ['"delete mail"', '{"q": "delete mail"}', '{"queries": ["delete", "mail"]}', '{"what": "delete mail"}']
)
async def test_arguments_under_another_name_are_understood(arguments: str) -> None:
    reply, _ = await searched(arguments)
    assert reply["tools"][0]["name"] == "delete_mail"


async def test_while_the_catalogue_is_indexed_a_search_goes_by_words() -> None:
    exchange = asking()
    reply = json.loads(await stage(make_ports(ranker=Fixed(None))).on_tool_call(exchange, call('{"query": "delete mail"}')))
    assert reply["already_listed"] == ["delete_mail", "delete_flights", "delete_hotels", "search_mail", "book_mail"]


@pytest.mark.parametrize(("tools", "options"), [([*TOOLS, tool(FIND)], {}), (TOOLS, {"find_tools": False})])
async def test_no_search_is_offered_where_the_client_has_its_own_or_the_policy_none(tools: list[Tool], options: dict[str, Any]) -> None:
    exchange = asking(tools=tools)
    await stage(**options).on_request(exchange)
    assert all(t in tools for t in exchange.tools)


# ---- after the answer ----


async def done(exchange: Exchange, *names: str, ports: Ports, **options: Any) -> None:
    exchange.answer = Answer((Choice(0, tool_calls=tuple(ToolCall(f"c{i}", name, "{}", i) for i, name in enumerate(names))),))
    await stage(ports, **options).on_done(exchange)


async def test_what_the_model_called_is_learned_for_its_client() -> None:
    ports = make_ports()
    exchange = await turn(ports, client="alice")("search flights")
    await done(exchange, "search_flights", "search_flights", "unknown", ports=ports)
    assert ports.ranker.learned == [("alice", "search flights", ("search_flights",))]  # type: ignore[attr-defined]


@pytest.mark.parametrize("options", [{"learn": False}, {"above": 100}])
async def test_nothing_is_learned_where_the_policy_says_so_or_nothing_was_selected(options: dict[str, Any]) -> None:
    ports = make_ports()
    await done(await turn(ports, **options)("search flights"), "search_flights", ports=ports, **options)
    assert ports.ranker.learned == []  # type: ignore[attr-defined]


async def test_a_call_that_the_client_forced_teaches_nothing() -> None:
    ports = make_ports()
    exchange = await turn(ports)("search flights", tool_choice={"type": "function", "function": {"name": "book_mail"}})
    await done(exchange, "book_mail", ports=ports)
    assert ports.ranker.learned == []  # type: ignore[attr-defined]


async def test_an_answer_without_calls_or_no_answer_teaches_nothing() -> None:
    ports = make_ports(ranker=Fixed(1.0))
    exchange = asking()
    await stage(ports).on_done(exchange)
    await done(exchange, ports=ports)


async def test_the_counters_tell_what_was_kept_and_saved() -> None:
    counters = CountedNames()
    verdict = await stage(make_ports(counters=counters)).on_request(asking())
    assert isinstance(verdict, Verdict)
    assert counters.counts == {
        "context.tool_rag_requests_count": 1,
        "context.tools_offered_count": 15,
        "context.tools_kept_count": 1,
        "context.tool_tokens_before_count": verdict.detail["confusion"]["description_tokens"],
        "context.tool_tokens_kept_count": verdict.detail["kept"]["description_tokens"],
    }


@pytest.mark.parametrize(
    ("query", "called", "right"),
    [
        ("", ["search_flights"], 1),
        ("", ["search_flights", "search_flights"], 1),
        ("delete mail", ["delete_mail"], 0),
        ("delete mail", ["search_flights", "delete_mail"], 0),
        ("delete mail", [], 0),
        ("zzz", [], 0),
        ("search flights", ["search_flights"], 1),
        ("", ["book_events"], 0),
    ],
    ids=["there", "twice", "searched", "one searched", "not called", "not there", "needless search", "unlisted"],
)
async def test_a_request_counts_as_right_when_all_it_called_was_in_the_first_set(query: str, called: list[str], right: int) -> None:
    counters = CountedNames()
    ports = make_ports(counters=counters)
    exchange = (await searched(f'{{"query": "{query}"}}', ports=ports))[1] if query else await turn(ports)("search flights")
    await done(exchange, *called, ports=ports)
    assert (1, right) == (counters.counts["context.tool_calls_count"], counters.counts.get("context.tool_calls_found_count", 0))


async def test_a_request_without_a_call_or_a_search_is_not_counted() -> None:
    counters = CountedNames()
    ports = make_ports(counters=counters)
    await done(await turn(ports)("search flights"), ports=ports)
    assert "context.tool_calls_count" not in counters.counts


def test_a_set_smaller_than_one_selection_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="max_tools >= top_k"):
        msgspec.convert({"top_k": 30}, ToolRagOptions)
