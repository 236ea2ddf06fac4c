"""A client's own tools stay: they are told from servers' tools by names, by what is known of agents, and by what texts name."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.agent_tools import SERVERS, cases, outcome
from proxy.exchange import Exchange, Tool
from proxy.ports import Ports, ToolRanking
from proxy.stages.tool_rag import ToolRag, ToolRagOptions
from proxy.stages.tool_rag.own import Ownership, agents, of_servers_in, ownership
from proxy.stages.tool_rag.selection import catalogue_of
from proxy.testing import MemoryToolRuns, SharedWords, WordCounter, make_exchange, make_ports

PLAIN = [f"{verb}_{thing}" for verb in ("find", "book", "cancel") for thing in ("flight", "hotel", "train", "table", "car")]
GITHUB = ["create_issue", "list_issues", "merge_pull_request", "search_code", "fork_repository", "add_comment"]
CLAUDE = ["Bash", "Read", "Edit", "Grep", "TodoWrite"]


def tool(name: str, description: str = "does it") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {"type": "object", "properties": {}}}}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def owned(names: Sequence[str], *messages: dict[str, Any], others: Sequence[Tool] = ()) -> Ownership:
    return ownership(catalogue_of([*map(tool, names), *others]), messages)


def own(names: Sequence[str], *messages: dict[str, Any]) -> set[str]:
    return set(owned(names, *messages).own)


# ---- names ----


@pytest.mark.parametrize(
    "style", ["mcp__github__{}", "mcp_github_{}", "mcp--github--{}", "x1y2z30mcp0{}", "github__{}", "github.{}", "github/{}"]
)
def test_beside_a_servers_tools_those_without_a_server_are_the_clients(style: str) -> None:
    found = owned([*PLAIN, *(style.format(name) for name in GITHUB)])
    assert (found.own, found.by_server) == (set(PLAIN), True)


def test_tools_of_the_operators_servers_do_not_make_the_clients_its_own() -> None:
    """Else a client's many tools would all be sent as soon as a policy offers one of a server beside them."""
    servers = [f"mcp__shop__{name}" for name in ("pay", "ship")]
    found = ownership(catalogue_of(list(map(tool, (*PLAIN, *servers)))), [user("Call `mcp__shop__pay` now")], servers)
    assert (found.own, found.by_server, set(found.servers)) == ({"mcp__shop__pay"}, False, set(servers))
    alone = ownership(catalogue_of(list(map(tool, servers))), [], servers)
    assert (alone.own, alone.by_server, alone.servers["mcp__shop__pay"]) == (set(), True, "shop")


def test_where_names_say_mcp_other_separators_are_the_clients() -> None:
    assert own(["fs.read", "fs.write", "mcp__github__get"]) == {"fs.read", "fs.write"}


@pytest.mark.parametrize(
    "names", [PLAIN, [f"app__{name}" for name in PLAIN], ["a__find", "b__find", "b__book"], [*PLAIN, "maths.sum", "maths.root"]]
)
def test_where_no_name_or_every_name_has_a_server_nothing_is_told_apart(names: list[str]) -> None:
    found = owned(names)
    assert (found.own, found.by_server) == (set(), False)


def test_tools_beside_a_namespace_of_responses_are_the_clients() -> None:
    space = {"type": "namespace", "name": "crm", "tools": [{"type": "function", "name": "get"}]}
    found = owned(PLAIN, others=[space])
    assert (found.own, found.by_server) == (set(PLAIN), True)


# ---- well-known agents ----


def test_three_built_in_tools_make_an_agent() -> None:
    assert owned([*PLAIN, *CLAUDE]).own == set(CLAUDE)
    assert owned([*PLAIN, *CLAUDE[:2]]).own == set()


def test_the_namespace_of_a_built_in_tool_is_the_clients() -> None:
    built_in = ["developer__shell", "developer__text_editor", "todo__todo_write"]
    assert own([*built_in, "developer__new_one", "github__get", "github__list", "github__add"]) == {*built_in, "developer__new_one"}


def test_an_agent_that_joins_servers_by_one_underscore() -> None:
    built_in = ["bash", "read", "edit", "todowrite", "lone_new", "brandnew"]
    found = owned([*built_in, *(f"github_{name}" for name in GITHUB)])
    assert (found.own, set(found.servers.values())) == (set(built_in), {"github"})


def test_the_list_of_agents_is_whole() -> None:
    assert {name: len(agent.tools) >= 10 for name, agent in agents().items()} == dict.fromkeys(agents(), True)


# ---- what texts name ----


@pytest.mark.parametrize(
    ("message", "named"),
    [
        (system("Use list for folders."), {"list"}),
        (system("Use List for folders; a checklist helps."), set()),
        (system("Use list/patch."), {"list", "patch"}),
        (system("read-only, re-list"), set()),
        (user("Give me a list of patches."), set()),
        (user("Give me a `list` of patches."), {"list"}),
        (user("please call find_flight"), {"find_flight"}),
        ({"role": "assistant", "content": "I will use find_flight."}, {"find_flight"}),
        ({"role": "tool", "content": "find_flight"}, set()),
        ({"role": "user", "content": [{"type": "text", "text": "find_flight"}]}, {"find_flight"}),
        (system("First create_issue, then shell."), {"mcp__github__create_issue"}),
        (system("Run it in the `shell`."), {"mcp__box__shell"}),
    ],
)
def test_tools_are_named_by_whole_words(message: dict[str, Any], named: set[str]) -> None:
    names = ["find_flight", "list", "patch"]
    spaced = ["mcp__github__create_issue", "mcp__box__shell"]
    assert own([f"mcp__x__{n}" if n != "list" and n != "patch" and n != "find_flight" else n for n in names], message) == named - set(
        spaced
    )
    assert own([*spaced, "other__get"], message) - {"other__get"} == named & set(spaced)


@pytest.mark.parametrize(
    ("query", "found"), [("What is new in GitHub?", {"a"}), ("google maps to the office", {"b"}), ("maps", set()), ("legit", set())]
)
def test_servers_that_a_query_names(query: str, found: set[str]) -> None:
    assert of_servers_in(query, {"a": "github", "b": "google-maps"}) == found


def test_thousands_of_tools_and_a_long_conversation_are_read_in_linear_time() -> None:
    names = [f"mcp__server{i % 40}__do_thing_{i}" for i in range(4000)]
    taken = []
    for size in (1, 4):
        messages = [user("word do_thing_17 `quoted` " * 2000)] * (5 * size)
        catalogue = catalogue_of([tool(name) for name in names[: 1000 * size]])
        started = time.process_time()
        ownership(catalogue, messages)
        taken.append(time.process_time() - started)
    assert taken[1] < 12 * taken[0] + 0.05


# ---- the stage ----


def stage(ports: Ports | None = None, **options: Any) -> ToolRag:
    return ToolRag(ToolRagOptions(**{"above": 10, "kin": 0, **options}), ports or make_ports())


async def sent(rag: ToolRag, text: str, tools: Sequence[Tool], *before: dict[str, Any], after: Sequence[dict[str, Any]] = ()) -> Exchange:
    exchange = make_exchange([*before, user(text), *after], tools)
    await rag.on_request(exchange)
    return exchange


def names(exchange: Exchange) -> list[str]:
    return [t["function"]["name"] for t in exchange.tools if not t["function"]["name"].startswith("groundwire_")]


def header(exchange: Exchange) -> str:
    found = exchange.facts.tools
    assert found is not None
    return f"{found.offered}->{found.kept}" + (f";{found.reason}" if found.reason else "")


class Sure:
    """A ranker that gives the first tools these values, and the others none."""

    def __init__(self, *values: float) -> None:
        self.values = values

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        return ToolRanking((*self.values, *(0.0 for _ in tools))[: len(tools)])

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        raise AssertionError


async def test_only_servers_tools_are_left_out() -> None:
    exchange = await sent(stage(), "merge pull request", [*map(tool, CLAUDE), *(tool(f"mcp__github__{n}") for n in GITHUB)])
    assert names(exchange) == [*CLAUDE, "mcp__github__merge_pull_request"]


async def test_own_tools_take_no_place_of_servers_tools() -> None:
    tools = [*map(tool, PLAIN), *(tool(f"mcp__github__{name}") for name in GITHUB)]
    exchange = await sent(stage(top_k=1), "find book cancel flight create issue", tools)
    assert names(exchange) == [*PLAIN, "mcp__github__create_issue"]


async def test_where_no_servers_tool_is_sure_half_of_them_stay() -> None:
    tools = [*map(tool, CLAUDE), *(tool(f"mcp__s__{i}") for i in range(30))]
    exchange = await sent(stage(make_ports(ranker=Sure())), "refactor the payment module", tools)
    assert (names(exchange)[:5], len(names(exchange))) == (CLAUDE, 5 + 15)


async def test_tools_of_a_server_that_the_user_names_come_first() -> None:
    tools = [*map(tool, CLAUDE), *(tool(f"mcp__jira__{i}") for i in range(8)), *(tool(f"mcp__git__{i}") for i in range(8))]
    exchange = await sent(stage(make_ports(ranker=Sure(*[0.0] * 5, 0.9))), "what does Git say", tools)
    assert names(exchange) == [*CLAUDE, "mcp__jira__0", *(f"mcp__git__{i}" for i in range(8))]


async def test_without_servers_tools_are_left_out_only_where_one_is_sure() -> None:
    sure = await sent(stage(), "find flight", list(map(tool, PLAIN)))
    unsure = await sent(stage(make_ports(ranker=Sure(0.4))), "refactor the payment module", list(map(tool, PLAIN)))
    assert (names(sure)[0], len(names(sure)) < 15, header(unsure)) == ("find_flight", True, "15->15;unsure")


async def test_a_well_known_agent_keeps_all_where_servers_are_not_told_apart() -> None:
    exchange = await sent(stage(), "find flight", [*map(tool, CLAUDE), *map(tool, PLAIN)])
    assert header(exchange) == "20->20;unsure"


@pytest.mark.parametrize(
    ("options", "ports", "count"),
    [({"when_none": "keep"}, {}, 15), ({}, {"tokens": WordCounter(100)}, 15), ({}, {}, 129)],
    ids=["the policy", "the window", "the API"],
)
async def test_all_stay_only_where_they_may(options: dict[str, Any], ports: dict[str, Any], count: int) -> None:
    tools = [tool(f"do_{i}") for i in range(count)]
    exchange = await sent(stage(make_ports(ranker=Sure(0.4), **ports), **options), "refactor it", tools)
    assert len(names(exchange)) < 15


async def test_a_run_that_began_with_all_keeps_all() -> None:
    rag = stage(make_ports(tool_runs=MemoryToolRuns()))
    first = await sent(rag, "hello there", list(map(tool, PLAIN)))
    later = await sent(rag, "find flight", list(map(tool, [*PLAIN, "new_one"])), user("hello there"))
    assert (header(first), header(later)) == ("15->15;unsure", "16->16;unsure")


async def test_in_an_agents_loop_nothing_is_cut_that_the_question_did_not_cut() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "book_hotel", "arguments": "{}"}}
    loop = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "ok"}]
    exchange = await sent(stage(), "find flight", list(map(tool, PLAIN)), after=loop)
    assert header(exchange) == "15->15;unsure"


@pytest.mark.parametrize("follow_up", ["continue", "yes, do it", "mach weiter", "sí, hazlo", "continue, s'il te plaît", "继续"])
async def test_a_follow_up_takes_no_tool_away_however_many_the_run_has(follow_up: str) -> None:
    class ByContext(SharedWords):
        async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
            return await super().rank(tools, f"{query} {context}", client=client)

    rag = stage(make_ports(tool_runs=MemoryToolRuns(), ranker=ByContext()), max_tools=5)
    tools = [*map(tool, CLAUDE), *(tool(f"mcp__travel__{name}") for name in PLAIN)]
    first = await sent(rag, "find book cancel flight hotel", tools)
    before = [user("find book cancel flight hotel"), {"role": "assistant", "content": "next: find train"}]
    second = await sent(rag, follow_up, tools, *before)
    assert names(second)[: len(names(first))] == names(first)
    assert len(names(second)) > len(names(first))


async def test_own_tools_do_not_count_towards_the_size_of_a_run() -> None:
    rag = stage(make_ports(tool_runs=MemoryToolRuns()), max_tools=12)
    tools = [*(tool(f"own_{i}") for i in range(15)), *(tool(f"mcp__travel__{name}") for name in PLAIN)]
    first = await sent(rag, "find flight", tools)
    second = await sent(rag, "cancel hotel", tools)
    assert names(second)[: len(names(first))] == names(first)


# ---- recorded agents ----


@pytest.mark.parametrize("part", SERVERS)
async def test_no_agent_loses_a_tool_of_its_own(part: str) -> None:
    found = [await outcome(case, make_ports(tool_runs=MemoryToolRuns(), tokens=WordCounter(100_000))) for case in cases(part)]
    assert [(o.case.agent["agent"], o.case.request["text"], o.withheld, o.shrunk) for o in found if o.withheld or o.shrunk] == []
    assert any(o.sent_tokens < o.tokens for o in found)
