"""``groundwire demo``: each of its five exchanges shows what it says it shows."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.__main__ import main
from proxy.cli.demo import DemoReply, exchanges, lines, passages, run_exchange, touring

POLICIES = Path(__file__).parents[2] / "policies"


@pytest.mark.slow
async def test_every_exchange_shows_what_it_promises_and_is_on_the_dashboard(tmp_path: Path) -> None:
    async with touring(tmp_path, POLICIES) as (url, upstream), aiohttp.ClientSession() as session:
        told = [await run_exchange(url, upstream, one) for one in exchanges()]
        grounded, planted, clash, tools, long_chat = told
        assert (200, "pass", "1.00", "1/1") == (grounded.status, *map(grounded.header, ("verdict", "faithfulness", "citations")))
        assert (400, "block", "hallucination_detected") == (planted.status, planted.header("verdict"), planted.header("warnings"))
        assert (200, "clash_noted", "1") == (clash.status, clash.header("warnings"), clash.header("clashes"))
        offered, _, kept = tools.header("tools").partition("->")
        assert (200, "45", True) == (tools.status, offered, 1 <= int(kept) <= 5)
        assert (200, True) == (long_chat.status, "summarize" in long_chat.header("compression"))
        listed: list[Any] = []
        wanted = {one.header("id") for one in told}
        async with asyncio.timeout(20):
            while not wanted <= {record["id"] for record in listed}:  # a catalogue that is still being read makes one more
                async with session.get(f"{url}/groundwire/v1/records") as response:
                    listed = (await response.json())["data"]
                await asyncio.sleep(0.05)
        async with session.get(f"{url}/dashboard/records/{planted.header('id')}") as response:
            page = await response.text()
        assert (200, True) == (response.status, "70 kilometres" in page)


def test_the_prepared_answers_are_about_the_passages_and_the_question_is_the_last_message() -> None:
    assert 5 == len(exchanges())
    assert ["kestrel-cargo-bike.md", "kestrel-service.md"] == [passage["source"] for passage in passages()]
    assert ["user"] * 5 == [one.messages[-1]["role"] for one in exchanges()]


def told(status: int, body: dict[str, Any], **headers: str) -> DemoReply:
    return DemoReply(status, {f"x-groundwire-{name}": value for name, value in headers.items()}, body)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_an_exchange_is_told_within_the_screen_but_for_its_address(columns: int) -> None:
    one = exchanges()[1]
    came = told(
        400, {"error": {"message": "the answer contradicts its context"}}, verdict="block", warnings="hallucination_detected", id="gw_1"
    )
    found = [line.plain for line in lines(2, one, came, "http://127.0.0.1:4000", columns)]
    assert [] == [line for line in found[:-1] if len(line) > columns]
    assert "   client got  the answer contradicts its context" in found
    assert "found verdict block, warnings hallucination_detected" in " ".join(" ".join(found).split())
    assert "   record      http://127.0.0.1:4000/dashboard/records/gw_1" == found[-1]


@pytest.mark.slow
def test_a_tour_that_ends_by_itself_names_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["demo", "--once", "--port", "0"])
    said = capsys.readouterr().out
    assert ("5. " in said, "http://" in said, said.endswith("Without --once they would be on the dashboard now.\n")) == (True, False, True)


def test_an_answer_that_came_as_it_was_is_not_told_twice() -> None:
    one = exchanges()[2]
    came = told(200, {"choices": [{"message": {"content": one.says}}]}, verdict="warn", id="gw_1")
    assert "   client got  the same" in [line.plain for line in lines(3, one, came, "http://x", 80)]


def test_a_port_that_is_taken_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert 2 == main(["demo", "--once", "--port", str(port)])
    assert f"port {port} is in use" in capsys.readouterr().err
