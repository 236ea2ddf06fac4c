"""``groundwire report``: the period meant, the figures of it, how they are shown, and what is said where there are none."""

import asyncio
import io
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from proxy.__main__ import main
from proxy.cli.report import Period, moment, period, price_of
from proxy.cli.report_figures import ReportEntry, ReportFigures
from proxy.cli.report_table import change, length, write
from proxy.cli.report_tallies import MAX_NAMES, OTHER, Runs, ValueSpread
from proxy.cli.terminal import Terminal
from proxy.config.settings import load_settings
from proxy.errors import ConfigError
from proxy.ports.panels import Bucket
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.stages.claims.panel import QualityPanel
from proxy.stages.compression.panel import CompressionPanel
from proxy.stages.poisoning.report import PoisoningPanel
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.store.clashes import DatabaseClashes
from proxy.store.detail import RecordUsage
from proxy.store.figures import DatabaseFigures, total
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.writer import RecordWriter
from proxy.testing import completion, reply
from tests.conftest import CHAT, Start
from tests.processes import write_config
from tests.store.conftest import CountingCounters, make_record
from tests.stores import in_thread, opened

ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]
NOW = 1_700_000_000.0
DAY = 86400.0


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Any:
    """This machine stands in Berlin."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


# ---- the period ----


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("6h", 21600), ("1d", 86400), ("2w", 14 * 86400), ("1.5h", 5400), ("90s", 90)]
)
def test_a_length_is_before_now(text: str, seconds: int) -> None:
    assert NOW - seconds == moment(text, "--since", NOW)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2023-11-14", "2023-11-13T23:00:00+00:00"),
        ("2023-07-01", "2023-06-30T22:00:00+00:00"),
        ("2023-11-14T12:30", "2023-11-14T11:30:00+00:00"),
        ("2023-11-14T12:30Z", "2023-11-14T12:30:00+00:00"),
        ("2023-11-14 12:30+05:00", "2023-11-14T07:30:00+00:00"),
    ],
)
def test_a_date_is_in_this_machines_zone_unless_it_names_one(text: str, utc: str, berlin: None) -> None:
    assert datetime.fromisoformat(utc).timestamp() == moment(text, "--since", NOW)


@given(st.text(max_size=30) | st.from_regex(r"\A[0-9.:\-TZ+wdhm ]{1,30}\Z"))
def test_a_moment_is_a_time_or_refused(text: str) -> None:
    found: float | ConfigError
    try:
        found = moment(text, "--since", NOW)
    except ConfigError as error:
        found = error
    if isinstance(found, ConfigError):
        assert ("--since", True) == (found.path, str(found).isprintable())
    else:
        assert (True, True) == (math.isfinite(found), found >= 0.0)


def test_the_period_before_is_as_long() -> None:
    assert Period(NOW - 2 * DAY, NOW - DAY) == period("1d", None, NOW).before()
    assert period("1970-01-01T00:00Z", None, NOW).before() is None


@pytest.mark.parametrize(("since", "until"), [("1h", "2h"), ("2999-01-01", None), ("1d", "1d")])
def test_a_period_that_ends_before_it_begins_is_refused(since: str, until: str | None) -> None:
    with pytest.raises(ConfigError, match="is not before"):
        period(since, until, NOW)


# ---- the figures ----


def entry(number: int = 1, detail: Any = None, **changes: Any) -> ReportEntry:
    fields: dict[str, Any] = {"id": str(number), "created_at": NOW, "outcome": "pass", "status": 200, "duration_ms": 10.0, "policy": "p@0"}
    written = detail if isinstance(detail, bytes) else json.dumps(detail or {}).encode()
    return ReportEntry(**{**fields, "detail": Raw(written), **changes})


def figures(*entries: ReportEntry, price: Callable[..., float | None] = lambda *_: None) -> dict[str, Any]:
    found = ReportFigures(price)
    for one in entries:
        found.add(one)
    return found.as_json()


def verdict(outcome: str, code: str, stage: str = "claims", **detail: Any) -> dict[str, Any]:
    return {"stage": stage, "outcome": outcome, "code": code, "detail": detail}


def test_exchanges_are_told_apart_by_verdict_and_status() -> None:
    found = figures(entry(), entry(outcome="warn"), entry(outcome="block", status=400))
    assert {"total": 3, "verdicts": {"block": 1, "pass": 1, "warn": 1}, "statuses": {"200": 2, "400": 1}} == found["exchanges"]


def test_what_compression_saved_is_by_the_proxys_own_count() -> None:
    detail = {"facts": {"context_before": {"used_tokens": 100}, "context": {"used_tokens": 40}}}
    found = figures(entry(detail=detail, prompt_tokens=44), entry(prompt_tokens=7, completion_tokens=3))["tokens"]
    assert {"before": 100, "after": 40, "prompt": 51, "completion": 3, "cached": 0, "saved": 60, "saved_share": 0.6} == found


def test_why_answers_were_blocked_is_the_sub_code_or_the_stages_code() -> None:
    refused = entry(detail={"error": {"code": "policy_blocked", "param": "poisoned_context", "message": "no"}}, outcome="block", status=400)
    midway = entry(detail={"verdicts": [verdict("warn", "w"), verdict("block", "hallucination_detected")]}, outcome="block")
    too_long = entry(detail={"error": {"code": "context_length_exceeded", "param": "messages"}}, outcome="block", status=400)
    found = figures(refused, midway, too_long, entry(outcome="block"))["blocked"]
    reasons = {"context_length_exceeded": 1, "hallucination_detected": 1, "poisoned_context": 1, "unknown": 1}
    assert {"total": 4, "reasons": reasons} == found


def test_a_warning_counts_once_an_exchange() -> None:
    detail = {"verdicts": [verdict("warn", "a"), verdict("warn", "a"), verdict("error", "b"), verdict("pass", "c")]}
    assert {"a": 2, "b": 2} == figures(entry(detail=detail), entry(detail=detail))["warnings"]


def test_upstream_errors_are_told_apart_by_upstream() -> None:
    found = figures(
        entry(upstream="a", status=502, detail={"error": {"code": "upstream_unreachable", "param": None}}),
        entry(upstream="b", status=429, detail={"verdicts": [verdict("warn", "upstream_429", "upstream")]}),
        entry(upstream="b", status=503, policy="", outcome="skipped"),  # passed through
        entry(upstream="b", status=500, detail={"error": {"code": "internal_error", "param": None}}),
    )
    by = {"a: upstream_unreachable": 1, "b: upstream_429": 1, "b: upstream_503": 1}
    assert ({"total": 3, "by": by}, {"internal_error": 1, "upstream_unreachable": 1}) == (found["upstream_errors"], found["errors"])


def test_scores_are_means_of_those_that_have_one() -> None:
    found = figures(
        entry(detail={"facts": {"quality": 0.5, "citations": [1, 3]}}),
        entry(detail={"facts": {"quality": 1.0, "citations": [2, 2]}}),
        entry(),
    )
    assert {"count": 2, "mean": 0.75} == found["quality"]["quality"]
    assert {"count": 0, "mean": None} == found["quality"]["faithfulness"]
    assert {"verified": 3, "total": 5, "precision": 0.6} == found["citations"]


def test_compression_tools_and_poisoning_are_added_up() -> None:
    facts = {"compression": {"strategies": ["trim"], "before_tokens": 900, "after_tokens": 300}, "tools": {"offered": 45, "kept": 4}}
    chosen = verdict("pass", "CONFUSION", "tool_rag", confusion={"description_tokens": 3000}, kept={"description_tokens": 300})
    checked, failed = verdict("pass", "", "poisoning", checked=500), verdict("warn", "compression_failed", "compression")
    found = ReportFigures(lambda *_: None)
    for _ in range(2):
        found.add(entry(detail={"facts": facts, "verdicts": [chosen, checked, failed]}))
    found.add_pieces([("wrong_date", "pending", 10), ("wrong_name", "approved", 2), ("wrong_date", "rejected", 3)])
    told = found.as_json()
    assert {"runs": 2, "tokens_before": 1800, "tokens_after": 600, "failures": 2, "ratio": 3.0} == told["compression"]
    assert (2, 45.0, 4.0, 0.9) == tuple(told["tools"][name] for name in ("requests", "average_offered", "average_kept", "savings"))
    assert (1000, 15, 13, 0.015, {"wrong_date": 13, "wrong_name": 2}) == tuple(
        told["poisoning"][name] for name in ("checked", "attempts", "blocked", "rate", "types")
    )


def test_clashes_are_told_apart_by_who_resolved_them() -> None:
    found = ReportFigures(lambda *_: None)
    found.add_clashes([("A", "resolved", "policy", 48), ("A", "open", "", 1), ("B", "resolved", "alice", 1)])
    told = found.as_json()["clashes"]
    assert (50, 48, 1, 1, {"A": 49, "B": 1}) == tuple(
        told[name] for name in ("found", "auto_resolved", "resolved_by_people", "open", "types")
    )


def test_failures_of_runs_are_told_by_signal_with_what_stopped_them() -> None:
    found = ReportFigures(lambda *_: None)
    for _ in range(2):
        found.add(entry(outcome="warn", detail={"verdicts": [verdict("warn", "human_asked", "reflection")]}))
    found.add(entry(outcome="block", status=400, detail={"error": {"code": "policy_blocked", "param": "system_error"}}))
    found.add_failures([("tool_error", "active", 4), ("tool_error", "resolved", 3), ("loop", "superseded", 1)])
    assert {
        "recorded": 8,
        "active": 4,
        "resolved": 3,
        "superseded": 1,
        "asked_exchanges": 2,
        "stopped_exchanges": 1,
        "types": {"tool_error": 7, "loop": 1},
    } == found.as_json()["failures"]
    found.add_failures(None)
    told = found.as_json()["failures"]
    assert (None, None, 2, {}) == tuple(told[name] for name in ("recorded", "resolved", "asked_exchanges", "types"))


def test_cost_says_how_many_exchanges_it_knows_nothing_of() -> None:
    def price(upstream: str, model: str, usage: RecordUsage) -> float | None:
        return usage.prompt * 0.01 if model == "known" else None

    used = {"usage": {"prompt": 10, "completion": 1, "cached": 4}}
    found = figures(entry(detail=used, model="known"), entry(detail=used, model="else"), entry(), price=price)
    assert {"usd": 0.1, "priced": 1, "unpriced": 1} == found["cost"]
    assert None is figures(entry())["cost"]["usd"]


def test_prices_are_those_of_the_bundled_list(tmp_path: Path) -> None:
    price = price_of(load_settings(write_config(tmp_path, "http://127.0.0.1:9/v1"), {}))
    found = price("main", "gpt-4o", RecordUsage(prompt=1_000_000, completion=1_000_000, cached=500_000))
    assert 0.5 * 2.5 + 0.5 * 1.25 + 10.0 == pytest.approx(found)
    assert None is price("main", "no-such-model", RecordUsage(prompt=1))


def test_a_detail_of_another_version_is_counted_and_not_read() -> None:
    found = figures(entry(detail={"facts": {"quality": "good"}}), entry(detail=b"{"))
    assert (2, 2, 0) == (found["exchanges"]["total"], found["unread_details"], found["quality"]["quality"]["count"])


@given(st.lists(st.floats(1e-3, 1e7), min_size=1), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_within_one_per_cent(values: list[float], share: float) -> None:
    spread = ValueSpread()
    for value in values:
        spread.add(value)
    assert sorted(values)[max(1, math.ceil(share * len(values))) - 1] == pytest.approx(spread.quantile(share), rel=0.0101)


@given(st.lists(st.floats(0, allow_infinity=True) | st.just(math.nan)))
def test_percentiles_take_little_memory_whatever_comes(values: list[float]) -> None:
    spread = ValueSpread()
    for value in values:
        spread.add(value)
    assert sum(map(math.isfinite, values)) == spread.count


def test_names_from_elsewhere_are_bounded() -> None:
    detail = {"verdicts": [verdict("warn", f"upstream_{n}", "upstream") for n in range(2 * MAX_NAMES)]}
    found = figures(entry(detail=detail))
    assert (MAX_NAMES + 1, MAX_NAMES) == (len(found["warnings"]), found["warnings"][OTHER])


def test_runs_in_most_trouble_come_first() -> None:
    found = figures(
        *(entry(run_id="often", outcome="warn", detail={"verdicts": [verdict("warn", "w")]}) for _ in range(5)),
        entry(run_id="failed", outcome="error"),
        entry(run_id="fine"),
        entry(run_id="", outcome="error"),
    )["runs"]
    top = [{"run_id": "failed", "failed": 1, "warned": 0}, {"run_id": "often", "failed": 0, "warned": 5}]
    assert {"complete": True, "top": top} == found


def test_the_number_of_runs_that_are_kept_is_bounded() -> None:
    runs = Runs(10)
    for number in range(1000):
        runs.add(f"run-{number}", failed=False, warned=True)
        runs.add("worst", failed=True, warned=False)
    assert (False, {"run_id": "worst", "failed": 1000, "warned": 0}) == (runs.complete, runs.top(3)[0])
    assert 11 > len(runs.top(1000))


# ---- the table ----


def made(now: dict[str, Any], before: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    wanted = Period(NOW - DAY, NOW)
    earlier = Period(NOW - 2 * DAY, NOW - DAY).as_json()
    return {
        "object": "report",
        "period": wanted.as_json(),
        "route": None,
        "source": "the store",
        "figures": now,
        "waiting": 0,
        "newest": NOW - 5,
        "before": {"period": earlier, "figures": before or figures()},
        **changes,
    }


def table(report: dict[str, Any]) -> list[str]:
    """As it is written into a pipe."""
    screen = io.StringIO()
    write(report, Terminal(screen, {}))
    return screen.getvalue().split("\n")[:-1]


def test_a_table_has_each_figure_beside_the_one_before(berlin: None) -> None:
    now = figures(*(entry(detail={"facts": {"quality": 0.9}}) for _ in range(3)), entry(outcome="block", status=400))
    before = figures(*(entry(detail={"facts": {"quality": 0.8}}) for _ in range(2)))
    assert [
        "Groundwire, all routes: 2023-11-13 23:13 to 2023-11-14 23:13 CET (24 h)",
        "before: the 24 h until then; from the store",
        "",
        "                                               now      before      change",
        "Exchanges                                        4           2       +100%",
        "  pass                                           3           2        +50%",
        "  block                                          1           0         new",
        "  status 200                                     3           2        +50%",
        "  status 400                                     1           0         new",
        "Answers, mean of those judged",
        "  quality                                     0.90        0.80       +0.10",
        "Time",
        "  exchange, p50                            10.0 ms     10.0 ms           =",
        "  exchange, p95                            10.0 ms     10.0 ms           =",
        "Blocked, by reason",
        "  unknown                                        1           0         new",
    ] == table(made(now, before))


HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\nb", "\u202egnp", "\x9b31m", "漢" * 100, "\ud800"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_reaches_the_terminal_as_it_came(text: str) -> None:
    detail = {"verdicts": [verdict("warn", text, "upstream")], "error": {"code": text, "param": text}}
    now = figures(
        entry(outcome=text[:5], run_id=text, upstream=text, status=500, detail=json.loads(json.dumps(detail))), entry(outcome="block")
    )
    lines = table(made(now, route="/rag", source=text))
    assert all(line.isprintable() for line in lines)


def test_a_table_fits_eighty_columns_and_a_pipe_is_as_wide_whatever_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    now = figures(entry(run_id="r" * 300, outcome="error", detail={"verdicts": [verdict("warn", "w" * 300)]}, duration_ms=1e9))
    assert 74 == max(map(len, table(made(now))[3:]))


def test_only_the_ten_most_common_are_listed() -> None:
    now = figures(entry(detail={"verdicts": [verdict("warn", f"code_{n:02d}") for n in range(15)]}))
    lines = table(made(now))
    at = lines.index("Warnings (the first 10 of 15)")
    assert [f"code_{n:02d}" for n in range(10)] == [line.split()[0] for line in lines[at + 1 : at + 11]]


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (None, "There are none at all yet: point a client's base_url at the server"),
        (NOW - 5 * DAY, "look further back with --since 2023-11-09."),
        (NOW + 5 * DAY, "try a later --until."),
    ],
)
def test_an_empty_period_says_what_to_do(newest: float | None, words: str, berlin: None) -> None:
    lines = table(made(figures(), newest=newest))
    assert ("No exchanges in this period.", True) == (lines[3], words in lines[4])


def test_what_waits_is_said_even_of_an_empty_period() -> None:
    assert "2 pieces wait in quarantine for a decision now: see /dashboard/quarantine" == table(made(figures(), waiting=2))[-1]


def test_a_change_has_the_unit_of_what_changed() -> None:
    changes = [
        change(112, 100, "count"),
        change(1, 0, "count"),
        change(0.5, 0.4, "share"),
        change(0.9, 0.8, "score"),
        change(120.0, 100.0, "ms"),
        change(1.5, 1.0, "ms"),
        change(3, 3, "count"),
        change(None, 1, "score"),
        change(5, -6, "count"),
    ]
    assert ["+12%", "new", "+10.0 pp", "+0.10", "+20 ms", "+0.50 ms", "=", "", ""] == changes


def test_lengths_are_in_the_unit_that_suits() -> None:
    lengths = [length({"since": 0.0, "until": seconds}) for seconds in (30, 1800, 86400, 7 * 86400, 5400)]
    assert ["30 s", "30 min", "24 h", "7 d", "1.5 h"] == lengths


# ---- a store ----


@pytest.fixture
def store(tmp_path: Path, migrated_file: Path) -> Callable[..., Path]:
    """Makes a store with records and gives its config.yaml."""

    def make(*records: Any, work: Callable[[Any], Any] | None = None) -> Path:
        shutil.copy(migrated_file, tmp_path / "store.db")

        async def fill() -> None:
            async with opened(f"sqlite:///{tmp_path}/store.db") as database:
                writer = RecordWriter(database, CountingCounters())
                for record in records:
                    writer.submit(record)
                await writer.flush()
                if work is not None:
                    await work(database)

        in_thread(fill())
        return write_config(tmp_path, "http://127.0.0.1:9/v1")

    return make


def run(capsys: Captured, config: Path, *arguments: str) -> Any:
    """The report as JSON."""
    assert 0 == main(["report", "--config", str(config), "--json", *arguments])
    return json.loads(capsys.readouterr().out)


PERIOD = ("--since", "2023-11-14T22:00Z", "--until", "2023-11-14T23:00Z")
SINCE = 1_699_999_200.0


def test_json_has_both_periods_in_utc(store: Callable[..., Path], capsys: Captured, berlin: None) -> None:
    config = store(make_record(1, created_at=SINCE + 1), make_record(2, created_at=SINCE - 1), make_record(3, created_at=SINCE + 3600))
    found = run(capsys, config, *PERIOD)
    assert {"since": SINCE, "until": SINCE + 3600, "since_iso": "2023-11-14T22:00:00Z", "until_iso": "2023-11-14T23:00:00Z"} == found[
        "period"
    ]
    assert (1, 1) == (found["figures"]["exchanges"]["total"], found["before"]["figures"]["exchanges"]["total"])
    assert ("2023-11-14T21:00:00Z", 0, SINCE + 3600) == (found["before"]["period"]["since_iso"], found["waiting"], found["newest"])


def test_a_route_is_told_apart(store: Callable[..., Path], capsys: Captured) -> None:
    config = store(*(make_record(n, created_at=SINCE + n, route=route) for n, route in enumerate(["/rag", "/rag", ""])))
    totals = [
        run(capsys, config, *PERIOD, *given)["figures"]["exchanges"]["total"] for given in ((), ("--route", "/rag"), ("--route", "/"))
    ]
    assert [3, 2, 1] == totals


DETAILS = st.fixed_dictionaries(
    {
        "facts": st.fixed_dictionaries(
            {},
            optional={
                "quality": st.floats(0, 1),
                "faithfulness": st.floats(0, 1),
                "compression": st.fixed_dictionaries(
                    {"strategies": st.lists(st.just("trim")), "before_tokens": st.integers(1, 999), "after_tokens": st.integers(1, 999)}
                ),
                "tools": st.fixed_dictionaries({"offered": st.integers(1, 50), "kept": st.integers(1, 5)}),
            },
        ),
        "verdicts": st.lists(
            st.fixed_dictionaries(
                {
                    "stage": st.sampled_from(["poisoning", "tool_rag", "claims"]),
                    "outcome": st.sampled_from(["pass", "warn", "error"]),
                    "code": st.sampled_from(["", "a", "b"]),
                    "detail": st.fixed_dictionaries(
                        {"checked": st.integers(0, 9), "confusion": st.fixed_dictionaries({"description_tokens": st.integers(0, 99)})}
                    ),
                }
            ),
            max_size=3,
        ),
    }
)


def test_the_report_says_what_the_dashboard_says(store: Callable[..., Path], capsys: Captured) -> None:
    details: list[Any] = []

    @given(DETAILS)
    def collect(detail: Any) -> None:
        details.append(detail)

    collect()
    shown: list[Bucket] = []

    async def work(database: Any) -> None:
        piece: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "kind": "tool_result", "role": "tool", "reason": "no"}
        pair: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "topic": "t", "older": {}, "newer": {}, "strategy": "merge"}
        for number in range(4):
            put = QuarantineItem(**piece, hash=str(number), type=f"type_{number % 2}", content=b"x")
            await DatabaseQuarantine(database, clock=lambda: SINCE + 5).put(put)
            await DatabaseClashes(database, clock=lambda: SINCE + 5).put(ClashRecord(**pair, pair_hash=str(number), type=f"T{number % 3}"))
        panels = (CompressionPanel, PoisoningPanel, QualityPanel, ToolRagPanel)
        whole = total(await DatabaseFigures(database, panels).between(SINCE, SINCE + 3600, 3600))
        assert whole is not None
        shown.append(whole)

    records = [
        make_record(n, created_at=SINCE + n * 0.01, detail=detail, outcome=["pass", "warn"][n % 2], prompt_tokens=n)
        for n, detail in enumerate(details)
    ]
    found = run(capsys, store(*records, work=work), *PERIOD)["figures"]
    panel = shown[0]
    assert [panel.exchanges, panel.verdicts, panel.prompt_tokens, panel.completion_tokens, panel.warnings] == [
        found["exchanges"]["total"],
        found["exchanges"]["verdicts"],
        found["tokens"]["prompt"],
        found["tokens"]["completion"],
        found["warnings"],
    ]
    answers, tools, pressed = panel.of(QualityPanel), panel.of(ToolRagPanel), panel.of(CompressionPanel)
    assert [answers.mean, answers.mean_faithfulness] == [found["quality"][name]["mean"] for name in ("quality", "faithfulness")]
    assert [pressed.compressions, pressed.compression_tokens_before, pressed.compression_tokens_after] == [
        found["compression"][name] for name in ("runs", "tokens_before", "tokens_after")
    ]
    assert [tools.tool_requests, tools.tools_offered, tools.tools_kept, tools.saved] == [
        found["tools"][name] for name in ("requests", "offered", "kept", "savings")
    ]
    assert [panel.of(PoisoningPanel).poisoning_checked, panel.quarantined, panel.clashes, panel.clashes_open] == [
        found["poisoning"]["checked"],
        found["poisoning"]["types"],
        found["clashes"]["types"],
        found["clashes"]["open"],
    ]


def test_a_store_without_exchanges_is_an_empty_report(store: Callable[..., Path], capsys: Captured) -> None:
    assert 0 == main(["report", "--config", str(store())])
    assert "There are none at all yet" in capsys.readouterr().out


def test_a_store_that_is_not_there_is_one_line_and_stays_so(tmp_path: Path, capsys: Captured) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    assert 2 == main(["report", "--config", str(config)])
    told = capsys.readouterr()
    assert ("", 1) == (told.out, len(told.err.splitlines()))
    assert f"groundwire: there is no store at {tmp_path}/store.db; --config names another configuration" in told.err
    assert not (tmp_path / "store.db").exists()


@pytest.mark.parametrize(("option", "text"), [("--since", "yesterday\x1b[2J"), ("--until", "1x"), ("--since", "2023-13-45")])
def test_a_time_that_cannot_be_read_is_one_line(option: str, text: str, capsys: Captured) -> None:
    assert 2 == main(["report", option, text])
    told = capsys.readouterr().err
    assert told.startswith(f"groundwire: command line: {option}: expected a length as 30m, 6h, 1d or 2w, or a date")
    assert told.rstrip("\n").isprintable()


# ---- a running server ----


async def reported(*arguments: str) -> tuple[int, str, str]:
    """``groundwire report`` as a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "proxy", "report", *arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


TIMED_OUT = [
    *CHAT["messages"],
    {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Error: search timed out after 30 s"},
]


@pytest.mark.process
async def test_a_running_server_says_what_its_store_says(start: Start, tmp_path: Path) -> None:
    policy = "name: p\ndelivery: tap\nstages: [budget, reflection]\n"
    async with start(reply(completion()), policy=policy, config="server: {admin_key: right}\n") as proxy:
        for _ in range(2):
            await proxy.post()
        await proxy.post(CHAT | {"messages": TIMED_OUT})
        await proxy.app.records_writer.flush()
        config = ("--config", str(tmp_path / "config.yaml"), "--json", "--since", "1h")
        of_store, of_server = [json.loads((await reported(*config, *where))[1]) for where in ((), ("--url", proxy.url))]
        status, _, refused = await reported("--url", proxy.url)
    assert (3, of_store["figures"]) == (of_store["figures"]["exchanges"]["total"], of_server["figures"])
    assert {"tool_error": 1} == of_store["figures"]["failures"]["types"]
    assert (2, True) == (status, "wants the admin key (401)" in refused)


@pytest.mark.process
async def test_a_server_that_is_not_there_is_one_line() -> None:
    status, out, err = await reported("--url", "http://127.0.0.1:9")
    assert (2, "", "groundwire: http://127.0.0.1:9 does not answer: Connection refused\n") == (status, out, err)


# ---- nobody reads ----


def piped(arguments: Sequence[str], cwd: Path) -> tuple[int, str]:
    """The command's exit status, and what it said, where the reader has left before the first line."""
    script = "import subprocess, sys; sys.exit(0)"
    reader = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    reader.wait()
    ended = subprocess.run(
        [sys.executable, "-m", "proxy", *arguments],
        cwd=cwd,
        stdout=reader.stdin,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )
    assert reader.stdin is not None
    reader.stdin.close()
    return ended.returncode, ended.stderr


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["report"], ["report", "--json"], ["check"], ["--help"]])
def test_a_reader_that_has_left_ends_a_command_quietly(arguments: list[str], store: Callable[..., Path]) -> None:
    assert (141, "") == piped(arguments, store(make_record(1)).parent)


# ---- shadow mode ----


def shadowed(number: int, *would: str, **changes: Any) -> ReportEntry:
    verdicts = [{"stage": "claims", "outcome": "block", "code": f"because_{one}", "would": one} for one in would]
    return entry(number, {"enforced": False, "verdicts": verdicts}, **changes)


def test_what_shadow_mode_would_have_blocked_is_counted_by_exchange_with_its_reason() -> None:
    found = figures(shadowed(1, "block", "block"), shadowed(2, "edit"), shadowed(3), entry(4))["shadow"]
    newest = {"id": "1", "created_at": NOW, "model": "", "reason": "claims: because_block"}
    assert {
        "judged": 3,
        "would": {"block": 1, "edit": 1},
        "blocked": 1,
        "reasons": {"claims: because_block": 1},
        "newest_blocked": [newest],
    } == found


def test_a_report_says_what_shadow_mode_would_have_blocked_and_lists_the_newest(berlin: None) -> None:
    found = figures(*(shadowed(n, "block", "edit") for n in range(12)), *(shadowed(20 + n) for n in range(328)))
    span = {"since": NOW - DAY, "until": NOW}
    lines = table({"period": span, "route": None, "source": "s", "figures": found, "before": None, "waiting": 0, "newest": NOW})
    at = lines.index("Shadow mode: would have blocked 12 of 340; changed 12")
    assert ["  11-14 23:13 0 claims: because_block", "  and 2 before these"] == [lines[at + 1], lines[at + 11]]


def test_a_report_without_shadow_mode_does_not_speak_of_it(berlin: None) -> None:
    span = {"since": NOW - DAY, "until": NOW}
    found = {"period": span, "route": None, "source": "s", "figures": figures(entry()), "before": None, "waiting": 0, "newest": NOW}
    assert [] == [line for line in table(found) if "hadow" in line]
