"""A provider that answers as its request asks: text, tools, JSON, errors, whole or streamed. Its constants are what clients must get."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from collections.abc import Iterator
from itertools import chain, zip_longest
from typing import Any

from proxy.testing import ReceivedCall, completion, reply
from tests.clients import tasks
from tests.clients.asked import Asked

TEXT = "Grüße aus Zürich! It is 21.5 °C there, i.e. warm. 漢字 and 🌤️ pass too. Is that all? Yes."
SECOND = "Another choice. It says something else."
HELLO = "Say hello"
"""A question for no tool."""
REASONING = "The user greets. I greet back."
REPORT = {"city": "Zürich", "degrees": 21.5}
REPORT_JSON = json.dumps(REPORT, ensure_ascii=False)
USAGE = {"prompt_tokens": 31, "completion_tokens": 17, "total_tokens": 48}
EMBEDDINGS = ((0.5, -0.25, 0.125), (1.0, 0.0, -2.0))
MODELS = ("gpt-4o", "gpt-4o-mini")
CITIES = ("Zürich", "Oslo")
LOGPROBS = (("Grüße", -0.125), (" aus Zürich!", -0.5), (" Ja.", -0.0625))
PIECE_BYTES = 23
"""Length of the pieces that a stream is written in: it ends inside events and inside characters."""
HEAD = {
    "id": "chatcmpl-test",
    "created": 1700000000,
    "model": "gpt-4o-2024-08-06",
    "system_fingerprint": "fp_test",
    "service_tier": "default",
}
_flaky: set[str] = set()


async def answer(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """The reply to any call, as a `proxy.testing.ScriptedReply`."""
    path = call.path.partition("?")[0]
    if path == "/v1/models":
        models = [{"id": name, "object": "model", "created": 1700000000, "owned_by": "test"} for name in MODELS]
        await reply({"object": "list", "data": models})(writer, call)
    elif path == "/v1/embeddings":
        await reply(_embeddings(call.json))(writer, call)
    elif path == "/v1/chat/completions":
        await _chat(writer, call)
    else:
        await reply(_error(f"no such path: {path}", "not_found"), 404)(writer, call)


async def _chat(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    body: dict[str, Any] = call.json
    model: str = body["model"]
    limited = {"retry-after": "7", "x-request-id": "req_limited"}
    if model == "limited":
        await reply(_error("Rate limit reached", "rate_limit_exceeded"), 429, limited)(writer, call)
    elif model.startswith("flaky") and model not in _flaky:
        _flaky.add(model)
        await reply(_error("Try again", "rate_limit_exceeded"), 429, {"retry-after-ms": "1"})(writer, call)
    elif model == "refused":
        await reply(_error("Unsupported value: 'temperature'", "unsupported_value", "temperature"), 400)(writer, call)
    elif not body.get("stream"):
        choices = [_choice(i, said) for i, said in enumerate(_answers(body))]
        await reply(completion(**{**HEAD, "choices": choices, "usage": USAGE}), headers={"x-request-id": "req_test"})(writer, call)
    else:
        await _stream(writer, body)


def _answers(body: dict[str, Any]) -> list[dict[str, Any]]:
    """One assistant message for each choice asked for."""
    first = _of_task(body) or _calls(body) or {"content": _text(body)}
    if body.get("logprobs"):
        first = {"content": "".join(token for token, _ in LOGPROBS), "logprobs": [_logprob(*pair) for pair in LOGPROBS]}
    if body["model"] == "reasoner":
        first["reasoning_content"] = REASONING
    return [first, *({"content": SECOND} for _ in range(1, body.get("n") or 1))]


def _of_task(body: dict[str, Any]) -> dict[str, Any] | None:
    """What the model of `tests.clients.tasks` says or calls; None where another question was asked."""
    if not any(message["role"] == "user" for message in body["messages"]):
        return None
    question = asked(body)
    if not question.tools:
        step: Any = tasks.edit(question.question, question.results)
    else:
        step = tasks.step(question.question, question.tools, len(question.results), question.results)
    return {"content": step} if isinstance(step, str) else _calling(step, str(len(question.results))) if step else None


def asked(body: dict[str, Any]) -> Asked:
    """A request as the model reads it; where no tools are offered, what users said before stands for results."""
    messages = body["messages"]
    asks = [i for i, message in enumerate(messages) if message["role"] == "user"]
    names = tuple(tool["function"]["name"] for tool in body.get("tools") or () if tool.get("type") == "function")
    since = [message for message in messages[asks[-1] :] if message["role"] == "tool"] if names else [messages[i] for i in asks[:-1]]
    return Asked(_plain(messages[asks[-1]]["content"]), names, (), tuple(_plain(message["content"]) for message in since))


def _calling(wanted: list[tuple[str, dict[str, Any]]], turn: str = "") -> dict[str, Any]:
    """A message that calls."""
    calls = [
        {
            "id": f"call_{turn}{i}_{name}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for i, (name, arguments) in enumerate(wanted)
    ]
    return {"content": None, "tool_calls": calls}


def _text(body: dict[str, Any]) -> str:
    last = body["messages"][-1]
    said = _plain(last.get("content"))
    if last["role"] in ("tool", "function"):
        results = [_plain(m["content"]) for m in body["messages"] if m["role"] == last["role"]]
        return " ".join(f"The tool said: {result}." for result in results)
    if (body.get("response_format") or {}).get("type", "text") != "text":
        return REPORT_JSON
    return said if said.startswith("Echo ") else TEXT


def _calls(body: dict[str, Any]) -> dict[str, Any] | None:
    """The tool calls of a message, where the request offers tools and waits for a call."""
    names = [tool["function"]["name"] for tool in body.get("tools") or () if tool.get("type") == "function"]
    choice = body.get("tool_choice") or "auto"
    if not names or choice == "none" or HELLO in _plain(body["messages"][-1].get("content")):
        return None
    answered = body["messages"][-1]["role"] == "tool"
    other = [name for name in names if name != "get_weather"]
    if isinstance(choice, dict):
        wanted = [(choice["function"]["name"], REPORT)]
    elif "get_weather" in names and not answered:
        question = _plain(next(m for m in reversed(body["messages"]) if m["role"] == "user")["content"])
        wanted = [("get_weather", {"city": city}) for city in CITIES if city in question]
    else:
        wanted = [(name, REPORT) for name in other[:1]]
    return _calling(wanted) if wanted else None


def _choice(index: int, said: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "refusal": None, "annotations": [], **{k: v for k, v in said.items() if k != "logprobs"}}
    logprobs = {"content": said["logprobs"], "refusal": None} if "logprobs" in said else None
    return {"index": index, "message": message, "logprobs": logprobs, "finish_reason": "tool_calls" if "tool_calls" in said else "stop"}


async def _stream(writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
    usage = bool((body.get("stream_options") or {}).get("include_usage"))
    events = [_event(payload, usage) for payload in _deltas(_answers(body), body["model"] == "interleaver")]
    if usage:
        events.append(_event({"choices": [], "usage": USAGE}, usage))
    broken = body["model"] == "breaks"
    if broken:
        events = events[: len(events) // 2]
    elif body["model"] == "fails":
        events = [*events[: len(events) // 2], f"data: {json.dumps(_error('The server had an error', 'server_error'))}\n\n"]
    data = ("".join(events) + ("" if broken else "data: [DONE]\n\n")).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\nx-request-id: req_test\r\n\r\n"
    )
    for start in range(0, len(data), PIECE_BYTES):
        piece = data[start : start + PIECE_BYTES]
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()
        await asyncio.sleep(0)
    if broken:
        writer.close()
    else:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


def _deltas(answers: list[dict[str, Any]], interleaved: bool) -> Iterator[dict[str, Any]]:
    """The chunks of all choices, side by side as providers send them."""
    lines = [list(_line(said, interleaved)) for said in answers]
    for step in range(max(map(len, lines))):
        for index, line in enumerate(lines):
            if step < len(line):
                delta, finish, logprobs = line[step]
                yield {"choices": [{"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish}]}


def _line(said: dict[str, Any], interleaved: bool) -> Iterator[tuple[dict[str, Any], str | None, dict[str, Any] | None]]:
    """Delta, finish reason and log probabilities of one choice's chunks; calls come one after the other, or side by side."""
    calls = said.get("tool_calls")
    yield {"role": "assistant", "content": None if calls else "", "refusal": None}, None, None
    for piece in _pieces(said.get("reasoning_content", "")):
        yield {"reasoning_content": piece}, None, None
    if calls:
        parts = [_call_deltas(i, call) for i, call in enumerate(calls)]
        if interleaved:
            parts = [[part for step in zip_longest(*parts) for part in step if part]]
        for part in chain.from_iterable(parts):
            yield {"tool_calls": [part]}, None, None
    elif "logprobs" in said:
        for entry in said["logprobs"]:
            yield {"content": entry["token"]}, None, {"content": [entry], "refusal": None}
    else:
        for piece in _pieces(said["content"]):
            yield {"content": piece}, None, None
    yield {}, "tool_calls" if calls else "stop", None


def _call_deltas(index: int, call: dict[str, Any]) -> list[dict[str, Any]]:
    """A tool call as it streams: its id and name, then its arguments in parts."""
    function = call["function"]
    head = {"index": index, **call, "function": {**function, "arguments": ""}}
    return [head, *({"index": index, "function": {"arguments": part}} for part in _pieces(function["arguments"]))]


def _pieces(text: str) -> Iterator[str]:
    """`text` in parts of 1 to 7 characters, as tokens would cut it."""
    start = 0
    while start < len(text):
        length = 1 + start * 5 % 7
        yield text[start : start + length]
        start += length


def _event(payload: dict[str, Any], usage: bool) -> str:
    chunk = {**HEAD, "object": "chat.completion.chunk", **({"usage": None} if usage else {}), **payload}
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"


def _logprob(token: str, value: float) -> dict[str, Any]:
    return {"token": token, "logprob": value, "bytes": list(token.encode()), "top_logprobs": []}


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    inputs = [body["input"]] if isinstance(body["input"], str) else body["input"]
    vectors: list[Any] = [list(EMBEDDINGS[i % 2]) for i in range(len(inputs))]
    if body.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    return {"object": "list", "data": data, "model": body["model"], "usage": {"prompt_tokens": 4, "total_tokens": 4}}


def _error(message: str, code: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def _plain(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content or "")
