"""The command line of ``groundwire keys``; what it does is in `proxy.cli.keys`, which imports the store."""

from __future__ import annotations

import argparse
from pathlib import Path

from proxy.config.keys import LIMITS

_MEANINGS = {
    "rpm": "requests in any 60 seconds",
    "tpm": "tokens in any 60 seconds",
    "concurrent": "requests at a time",
    "usd_per_day": "USD in a day of UTC",
    "usd_per_month": "USD in a month of UTC",
}


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser], config_help: str) -> None:
    """Below ``keys``."""
    add = commands.add_parser("add", help="make a key; it is printed once")
    listed = commands.add_parser("list", help="keys with status, team, limits and what they spent in 30 days")
    limit = commands.add_parser("limit", help="give a key other limits; those that are not named go")
    rotate = commands.add_parser("rotate", help="another text for a key; it is printed once")
    revoke = commands.add_parser("revoke", help="end a key: within 5 s it works nowhere")
    team = commands.add_parser("team", help="give a team limits, which count for all its keys together; those that are not named go")
    for parser in (add, limit, rotate, revoke, team):
        parser.add_argument("name")
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
