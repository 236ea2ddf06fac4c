"""The arguments of ``groundwire tail``, ``report``, ``tune``, ``alerts`` and ``keys``, for `proxy.__main__`, which has those of the others.

What the commands do is in the modules beside this one, which are imported when a command runs: they need the store.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from proxy.config.keys import LIMITS

_TAIL = """\
Follow a running server: one line for each exchange, as it ends.

A line has, as far as the screen is wide enough: the time at which the
request came, verdict, status, route, model, duration, warnings, prompt
tokens of the window, faithfulness and record id; --json has the whole
record. Into a pipe or a file a line has them all, without colour;
NO_COLOR=1 turns colour off on a terminal, too.

The admin key comes from GROUNDWIRE_ADMIN_KEY or the configuration.
"""
_TAIL_EXAMPLES = """\
examples:
  groundwire tail --verdict block
  groundwire tail --route /rag -n 50
  groundwire tail --json | jq -r 'select(.duration_ms > 5000) | .id'
"""
_REPORT = """\
Print what happened in a period, as the weekly e-mail does: what nobody could
decide, what failed, what was caught, spend, savings, what shadow mode would have
blocked, and what to tune. With --json every figure, beside that of the period
before; with --html a page. Times are in UTC.

The store is opened read-only; no server need run. With --url a running
server is asked instead, for JSON, with the admin key from
GROUNDWIRE_ADMIN_KEY or the configuration.
"""
_REPORT_EXAMPLES = """\
examples:
  groundwire report
  groundwire report --since 1w --route /rag
  groundwire report --html week.html --since 7d
  groundwire report --since 2026-01-31 --until 2026-02-01 --json | jq .figures.cost
"""


_TUNE = """\
Replay stored exchanges through another policy in shadow, and print what would
change before anybody switches: how many would be blocked, changed, warned of or
left undecided, then and now, with examples, tokens and cost.

The stored answer is checked again; no provider is asked for another one. A
policy's own judge, and any other model that a stage asks, is asked only with
--ask, since that costs. Nothing is written into the store. It needs records
with bodies (store.bodies: true, store.texts: flagged or all).

Without a policy each exchange is replayed through its route's own, which shows
how far a replay can be trusted.
"""
_TUNE_EXAMPLES = """\
examples:
  groundwire tune strict --since 1w
  groundwire tune --judge openai/gpt-6-luna --ask --limit 50
  groundwire tune policies/next.yaml --route /rag --json | jq .changes
"""


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser], config_help: str) -> dict[str, argparse.ArgumentParser]:
    """The parsers of what does something, by name."""
    described = argparse.RawDescriptionHelpFormatter
    tail = commands.add_parser(
        "tail", help="follow a running server's exchanges, a line each", description=_TAIL, epilog=_TAIL_EXAMPLES, formatter_class=described
    )
    tail.add_argument("-n", type=int, default=10, metavar="NUMBER", dest="first", help="show the last ones first (default: 10)")
    tail.add_argument("--run", metavar="ID", dest="of_run", help="only exchanges of this run")
    tail.add_argument("--verdict", help="only those that ended so: pass, unsure, unchecked, warn, block, error, upstream_error or skipped")
    tail.add_argument("--client", metavar="NAME", help="only this client's: its key's name, or hash as records show it")
    tail.add_argument("--url", help="the server's address (default: from server: of the configuration)")
    report = commands.add_parser(
        "report", help="print a period's figures", description=_REPORT, epilog=_REPORT_EXAMPLES, formatter_class=described
    )
    report.add_argument("--since", default="1d", metavar="WHEN", help="30m, 6h, 1d, 2w ago, or an ISO date or time (default: 1d)")
    report.add_argument("--until", metavar="WHEN", help="the same; not part of the period (default: now)")
    report.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs nothing else")
    report.add_argument("--url", help="ask the running server at this address, for JSON")
    tune = commands.add_parser(
        "tune",
        help="replay stored exchanges through another policy, and print what would change",
        description=_TUNE,
        epilog=_TUNE_EXAMPLES,
        formatter_class=described,
    )
    tune.add_argument("policy", nargs="?", help="a policy's name or file (default: each route's own)")
    tune.add_argument("--judge", metavar="UPSTREAM/MODEL", help="ask this chat model in place of the policy's judge")
    tune.add_argument("--since", default="1w", metavar="WHEN", help="30m, 6h, 1d, 2w ago, or an ISO date or time (default: 1w)")
    tune.add_argument("--limit", type=_positive, default=200, metavar="N", help="at most so many, the newest (default: 200)")
    tune.add_argument("--max-s", type=_positive, default=600, metavar="SECONDS", help="end after so long (default: 600)")
    tune.add_argument("--ask", action="store_true", help="ask the judge and other models that stages name: it costs")
    tune.add_argument("--examples", type=int, default=10, metavar="N", help="changes to show (default: 10)")
    for parser in (tail, report, tune):
        parser.add_argument("--route", metavar="PREFIX", help="only this route; / for the one without a prefix")
        parser.add_argument("--json", action="store_true", help="JSON, one record a line" if parser is tail else "JSON")
    alerts = commands.add_parser("alerts", help="try the channels of alerts")
    tries = alerts.add_subparsers(required=True, metavar="COMMAND").add_parser("test", help="send a test through each channel of alerts:")
    tries.add_argument("--channel", metavar="NAME", help="only this one")
    found = {"tail": tail, "report": report, "tune": tune, "test": tries}
    for parser in found.values():
        parser.add_argument("--config", type=Path, help=config_help)
    return found


def _positive(text: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 on, got {text!r}")
    return int(text)


_MEANINGS = {
    "rpm": "requests in any 60 seconds",
    "tpm": "tokens in any 60 seconds",
    "concurrent": "requests at a time",
    "usd_per_day": "USD in a day of UTC",
    "usd_per_month": "USD in a month of UTC",
}


def add_keys_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser], config_help: str) -> None:
    """Below ``keys``."""
    add = commands.add_parser("add", help="make a key; it is printed once")
    listed = commands.add_parser("list", help="keys with status, team, limits and what they spent in 30 days")
    limit = commands.add_parser("limit", help="give a key other limits; those that are not named go")
    rotate = commands.add_parser("rotate", help="another text for a key; it is printed once")
    revoke = commands.add_parser("revoke", help="end a key: within 5 s it works nowhere")
    team = commands.add_parser("team", help="give a team limits, which count for all its keys together; those that are not named go")
    for parser in (add, limit, rotate, revoke, team):
        parser.add_argument("name", help="letters, digits and ._@-, at most 100")
    add.add_argument("--team", default="", help="whose limits count, too")
    add.add_argument("--route", action="append", default=[], metavar="PREFIX", help="a route that it may use (default: all)")
    add.add_argument("--model", action="append", default=[], metavar="NAME", help="a model that it may ask for, as gpt-4o* (default: all)")
    add.add_argument("--expires", default="", metavar="WHEN", help="30d or 12h from now, or an ISO date or time (default: never)")
    listed.add_argument("--json", action="store_true", help="JSON")
    rotate.add_argument("--overlap", default="0s", metavar="TIME", help="how long the key before still works, as 1h (default: not at all)")
    for parser in (add, limit, team):
        for name in LIMITS:
            kind = float if name.startswith("usd") else int
            parser.add_argument(f"--{name.replace('_', '-')}", type=kind, dest=name, metavar="N", help=_MEANINGS[name])
    for parser in (add, listed, limit, rotate, revoke, team):
        parser.add_argument("--config", type=Path, help=config_help)
