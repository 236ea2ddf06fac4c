"""Questions of the proxy's own to a chat model: implements `proxy.ports.ChatModel`.

In: messages in OpenAI's form. Out: the answer's text, and what it cost. The call goes through the upstream's own retries, fallbacks and cap
(`proxy.upstreams.own_calls`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from proxy.errors import UpstreamUnreachable
from proxy.exchange import Message
from proxy.ports import Completion, TokenCounter
from proxy.upstreams.own_calls import OwnCalls
from proxy.upstreams.resilience import Resilient


class UpstreamChat:
    """Asks one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(self, upstreams: Mapping[str, Resilient], forwarding: Collection[str] = (), tokens: TokenCounter | None = None) -> None:
        """`tokens` knows the list of prices; without it none is known."""
        self._calls, self._upstreams, self._tokens = OwnCalls(upstreams, forwarding), upstreams, tokens

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """Implements `proxy.ports.ChatModel`. Raises as `answer`."""
        return (await self.answer(upstream, model, messages, params=params, timeout_s=timeout_s)).text

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
            content = choice["message"]["content"]
        except (ValueError, LookupError, TypeError) as error:
            raise UpstreamUnreachable(f"upstream {upstream}: not a chat completion") from error
        usage = completion.get("usage")
        spent = [count if isinstance(count := (usage or {}).get(name), int) else 0 for name in ("prompt_tokens", "completion_tokens")]
        usd = self._usd(upstream, model, *spent) if isinstance(usage, dict) else None
        return Completion(_text(upstream, content), _first_token(choice), spent[0], spent[1], usd)

    def _usd(self, upstream: str, model: str, prompt_tokens: int, completion_tokens: int) -> float | None:
        if self._tokens is None:
            return None
        info = self._tokens.model(self._upstreams[upstream].upstream.catalogue_name(model))
        return info.cost_usd(prompt_tokens, completion_tokens)


def _first_token(choice: Mapping[str, Any]) -> dict[str, float]:
    """Log probabilities of what the first token might have been; of one that stands there twice, the likelier."""
    try:
        listed = choice["logprobs"]["content"][0]["top_logprobs"]
        found = sorted((float(one["logprob"]), str(one["token"])) for one in listed)
    except (LookupError, TypeError, ValueError):
        return {}
    return {token: logprob for logprob, token in found}


def _text(upstream: str, content: Any) -> str:
    """Of a message's content."""
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise UpstreamUnreachable(f"upstream {upstream}: a chat completion without text")
    return content
