"""Questions of the proxy's own to a decision model: implements `proxy.ports.decisions.DecisionModel`.

In: questions over one state. Out: for each a probability of every possible answer, or why there is none. The calls go to that upstream
alone: another model's probabilities are another judge's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from proxy.config.sections import DecisionApi, Shape, path_for
from proxy.errors import NotFound, ProxyError, UpstreamRefused, UpstreamUnreachable
from proxy.offloop import run_in_thread_if_large
from proxy.ports import TokenCounter
from proxy.ports.decisions import Answer, Decision, Question
from proxy.upstreams.own_calls import OwnCalls
from proxy.upstreams.resilience import Resilient
from proxy.wire.decisions.asked import Asked, Billing, GeminiShape, OpenAIShape, SystemOneShape, billing_of, fields_of
from proxy.wire.upstream_errors import failure_of

_SHAPES: Mapping[Shape, Asked] = {"openai": OpenAIShape(), "systemone": SystemOneShape(), "gemini": GeminiShape()}


class _Called(Struct, frozen=True):
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
        called = [one for one in found if isinstance(one, _Called)]
        for group, one in zip(groups, found, strict=True):
            if isinstance(one, _Called):
                answers.update(one.answers)
            elif not called:
                raise one
            else:
                answers.update({question.name: Answer(problem=f"unasked: {one.message}") for question in group})
        return _decision(answers, called, [self._usd(upstream, api, model, one.billing) for one in called])

    async def _call(
        self, upstream: str, api: DecisionApi, model: str, state: str, questions: Sequence[Question], timeout_s: float
    ) -> _Called | ProxyError:
        """One call; its error, so that the other calls' answers are not lost with it."""
        shape = _SHAPES[api.shape]
        try:
            path = path_for(api, model)
        except ValueError as error:
            return NotFound(f"upstream {upstream}: the model's name {error}", param="model")
        body = await run_in_thread_if_large(len(state), shape.render_request, model, state, questions)
        try:
            answer = await self._calls.post(upstream, path, body, timeout_s=timeout_s, alone=True)
            return await run_in_thread_if_large(len(answer), _read, upstream, shape, questions, answer)
        except ProxyError as error:
            return error

    def _usd(self, upstream: str, api: DecisionApi, model: str, billing: Billing) -> float | None:
        if billing.usd is not None:
            return billing.usd
        if api.usd_per_million_tokens is not None:
            return billing.input_tokens * api.usd_per_million_tokens / 1e6
        info = self._tokens.model(self._upstreams[upstream].upstream.catalogue_name(model))
        return info.cost_usd(billing.input_tokens, 0, billing.cached_tokens)  # output is free wherever decisions are sold


def _read(upstream: str, shape: Asked, questions: Sequence[Question], body: bytes) -> _Called:
    """Raises `UpstreamRefused` for an error with a status of success, `UpstreamUnreachable` for what is no decision."""
    try:
        fields = fields_of(body)
    except (ValueError, RecursionError) as error:
        raise UpstreamUnreachable(f"upstream {upstream}: not a decision ({error})") from error
    try:
        return _Called(shape.parse_answers(fields, questions), billing_of(fields))
    except ValueError as error:
        failure = failure_of(fields)
        if failure is not None and failure.message:
            raise UpstreamRefused(f"upstream {upstream} answered a decision with an error: {failure.message[:200]}", 200) from error
        raise UpstreamUnreachable(f"upstream {upstream}: not a decision ({error})") from error


def _too_many(question: Question, api: DecisionApi) -> Answer:
    return Answer(problem=f"unasked: {len(question.options)} options, of at most {api.max_options}")


def _decision(answers: Mapping[str, Answer], called: Sequence[_Called], prices: Sequence[float | None]) -> Decision:
    known = [usd for usd in prices if usd is not None]
    return Decision(
        answers,
        sum(one.billing.input_tokens for one in called),
        sum(one.billing.output_tokens for one in called),
        sum(known) if len(known) == len(prices) else None,
    )
