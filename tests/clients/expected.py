"""What every client must have understood of the provider's tool calls."""

from __future__ import annotations

import json

from tests.clients.provider import CITIES

CALLS = [[f"call_{i}_get_weather", "get_weather", json.dumps({"city": city}, ensure_ascii=False)] for i, city in enumerate(CITIES)]
"""Id, name and arguments, to the byte."""
TOLD = "The tool said: 21.5 °C in Zürich. The tool said: 4 °C in Oslo."
"""The answer after the tools' results (WEATHER in scripts/cases.py)."""
WEATHER_CALLS = [["get_weather", {"city": city}] for city in CITIES]
"""Name and arguments."""
ROUND_TRIP = {"calls": WEATHER_CALLS, "results": ["21.5 °C in Zürich", "4 °C in Oslo"], "text": TOLD}
"""Of an agent that calls the tools itself."""
