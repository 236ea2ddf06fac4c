"""``groundwire tail``: each exchange once, whenever it is written; a line that nothing in a record can break; a server that goes away."""

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from proxy.__main__ import main
from proxy.cli import tail as tail_command
from proxy.cli.admin_client import AdminClient, ServerAway, ServerRefused
from proxy.cli.tail import (
    ALL,
    BACK_S,
    Follower,
    RecordList,
    Tail,
    TailFilters,
    clock_time,
    json_line,
    line,
    milliseconds,
    pieces,
    thousands,
)
from proxy.cli.terminal import Terminal, cut, harmless
from proxy.testing import ScriptedUpstream, completion, reply
from tests.conftest import Start
from tests.processes import free_port, served
from tests.test_workers import all_up, ask

ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]
RECORD = {
    "id": "gw_0660cf64f83f789a7bc0b4e649be",
    "created_at": 1_700_000_000.0,
    "route": "/rag",
    "policy": "rag@0123abcd",
    "model": "gpt-4o-mini",
    "run_id": "run-7",
    "path": "/v1/chat/completions",
    "status": 200,
    "outcome": "warn",
    "duration_ms": 812.4,
    "prompt_tokens": 4880,
    "detail": {
        "overhead_ms": 3.21,
        "verdicts": [
            {"stage": "budget", "outcome": "warn", "code": "context_usage_high"},
            {"stage": "claims", "outcome": "warn", "code": "claims_unsupported"},
            {"stage": "tool_rag", "outcome": "pass", "code": "CONFUSION"},
        ],
        "facts": {
            "context": {"used_tokens": 4877, "window_tokens": 8192, "exact": True},
            "quality": 0.913,
            "faithfulness": 0.8,
            "relevance": 0.71,
            "citations": [3, 4],
            "compression": {"strategies": ["trim"], "before_tokens": 8210, "after_tokens": 4877},
            "tools": {"offered": 45, "kept": 4},
            "clashes": 1,
        },
    },
}


class Screen(io.StringIO):
    """A terminal that remembers."""

    def __init__(self, tty: bool = True) -> None:
        super().__init__()
        self._tty = tty

    def isatty(self) -> bool:
        return self._tty


def terminal(tty: bool = True, **environ: str) -> Terminal:
    return Terminal(Screen(tty), environ)


def shown(record: Any, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    return line(record, terminal(NO_COLOR="1")).plain


def into_a_pipe(record: dict[str, Any]) -> str:
    screen = terminal(tty=False)
    return screen.shown(line(record, screen))


# ---- lines ----


def test_into_a_pipe_a_line_has_all_there_is_and_no_colour() -> None:
    found = into_a_pipe(RECORD)
    assert (
        f"{clock_time(1_700_000_000.0)} ! warn    200 /rag   gpt-4o-mini 812ms context_usage_high,claims_unsupported 4.9k/8.2k 60% "
        "faith=0.80 gw_0660cf64f83f789a7bc0b4e649be"
    ) == found


def test_eighty_columns_show_what_counts_most(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shown(RECORD | {"created_at": 1e9}, 80, monkeypatch)
    head = f"{clock_time(1e9)} ! warn    200 /rag   gpt-4o-mini 812ms context_usage"
    assert (head, True) == (found[: len(head)], cell_len(found) <= 80)


def test_a_wide_terminal_shows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ["gw_0660" in shown(RECORD, columns, monkeypatch) for columns in (80, 250)] == [False, True]


def test_colour_is_only_for_a_terminal_that_wants_it() -> None:
    coloured = [
        "\x1b[" in screen.shown(line(RECORD, screen))
        for screen in (terminal(), terminal(False), terminal(NO_COLOR="1"), terminal(TERM="dumb"))
    ]
    assert [True, False, False, False] == coloured


def test_each_verdict_can_be_told_without_colour() -> None:
    verdicts = ["pass", "unchecked", "warn", "block", "error", "upstream_error", "skipped"]
    symbols = [pieces(RECORD | {"outcome": verdict})[1][0] for verdict in verdicts]
    assert ["✓ pass", "○ unchecked", "! warn", "✗ block", "? error", "↯ upstream", "· skipped"] == symbols


def test_what_a_terminals_encoding_lacks_is_spelled_out() -> None:
    raw = io.BytesIO()
    screen = Terminal(io.TextIOWrapper(raw, encoding="ascii"), {})
    screen.line(line(RECORD | {"outcome": "pass", "model": "modèle"}, screen))
    assert b"+ pass    200 /rag   mod\\xe8le" in raw.getvalue()


HOSTILE = ["\x1b]0;owned\x07", "\x1b[2J", "a\nb", "a\rb", "\x9b31m", "\u202egnp.exe", "\u2028", "\x00", "\x7f", "\ud800", "é" * 300]


@pytest.mark.parametrize("field", ["model", "route", "policy", "run_id", "id", "outcome", "path"])
def test_no_name_reaches_the_terminal_as_it_came(field: str) -> None:
    records = [RECORD | {field: text, **({"model": ""} if field == "path" else {})} for text in HOSTILE]
    assert [] == [written for record in records if not (written := into_a_pipe(record)).isprintable()]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_code_reaches_the_terminal_as_it_came(text: str) -> None:
    detail = {"verdicts": [{"outcome": "warn", "code": text}], "error": {"code": text, "param": text}}
    assert into_a_pipe(RECORD | {"detail": detail}).isprintable()


@pytest.mark.parametrize("text", [*HOSTILE, "[red]x[/red]", ":warning:", "[link=http://127.0.0.1]y"])
def test_a_coloured_line_has_nothing_but_colours_beside_its_plain_text(text: str) -> None:
    screen = terminal()
    shown = line(RECORD | {"model": text}, screen)
    assert re.sub(r"\x1b\[[\d;]*m", "", screen.shown(shown)) == shown.plain
    assert (True, True) == (shown.plain.isprintable(), harmless(text.strip())[:10] in shown.plain)


@pytest.mark.parametrize("text", HOSTILE)
def test_json_lines_are_one_plain_line_each(text: str) -> None:
    found = json_line(RECORD | {"model": text})
    assert (True, True, text) == (found.isascii(), found.isprintable(), json.loads(found)["model"])


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(RECORD, JSON)), st.integers(1, 200))
def test_whatever_a_record_holds_is_one_printable_line_that_fits(record: dict[str, Any], columns: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        found = shown(record, columns, patch)
    assert (True, True) == (found.isprintable(), cell_len(found) <= max(columns, 40))


@given(st.dictionaries(st.sampled_from(["overhead_ms", "error", "verdicts", "facts"]), JSON))
def test_whatever_a_detail_holds_is_one_printable_line(detail: dict[str, Any]) -> None:
    assert into_a_pipe(RECORD | {"detail": detail}).isprintable()


@given(st.text(), st.integers(1, 60))
def test_text_is_cut_to_its_columns(text: str, columns: int) -> None:
    found = cut(harmless(text), columns)
    assert cell_len(found) <= columns
    assert found.removesuffix("…") == harmless(text)[: len(found.removesuffix("…"))]


def test_numbers_are_short() -> None:
    assert ["950", "1k", "1.2k", "12k", "128k", "1M", "1.5M"] == [
        thousands(n) for n in (950, 1000, 1234, 12_345, 128_000, 10**6, 1_500_000)
    ]
    assert ["0.4ms", "42ms", "1.0s", "4.2s", "120s"] == [milliseconds(ms) for ms in (0.42, 42.4, 999.9, 4210.0, 120_000.0)]


# ---- each record once ----


class Store:
    """A list of records of which each can be seen from its time on; time passes while it is read."""

    def __init__(self, records: Sequence[dict[str, Any]], tick_s: float = 0.01) -> None:
        self.records, self.now, self._tick_s = sorted(records, key=lambda record: str(record["id"]), reverse=True), 0.0, tick_s
        self.away = False
        self.pages = 0

    def page(self, limit: int, after: str | None = None, filters: TailFilters = ALL) -> tuple[list[dict[str, Any]], bool]:
        if self.away:
            raise ServerAway("away")
        self.pages += 1
        self.now += self._tick_s
        rows = [r for r in self.records if r["visible"] <= self.now and (after is None or r["id"] < after) and filters.take(r)]
        return rows[:limit], len(rows) > limit


def made(number: int, came: float, lasted: float, late: float) -> dict[str, Any]:
    """An exchange whose id goes by the time at which it came, and that is written `late` after its end."""
    return {
        "id": f"gw_{int(came * 1e6) + 10**15:017d}{number:04d}",
        "created_at": came,
        "duration_ms": lasted * 1000,
        "visible": came + lasted + late,
        "outcome": "block" if number % 3 == 0 else "pass",
    }


def ids(records: Sequence[Any]) -> list[str]:
    return [str(record["id"]) for record in records]


TIMES = st.floats(-60, 30).map(lambda at: round(at, 1))  # rounded, so that some came at one moment
EXCHANGES = st.lists(st.tuples(TIMES, st.floats(0, 200), st.floats(0, 20)), max_size=60)


@given(
    EXCHANGES,
    st.lists(st.floats(0.1, 3), min_size=1, max_size=30),
    st.integers(0, 20),
    st.sampled_from([ALL, TailFilters(verdict="block")]),
    st.tuples(st.integers(1, 50), st.integers(1, 50)),
)
def test_what_is_written_after_the_first_look_is_told_once(
    exchanges: list[tuple[float, float, float]], steps: list[float], first: int, filters: TailFilters, pages: tuple[int, int]
) -> None:
    store = Store([made(i, *exchange) for i, exchange in enumerate(exchanges)])
    follower = Follower(store, filters, monotonic=lambda: store.now)
    begun = store.now
    with pytest.MonkeyPatch.context() as patch:  # so that a look takes several pages
        patch.setattr(tail_command, "_PAGE", pages[0])
        patch.setattr(tail_command, "_DEEP_PAGE", max(pages))
        told = ids(follower.look(first))
        looked = store.now
        for step in [*steps, *[100.0] * 4]:
            store.now += step
            told += ids(follower.look())
    seen_at = {str(record["id"]): record["visible"] for record in store.records if filters.take(record)}
    assert len(told) == len(set(told))
    assert {name for name, at in seen_at.items() if at > looked} <= set(told) <= set(seen_at)
    assert len([name for name in told if seen_at[name] <= begun]) <= first


def test_the_last_ones_come_first_and_in_order() -> None:
    store = Store([made(i, float(-10 + i), 0.1, 0.1) for i in range(8)])
    assert ids(store.records)[:3][::-1] == ids(Follower(store).look(3))


def test_none_of_what_was_there_is_told_without_a_wish_for_it() -> None:
    store = Store([made(i, float(-10 + i), 0.1, 0.1) for i in range(8)])
    follower = Follower(store, monotonic=lambda: store.now)
    looks = [follower.look(0)]
    for _ in range(20):
        store.now += 1.0
        looks.append(follower.look())
    assert [[]] * 21 == looks


def test_a_burst_of_more_than_a_page_is_told_whole() -> None:
    store = Store([made(i, 10.0, 0.1, 0.1) for i in range(1500)], tick_s=0.0)
    follower = Follower(store, monotonic=lambda: store.now)
    follower.look()
    store.now = 20.0
    assert 1500 == len(set(ids(follower.look())))


def test_a_long_exchange_that_ends_behind_many_short_ones_is_found_by_the_next_deep_look() -> None:
    long = made(9999, 1.0, 300.0, 0.2)
    store = Store([long, *(made(i, 2.0 + i * 0.3, 0.1, 0.1) for i in range(1000))], tick_s=0.0)
    follower = Follower(store, monotonic=lambda: store.now)
    follower.look()
    told: list[str] = []
    while store.now < 320.0:
        store.now += 1.0
        told += ids(follower.look())
    assert (1, 1001) == (told.count(long["id"]), len(told))


def test_a_quiet_second_costs_one_page() -> None:
    store = Store([made(i, float(-1000 + i), 0.1, 0.1) for i in range(900)], tick_s=0.0)
    follower = Follower(store, monotonic=lambda: store.now)
    follower.look()
    before = store.pages
    store.now += 1.0
    follower.look()
    assert 1 == store.pages - before


def test_what_no_look_can_find_any_more_is_forgotten() -> None:
    store = Store([made(i, float(i * 10), 0.1, 0.1) for i in range(1000)], tick_s=0.0)
    follower = Follower(store, monotonic=lambda: store.now)
    follower.look()
    for _ in range(1000):
        store.now += 10.0
        follower.look()
    assert follower._seen is not None
    assert BACK_S / 10 * 1.1 > len(follower._seen)


# ---- a server that goes away ----


class Spoken:
    """A tail over a store, and what it said."""

    def __init__(self, store: Store, **options: Any) -> None:
        self.screen, self.said, self.pauses = Screen(tty=False), list[str](), list[float]()

        def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            store.now += seconds

        self.tail = Tail(store, Terminal(self.screen, {}), tell=self.said.append, sleep=sleep, **options)


def test_a_server_that_is_away_is_told_once_and_asked_less_and_less() -> None:
    store = Store([])
    store.away = True
    spoken = Spoken(store)
    for _ in range(8):
        spoken.tail.step()
    assert (["away; trying on"], [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]) == (spoken.said, spoken.pauses)


def test_what_ended_while_the_server_was_away_is_told_when_it_is_back() -> None:
    store = Store([made(1, -5.0, 0.1, 0.1), made(2, 3.0, 0.1, 0.1)])
    spoken = Spoken(store, as_json=True)
    spoken.tail.step()
    store.away = True
    for _ in range(4):
        spoken.tail.step()
    store.away = False
    spoken.tail.step()
    assert (["away; trying on", "the server answers again"], 1) == (spoken.said, len(spoken.screen.getvalue().splitlines()))


# ---- a real server ----


async def tail_of(proxy: Any, *arguments: str, looks: int = 1, key: str = "") -> list[dict[str, Any]]:
    """The records that a tail of a running proxy tells in its first looks."""

    def run() -> list[dict[str, Any]]:
        client = AdminClient(proxy.url, key)
        names = dict(zip(arguments[::2], arguments[1::2], strict=True))
        follower = Follower(RecordList(client), TailFilters(**names))
        return [dict(record) for _ in range(looks) for record in follower.look(20)]

    return await asyncio.to_thread(run)


async def test_the_list_is_filtered_by_route_run_and_verdict(start: Start) -> None:
    async with start(route_options="allow_skip: true}, {prefix: /rag, upstream: main, policy: policy.yaml") as proxy:
        for path, run in (("", "a"), ("", "b"), ("/rag", "b")):
            await proxy.record(await proxy.post(path=path + "/v1/chat/completions", x_groundwire_run_id=run))
        found = [
            [(record["route"], record["run_id"]) for record in await tail_of(proxy, *arguments)]
            for arguments in (
                (),
                ("route", "/"),
                ("route", "/rag"),
                ("run", "b"),
                ("verdict", "skipped"),
                ("verdict", "block"),
                ("client", "x"),
            )
        ]
    everything = [("", "a"), ("", "b"), ("/rag", "b")]
    assert [everything, everything[:2], everything[2:], everything[1:], everything, [], []] == found


async def test_a_new_exchange_is_told_by_the_next_look(start: Start) -> None:
    async with start() as proxy:
        client = AdminClient(proxy.url, "")
        follower = Follower(RecordList(client))
        assert [] == await asyncio.to_thread(follower.look)
        answer = await proxy.post()
        await proxy.record(answer)
        found = await asyncio.to_thread(follower.look)
    assert [answer.headers["x-groundwire-id"]] == ids(found)


@pytest.mark.parametrize(("key", "words"), [("", "wants the admin key"), ("wrong", "refuses the admin key")])
async def test_a_key_that_is_missing_or_wrong_is_said(start: Start, key: str, words: str) -> None:
    async with start(config="server: {admin_key: right}\n") as proxy:
        with pytest.raises(ServerRefused, match=f"{words}.*401.*GROUNDWIRE_ADMIN_KEY"):
            await tail_of(proxy, key=key)
        assert [] == await tail_of(proxy, key="right")


@pytest.mark.process
async def test_the_command_follows_all_workers_until_it_is_interrupted(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server="{admin_key: right, workers: 2}") as proxy,
    ):
        await all_up(proxy)
        tail = await spawn("tail", "--url", proxy.url, "--json", cwd=tmp_path, GROUNDWIRE_ADMIN_KEY="right")
        assert tail.stdout is not None
        found = []
        for _ in range(2):
            await asyncio.gather(*(ask(proxy.url) for _ in range(8)))
            found += [json.loads(await tail.stdout.readline()) for _ in range(8)]
        tail.send_signal(signal.SIGINT)
        said = await tail.communicate()
    assert (130, (b"", b"")) == (tail.returncode, said)
    assert (16, {"skipped"}) == (len(set(ids(found))), {record["outcome"] for record in found})


@pytest.mark.process
async def test_the_command_ends_quietly_when_nobody_reads_any_more(tmp_path: Path) -> None:
    async with ScriptedUpstream(reply(completion())) as upstream, served(tmp_path, upstream.base_url) as proxy:
        await all_up(proxy)
        await ask(proxy.url)
        reading, writing = os.pipe()
        tail = await spawn("tail", "--url", proxy.url, cwd=tmp_path, stdout=writing)
        os.close(writing)
        with open(reading) as output:
            assert "200" in await asyncio.to_thread(output.readline)
        said = await tail.communicate()
    assert (141, b"") == (tail.returncode, said[1])


async def spawn(*arguments: str, cwd: Path, stdout: int = subprocess.PIPE, **environment: str) -> asyncio.subprocess.Process:
    """With Ctrl-C as a terminal's command has it: what a shell without job control starts in the background ignores it, and so do its children."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDWIRE_")}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "proxy",
        *arguments,
        cwd=cwd,
        env={**clean, "PYTHONPATH": str(ROOT), **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


# ---- what is refused ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "ftp://somewhere"], "--url: expected an address"),
        (["--url", "http://me:secret@127.0.0.1"], "the admin key comes from GROUNDWIRE_ADMIN_KEY"),
        (["--url", "http://127.0.0.1:99999"], "--url: expected an address"),
        (["--verdict", "bad"], "--verdict: expected one of block, error, pass, skipped, unchecked, unsure, upstream_error, warn"),
        (["-n", "-1"], "-n: expected a number of at least 0"),
    ],
)
def test_a_wish_that_cannot_be_is_one_line(arguments: list[str], words: str, capsys: Captured) -> None:
    assert 2 == main(["tail", *arguments])
    told = capsys.readouterr().err.splitlines()
    assert (1, True, False) == (len(told), words in told[0], "secret" in told[0])


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("GROUNDWIRE_ADMIN_KEY", "schlüssel\nx: y")
    assert 2 == main(["tail", "--url", "http://127.0.0.1:9"])
    told = capsys.readouterr().err
    assert ("GROUNDWIRE_ADMIN_KEY" in told, "schl" in told) == (True, False)


async def test_something_else_at_the_address_is_said(start: Start) -> None:
    async with ScriptedUpstream(reply(completion())) as upstream:
        client = AdminClient(upstream.base_url.removesuffix("/v1"), "")
        with pytest.raises(ServerRefused, match="is not a Groundwire server"):
            await asyncio.to_thread(RecordList(client).page, 1)


def test_nobody_at_the_address_may_come_later() -> None:
    with pytest.raises(ServerAway, match="does not answer: Connection refused"):
        AdminClient("http://127.0.0.1:9", "").get("/records")
