"""``groundwire report``: the period meant, the figures of it, how they are shown, and what is said where there are none."""

import asyncio
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.__main__ import main
from proxy.admin.reports import Period, make_report, panels_of
from proxy.cli.report import moment, period
from proxy.errors import ConfigError
from proxy.ports.panels import Bucket
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.stages.claims.reporting import QualityPanel
from proxy.stages.compression.stage import CompressionPanel
from proxy.stages.poisoning.report import PoisoningPanel
from proxy.stages.registry import STAGES
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.feedback import DatabaseFeedback, Feedback
from proxy.store.figures import DatabaseFigures, total
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.record_sums import MAX_CODES, MOST_WRONG
from proxy.store.records import Record
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
SINCE = 1_699_999_200.0
CLASS_OF_10_MS = 109


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


async def figures_of_records(*records: Record, work: Callable[[Database], Awaitable[None]] | None = None) -> dict[str, Any]:
    """The figures of the hour from `SINCE` on."""
    async with opened("sqlite://") as database:
        writer = RecordWriter(database, CountingCounters())
        for record in records:
            writer.submit(record)
        await writer.flush()
        if work is not None:
            await work(database)
        found: dict[str, Any] = (await make_report(database, panels_of(STAGES), Period(SINCE, SINCE + 3600), None, "a"))["figures"]
    return found


def entry(number: int = 1, detail: Any = None, **changes: Any) -> Record:
    return make_record(number, **{"created_at": SINCE + number, "detail": detail or {}, **changes})


def verdict(outcome: str, code: str, stage: str = "claims", **detail: Any) -> dict[str, Any]:
    return {"stage": stage, "outcome": outcome, "code": code, "detail": detail}


async def test_exchanges_are_told_apart_by_verdict_and_by_a_bad_status() -> None:
    found = await figures_of_records(entry(1), entry(2, outcome="warn"), entry(3, outcome="block", status=400))
    assert {"total": 3, "verdicts": {"block": 1, "pass": 1, "warn": 1}, "judged": {}, "statuses": {}} == found["exchanges"]


async def test_what_was_saved_is_of_the_prompts_that_were_counted_by_one_count() -> None:
    used = {"usage": {"prompt": 7, "completion": 3, "cached": 2}}
    counts = {"facts": {"context_before": {"used_tokens": 100}, "context": {"used_tokens": 60}}}
    one = entry(1, counts, prompt_tokens_before=100, prompt_tokens=40, completion_tokens=None)
    other = entry(2, used, prompt_tokens_before=None, prompt_tokens=7, completion_tokens=3)
    found = (await figures_of_records(one, other))["tokens"]
    saved = {"saved": 40, "saved_share": 0.4, "saved_by_model": {"openai/gpt-4o-mini": 40}}
    assert {"before": 100, "after": 60, "prompt": 47, "completion": 3, "cached": 2} | saved == found


async def test_refusals_and_errors_are_told_by_their_reasons() -> None:
    found = await figures_of_records(
        *(entry(n, outcome="block", reason="hallucination_detected") for n in range(2)),
        entry(2, outcome="upstream_error", reason="upstream_timeout", status=504),
        entry(3, outcome="skipped", reason="status_502", status=502),
        entry(4, outcome="warn", reason="low_relevance"),
    )
    assert {"total": 2, "reasons": {"hallucination_detected": 2}} == found["blocked"]
    assert {"status_502": 1, "upstream_timeout": 1} == found["errors"]


async def test_warnings_of_answers_and_housekeeping_are_two_things() -> None:
    found = await figures_of_records(
        entry(1, {"verdicts": [verdict("warn", "context_usage_high", "budget"), verdict("warn", "claims_contradicted")]}, outcome="warn"),
        entry(2, {"verdicts": [verdict("warn", "CONFUSION", "tool_rag")]}, outcome="warn", reason="CONFUSION"),
    )
    assert ({"claims_contradicted": 1}, {"CONFUSION": 1, "context_usage_high": 1}, {}) == (
        found["warnings"],
        found["housekeeping"],
        found["errors"],
    )


async def test_scores_are_means_of_those_that_have_one() -> None:
    facts = [{"facts": {"quality": 0.5, "citations": [1, 4]}}, {"facts": {"quality": 1.0, "citations": [2, 2]}}, {}]
    found = await figures_of_records(*(entry(n, detail) for n, detail in enumerate(facts)))
    assert [{"count": 2, "mean": 0.75}, {"count": 0, "mean": None}] == [found["quality"][name] for name in ("quality", "relevance")]
    assert {"verified": 3, "total": 6, "precision": 0.5} == found["citations"]


async def test_clashes_are_told_apart_by_who_resolved_them() -> None:
    async def work(database: Database) -> None:
        store = DatabaseClashes(database, clock=lambda: SINCE + 1)
        fields: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "type": "T", "topic": "t", "older": {}, "newer": {}}
        for number, more in enumerate(({}, {"status": "resolved", "resolution": "keep_newer"}, {})):
            await store.put(ClashRecord(**fields, pair_hash=str(number), strategy="prefer_recent", **more))
        await store.resolve((await store.find(client="a", run_id="r", policy="p"))[2].id, "dismiss", by="ann")

    found = (await figures_of_records(entry(1, {"verdicts": [verdict("warn", "clash_asked")]}), work=work))["clashes"]
    states = {"auto_resolved": 1, "resolved_by_people": 1, "open": 1, "asked_exchanges": 1}
    assert {"found": 3, **states, "types": {"T": 3}} == found


async def test_cost_says_how_many_exchanges_it_knows_nothing_of() -> None:
    found = await figures_of_records(entry(1, cost_usd=0.1), entry(2), entry(3))
    assert {"usd": 0.1, "priced": 1, "unpriced": 2} == found["cost"]
    assert None is (await figures_of_records(entry()))["cost"]["usd"]


async def test_a_detail_of_another_version_is_counted_and_not_read() -> None:
    found = await figures_of_records(entry(1, b"{"), entry(2, {"facts": {"quality": "good"}}))
    assert (2, 0) == (found["exchanges"]["total"], found["quality"]["quality"]["count"])


async def test_names_from_elsewhere_are_bounded() -> None:
    records = (entry(n, outcome="upstream_error", reason=f"upstream_{n}", status=502) for n in range(MAX_CODES + 20))
    found = (await figures_of_records(*records))["errors"]
    assert (MAX_CODES + 1, 20) == (len(found), found["other"])


async def test_runs_in_most_trouble_come_first() -> None:
    found = await figures_of_records(
        *(entry(n, run_id="often", outcome="warn") for n in range(5)),
        entry(5, run_id="failed", outcome="error"),
        entry(6, run_id="fine"),
        entry(7, run_id="", outcome="error"),
    )
    assert {"top": [{"run_id": "failed", "failed": 1, "warned": 0}, {"run_id": "often", "failed": 0, "warned": 5}]} == found["runs"]


async def test_times_are_those_of_the_provider_and_the_proxys_own() -> None:
    found = (await figures_of_records(*(entry(n, duration_ms=110.0, overhead_ms=10.0) for n in range(4))))["latency_ms"]
    assert [100.0] * 2 + [10.0] * 2 == pytest.approx([found[who][p] for who in ("provider", "own") for p in ("p50", "p95")], rel=MOST_WRONG)


# ---- the table ----


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
    assert [tools.tool_requests, tools.tool_tokens_before, tools.tool_tokens_after, tools.saved] == [
        found["tools"][name] for name in ("requests", "tokens_before", "tokens_after", "savings")
    ]
    assert [panel.of(PoisoningPanel).poisoning_checked, panel.quarantined, panel.clashes, panel.clashes_open] == [
        found["poisoning"]["checked"],
        found["poisoning"]["types"],
        found["clashes"]["types"],
        found["clashes"]["open"],
    ]


HOSTILE = ["\x1b[2J\x1b]0;owned\x07", "a\nb", "\u202egnp", "\x9b31m"]


def test_without_json_it_is_the_weekly_mails_text_and_no_name_reaches_the_terminal_as_it_came(
    store: Callable[..., Path], capsys: Captured
) -> None:
    records = [make_record(n, created_at=SINCE + n, outcome="block", reason=text, model=text) for n, text in enumerate(HOSTILE)]
    assert 0 == main(["report", "--config", str(store(*records)), *PERIOD])
    lines = capsys.readouterr().out.splitlines()
    assert ["Groundwire, 2023-11-14 22:00 to 2023-11-14 23:00 UTC", "Caught: 4 (blocked 4, 0 before)"] == [lines[0], lines[3]]
    assert all(line.isprintable() for line in lines)


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


async def test_what_shadow_mode_would_have_done_is_counted_by_exchange() -> None:
    held = [entry(n, would=would, reason="because", model="m") for n, would in enumerate(("block", "edit", "nothing", ""))]
    newest = {"id": held[0].id, "created_at": held[0].created_at, "model": "m", "reason": "because"}
    found = (await figures_of_records(*held))["shadow"]
    assert {"judged": 3, "would": {"block": 1, "edit": 1}, "blocked": 1, "newest_blocked": [newest]} == found


async def test_what_people_said_of_flags_is_precision_by_stage() -> None:
    async def work(database: Database) -> None:
        store = DatabaseFeedback(database, clock=lambda: SINCE + 5)
        for number, (label, said) in enumerate(
            [("contradicted", "right"), ("unsupported", "right"), ("warn", "wrong"), ("unsure", "wrong")]
        ):
            fields: Any = {"client": "a", "policy": "p", "stage": "claims", "place": f"0:{number}-9", "label": label, "said": said}
            await store.put(Feedback(record_id="gw_1", **fields))

    found = (await figures_of_records(entry(1), work=work))["feedback"]
    assert {"claims": {"looked_at": 3, "right": 2, "precision": 0.6667, "low": 0.2077, "high": 0.9385}} == found


@pytest.mark.parametrize("command", ["report", "feedback export", "keys list"])
def test_what_only_reads_the_store_needs_no_secret_of_the_server(tmp_path: Path, capsys: Captured, command: str) -> None:
    (tmp_path / "policy.yaml").write_text("name: p\nstages: []\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        f"server: {{admin_key: '${{NOT_SET}}'}}\nstore: {{url: 'sqlite+aiosqlite:///{tmp_path}/store.db', keys: true}}\n"
        "upstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:9/v1', api_key: '${NOT_SET}'}}\n"
        "routes: [{prefix: '', upstream: main, policy: policy.yaml}]\n"
        "alerts: {channels: {ops: {kind: webhook, url: 'http://127.0.0.1:9/x', secret: '${NOT_SET}'}}, rules: [{figure: drift}]}\n"
    )
    assert 0 == main(["migrate", "--config", str(config)])
    assert 0 == main([*command.split(), "--config", str(config)])
    assert "NOT_SET" not in capsys.readouterr().err
