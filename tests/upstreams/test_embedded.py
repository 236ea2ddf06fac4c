"""The embedded model: what needs no model, and, marked slow, the real one."""

import asyncio
import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from proxy.config.settings import Api, EmbeddedSettings
from proxy.errors import ConfigError, UpstreamUnreachable
from proxy.ports.upstream import Call, Upstream
from proxy.upstreams.embedded import EmbeddedUpstream, _Child, envelope_from
from proxy.upstreams.embedded_server import CompletionJob
from proxy.upstreams.gguf import fetch_model
from proxy.upstreams.translating import Translating
from tests.wire.translation.test_answers import gist, read

QUESTION = {"role": "user", "content": "Which planet is the largest?"}


def call(content: dict[str, Any], path: str = "/chat/completions", method: str = "POST") -> Call:
    headers = [("content-type", "application/json"), ("authorization", "Bearer the-client's"), ("x-conversation-id", "1")]
    return Call(method, path, headers, json.dumps(content).encode(), stream=content.get("stream", False))


def ask(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "any", "messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 16, **more}


def events(body: bytes) -> list[dict[str, Any]]:
    *chunks, end = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    assert end == "[DONE]"
    return [json.loads(chunk) for chunk in chunks]


def test_a_full_window_gets_the_code_that_clients_look_for() -> None:
    told = {"code": 400, "message": "request exceeds", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}
    status, body = envelope_from(400, json.dumps({"error": told}).encode())
    error = json.loads(body)["error"]
    assert (400, "invalid_request_error", "context_length_exceeded") == (status, error["type"], error["code"])
    assert "maximum context length is 8 tokens" in error["message"]


def test_an_input_that_the_model_cannot_take_is_not_a_server_error() -> None:
    told = {"code": 500, "message": "image input is not supported - hint: mmproj", "type": "server_error"}
    status, body = envelope_from(500, json.dumps({"error": told}).encode())
    assert (400, "image input is not supported") == (status, json.loads(body)["error"]["message"])


@pytest.mark.parametrize("body", [b"", b"plain text", b'{"error": "text"}', b"[]"])
def test_any_error_body_becomes_an_envelope(body: bytes) -> None:
    status, envelope = envelope_from(503, body)
    assert (503, "server_error", None) == (status, *(json.loads(envelope)["error"][key] for key in ("type", "code")))


async def test_other_paths_of_llama_cpp_are_not_reachable() -> None:
    reply = await EmbeddedUpstream("local", EmbeddedSettings()).send(call({}, "/streams/lookup"))
    assert (404, "not_found") == (reply.status, json.loads(await reply.read())["error"]["code"])


async def test_a_call_before_start_is_unreachable() -> None:
    with pytest.raises(UpstreamUnreachable, match="not started"):
        await EmbeddedUpstream("local", EmbeddedSettings()).send(call(ask("hi")))


def test_the_catalogue_knows_the_model_by_its_file() -> None:
    assert EmbeddedUpstream("local", EmbeddedSettings(model_path="/x/My-7B.Q4.gguf")).catalogue_name("any") == "embedded/My-7B.Q4"


@pytest.fixture(scope="module")
def model() -> Path:
    pytest.importorskip("xllamacpp", reason="needs the extra groundwire[local]", exc_type=ImportError)
    return fetch_model()


@pytest.fixture
async def local(model: Path) -> AsyncIterator[EmbeddedUpstream]:
    upstream = EmbeddedUpstream("local", EmbeddedSettings(window=1024, parallel=2))
    await upstream.start()
    yield upstream
    await upstream.stop()


async def answer(upstream: Upstream, made: Call) -> tuple[int, bytes]:
    reply = await upstream.send(made)
    body = await reply.read()
    await reply.close()
    return reply.status, body


@pytest.mark.slow
class TestModel:
    async def test_it_answers_a_question(self, local: EmbeddedUpstream) -> None:
        status, body = await answer(local, call(ask("Which planet is the largest?")))
        found = json.loads(body)
        assert status == 200
        assert "Jupiter" in found["choices"][0]["message"]["content"]
        assert found["object"] == "chat.completion"
        assert found["model"] == "SmolLM2-135M-Instruct.Q4_1"
        assert {"prompt_tokens", "completion_tokens", "total_tokens"} <= found["usage"].keys()

    async def test_it_streams_token_by_token(self, local: EmbeddedUpstream) -> None:
        _, body = await answer(local, call(ask("Count from one to ten.", stream=True)))
        chunks = events(body)
        assert len(chunks) > 10
        assert not [chunk for chunk in chunks if "usage" in chunk]
        assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")

    @pytest.mark.parametrize("api", ["messages", "responses"])
    async def test_clients_of_other_apis_are_answered_in_them(self, local: EmbeddedUpstream, api: Api) -> None:
        asked = {"messages": {"max_tokens": 16, "messages": [QUESTION]}, "responses": {"max_output_tokens": 16, "input": [QUESTION]}}
        body = {"model": "any", "temperature": 0, **asked[api]}
        every = Translating(local, ["chat"])
        status, whole = await answer(every, call(body, "/" + api))
        _, stream = await answer(every, call({**body, "stream": True}, "/" + api))
        said = gist(api, json.loads(whole))
        assert (200, True) == (status, "Jupiter" in said["text"])
        assert said["text"] == gist(api, read(api, stream))["text"]

    async def test_usage_is_streamed_when_asked_for(self, local: EmbeddedUpstream) -> None:
        _, body = await answer(local, call(ask("hi", stream=True, stream_options={"include_usage": True})))
        last = events(body)[-1]
        assert ([], True) == (last["choices"], "usage" in last)

    async def test_stop_strings_and_several_choices(self, local: EmbeddedUpstream) -> None:
        _, body = await answer(local, call(ask("Which planet is the largest?", stop=["Jupiter"], n=2)))
        choices = json.loads(body)["choices"]
        assert [0, 1] == [choice["index"] for choice in choices]
        assert not [choice for choice in choices if "Jupiter" in choice["message"]["content"]]

    async def test_tools_do_no_harm(self, local: EmbeddedUpstream) -> None:
        tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
        called = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        messages = [
            {"role": "user", "content": "How is the weather?"},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "1", "content": "sunny"},
        ]
        status, _ = await answer(local, call(ask("", messages=messages, tools=[tool])))
        assert status == 200

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_prompt_over_the_window_is_refused(self, local: EmbeddedUpstream, stream: bool) -> None:
        status, body = await answer(local, call(ask("hello " * 1500, stream=stream)))
        assert (400, "context_length_exceeded") == (status, json.loads(body)["error"]["code"])

    async def test_malformed_json_gets_the_envelope(self, local: EmbeddedUpstream) -> None:
        status, body = await answer(local, Call("POST", "/chat/completions", [("content-type", "application/json")], b"{no"))
        assert (400, "invalid_request_error") == (status, json.loads(body)["error"]["type"])

    async def test_it_lists_itself(self, local: EmbeddedUpstream) -> None:
        _, body = await answer(local, Call("GET", "/models", [], b""))
        assert ["SmolLM2-135M-Instruct.Q4_1"] == [model["id"] for model in json.loads(body)["data"]]

    async def test_clients_that_leave_free_their_slots(self, local: EmbeddedUpstream) -> None:
        """Four endless generations on two slots, each left after its first piece: none may block the next."""
        for _ in range(4):
            reply = await local.send(call(ask("Tell a long story.", stream=True, max_tokens=900, ignore_eos=True)))
            await anext(reply.chunks())
            await reply.close()
        async with asyncio.timeout(5):
            status, _ = await answer(local, call(ask("hi", max_tokens=1)))
        assert status == 200

    async def test_a_process_that_died_is_started_again(self, local: EmbeddedUpstream) -> None:
        await answer(local, call(ask("hi", max_tokens=1)))
        assert local._child is not None
        local._child._process.kill()
        await local._child._process.wait()
        status, _ = await answer(local, call(ask("hi", max_tokens=1)))
        assert status == 200

    async def test_stopping_ends_a_running_generation(self, local: EmbeddedUpstream) -> None:
        reply = await local.send(call(ask("Tell a long story.", stream=True, max_tokens=900, ignore_eos=True)))
        pieces = reply.chunks()
        await anext(pieces)
        await local.stop()
        with pytest.raises(UpstreamUnreachable):
            async for _ in pieces:
                pass

    async def test_a_damaged_file_is_named(self, model: Path, tmp_path: Path) -> None:
        cut = tmp_path / "cut.gguf"
        with model.open("rb") as file:
            cut.write_bytes(file.read(1_000_000))
        upstream = EmbeddedUpstream("local", EmbeddedSettings(model_path=str(cut)))
        with pytest.raises(ConfigError, match="does not load"):
            await upstream.probe()
        await upstream.start()
        first = await asyncio.gather(*(upstream.send(call(ask("hi"))) for _ in range(3)), return_exceptions=True)
        assert [UpstreamUnreachable] * 3 == [type(error) for error in first]
        assert "groundwire check says why" in str(first[0])
        assert 1 == upstream._failures
        await upstream.stop()

    async def test_the_first_calls_load_it_once(self, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        started: list[int] = []
        start = _Child.start

        async def counted(job: CompletionJob) -> _Child:
            child = await start(job)
            started.append(child._process.pid)
            return child

        monkeypatch.setattr(_Child, "start", counted)
        upstream = EmbeddedUpstream("local", EmbeddedSettings(window=1024, parallel=2))
        await upstream.start()
        assert upstream._child is None
        replies = await asyncio.gather(*(answer(upstream, call(ask("hi", max_tokens=1))) for _ in range(3)))
        await upstream.stop()
        assert ([200] * 3, 1) == ([status for status, _ in replies], len(started))


PROGRAM = """
import asyncio, json, sys
from proxy.config.settings import EmbeddedSettings
from proxy.ports.upstream import Call, Upstream
from proxy.upstreams.embedded import EmbeddedUpstream

async def main(end):
    upstream = EmbeddedUpstream("local", EmbeddedSettings(window=1024))
    await upstream.start()
    body = {"messages": [{"role": "user", "content": "Tell a story."}], "stream": True, "max_tokens": 900, "ignore_eos": True}
    reply = await upstream.send(Call("POST", "/chat/completions", [("content-type", "application/json")], json.dumps(body).encode()))
    async for piece in reply.chunks():
        break
    print(upstream._child._process.pid, flush=True)
    if end == "stop":
        await reply.close()
        await upstream.stop()
    else:
        await asyncio.sleep(60)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches a process through a pidfd, which only Linux has")
@pytest.mark.parametrize(("end", "expected"), [("stop", 0), ("terminate", -signal.SIGTERM)])
async def test_no_process_is_left_behind(end: str, expected: int, model: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, end, stdout=pipe, stderr=pipe)
    assert process.stdout is not None
    pid = int(await process.stdout.readline())
    if end == "terminate":
        process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(20):
        printed, complaints = await process.communicate()  # ends only when the model's process has closed its inherited pipes too
    assert (expected, b"", b"") == (process.returncode, printed, complaints)
    with contextlib.suppress(ProcessLookupError):  # gone already
        ended = os.pidfd_open(pid)
        assert ([ended], [], []) == select.select([ended], [], [], 5)
        os.close(ended)
