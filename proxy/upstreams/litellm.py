"""Every provider that does not speak OpenAI's dialect itself, translated by litellm. The only file that imports litellm.

In: a `Call` for chat completions, embeddings or models. Out: a reply in OpenAI's format, errors in OpenAI's envelope
(`litellm_answers.py` puts both into shape). litellm takes seconds to import, so that happens in a thread with the first
call, which waits for it. It runs with its price-list fetch, retries, callbacks and printing off.

A request's fields are data here, never litellm's own settings: what is not a parameter of OpenAI's API goes into the provider's body, so
that no client can turn the operator's key towards a server of its own.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import re
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec

from proxy.config.settings import LiteLLMSettings
from proxy.errors import InvalidApiKey, InvalidRequest, NotFound, ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import BodyReply, Call, Headers, Reply
from proxy.upstreams.litellm_answers import clean_answer, clean_chunk, error_reply, event, scrubber, without_secrets

log = logging.getLogger(__name__)

_JSON: Headers = (("content-type", "application/json"),)
_EVENTS: Headers = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))
# fmt: off
_CHAT_FIELDS = frozenset((
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens",
    "max_tokens", "messages", "modalities", "n", "parallel_tool_calls", "prediction", "presence_penalty",
    "prompt_cache_key", "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store",
    "stream", "stream_options", "temperature", "thinking", "tool_choice", "tools", "top_k", "top_logprobs", "top_p", "user",
    "verbosity", "web_search_options",
))
# fmt: on
"""What litellm translates from one provider to another; everything else goes into the provider's body as it is."""
_EMBEDDING_FIELDS = frozenset(("input", "dimensions", "encoding_format", "user"))
_CREDENTIALS = ("api_", "aws_", "azure_", "vertex_", "watsonx_", "oci_", "base_url", "extra_body", "extra_headers", "litellm_")
"""Beginnings of field names by which litellm chooses where, and as whom, to call, for some providers even inside the body."""


_OPENAI_LIKE = frozenset(("openai", "azure", "custom_openai", "openai_like", "openrouter"))
_MODEL = re.compile(r"(?=.{1,300}\Z)[A-Za-z0-9@][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9@][A-Za-z0-9._:@+-]*)*")
"""For some providers the name becomes part of an address: nothing in it can climb out of its place there, or end it."""


class LiteLLMUpstream:
    """Implements `proxy.ports.upstream.Upstream`."""

    def __init__(self, name: str, settings: LiteLLMSettings) -> None:
        self.name = name
        self._settings = settings
        self._secrets = [settings.api_key, *(value for value in settings.params.values() if isinstance(value, str))]
        self._importing: asyncio.Future[Any] | None = None
        self._started = False
        self._omitted_fields: set[str] = set()
        """Fields that were warned about."""

    def catalogue_name(self, model: str) -> str:
        """The model's name with the configured prefix, as litellm's price list has it."""
        return self._settings.model_prefix + model

    async def start(self) -> None:
        """Take calls; the first one imports litellm."""
        self._started = True

    async def stop(self) -> None:
        """Close litellm's connections."""
        importing, self._importing, self._started = self._importing, None, False
        if importing is None or not importing.done() or importing.exception() is not None:
            return
        close = getattr(importing.result(), "close_litellm_async_clients", None)
        if close is not None:
            await close()

    async def send(self, call: Call) -> Reply:
        """Make the call. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""
        path = call.path.partition("?")[0]
        try:
            if call.method == "GET" and (path == "/models" or path.startswith("/models/")):
                return self._plain(200, self._models(path.removeprefix("/models").removeprefix("/")))
            if call.method != "POST" or path not in ("/chat/completions", "/embeddings"):
                raise NotFound(f"upstream {self.name} translates chat completions, embeddings and models, not {call.method} /v1{path}")
            key = self._key(call.headers)
            arguments = await self._arguments(call, _CHAT_FIELDS if path == "/chat/completions" else _EMBEDDING_FIELDS)
        except (InvalidRequest, InvalidApiKey, NotFound) as error:
            return self._plain(error.status, error.envelope())
        if key:
            arguments["api_key"] = key
        litellm = await self._litellm()
        self._leave_out(litellm, arguments)
        if path == "/chat/completions":
            arguments["_skip_mcp_handler"] = True  # with tools it would import litellm's MCP gateway, which needs packages of its own
        function = litellm.acompletion if path == "/chat/completions" else litellm.aembedding
        return await self._ask(function, arguments, scrubber([key, *self._secrets]))

    def _plain(self, status: int, content: Any, headers: Headers = ()) -> Reply:
        return BodyReply(self.name, status, (*_JSON, *headers), msgspec.json.encode(content))

    def _models(self, wanted: str) -> Any:
        listed = [{"id": model, "object": "model", "created": 0, "owned_by": self.name} for model in self._settings.models]
        if not wanted:
            return {"object": "list", "data": listed}
        for model in listed:
            if model["id"] == wanted:
                return model
        raise NotFound(f"upstream {self.name} does not list the model {wanted!r} under `models`", param="model")

    def _key(self, headers: Headers) -> str:
        if self._settings.api_key != "forward":
            return self._settings.api_key
        for name, value in headers:
            scheme, _, token = value.partition(" ")
            if name.lower() == "authorization" and scheme.lower() == "bearer" and token.strip():
                return token.strip()
        raise InvalidApiKey(f"upstream {self.name} uses the client's own key: send it as `Authorization: Bearer KEY`")

    async def _arguments(self, call: Call, known: frozenset[str]) -> dict[str, Any]:
        """The request's body as keyword arguments of litellm's function. Raises `InvalidRequest`."""
        raw = call.body if isinstance(call.body, bytes) else b"".join([piece async for piece in call.body])
        try:
            body: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"the body is not a JSON object: {error}") from error
        model = body.pop("model", None)
        if not isinstance(model, str) or not _MODEL.fullmatch(model):
            raise InvalidRequest(
                "expected the name of a model: letters, digits and ._:@+-, in parts divided by single slashes", param="model"
            )
        if not self._settings.model_prefix and model not in self._settings.models:
            raise NotFound(f"upstream {self.name} serves the models of its list alone", param="model")
        extra = {name: body.pop(name) for name in list(body) if name not in known}
        for name in extra:
            if name.startswith(_CREDENTIALS):
                raise InvalidRequest(f"{name!r} cannot be set by a request; the operator sets it under `upstreams`", param=name)
        timeouts = self._settings.timeouts
        arguments = {
            **body,
            **self._settings.params,
            "model": self._settings.model_prefix + model,
            "timeout": max(timeouts.first_byte_s, timeouts.between_chunks_s),
            "max_retries": 0,
            "num_retries": 0,
        }
        if extra:
            arguments["extra_body"] = {**extra, **self._settings.params.get("extra_body", {})}
        if self._settings.base_url:
            arguments["api_base"] = self._settings.base_url
        return arguments

    def _leave_out(self, litellm: Any, arguments: dict[str, Any]) -> None:
        """A provider whose API is not OpenAI's would get fields that litellm does not know as one field ``extra_body``: it gets none."""
        extra, own = arguments.get("extra_body"), self._settings.params.get("extra_body")
        if not extra or extra is own:
            return
        try:
            provider = litellm.get_llm_provider(model=arguments["model"], api_base=arguments.get("api_base"))[1]
        except Exception:  # litellm will say so when it is called
            return
        if provider in _OPENAI_LIKE or provider in litellm.openai_compatible_providers:
            return
        arguments.pop("extra_body")
        if own:
            arguments["extra_body"] = own
        for name in extra.keys() - (own or {}).keys() - self._omitted_fields:
            self._omitted_fields.add(name)
            log.warning("upstream %s: %s has no field %r: it is left out of every request", self.name, provider, name[:80])

    async def _litellm(self) -> Any:
        if not self._started:
            raise UpstreamUnreachable(f"upstream {self.name} is not started")
        if self._importing is None:
            self._importing = asyncio.get_running_loop().run_in_executor(None, _import_litellm)
        try:
            return await asyncio.shield(self._importing)
        except ImportError as error:
            raise UpstreamUnreachable(f"upstream {self.name}: litellm does not import here: {error}") from error

    async def _ask(self, function: Callable[..., Any], arguments: dict[str, Any], scrub: Callable[[str], str]) -> Reply:
        times = self._settings.timeouts
        streams = arguments.get("stream") is True
        first: Any = None
        try:
            async with asyncio.timeout(min(times.connect_s + times.first_byte_s, times.total_s)):
                answer = await function(**arguments)
                if streams:
                    answer = aiter(answer)
                    first = await anext(answer, None)  # an error before the first piece still has its status
        except TimeoutError as error:
            raise UpstreamTimeout(f"upstream {self.name}: no first byte within {times.first_byte_s:g} s") from error
        except Exception as error:
            status, envelope, headers = self._convert_error(error, scrub)
            return self._plain(status, envelope, headers)
        if not streams:
            return self._plain(200, clean_answer(answer.model_dump()))
        options = arguments.get("stream_options")
        usage = isinstance(options, Mapping) and options.get("include_usage") is True
        return _EventsReply(self.name, self._events(answer, first, usage, scrub), answer)

    async def _events(self, answer: Any, first: Any, usage: bool, scrub: Callable[[str], str]) -> AsyncIterator[bytes]:
        piece, loop = first, asyncio.get_running_loop()
        deadline = loop.time() + self._settings.timeouts.total_s
        while piece is not None:
            for chunk in clean_chunk(piece.model_dump(), usage=usage):
                yield event(chunk)
            limit_s = min(self._settings.timeouts.between_chunks_s, deadline - loop.time())
            try:
                async with asyncio.timeout(max(0.0, limit_s)):
                    piece = await anext(answer, None)
            except TimeoutError as error:
                raise UpstreamTimeout(f"upstream {self.name}: no further chunk within {max(0.0, limit_s):g} s") from error
            except Exception as error:
                yield event(self._convert_error(error, scrub)[1])  # as OpenAI's own streams report one
                return
        yield b"data: [DONE]\n\n"

    def _convert_error(self, error: Exception, scrub: Callable[[str], str]) -> tuple[int, dict[str, Any], Headers]:
        """A provider's error as status, envelope and headers; raises ours where there was no answer at all."""
        found = error_reply(error, self.name)
        if isinstance(found, ProxyError):
            found.message = scrub(found.message)
            found.args = (found.message,)
            log.debug("upstream %s: %s", self.name, scrub(f"{type(error).__name__}: {error}"))
            raise found from None  # its cause may name the key, and tracebacks are logged
        status, envelope, headers = found
        return status, without_secrets(envelope, scrub), headers


def _import_litellm() -> Any:
    """Import it with everything off that calls out, prints, or reads files of the working folder."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"  # else it loads .env into the environment
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        litellm: Any = importlib.import_module("litellm")
    warnings.filterwarnings("ignore", message=".*using the `ReadOnly` qualifier", category=UserWarning)  # pydantic about litellm's types
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    litellm.num_retries = None
    litellm.callbacks = []
    litellm.success_callback = []
    litellm.failure_callback = []
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.WARNING)
    return litellm


class _EventsReply(BodyReply):
    """Events as they are translated from litellm's `source`."""

    __slots__ = ("_events", "_source")

    def __init__(self, upstream: str, events: AsyncIterator[bytes], source: Any) -> None:
        super().__init__(upstream, 200, _EVENTS, b"")
        self._events, self._source = events, source

    async def read(self) -> bytes:
        return b"".join([event async for event in self._events])

    def chunks(self) -> AsyncIterator[bytes]:
        return self._events

    async def close(self) -> None:
        """Drop the stream; before its end this cancels the provider's call."""
        for stream in (self._events, self._source):
            close = getattr(stream, "aclose", None)
            if close is None:
                continue
            try:
                await close()
            except RuntimeError:  # a reader in another task is just ending
                log.debug("upstream %s: the stream was being read while it was closed", self.upstream)
