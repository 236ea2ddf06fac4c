"""The table of docs/guides/connect.md, from what ``python -m tests.clients.agents`` has written: agents with the proxy and without."""

from __future__ import annotations

import json
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "agents.json"


def table() -> str | None:
    """Turns, and prompt tokens of all turns, of each agent before the provider itself and under two policies."""
    if not RESULTS.exists():
        return None
    lines = ["| agent | turns | prompt tokens, direct | `default` | `agent` |", "| --- | --- | ---: | ---: | ---: |"]
    for name, figures in json.loads(RESULTS.read_text("utf-8")).items():
        direct, *through = figures["tokens"]
        turns = ", ".join(map(str, figures["turns"]))
        lines.append(
            f"| {name} | {turns} | {direct:,} | " + " | ".join(f"{100 * (tokens / direct - 1):+.1f}%" for tokens in through) + " |"
        )
    return "\n".join(lines)
