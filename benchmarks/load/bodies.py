"""The requests of the load benchmark: deterministic, so that two runs send the same bytes."""

from __future__ import annotations

import json
import random

MODEL = "gpt-4o"  # its tokenizer is public: the budget stage really counts
SEED = 20240607
LARGE_MESSAGES = 200
_LARGE_MESSAGE_BYTES = 986  # 200 of them make 204 KB, about 50,000 tokens
_NUMBERS = 0.2  # share of words that are order numbers: with them 204 KB are about 50,000 tokens, o200k_base
_TEXT = (
    "the report says that a service on this machine reads every order once and writes its result to the ledger before the next "
    "batch starts while an operator watches queue length latency and error counts because a late answer costs more than a slow "
    "one so please compare both runs explain what changed between them and list the customers whose invoices need another look "
    "temperature warehouse 42 1987 delivery Hamburg refund policy schedule engine contract version password-reset API timeout"
)
_WORDS = _TEXT.split()


def small(*, stream: bool = False) -> bytes:
    """About 300 bytes: a system prompt and one question."""
    return _body(
        [
            {"role": "system", "content": "You are a helpful assistant. Answer briefly and say when you do not know."},
            {"role": "user", "content": "Which of our two warehouses ships faster to Hamburg, and what does it cost per parcel?"},
        ],
        stream,
    )


def large(*, stream: bool = False) -> bytes:
    """A conversation of 200 messages, about 204 KB and 50,000 tokens."""
    text = random.Random(SEED)
    roles = ["system"] + ["user", "assistant"] * (LARGE_MESSAGES // 2)
    return _body([{"role": role, "content": _prose(text)} for role in roles[: LARGE_MESSAGES - 1]] + [_last(text)], stream)


def _last(text: random.Random) -> dict[str, str]:
    return {"role": "user", "content": _prose(text)}


def _prose(text: random.Random) -> str:
    words: list[str] = []
    length = 0
    while length < _LARGE_MESSAGE_BYTES:
        words.append(_order_number(text) if text.random() < _NUMBERS else text.choice(_WORDS) + ("." if text.random() < 0.07 else ""))
        length += len(words[-1]) + 1
    return " ".join(words)


def _order_number(text: random.Random) -> str:
    return f"{text.choice('ABCDEFGHKMNPRSTUVWXYZ')}{text.choice('ABCDEFGHKMNPRSTUVWXYZ')}-{text.randrange(10_000, 99_999)}"


def _body(messages: list[dict[str, str]], stream: bool) -> bytes:
    request: dict[str, object] = {"model": MODEL, "temperature": 0.2, "max_tokens": 256, "messages": messages}
    if stream:
        request["stream"] = True
    return json.dumps(request, separators=(",", ":")).encode()
