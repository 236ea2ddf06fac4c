"""The requests of the load benchmark: deterministic, so that two runs send the same bytes."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

from benchmarks.load import agent_texts

MODEL = "gpt-4o"  # its tokenizer is public: the budget stage really counts
SEED = 20240607
LARGE_MESSAGES = 200
AGENT_BYTES = 204_000
IMAGE_FROM_BYTES = 50_000
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


def agent(*, stream: bool = False) -> bytes:
    """An agent's conversation of 204 KB, with its calls and their results: texts of code, diffs, JSON, logs, and prose in four scripts."""
    return _body(agent_messages(), stream)


def agent_of(size: int) -> bytes:
    """The same conversation, `size` bytes of it; from 50 KB on its last user message brings a screenshot, a third of all bytes."""
    if size < IMAGE_FROM_BYTES:
        return _body(agent_messages(size), stream=False)
    picture = base64.b64encode(random.Random(SEED).randbytes(size // 4)).decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}
    parts = [{"type": "text", "text": "What is wrong here?"}, image]
    return _body([*agent_messages(size - len(picture)), {"role": "user", "content": parts}], stream=False)


def agent_messages(size: int = AGENT_BYTES) -> list[dict[str, Any]]:
    """Its messages, `size` bytes as JSON."""
    rng = random.Random(SEED)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a coding agent. Read before you write.\n\n" + agent_texts.prose(rng)},
        {"role": "user", "content": agent_texts.prose(rng)},
    ]
    left = size - sum(len(_encoded(message)) for message in messages)
    while left > 0:
        name, call = f"call_{rng.randrange(16**12):012x}", {"path": rng.choice(("src/a.py", "lib/b.ts")), "text": agent_texts.code(rng)}
        function = {"name": "edit_file", "arguments": json.dumps(call)}
        asked = {"role": "assistant", "content": None, "tool_calls": [{"id": name, "type": "function", "function": function}]}
        kind = rng.choice((agent_texts.code, agent_texts.diff, agent_texts.result, agent_texts.result, agent_texts.logs))
        messages += [asked, {"role": "tool", "tool_call_id": name, "content": kind(rng)}]
        if rng.random() < 0.3:
            messages += [{"role": "assistant", "content": agent_texts.prose(rng)}, {"role": "user", "content": agent_texts.prose(rng)}]
        left = size - len(_encoded(messages))
    return messages


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


def _body(messages: list[dict[str, Any]], stream: bool) -> bytes:
    request: dict[str, object] = {"model": MODEL, "temperature": 0.2, "max_tokens": 256, "messages": messages}
    if stream:
        request["stream"] = True
    return _encoded(request)


def _encoded(value: object) -> bytes:
    """As OpenAI's library sends it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
