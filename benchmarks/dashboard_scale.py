"""Does the dashboard stay quick in a large store? A page's time at the server and until something is painted, with 20 million exchanges.

    python -m benchmarks.dashboard_scale [--records 20000000] [--keep FOLDER] [--no-paint]

Data: that many exchanges over 30 days in SQLite, made of 997 different ones: three routes, five models, four policies, 40 clients, 2% of
them errors of the provider, 4% refused, 9% with a warning (half of them about housekeeping), 20% with a sentence that nobody could decide,
runs of 20 and one of 200, no bodies; details of 500 to 1,200 bytes, whose statements are listed where one is not supported. A hundred
exchanges, three to four weeks old, have a policy and an upstream of their own, and of the newest 3,000 with a finding a person has decided.
They are written by SQL, the indexes after the rows; `--keep` leaves the store in a folder, and takes it from there the next time. The
server is `groundwire serve`, in a process of its own. The rows come past the server, as an earlier release would have left them, so that
the sums of which figures are made are added up first, at full speed (the server takes 40% of its time for it, in the background); with
`--copy-sums` one hour is added up, and stands for the others, as the exchanges repeat. Time at the server: from the request until the last
byte, 9 times, median and worst; the first load of a page apart, as nothing is known then. Paint: first contentful paint in Chromium, the
median of five loads, where `make test-browser` has installed playwright. Goal: a paint within 300 ms; what the start page takes, for
which nothing is read, is the browser's and the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import random
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from msgspec.structs import replace
from sqlalchemy import select

from benchmarks.load.processes import free_port
from benchmarks.records import make_record
from proxy.admin.reports import panels_of
from proxy.stages.registry import STAGES
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures, RollupBuilder, total
from proxy.store.records import to_row
from proxy.store.rollups import Due
from proxy.store.tables import records as table
from proxy.store.tables import rollups

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).resolve().parent / "results" / "dashboard_scale.json"
NODE = ROOT / "tests" / "browser" / "node"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
GOAL_MS, ROUNDS, FIGURES_S = 300.0, 9, 900.0
DAYS, RUN, KINDS = 30, 20, 997
BATCH, LONG_RUN = 1_000_000, 200
SHARES = {"upstream_error": 0.02, "block": 0.06, "warn": 0.15, "unsure": 0.35, "pass": 1.0}
"""Of verdicts, added up."""
DECIDED = """
insert into feedback (id, record_id, client, policy, stage, place, label, said, expected, said_by, note, content, size_bytes, created_at,
                      record_findings)
select 'fb_' || id, id, client, policy, 'claims', '0:0-31', 'unsupported', case when status = 400 then 'right' else 'wrong' end, '',
       'admin', '', x'7b7d', 100, created_at, 1
from (select * from records where outcome in ('unsure', 'warn', 'block') order by created_at desc limit 3000) as newest
"""
CONFIG = """
server: {{port: {port}}}
store: {{url: 'sqlite+aiosqlite:///{store}', retention_days: 3650}}
upstreams: {{main: {{kind: openai, base_url: 'http://127.0.0.1:9/v1', api_key: unused}}}}
routes:
  - {{prefix: '', upstream: main, policy: '{policies}/observe.yaml'}}
"""


# ---- the store ----


async def empty(path: Path) -> None:
    """With its tables."""
    database = Database(f"sqlite:///{path}")
    await database.start()
    await database.stop()


def fill(path: Path, count: int, seed: int = 7) -> None:
    """`count` exchanges, the last of them just now."""
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("PRAGMA journal_mode = OFF")
        base.execute("PRAGMA synchronous = OFF")
        base.execute("PRAGMA cache_size = -1000000")  # KiB: indexes are sorted in memory for the most part
        indexes = base.execute(
            "select name, sql from sqlite_master where type = 'index' and tbl_name = 'records' and sql is not null"
        ).fetchall()
        for name, _ in indexes:
            base.execute(f"drop index {name}")
        names = [column.name for column in table.columns]
        base.execute("create temp table kinds as select 0 as kind, * from records limit 0")
        base.executemany(f"insert into kinds values ({', '.join('?' * (len(names) + 1))})", _kinds(random.Random(seed)))
        base.execute("create unique index temp.by_kind on kinds (kind)")
        chosen = ", ".join(
            _made(count, "printf('{}', {})", "printf('gw_%014x%012x', cast(({at}) * 1e6 as integer), n)").get(n, n) for n in names
        )
        for first in range(0, count, BATCH):
            last = min(first + BATCH, count) - 1
            base.execute(
                f"with recursive numbers(n) as (select {first} union all select n + 1 from numbers where n < {last}) "
                f"insert into records select {chosen} from numbers join kinds on kind = (n * 7919) % {KINDS}"
            )
            base.commit()
            print(f"\r{last + 1:,} of {count:,} exchanges", end="", flush=True)
        for name, made_by in indexes:
            print(f"\rindex {name}                    ", end="", flush=True)
            base.execute(made_by)
        base.execute("analyze")
        base.execute(DECIDED)
        print(f"\r{count:,} exchanges, {path.stat().st_size / 1e9:.1f} GB             ")


def _kinds(source: random.Random) -> list[tuple[Any, ...]]:
    found = []
    for number in range(KINDS):
        drawn = source.random()
        outcome = next(name for name, share in SHARES.items() if drawn < share)
        labels = source.choices(("supported", "unsure"), (3, 1), k=3)
        labels = {"pass": ["supported"] * 3, "warn": [*labels[:2], "unsupported"], "block": [*labels[:2], "contradicted"]}.get(
            outcome, labels
        )
        if outcome == "unsure" and "unsure" not in labels:
            labels[-1] = "unsure"
        housekeeping = outcome == "warn" and source.random() < 0.5
        if housekeeping:
            labels = ["supported"] * 3
        own = make_record(source, number)
        checked = outcome != "upstream_error"
        record = replace(
            own,
            outcome=outcome,
            status={"upstream_error": 502, "block": 400}.get(outcome, 200),
            reason={
                "upstream_error": "upstream_502",
                "block": "hallucination_detected",
                "warn": "context_usage_high" if housekeeping else "claims_unsupported",
                "unsure": "claims_unsure",
            }.get(outcome, ""),
            route=source.choice(("", "/rag", "/agent")),
            policy=source.choice(("rag@0123abcd", "rag@89abcdef", "default@0123abcd", "agent@0123abcd")),
            model=f"model-{source.randrange(5)}",
            client=f"key-{int(40 * source.random() ** 2)}",
            overhead_ms=2.0 + source.random() * 5,
            cost_usd=0.001 * source.random(),
            detail=_checked(source, own.detail, outcome, labels) if checked else own.detail,
        )
        found.append((number, *to_row(record)))
    return found


def _checked(source: random.Random, detail: dict[str, Any], outcome: str, labels: list[str]) -> dict[str, Any]:
    """The detail with what `claims` says; the statements themselves where one of them is not supported."""
    scores = [round({"supported": 0.9, "unsure": 0.5}.get(label, 0.1) + source.uniform(-0.1, 0.1), 3) for label in labels]
    claims = [
        {
            "choice": 0,
            "text": f"The tower was built in {source.randrange(1800, 2000)}.",
            "span": [i * 40, i * 40 + 31],
            "label": label,
            "score": score,
            "evidence": {"source": "a page", "text": f"It was built from {source.randrange(1800, 2000)} on."},
        }
        for i, (label, score) in enumerate(zip(labels, scores, strict=True))
    ]
    bad = [label for label in labels if label != "supported"]
    verdicts = [dict(one) for one in detail["verdicts"]]
    for one in verdicts:
        if one["stage"] == "claims":
            one |= {"outcome": outcome if bad else "pass", "detail": {"claims": claims} if bad else {"checked": len(labels)}}
        if one["stage"] == "budget" and not bad and outcome == "warn":
            one |= {"outcome": "warn", "code": "context_usage_high"}
    facts = {
        "faithfulness": round(sum(scores) / len(scores), 3),
        "claims": {label: labels.count(label) for label in ("supported", "contradicted", "unsupported", "unsure")},
        "quality": round(0.5 + sum(scores) / len(scores) / 2, 3),
    }
    return detail | {"verdicts": verdicts, "facts": facts}


def _made(count: int, hexadecimal: str, id_of: str) -> dict[str, str]:
    """What differs from one exchange to the next, as SQL of its number `n`; `id_of` has its time as ``{at}``."""
    at = f"{time.time() - 60.0!r} - ({count} - n) * {DAYS * 86_400.0 / count!r}"
    rare = f"n between {count // 30} and {count * 7 // 30} and n % {max(count // 500, 1)} = 5"
    return {
        "id": id_of.format(at=at),
        "created_at": at,
        "run_id": f"case when n >= {count - LONG_RUN} then 'run_long' else {hexadecimal.format('run_%016x', f'n / {RUN}')} end",
        "step_id": f"cast(n % {RUN} + 1 as text)",
        "policy": f"case when {rare} then 'rare@0123abcd' else policy end",
        "upstream": f"case when {rare} then 'rare' else upstream end",
    }


async def add_up(path: Path, copy: bool) -> float:
    """Seconds until the sums of all exchanges are kept; with `copy` an hour's and a day's stand for all, as the exchanges repeat."""
    database = Database(f"sqlite:///{path}")
    await database.start()
    began = time.monotonic()
    figures = DatabaseFigures(database, panels_of(STAGES))
    if copy:
        await copy_sums(database, figures)
    await RollupBuilder(figures, busy_share=1.0).run_once()
    await database.stop()
    return time.monotonic() - began


async def copy_sums(database: Database, figures: DatabaseFigures) -> None:
    """Rows of all hours and days but the last ones, with the sums of one hour, added up, and of 24 such."""
    kept, now = figures.rollups, database.clock()
    await kept.begin(now)
    while await kept.mark_past():
        pass
    hour = await figures.sums(int(now // 3600 - 50) * 3600, 3600)
    for seconds, whole in ((3600, hour), (86_400, total([hour] * 24))):
        old = (rollups.c.seconds == seconds, rollups.c.start < now - seconds - 7200, rollups.c.built == 0)
        async with database.transaction() as connection:
            found = (await connection.execute(select(rollups.c.start, rollups.c.version).where(*old))).all()
        for start, version in found:
            assert whole is not None
            await kept.put(Due(seconds, start, version), whole, now)


# ---- the server and its pages ----


class Serving:
    """`groundwire serve` over a store."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        config = folder / "config.yaml"
        config.write_text(CONFIG.format(port=self.port, store=store, policies=ROOT / "policies"), encoding="utf-8")
        command = [sys.executable, "-m", "proxy", "serve", "--config", str(config)]
        self._process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=(folder / "log").open("w"))

    def __enter__(self) -> Serving:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=5).close()
                return self
            except OSError:
                time.sleep(0.2)
        raise SystemExit("the server did not come up")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)

    def get(self, path: str, timeout_s: float = 120.0) -> tuple[float, str]:
        """Milliseconds, and the page."""
        began = time.perf_counter()
        asked = urllib.request.Request(self.url + path, headers={"accept": "text/html" if path == "/" else "*/*"})
        with urllib.request.urlopen(asked, timeout=timeout_s) as answer:
            text = answer.read().decode()
        return (time.perf_counter() - began) * 1000, text


def pages(serving: Serving) -> dict[str, str]:
    """Name and path of what is looked at."""
    rows = json.loads(serving.get("/groundwire/v1/records?limit=1")[1])["data"]
    newest, run = rows[0]["id"], rows[0]["run_id"]
    now = time.time()
    before = json.loads(serving.get(f"/groundwire/v1/records?limit=1&until={now - 10 * 86_400:.0f}")[1])["data"]
    old_run = before[0]["run_id"]
    old = f"{now - 15 * 86_400:.3f}~gw_"
    minute = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(now - 12 * 86_400))

    def listed(**query: str) -> str:
        return f"/dashboard/exchanges?{urlencode(query)}"

    return {
        "start page, nothing read": "/",
        "overview, day": "/dashboard",
        "overview, month": "/dashboard?span=month",
        "exchanges": listed(),
        "exchanges, 15 days back": listed(after=old),
        "exchanges, refused or warned": listed(verdict="caught"),
        "exchanges of a client": listed(client="key-39"),
        "exchanges, before a time": listed(until=minute, status="5xx"),
        "exchanges, none like that": listed(client="nobody"),
        "exchanges, nobody could decide": listed(verdict="undecided"),
        "exchanges, problems": listed(verdict="problem"),
        "exchanges, housekeeping": listed(verdict="housekeeping"),
        "exchanges of a policy": listed(policy="rag"),
        "exchanges of a policy of one in 200,000": listed(policy="rare"),
        "exchanges of a policy that is nowhere": listed(policy="nobodys"),
        "exchanges of an upstream of one in 200,000": listed(upstream="rare"),
        "exchanges, a stage that found something": listed(stage="claims"),
        "exchanges, a stage that found nothing": listed(stage="poisoning"),
        "exchanges, a statement contradicted": listed(label="contradicted"),
        "exchanges, faithfulness below 0.4": listed(faithfulness="0.4"),
        "exchanges, none so unfaithful": listed(faithfulness="0.01"),
        "exchanges, least faithful first": listed(sort="faithfulness"),
        "exchanges of a policy, least faithful first": listed(sort="faithfulness", policy="rag"),
        "review queue": "/dashboard/review",
        "review queue, one stage": "/dashboard/review?only=claims",
        "review queue, a stage without findings": "/dashboard/review?only=citations",
        "review queue, least certain first": "/dashboard/review?order=unsure",
        "compare policies, day": "/dashboard/compare?by=policy&a=rag&b=agent",
        "compare policies, month": "/dashboard/compare?by=policy&a=rag&b=agent&span=month",
        "compare models, month": "/dashboard/compare?by=model&a=model-0&b=model-1&span=month",
        "compare with a rare policy, month": "/dashboard/compare?by=policy&a=rag&b=rare&span=month",
        "exchange": f"/dashboard/records/{newest}",
        "run of 20 turns": f"/dashboard/runs/{old_run}",
        "run of 200 turns": f"/dashboard/runs/{run}",
        "failures": "/dashboard/failures",
        "quarantine": "/dashboard/quarantine",
        "clashes": "/dashboard/clashes",
    }


def figures(serving: Serving) -> dict[str, float]:
    """Seconds that the figures take which the overview fetches after it is painted: the first time, and again."""
    found = {}
    for span in ("hour", "day", "week", "month"):
        found[span], found[f"{span}, again"] = (serving.get(f"/dashboard/figures?span={span}", FIGURES_S)[0] / 1000 for _ in range(2))
        print(f"figures of a {span}: {found[span]:.1f} s, again {found[f'{span}, again']:.1f} s", flush=True)
    return found


def paints(url: str, paths: list[str]) -> list[float]:
    """Milliseconds until the first contentful paint of each, the median of five loads; none without a browser."""
    chromium = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if chromium is None or not (NODE / "node_modules/playwright-core").is_dir():
        print("no Chromium, or no playwright-core (make test-browser installs it): no paint")
        return []
    with tempfile.TemporaryDirectory() as profile:
        given = {"chromium": chromium, "artefacts": profile, "profile": f"{profile}/p", "url": url, "paths": paths}
        done = subprocess.run(["node", str(NODE / "cases.mjs"), "paints", json.dumps(given)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: list[float] = json.loads(done.stdout)["found"]["paints"]
    return found


def measure(serving: Serving, with_paint: bool) -> dict[str, Any]:
    """Everything, printed as it is found."""
    found: dict[str, Any] = {"pages": {}}
    looked = pages(serving)
    print("page | first load ms | median ms | worst ms")
    for name, path in looked.items():
        first, *rest = (serving.get(path)[0] for _ in range(ROUNDS + 1))
        found["pages"][name] = {"first_ms": first, "median_ms": statistics.median(rest), "worst_ms": max(rest)}
        print(f"{name} | {first:.0f} | {statistics.median(rest):.0f} | {max(rest):.0f}", flush=True)
    if with_paint and (painted := paints(serving.url, list(looked.values()))):
        for name, ms in zip(looked, painted, strict=True):
            found["pages"][name]["paint_ms"] = ms
            print(f"paint of {name}: {ms:.0f} ms, {ms - painted[0]:.0f} more than of the start page{'' if ms < GOAL_MS else ' (MISSED)'}")
    found["figures_s"] = figures(serving)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000_000, help="how many exchanges (default: 20 million)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the store stays")
    parser.add_argument(
        "--copy-sums", action="store_true", help="an hour's sums stand for every hour: saves up to an hour, changes no page"
    )
    parser.add_argument("--no-paint", action="store_true", help="without a browser")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / f"{given.records}.db"
        if not store.is_file():
            asyncio.run(empty(store))
            fill(store, given.records)
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        added_s = asyncio.run(add_up(store, given.copy_sums))
        print(f"the sums are added up in {added_s:.0f} s", flush=True)
        found = measure(stack.enter_context(Serving(folder, store)), not given.no_paint)
    found |= {
        "added_up_s": added_s,
        "records": given.records,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": os.getloadavg(),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
