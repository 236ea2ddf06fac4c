"""Conversations for the tests of the summaries."""

import json

TRIP = [
    {"role": "system", "content": "You book trips. The hotline is +1 555 0100."},
    {"role": "user", "content": "Hi! I need a trip from Berlin to Lisbon for 2 people on 2026-05-20. My id is mia_li_3668."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_a1",
                "type": "function",
                "function": {"name": "search_flights", "arguments": '{"from": "BER", "to": "LIS", "date": "2026-05-20"}'},
            }
        ],
    },
    {
        "role": "tool",
        "tool_call_id": "call_a1",
        "content": json.dumps(
            [
                {"flight_number": "HAT012", "price": 1240.5, "seats": {"economy": 3, "business": 0}},
                {"flight_number": "HAT099", "price": 310, "seats": {"economy": 9, "business": 2}},
            ]
        ),
    },
    {"role": "assistant", "content": "I found HAT012 for $1,240.50 and HAT099 for $310. Which one would you like?"},
    {"role": "user", "content": "I don't want to fly before 11:00. Also I prefer aisle seats. Let's go with HAT099."},
    {"role": "assistant", "content": "Done: HAT099 is booked under reservation ZFA04Y. You still need to upload both passports."},
    {"role": "user", "content": "Great. The weather has been lovely lately, hasn't it?"},
    {"role": "assistant", "content": "Yes, it has been wonderful."},
]


def words(text: str) -> int:
    """A token a word."""
    return len(text.split())


def user(text: str) -> dict[str, str]:
    """A user message."""
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    """An assistant message."""
    return {"role": "assistant", "content": text}
