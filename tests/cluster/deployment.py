"""What `deploy/` says, for processes on this machine: the same commands and files, with other addresses and folders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def compose() -> dict[str, Any]:
    """compose.yaml, its anchors resolved."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return found


def services() -> dict[str, dict[str, Any]]:
    """Its services, by name."""
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def dockerfile() -> dict[str, list[str]]:
    """The last stage's instructions, by name, each with its arguments as they stand."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text[text.rindex("\nFROM ") :].splitlines():
        if match := re.match(r"([A-Z]+) +(.*)", line):
            found.setdefault(match[1], []).append(match[2].strip())
    return found


def command(service: str) -> list[str]:
    """What a service runs: its own command, or its image's."""
    own = services()[service].get("command")
    return list(own) if own else list(json.loads(dockerfile()["CMD"][-1]))


def environment(service: str, values: Mapping[str, str]) -> dict[str, str]:
    """A service's environment with ``${…}`` filled from `values`. Raises `KeyError` for one that is needed and missing."""
    return {name: filled(str(text), values) for name, text in services()[service].get("environment", {}).items()}


def filled(text: str, values: Mapping[str, str]) -> str:
    """As compose does: ``${NAME}``, ``${NAME:-default}``, ``${NAME:?message}``."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match[1], match[2], match[3]
        return values.get(name) or rest if kind == ":-" else values[name]

    return re.sub(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}", value, text)


def moved(text: str, places: Mapping[str, str]) -> str:
    """`text` with each of `places` replaced, which must be there."""
    for old, new in places.items():
        if old not in text:
            raise LookupError(f"{old!r} does not stand there")
        text = text.replace(old, new)
    return text
