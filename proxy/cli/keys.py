"""``groundwire keys add | list | limit | rotate | revoke | team``: client keys in the store, whether a server runs or not.

A key's text is printed once, alone on the standard output. Servers look at the store every two seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from proxy.admin.keys import KeyBody, KeyBook, KeyParts, limits_shown, shown
from proxy.cli.report import span_s
from proxy.cli.terminal import refused
from proxy.config.conversion import checked
from proxy.config.keys import LIMITS, Limits, expiry_of
from proxy.config.settings import Settings
from proxy.errors import ConfigError, ProxyError, StoreUnavailable
from proxy.store.database import Database

_SOURCE = "command line"


def run(arguments: argparse.Namespace, settings: Settings, source: str) -> int:
    """One of the commands. Returns 2 where it is refused, or the store is away. Raises `ConfigError`."""
    if not settings.store.keys:
        raise ConfigError(source, "store.keys", "is not set, so that no server would look for keys in the store: store: {keys: true}")
    try:
        asyncio.run(_with_store(arguments, settings, source))
    except (StoreUnavailable, ProxyError) as error:
        return refused(str(error))
    return 0


async def _with_store(arguments: argparse.Namespace, settings: Settings, source: str) -> None:
    database = Database(settings.store.url, source=source)
    await database.start()
    try:
        prefixes = tuple(route.prefix for route in settings.routes)
        await _do(arguments, KeyBook(database, KeyParts(settings.keys, settings.teams, prefixes, stored=True)))
    finally:
        await database.stop()


async def _do(arguments: argparse.Namespace, book: KeyBook) -> None:
    name = getattr(arguments, "name", "")
    match arguments.keys_command:
        case "add":
            given = {"name": name, "team": arguments.team, "routes": arguments.route, "models": arguments.model}
            more = {"expires": _expiry(arguments.expires), "limits": msgspec.to_builtins(_limits(arguments))}
            _, text = await book.add(checked(given | more, KeyBody, _SOURCE))
            _show(name, text)
        case "list":
            await _list(book, as_json=arguments.json)
        case "limit":
            await book.set_limits(name, _limits(arguments))
        case "rotate":
            _, text = await book.rotate(name, span_s(arguments.overlap, "--overlap"))
            _show(name, text)
        case "revoke":
            await book.revoke(name)
        case "team":
            await book.set_team(name, _limits(arguments))


def _show(name: str, text: str) -> None:
    print(text)
    print(f"groundwire: this is the key of {name}, shown only now; it works at once", file=sys.stderr)


async def _list(book: KeyBook, *, as_json: bool) -> None:
    rows, teams = await book.all()
    if as_json:
        data = [shown(row.key) | {"status": row.status, "spent_usd": row.spent.usd, "requests": row.spent.requests} for row in rows]
        every = [{"object": "team", "name": name, "limits": limits_shown(limits)} for name, limits in teams.items()]
        print(msgspec.json.format(msgspec.json.encode([*data, *every])).decode())
        return
    for row in rows:
        spent = f"{row.spent.requests:,} requests, {row.spent.usd:.2f} USD"
        print("\t".join((row.key.name, row.status, row.key.team or "-", _words(row.key.limits), spent)))
    for name, limits in teams.items():
        print("\t".join((name, "team", "-", _words(limits))))


def _words(limits: Limits) -> str:
    return " ".join(f"{name}={value:g}" for name, value in limits_shown(limits).items()) or "no limits"


def _limits(arguments: argparse.Namespace) -> Limits:
    return checked({name: value for name in LIMITS if (value := getattr(arguments, name)) is not None}, Limits, _SOURCE)


def _expiry(text: str) -> str:
    """``30d`` from now as a time; another text as it is. Raises `ConfigError` for a time that is over."""
    try:
        seconds = span_s(text, "--expires")
    except ConfigError:
        with suppress(ValueError):  # no time at all: whoever takes the key says so
            if expiry_of(text) <= datetime.now(UTC).timestamp():
                raise ConfigError(_SOURCE, "--expires", f"{text} is over: the key would work nowhere") from None
        return text
    return datetime.fromtimestamp(datetime.now(UTC).timestamp() + seconds, UTC).isoformat(timespec="seconds") if text else ""
