"""A small model on this machine, to try everything without network or key: llama.cpp through `xllamacpp`.

In: any `Call` for a path that llama.cpp serves as OpenAI does. Out: its reply, errors in OpenAI's envelope. The model runs in a
child process (`embedded_server.py`, which says why) that listens on loopback under a random key. Calls go there through
`OpenAIUpstream`, so that tokens stream as they come and a client that leaves ends the generation. The first call starts it, and the
next one a child that has died.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import sys
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from proxy.config.settings import EmbeddedSettings, OpenAISettings
from proxy.errors import ConfigError, NotFound, UpstreamUnreachable
from proxy.ports.upstream import BodyReply, Call, Headers, Reply, WrappedReply
from proxy.upstreams import embedded_server
from proxy.upstreams.gguf import default_model_path, find_model
from proxy.upstreams.openai import OpenAIUpstream

log = logging.getLogger(__name__)

_PATHS = frozenset(("/models", "/chat/completions", "/completions", "/embeddings", "/messages/count_tokens"))
"""What is passed on. llama.cpp's further paths (slots, resumable streams) would show one client another one's prompts."""
_FORWARDED_HEADERS = frozenset(("content-type", "accept"))
"""No others: llama.cpp gives some a meaning, such as a generation that outlives its client."""
_RETURNED_HEADERS = frozenset(("content-type", "content-length", "transfer-encoding", "retry-after"))
_DEFAULT_SAMPLING = {"temp": 0.2, "top_p": 0.9, "penalty_repeat": 1.05}
"""For the default model: its model card's values, and a small penalty against the loops it falls into. A request's values win."""
_LOAD_S = 300.0
_DOES_NOT_LOAD = "the model does not load; groundwire check says why"
_STOP_S = 2.0
_SPARE_HTTP_THREADS = 64
"""Each open call holds one thread of llama.cpp's HTTP server; calls beyond wait to be accepted."""


class EmbeddedUpstream:
    """Implements `proxy.ports.upstream.Upstream`."""

    def __init__(self, name: str, settings: EmbeddedSettings) -> None:
        self.name = name
        self._settings = settings
        self._file = Path(settings.model_path).expanduser() if settings.model_path else default_model_path()
        self._child: _Child | None = None
        self._inner: OpenAIUpstream | None = None
        self._changing = asyncio.Lock()
        self._should_run = False
        self._failures = 0
        """Times that the model did not load."""

    def catalogue_name(self, model: str) -> str:
        """``embedded/`` and the file's stem, whatever the client calls the model: there is only this one."""
        return f"embedded/{self._file.stem}"

    async def start(self) -> None:
        """Take calls; the first one loads the model. Raises `ConfigError`: file missing, or no model."""
        await asyncio.to_thread(find_model, self._settings.model_path)
        self._should_run = True

    async def probe(self) -> None:
        """Whether the model loads, for a moment. Raises `ConfigError`: file missing, or not loadable."""
        try:
            await self._load()
        finally:
            await self._unload()

    async def stop(self) -> None:
        """End the child process; running generations end with it."""
        self._should_run = False
        async with self._changing:
            await self._unload()

    async def send(self, call: Call) -> Reply:
        """Make the call. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""
        if call.path.partition("?")[0] not in _PATHS:
            missing = NotFound(f"the embedded model does not serve {call.method} /v1{call.path}")
            return BodyReply(self.name, 404, _JSON, msgspec.json.encode(missing.envelope()))
        inner = await self._running()
        headers = [item for item in call.headers if item[0] in _FORWARDED_HEADERS]
        reply = await inner.send(msgspec.structs.replace(call, headers=headers))
        if reply.status < 400:
            answer = WrappedReply(reply)
            answer.headers = [header for header in reply.headers if header[0] in _RETURNED_HEADERS]
            return answer
        try:
            body = await reply.read()
        finally:
            await reply.close()
        status, body = envelope_from(reply.status, body)
        return BodyReply(self.name, status, _JSON, body)

    async def _running(self) -> OpenAIUpstream:
        if self._inner is not None and self._child is not None and self._child.is_running:
            return self._inner
        failures = self._failures
        async with self._changing:
            if not self._should_run:
                raise UpstreamUnreachable(f"upstream {self.name} is not started")
            if self._failures > failures:  # while this call waited
                raise UpstreamUnreachable(f"upstream {self.name}: {_DOES_NOT_LOAD}")
            if self._child is None or not self._child.is_running:
                if self._child is not None:
                    log.warning("upstream %s: the model's process has ended; starting it again", self.name)
                try:
                    await self._load()
                except ConfigError as error:
                    self._failures += 1
                    log.error("upstream %s: %s", self.name, error)
                    raise UpstreamUnreachable(f"upstream {self.name}: {_DOES_NOT_LOAD}") from error
            assert self._inner is not None
            return self._inner

    async def _load(self) -> None:
        await self._unload()
        path = find_model(self._settings.model_path)
        key = secrets.token_urlsafe(32)
        self._child = await _Child.start(_job(path, key, self._settings))
        # Closed after each answer: an idle connection would hold one of the server's threads.
        own = OpenAISettings(
            base_url=self._child.address + "/v1",
            api_key=key,
            headers={"connection": "close"},
            timeouts=self._settings.timeouts,
        )
        self._inner = OpenAIUpstream(self.name, own)
        await self._inner.start()

    async def _unload(self) -> None:
        inner, child, self._inner, self._child = self._inner, self._child, None, None
        if child is not None:
            await child.stop()
        if inner is not None:
            await inner.stop()


def _job(path: Path, key: str, settings: EmbeddedSettings) -> embedded_server.CompletionJob:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = settings.threads or cores
    return embedded_server.CompletionJob(
        path=str(path),
        name=path.stem,
        key=key,
        window=settings.window,
        parallel=settings.parallel,
        threads=threads,
        decoding_threads=max(1, threads // 2),
        http_threads=settings.parallel + _SPARE_HTTP_THREADS,
        sampling={} if settings.model_path else _DEFAULT_SAMPLING,
    )


class _Child:
    """The process with the model in it; alive as long as the pipe to its stdin is open."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._output_lines: deque[str] = deque(maxlen=8)
        self._listener = asyncio.create_task(self._listen())
        self.address = ""

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @classmethod
    async def start(cls, job: embedded_server.CompletionJob) -> _Child:
        """Start it and wait until the model is loaded. Raises `ConfigError`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # this file's folder holds modules named as packages are
            embedded_server.__file__,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Waiting threads sleep instead of spinning: on busy cores spinning made generation 15 times slower.
            env={"OMP_WAIT_POLICY": "passive", **os.environ},
        )
        child = cls(process)
        try:
            child.address = await child._handshake(job)
        except BaseException:
            await child.stop()
            raise
        return child

    async def _handshake(self, job: embedded_server.CompletionJob) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(_LOAD_S):
                self._process.stdin.write(msgspec.json.encode(job) + b"\n")
                await self._process.stdin.drain()
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            raise ConfigError(job.path, "", f"not loaded within {_LOAD_S:.0f} s; try a smaller model") from error
        except ConnectionError:
            line = b""
        answer: dict[str, str] = msgspec.json.decode(line) if line.endswith(b"\n") else {}
        if "address" in answer:
            return answer["address"]
        status = await self._process.wait()
        await self._listener
        reason = answer.get("error", f"the process ended with status {status}")
        if reason.startswith(("ImportError", "ModuleNotFoundError")):
            problem = f"xllamacpp does not load here: {reason}; install it again, and libgomp (Debian: apt-get install libgomp1)"
            raise ConfigError("xllamacpp", "", problem)
        said = f"; llama.cpp said: {' | '.join(self._output_lines)}" if self._output_lines else ""
        advice = "check that it is a whole GGUF file of a text model, and that there is memory for it and its `window` x `parallel`"
        raise ConfigError(job.path, "", f"the model does not load ({reason}{said}); {advice}")

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while block := await self._process.stderr.read(2**16):
            for line in block.decode("utf-8", "replace").splitlines():
                self._output_lines.append(line)
                log.debug("llama.cpp: %s", line)

    async def stop(self) -> None:
        """End the process: by closing its stdin, and if it does not react, by force."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await self._listener


_JSON: Headers = (("content-type", "application/json"),)


def envelope_from(status: int, body: bytes) -> tuple[int, bytes]:
    """llama.cpp's error -> OpenAI's: ``code`` is a word, not the status, and a full window has the code clients look for.

    An input that the model cannot take, such as an image, is the client's error and not worth a retry: 400 instead of llama.cpp's 500.
    """
    try:
        error: Any = msgspec.json.decode(body)["error"]
        message, kind = str(error["message"]), str(error["type"])
    except (msgspec.DecodeError, KeyError, TypeError):
        error, message = {}, body.decode("utf-8", "replace")[:500] or f"the embedded model answered with status {status}"
        kind = "server_error" if status >= 500 else "invalid_request_error"
    param, code = None, None
    if status == 500 and "input is not supported" in message:
        status, kind = 400, "invalid_request_error"
        message = message.partition(" - hint")[0]
    if kind == "exceed_context_size_error":
        kind, param, code = "invalid_request_error", "messages", "context_length_exceeded"
        if "n_ctx" in error and "n_prompt_tokens" in error:
            message = (
                f"This model's maximum context length is {error['n_ctx']} tokens. However, your messages resulted in "
                f"{error['n_prompt_tokens']} tokens. Please reduce the length of the messages."
            )
    return status, msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})
