"""Questions of the proxy's own to a configured upstream: implements `proxy.ports.ChatModel` and `proxy.ports.decisions.DecisionModel`.

In: messages in OpenAI's form, or questions over one state. Out: the answer's text and what it cost; for each question a probability of
every possible answer, or why there is none. A call goes through the upstream's own retries and cap, with the upstream's own key; nothing of
any client's headers goes with it. A decision model is asked alone, without fallbacks: another's probabilities are another judge's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from proxy.config.sections import DecisionApi, Shape, path_for
from proxy.errors import NotFound, ProxyError, UpstreamRefused, UpstreamTimeout, UpstreamUnreachable
from proxy.exchange import Message, Usage
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Completion, TokenCounter
from proxy.ports.decisions import Answer, Decision, Question
from proxy.ports.upstream import Call, Reply
from proxy.upstreams.resilience import Resilient
from proxy.wire.answers import usage_in
from proxy.wire.api_errors import failure_in, failure_of
from proxy.wire.decisions.asked import Billing, DecisionClient, GeminiShape, OpenAIShape, SystemOneShape, billing_of, fields_of

_HEADERS = (("content-type", "application/json"), ("accept", "application/json"))
_MAX_ANSWER_BYTES = 2_000_000
"""Far above any verdict, summary or set of probabilities; ends an upstream that sends on and on."""
_REASON_CHARS = 200


class OwnCalls:
    """Posts to one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(self, upstreams: Mapping[str, Resilient], forwarding: Collection[str] = ()) -> None:
        self._upstreams = upstreams
        self._forwarding = frozenset(forwarding)

    def usable(self, name: str) -> Resilient:
        """The upstream of that name. Raises `NotFound`."""
        if name not in self._upstreams:
            raise NotFound(f"no upstream {name!r} to ask; known: {', '.join(self._upstreams)}", param="upstream")
        if name in self._forwarding:
            message = f"upstream {name} has no key of its own (api_key: forward), so the proxy cannot ask it anything for itself"
            raise NotFound(message, param="upstream")
        return self._upstreams[name]

    async def post(self, upstream: str, path: str, body: bytes, *, timeout_s: float, alone: bool = False) -> bytes:
        """The body of a successful answer; with `alone` no fallback is asked.

        `timeout_s` is for the whole call, its retries included. Raises `NotFound`, `UpstreamRefused`, `UpstreamUnreachable`,
        `UpstreamTimeout`, `Overloaded`.
        """
        asked = self.usable(upstream)
        try:
            async with asyncio.timeout(timeout_s):
                status, answer = await self._ask(asked, Call("POST", path, _HEADERS, body), alone)
        except TimeoutError as error:
            raise UpstreamTimeout(f"upstream {upstream}: no answer to the proxy's own question within {timeout_s:g} s") from error
        if not 200 <= status < 300:
            raise UpstreamRefused(f"upstream {upstream} answered the proxy's own question with status {status}{_reason(answer)}", status)
        return answer

    async def _ask(self, upstream: Resilient, call: Call, alone: bool) -> tuple[int, bytes]:
        reply = await (upstream.send_alone(call) if alone else upstream.send(call, self._upstreams))
        try:
            return reply.status, await _read(reply)
        finally:
            await reply.close()


async def _read(reply: Reply) -> bytes:
    pieces, size = [], 0
    async for piece in reply.chunks():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise UpstreamUnreachable(
                f"upstream {reply.upstream}: an answer of more than {_MAX_ANSWER_BYTES} bytes to a question of the proxy's own"
            )
    return b"".join(pieces)


def _reason(body: bytes) -> str:
    """``: MESSAGE`` of an error's body, shortened; "" without one."""
    message = failure_in(body).message
    return f": {message[:_REASON_CHARS]}" if message else ""


# ---- a chat model ----


class UpstreamChat:
    """Asks one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(self, upstreams: Mapping[str, Resilient], forwarding: Collection[str] = (), tokens: TokenCounter | None = None) -> None:
        """`tokens` knows the list of prices; without it none is known."""
        self._calls, self._upstreams, self._tokens = OwnCalls(upstreams, forwarding), upstreams, tokens

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """Implements `proxy.ports.ChatModel`. Raises as `answer`, and `UpstreamUnreachable` for an answer without text."""
        text = (await self.answer(upstream, model, messages, params=params, timeout_s=timeout_s)).text
        if not text.strip():
            raise UpstreamUnreachable(f"upstream {upstream}: a chat completion without text")
        return text

    async def answer(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> Completion:
        """Implements `proxy.ports.ChatModel`. Raises `NotFound`, `UpstreamRefused`, `UpstreamUnreachable`, `UpstreamTimeout`, `Overloaded`.

        `timeout_s` is for the whole call, its retries included.
        """
        body = {**(params or {}), "model": model, "messages": list(messages), "stream": False}
        answer = await self._calls.post(upstream, "/chat/completions", orjson.dumps(body), timeout_s=timeout_s)
        try:
            completion = orjson.loads(answer)
            choice = completion["choices"][0]
            content = dict(choice["message"]).get("content")
        except (ValueError, LookupError, TypeError) as error:
            raise UpstreamUnreachable(f"upstream {upstream}: not a chat completion") from error
        usage = usage_in("chat", completion.get("usage"), completion.get("service_tier"))
        spent = usage or Usage(0, 0)
        usd = self._usd(upstream, model, usage) if usage is not None else None
        return Completion(_text(content), _first_token(choice), spent.prompt_tokens, spent.completion_tokens, usd)

    def _usd(self, upstream: str, model: str, usage: Usage) -> float | None:
        if self._tokens is None:
            return None
        info = self._tokens.model(self._upstreams[upstream].upstream.catalogue_name(model))
        return info.cost_usd(usage)


def _first_token(choice: Mapping[str, Any]) -> dict[str, float]:
    """Log probabilities of what the first token might have been; of one that stands there twice, the likelier."""
    try:
        listed = choice["logprobs"]["content"][0]["top_logprobs"]
        found = sorted((float(one["logprob"]), str(one["token"])) for one in listed)
    except (LookupError, TypeError, ValueError):
        return {}
    return {token: logprob for logprob, token in found}


def _text(content: Any) -> str:
    """Of a message's content; "" where a model has thought until its tokens were spent, which is paid too."""
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


# ---- a decision model ----

_SHAPES: Mapping[Shape, DecisionClient] = {"openai": OpenAIShape(), "systemone": SystemOneShape(), "gemini": GeminiShape()}


class _CallResult(Struct, frozen=True):
    """What one call brought."""

    answers: Mapping[str, Answer]
    billing: Billing


class UpstreamDecisions:
    """Asks one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(
        self,
        upstreams: Mapping[str, Resilient],
        apis: Mapping[str, DecisionApi],
        tokens: TokenCounter,
        forwarding: Collection[str] = (),
    ) -> None:
        """`apis` are those of the upstreams that can answer at all; `tokens` knows the list of prices."""
        self._upstreams, self._apis, self._tokens = upstreams, apis, tokens
        self._calls = OwnCalls(upstreams, forwarding)

    async def decide(self, upstream: str, model: str, state: str, questions: Sequence[Question], *, timeout_s: float = 4.0) -> Decision:
        """Implements `proxy.ports.decisions.DecisionModel`. Raises `NotFound`, `UpstreamRefused`, `UpstreamUnreachable`,
        `UpstreamTimeout`, `Overloaded`.
        """
        self._calls.usable(upstream)
        api = self._apis.get(upstream)
        if api is None:
            raise NotFound(f"upstream {upstream} speaks no decisions: a decision model is behind kind: openai or builtin", param="upstream")
        answers = {question.name: _too_many(question, api) for question in questions if len(question.options) > api.max_options}
        fitting = [question for question in questions if question.name not in answers]
        groups = [fitting[i : i + api.max_questions] for i in range(0, len(fitting), api.max_questions)]
        found = await asyncio.gather(*(self._call(upstream, api, model, state, group, timeout_s) for group in groups))
        called = [one for one in found if isinstance(one, _CallResult)]
        for group, one in zip(groups, found, strict=True):
            if isinstance(one, _CallResult):
                answers.update(one.answers)
            elif not called:
                raise one
            else:
                answers.update({question.name: Answer(problem=f"unasked: {one.message}") for question in group})
        return _decision(answers, called, [self._usd(upstream, api, model, one.billing) for one in called])

    async def _call(
        self, upstream: str, api: DecisionApi, model: str, state: str, questions: Sequence[Question], timeout_s: float
    ) -> _CallResult | ProxyError:
        """One call; its error, so that the other calls' answers are not lost with it."""
        shape = _SHAPES[api.shape]
        try:
            path = path_for(api, model)
        except ValueError as error:
            return NotFound(f"upstream {upstream}: the model's name {error}", param="model")
        body = await run_in_thread_if_large(len(state), shape.render_request, model, state, questions)
        try:
            answer = await self._calls.post(upstream, path, body, timeout_s=timeout_s, alone=True)
            return await run_in_thread_if_large(len(answer), _read_decision, upstream, shape, questions, answer)
        except ProxyError as error:
            return error

    def _usd(self, upstream: str, api: DecisionApi, model: str, billing: Billing) -> float | None:
        if billing.usd is not None:
            return billing.usd
        if api.usd_per_million_tokens is not None:
            return billing.input_tokens * api.usd_per_million_tokens / 1e6
        info = self._tokens.model(self._upstreams[upstream].upstream.catalogue_name(model))
        return info.cost_usd(Usage(billing.input_tokens, 0, billing.cached_tokens))  # output is free wherever decisions are sold


def _read_decision(upstream: str, shape: DecisionClient, questions: Sequence[Question], body: bytes) -> _CallResult:
    """Raises `UpstreamRefused` for an error with a status of success, `UpstreamUnreachable` for what is no decision."""
    try:
        fields = fields_of(body)
    except (ValueError, RecursionError) as error:
        raise UpstreamUnreachable(f"upstream {upstream}: not a decision ({error})") from error
    try:
        return _CallResult(shape.parse_answers(fields, questions), billing_of(fields))
    except ValueError as error:
        failure = failure_of(fields)
        if failure is not None and failure.message:
            raise UpstreamRefused(f"upstream {upstream} answered a decision with an error: {failure.message[:200]}", 200) from error
        raise UpstreamUnreachable(f"upstream {upstream}: not a decision ({error})") from error


def _too_many(question: Question, api: DecisionApi) -> Answer:
    return Answer(problem=f"unasked: {len(question.options)} options, of at most {api.max_options}")


def _decision(answers: Mapping[str, Answer], called: Sequence[_CallResult], prices: Sequence[float | None]) -> Decision:
    known = [usd for usd in prices if usd is not None]
    return Decision(
        answers,
        sum(one.billing.input_tokens for one in called),
        sum(one.billing.output_tokens for one in called),
        sum(known) if len(known) == len(prices) else None,
    )
