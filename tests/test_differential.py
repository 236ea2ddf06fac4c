"""Through ``tap`` with an empty policy, an upstream's answer is byte for byte what a client gets without the proxy."""

import json
from typing import Any

import aiohttp
import pytest

from proxy.testing import ScriptedReply, chunk, completion, reply, stream, streamed
from tests.conftest import CHAT, Start

TEXTS = ["Hello.", "", "Größe, 漢字, 🙂 and \u2028", '{"a": [1, 2.50]}', 'line\nline\r\n\ttab \\ " quote', "<b>&amp;</b>", "x" * 70_000]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


def variant(**message: Any) -> dict[str, Any]:
    body = completion("x")
    body["choices"][0]["message"] |= message
    return body


def whole_answers() -> list[tuple[str, ScriptedReply]]:
    bodies: list[tuple[str, object]] = [(f"text {i}", completion(text)) for i, text in enumerate(TEXTS)]
    bodies += [
        ("tool calls", variant(content=None, tool_calls=[CALL, {**CALL, "id": "c2"}])),
        ("legacy function", variant(content=None, function_call={"name": "f", "arguments": "{}"})),
        ("refusal", variant(content=None, refusal="I cannot.")),
        ("reasoning_content", variant(reasoning_content="because")),
        ("reasoning", variant(reasoning="because", reasoning_details=[{"type": "x"}])),
        ("annotations", variant(annotations=[{"type": "url_citation", "url_citation": {"start_index": 0}}])),
        ("audio", variant(audio={"id": "a", "data": "AAAA", "expires_at": 1})),
        ("n", {**completion(), "choices": [{**completion()["choices"][0], "index": i} for i in range(3)]}),
        ("null usage", completion(usage=None)),
        ("no usage", {k: v for k, v in completion().items() if k != "usage"}),
        ("big usage", completion(usage={"prompt_tokens": 10**12, "completion_tokens": 0, "x": {"y": None}})),
        ("logprobs", {**completion(), "choices": [{**completion()["choices"][0], "logprobs": {"content": [{"logprob": -0.1}]}}]}),
        ("unknown fields", completion(service_tier="flex", future={"a": [1, {"b": 2.0}]})),
        ("no choices", {"object": "something else"}),
        ("array", [1, 2]),
        ("odd spacing", b'{ "choices" : [ ] ,\n\t"id":"x" }\n'),
        ("big numbers", b'{"choices": [], "n": 12345678901234567890123, "f": 1.0E+2}'),
        ("duplicate keys", b'{"choices": [], "a": 1, "a": 2}'),
        ("escapes", b'{"choices": [], "s": "\\u00fc\\/\\ud83d\\ude42"}'),
        ("latin-1", b'{"choices": [], "s": "\xfc"}'),
        ("empty", b""),
        ("text", b"plain text"),
    ]
    found = [(name, reply(body)) for name, body in bodies]
    error = {"error": {"message": "Ü", "type": "t", "param": None, "code": None}}
    found += [
        (f"status {code}", reply(error, code, {"retry-after": "3", "x-ratelimit-remaining": "0"}))
        for code in (400, 401, 403, 404, 409, 422, 429, 500, 502, 503, 529)
    ]
    found += [
        ("html error", reply(b"<html>", 502, {"content-type": "text/html; charset=utf-8"})),
        ("201", reply(completion(), 201)),
        (
            "headers",
            reply(completion(), headers={"x-request-id": "r", "openai-version": "2020-10-01", "x-latin": "\xfc"}),
        ),
        ("problem json", reply(b"{}", 400, {"content-type": "application/problem+json"})),
    ]
    return found


def event_streams() -> list[tuple[str, ScriptedReply]]:
    usage = b'data: {"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n'
    calls = [
        chunk({"role": "assistant", "content": None}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": '{"'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"x'}}, {"index": 1, "function": {"arguments": 'y"'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}]}),
        chunk({"tool_calls": [{"function": {"arguments": ": 2}"}}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    both = [chunk({"content": w}, index=i) for w in "ab" for i in (0, 1)] + [chunk({}, "stop", index=i) for i in (0, 1)]
    plain = streamed(["Hel", "lo ", "漢字 🙂 ", "Größe"])
    joined = b"".join(plain)
    crlf = joined.replace(b"\n", b"\r\n")
    cases: list[tuple[str, list[bytes]]] = [
        ("plain", plain),
        ("in one piece", [joined]),
        ("byte by byte", [joined[i : i + 1] for i in range(len(joined))]),
        ("in sevens", [joined[i : i + 7] for i in range(0, len(joined), 7)]),
        ("crlf", [crlf]),
        ("crlf cut between", [crlf[: crlf.index(b"\r") + 1], crlf[crlf.index(b"\r") + 1 :]]),
        (
            "multi-line data",
            [b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n', b"data: [DONE]\n\n"],
        ),
        ("comments", [b": ping\n\n", *plain]),
        ("ids and retry", [b"id: 1\nretry: 100\n" + plain[0], *plain[1:]]),
        ("named events", [b"event: message\n" + event for event in plain]),
        ("byte order mark", [b"\xef\xbb\xbf" + plain[0], *plain[1:]]),
        ("no space after colon", [event.replace(b"data: ", b"data:") for event in plain]),
        ("usage chunk", [*plain[:-1], usage, plain[-1]]),
        ("null usage in chunks", [chunk({"content": "a"}, usage=None), chunk({}, "stop", usage=None), b"data: [DONE]\n\n"]),
        ("parallel tool calls", calls),
        ("two choices", [*both, b"data: [DONE]\n\n"]),
        ("refusal", [chunk({"refusal": "no"}), chunk({}, "stop"), b"data: [DONE]\n\n"]),
        ("reasoning", [chunk({"reasoning_content": "hm"}), *plain]),
        ("content and end in one", [chunk({"role": "assistant", "content": "all"}, "stop"), b"data: [DONE]\n\n"]),
        ("content filter", [chunk({}, "content_filter"), b"data: [DONE]\n\n"]),
        (
            "legacy function call",
            [chunk({"function_call": {"name": "f", "arguments": "{}"}}), chunk({}, "function_call"), b"data: [DONE]\n\n"],
        ),
        ("azure's first chunk", [b'data: {"id":"","choices":[],"prompt_filter_results":[]}\n\n', *plain]),
        ("an error event", [plain[0], b'data: {"error": {"message": "overloaded", "code": 529}}\n\n', b"data: [DONE]\n\n"]),
        ("garbage between", [b"data: {\n\n", b"nonsense\n\n", *plain]),
        ("after the end mark", [*plain, b": bye\n\n"]),
        ("long text", streamed(["word " * 2000] * 40)),
        ("nothing but the end mark", [b"data: [DONE]\n\n"]),
    ]
    return [(name, stream(chunks)) for name, chunks in cases]


CORPUS = [(name, CHAT, answer) for name, answer in whole_answers()] + [
    (f"stream: {name}", {**CHAT, "stream": True}, answer) for name, answer in event_streams()
]
OWN = ("x-groundwire-",)
NOT_COMPARED = {"connection", "transfer-encoding", "content-length", "date", "server"}
NOT_HELD_BACK = ("x-accel-buffering", "no")
"""What a stream says of its own."""
IN_SANDBOX = [("content-security-policy", "sandbox"), ("x-content-type-options", "nosniff")]
"""What is said of a page."""


async def fetch(session: aiohttp.ClientSession, url: str, body: object) -> tuple[int, bytes, list[tuple[str, str]]]:
    async with session.post(url + "/chat/completions", json=body) as response:
        headers = [(k.lower(), v) for k, v in response.headers.items()]
        return response.status, await response.read(), sorted(h for h in headers if h[0] not in NOT_COMPARED and not h[0].startswith(OWN))


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 60


async def test_every_answer_is_what_the_upstream_sent(start: Start) -> None:
    different = []
    async with start() as proxy, aiohttp.ClientSession(auto_decompress=False) as session:
        for name, body, answer in CORPUS:
            proxy.upstream.say(answer)
            direct = await fetch(session, proxy.upstream.base_url, body)
            through = await fetch(session, proxy.url + "/v1", body)
            if any(name == "content-type" and value.startswith("text/event-stream") for name, value in direct[2]):
                direct[2].append(NOT_HELD_BACK)
            if any(name == "content-type" and value.startswith("text/html") for name, value in direct[2]):
                direct[2].extend(IN_SANDBOX)
            direct[2].sort()
            if direct != through:
                different.append((name, direct[0], through[0], direct[1][:80], through[1][:80], set(direct[2]) ^ set(through[2])))
        bodies = [json.loads(call.body) for call in proxy.upstream.calls]
    assert [] == different
    assert all(a == b for a, b in zip(bodies[::2], bodies[1::2], strict=True))


@pytest.mark.parametrize(
    "body",
    [b'{"model":"m","messages":[{"role":"user","content":"\\u00fc"}],"n":1.0}', b'\n{ "model": "m", "messages": [{"role":"user"}] }'],
)
async def test_every_request_is_what_the_client_sent(start: Start, body: bytes) -> None:
    async with start() as proxy:
        await proxy.post(body)
    assert body == proxy.upstream.calls[0].body
