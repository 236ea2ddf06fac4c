"""The pins of every lock file against a saved list of advisories: ``python -m requirements.audit``, offline, in well under a second.

In: `requirements.pins`, and ``requirements/advisories/``: one file an advisory in the OSV format (ossf.github.io/osv-schema, 1.x), as a
dump of osv.dev has them. Out: a line for each pin that an advisory affects, and for each that has no hash; exit status 1 where there
is one. A list that has not been compared with its source for long is a warning only: time alone must not break a build.

``--refresh`` asks an OSV service for all that is known of the pinned packages and writes the list anew. pip-audit has no such list: it asks
a service of the same interface about each version, and the service, not pip-audit, decides what is affected.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from requirements.pins import ROOT, LockError, Pin, declared_pins, lock_files, read_lock
from requirements.weights import packaged_pins

ADVISORIES = ROOT / "requirements" / "advisories"
LIST = "list.toml"
"""When the list was compared with its source, and with which."""
OLD_DAYS = 60
EARLIEST = Version("0.dev0")
"""What the schema means by an introduction at ``0``."""
SERVICE = "https://api.osv.dev/v1/query"
OWN = "GROUNDWIRE-"
"""Prefix of what was found out for this project and has no public record; a refresh leaves those alone."""
KEPT = ("schema_version", "id", "modified", "published", "aliases", "summary", "affected", "references")
"""Fields of a record that the list keeps; descriptions are at the source."""

Record = dict[str, Any]


def is_affected(record: Record, name: str, version: str) -> bool:
    """Whether an advisory is about this version, by the evaluation algorithm of the OSV schema. Raises ValueError for a broken range."""
    if "withdrawn" in record:
        return False
    mine = Version(version)
    for affected in record.get("affected", ()):
        package = affected.get("package", {})
        if package.get("ecosystem") != "PyPI" or canonicalize_name(package.get("name", "")) != name:
            continue
        if any(_same(text, mine) for text in affected.get("versions", ())):
            return True
        if any(_within(r["events"], mine) for r in affected.get("ranges", ()) if r["type"] == "ECOSYSTEM"):
            return True
    return False


def problems(pins: Iterable[Pin], records: Sequence[Record]) -> Iterator[str]:
    """A line for each pin that must not stay."""
    by_name: dict[str, list[Record]] = {}
    for record in records:
        for name in {canonicalize_name(affected["package"]["name"]) for affected in record.get("affected", ()) if "package" in affected}:
            by_name.setdefault(name, []).append(record)
    for pin in pins:
        if not pin.hashes and ":" in pin.where:  # a line of a lock file
            yield f"{pin.where}: {pin.name} {pin.version} has no hash: pip would install whatever the index serves under that name"
        for record in by_name.get(pin.name, ()):
            if is_affected(record, pin.name, pin.version):
                yield f"{pin.where}: {pin.name} {pin.version}: {record['id']}: {record.get('summary', '')} ({_fixes(record, pin.name)})"


def read_advisories(folder: Path) -> list[Record]:
    """Every record of the list, or of any folder of OSV files."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def refresh(folder: Path, names: Iterable[str], service: str, today: date) -> int:
    """Replace the list by what the service knows of these packages; how many records. Raises OSError."""
    records = {record["id"]: _trimmed(record) for name in sorted(set(names)) for record in _ask(service, name) if "withdrawn" not in record}
    for path in folder.glob("*.json"):
        if not path.name.startswith(OWN):
            path.unlink()
    for identifier, record in records.items():
        (folder / f"{identifier}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (folder / LIST).write_text(f'compared_on = {today.isoformat()}\nwith = "{service}"\ncomplete = true\n', encoding="utf-8")
    return len(records)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m requirements.audit", description="pins of the lock files against saved advisories")
    parser.add_argument("--advisories", type=Path, default=ADVISORIES, help="folder of OSV records")
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="ID", help="an advisory that was looked into and does not apply here"
    )
    parser.add_argument("--refresh", action="store_true", help="write the list anew from an OSV service (needs a network), then audit")
    parser.add_argument("--service", default=SERVICE, help="of --refresh")
    chosen = parser.parse_args(arguments)
    try:
        pins = [*(pin for path in lock_files() for pin in read_lock(path)), *declared_pins(), *packaged_pins()]
    except LockError as error:
        print(error)
        return 1
    today = datetime.now(tz=UTC).date()
    if chosen.refresh:
        refresh(chosen.advisories, (pin.name for pin in pins), chosen.service, today)
    records = [record for record in read_advisories(chosen.advisories) if record["id"] not in chosen.ignore]
    found = list(problems(pins, records)) if records else [f"no advisories in {chosen.advisories}: nothing was audited"]
    print("\n".join([*found, summary(len({(pin.name, pin.version) for pin in pins}), len(records), chosen.advisories, today)]))
    return 1 if found else 0


def summary(pins: int, records: int, folder: Path, today: date) -> str:
    """What was compared with what, and how old the list is."""
    line = f"{pins} pinned versions, {records} advisories"
    if not (folder / LIST).is_file():
        return line
    said = tomllib.loads((folder / LIST).read_text(encoding="utf-8"))
    age = (today - said["compared_on"]).days
    line += f", compared with {said['with']} on {said['compared_on']}" + ("" if said["complete"] else " (a selection)")
    return line if age <= OLD_DAYS else f"{line}\nwarning: the list is {age} days old: run python -m requirements.audit --refresh"


def _same(text: str, mine: Version) -> bool:
    try:
        return Version(text) == mine
    except InvalidVersion:  # older than PEP 440: nothing that a lock file has
        return False


def _within(events: Iterable[dict[str, str]], mine: Version) -> bool:
    """Where one stretch ends as the next begins, the next counts."""
    pairs = [next(iter(event.items())) for event in events]
    bounds = sorted((EARLIEST if pair == ("introduced", "0") else Version(pair[1]), pair[0] == "introduced", pair[0]) for pair in pairs)
    inside = False
    for bound, _, kind in bounds:
        if kind == "introduced" and mine >= bound:
            inside = True
        elif (kind == "fixed" and mine >= bound) or (kind == "last_affected" and mine > bound):
            inside = False
    return inside


def _fixes(record: Record, name: str) -> str:
    fixed = [
        event["fixed"]
        for affected in record["affected"]
        if canonicalize_name(affected["package"]["name"]) == name
        for r in affected.get("ranges", ())
        if r["type"] == "ECOSYSTEM"
        for event in r["events"]
        if "fixed" in event
    ]
    return f"fixed in {', '.join(fixed)}" if fixed else "no fixed version is named"


def _trimmed(record: Record) -> Record:
    kept = {key: record[key] for key in KEPT if key in record}
    kept["affected"] = [
        _trimmed_affected(affected) for affected in kept.get("affected", ()) if affected.get("package", {}).get("ecosystem") == "PyPI"
    ]
    kept["references"] = [reference for reference in kept.get("references", ()) if reference.get("type") == "ADVISORY"]
    return kept


def _trimmed_affected(affected: Record) -> Record:
    """Without the list of versions where ranges say the same."""
    ranges = [r for r in affected.get("ranges", ()) if r["type"] == "ECOSYSTEM"]
    return {"package": {"ecosystem": "PyPI", "name": affected["package"]["name"]}} | (
        {"ranges": ranges} if ranges else {"versions": affected.get("versions", [])}
    )


def _ask(service: str, name: str) -> Iterator[Record]:
    token = ""
    while True:
        query = {"package": {"ecosystem": "PyPI", "name": name}} | ({"page_token": token} if token else {})
        request = urllib.request.Request(service, json.dumps(query).encode(), {"Content-Type": "application/json"})  # noqa: S310 (the caller's choice)
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            answer = json.load(response)
        yield from answer.get("vulns", ())
        token = answer.get("next_page_token", "")
        if not token:
            return


if __name__ == "__main__":
    sys.exit(main())
