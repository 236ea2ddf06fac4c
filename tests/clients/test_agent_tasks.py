"""Agents do a task of ten turns under the policy `agent` as they do it without the proxy: nothing lost, nothing withheld, as many turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.clients.agents import AGENTS, DIRECT, Run, do_task
from tests.clients.conftest import Proxy
from tests.clients.harbour_servers import pilots
from tests.clients.servers import over_http
from tests.clients.tasks import ACTIONS, ANSWER, REPORT

pytestmark = pytest.mark.clients
UNTROUBLED = ("pass", "unchecked", "unsure", "skipped")
"""Outcomes of exchanges that nothing was said against."""
NOTE_BYTES = 300
"""Of the note about the command that failed, which is more than 3% of a short request."""
OF_SERVERS = ("tide_table", "order_pilot", "WaitForMcpServers")
"""Some agents begin before an MCP server is up, and offer its tools from a later turn on; that both were called is another test."""
Do = Callable[[str, str], Run]


@pytest.fixture(scope="module")
def pilots_url() -> Iterator[str]:
    with over_http(pilots()) as url:
        yield url


@pytest.fixture(scope="module")
def do(proxy: Proxy, address: str, pilots_url: str, tmp_path_factory: pytest.TempPathFactory) -> Do:
    """``do("Codex", "agent")``: the task on that route, or before the provider itself; each once, and what fails does not run again."""
    known: dict[tuple[str, str], Run | BaseException] = {}

    def once(agent: str, route: str) -> Run:
        if (agent, route) not in known:
            try:
                known[agent, route] = do_task(agent, route, address, proxy.provider, pilots_url, tmp_path_factory.mktemp("home"))
            except BaseException as error:
                known[agent, route] = error
        run = known[agent, route]
        if isinstance(run, BaseException):
            raise run
        return run

    return once


ROUTES = [(agent, routes[-1]) for agent, (_, routes) in AGENTS.items()]
"""Those of the policy `agent`, which changes more; ``python -m tests.clients.agents`` has both."""


@pytest.mark.parametrize(("agent", "route"), ROUTES)
def test_the_task_is_done_in_as_many_turns_with_all_that_was_said(agent: str, route: str, do: Do) -> None:
    direct, through = do(agent, DIRECT), do(agent, route)
    assert [ANSWER, REPORT] == [through.said, through.report]
    assert [direct.said, direct.report, direct.program] == [through.said, through.report, through.program]
    assert [len(ACTIONS) + 1] * 2 == [len(direct.asked), len(through.asked)]
    assert all(through.streamed)
    for before, after in zip(direct.asked, through.asked, strict=True):
        assert len(before.results) == len(after.results)
        for result, sent in zip(before.results, after.results, strict=True):  # `agent` adds a note to one that failed
            assert sent.startswith(result.rstrip())


@pytest.mark.parametrize(("agent", "route"), ROUTES)
def test_nothing_is_withheld_and_little_added(agent: str, route: str, do: Do) -> None:
    direct, through = do(agent, DIRECT), do(agent, route)
    for before, after in zip(direct.asked, through.asked, strict=True):
        assert {name for name in before.tools if not name.endswith(OF_SERVERS)} <= set(after.tools)
    assert sum(through.sizes) <= sum(direct.sizes) + max(0.03 * sum(direct.sizes), NOTE_BYTES * len(direct.sizes))
    assert not [outcome for outcome in through.outcomes if outcome not in UNTROUBLED]


@pytest.mark.parametrize("agent", [name for name in AGENTS if name != "aider"])
def test_both_mcp_servers_are_called(agent: str, do: Do) -> None:
    through = do(agent, AGENTS[agent][1][-1])
    assert all(any(line in result for result in through.asked[-1].results) for line in ("High water in Ada", "For Ada the pilot's order"))
