"""The built-in verifier as an upstream: ``POST /v1/decisions`` and ``POST /v1/systemone``, so that other programs' guardrails can ask it.

In: a call of either shape. Out: its answer, or its error. Work is bounded: the tokens of state and questions (`window`), the statements
that they come to, processor time, the time for an answer (`answer_s`), and the verifier's own queue; all of it off the event loop. Who
cannot be served now gets a 503.
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.config.settings import BuiltinSettings
from proxy.errors import ContextLengthExceeded, InvalidRequest, ModelUnavailable, NotFound, Overloaded, ProxyError
from proxy.exchange import CHECKS_CPU_S
from proxy.grounding.judging.decisions import decide, statements
from proxy.offloop import LARGE, Allowance, OverBudget, allowed, run_in_thread_if_large
from proxy.ports import TokenCounter, Verifiers
from proxy.ports.decisions import Decision
from proxy.ports.upstream import BodyReply, Call, Reply, header_of
from proxy.wire.decisions.served import DecisionServer, OpenAIServed, ServedCall, SystemOneServed
from proxy.wire.http.encodings import decode_body

MAX_STATEMENTS = 128
"""Of one call, as many as litellm asks: 23 s of a core where each has a value that differs from the text's, 3 s where none has."""
_SHAPES: Mapping[str, DecisionServer] = {"/decisions": OpenAIServed(), "/systemone": SystemOneServed()}
_JSON = (("content-type", "application/json"),)


class BuiltinUpstream:
    """Implements `proxy.ports.upstream.Upstream`."""

    def __init__(self, name: str, settings: BuiltinSettings, verifiers: Verifiers, tokens: TokenCounter, max_body_bytes: int) -> None:
        """`max_body_bytes` is what a compressed body may come to."""
        self.name = name
        self._settings, self._verifiers, self._tokens, self._max_body_bytes = settings, verifiers, tokens, max_body_bytes

    def catalogue_name(self, model: str) -> str:
        """``builtin``, whatever the client calls it: there is only this one."""
        return "builtin"

    async def start(self) -> None:
        """There is nothing to open: the verifier is loaded by who made it, or at its first use."""

    async def stop(self) -> None:
        """There is nothing to close."""

    async def send(self, call: Call) -> Reply:
        """Answer it. Raises `Overloaded`."""
        served = _SHAPES.get(call.path.partition("?")[0]) if call.method == "POST" else None
        if served is None:
            missing = NotFound(
                f"the built-in judge serves POST /v1/decisions and POST /v1/systemone, not {call.method} /v1{call.path[:200]}"
            )
            return self._reply(*_SHAPES["/decisions"].error(missing))
        try:
            return self._reply(200, await self._answer(served, await self._body(call)))
        except ProxyError as error:
            if error.status >= 500:
                raise
            return self._reply(*served.error(error))

    def _reply(self, status: int, body: bytes) -> Reply:
        return BodyReply(self.name, status, _JSON, body)

    async def _body(self, call: Call) -> bytes:
        body = call.body if isinstance(call.body, bytes) else b"".join([piece async for piece in call.body])
        encoding = header_of(call.headers, "content-encoding")
        return await run_in_thread_if_large(len(body), decode_body, body, encoding, self._max_body_bytes) if encoding else body

    async def _answer(self, served: DecisionServer, body: bytes) -> bytes:
        """Raises `InvalidRequest`, `Overloaded`."""
        asked = await run_in_thread_if_large(len(body), served.parse, body)
        tokens = await self._count_tokens(asked)
        if (count := statements(asked.questions)) > MAX_STATEMENTS:
            raise InvalidRequest(f"the questions have {count} statements to judge, of at most {MAX_STATEMENTS}: ask in several calls")
        verifier, limit_s = self._verifiers.get(), CHECKS_CPU_S * max(1.0, len(asked.state) / LARGE)
        try:
            with allowed(Allowance(limit_s)):
                answers = await decide(verifier, asked.state, asked.questions, deadline_s=self._settings.answer_s)
        except ModelUnavailable as error:
            raise Overloaded(f"the built-in judge cannot answer now: {error}", headers=(("retry-after", "1"),)) from error
        except OverBudget as error:
            problem = f"comparing the questions with the state takes more than {limit_s:.0f} s of a core"
            raise InvalidRequest(f"{problem}: ask in several calls, or send less of the state") from error
        return await run_in_thread_if_large(len(body), asked.render, Decision(answers, tokens), verifier.name)

    async def _count_tokens(self, asked: ServedCall) -> int:
        """Tokens of state and questions. Raises `ContextLengthExceeded`."""
        parts = [asked.state]
        for question in asked.questions:
            parts += (question.instructions, *question.choices, *question.descriptions)
        text, model, window = "\n".join(parts), self._tokens.model(self.catalogue_name("")), self._settings.window
        tokens = await run_in_thread_if_large(len(text), self._tokens.count_text, text, model)
        if tokens > window:
            raise ContextLengthExceeded(
                f"state and questions have {tokens} tokens, of at most {window}: send less of the state", param="state"
            )
        return tokens
