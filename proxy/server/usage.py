"""What an exchange took of its upstream, in tokens: as the upstream says, or counted here where it says nothing.

A stream of OpenAI's tells its usage only where the client asks for that (``stream_options.include_usage``), and one that breaks off never
does. In: an exchange that was answered. Out: the one `Usage` that its record, the log, all figures and the account of its key go by. A
prompt is counted as it was sent, an answer as far as it came. What nobody can see is not in it: a provider's own prompt, hidden thoughts.
"""

from __future__ import annotations

from msgspec import structs

from proxy.exchange import Answer, ContextUse, Exchange, Usage
from proxy.exchange.answers import total_usage
from proxy.offloop import each, run_in_thread_if_large
from proxy.ports import ModelInfo, TokenCounter

_ON_ITS_WAY_TOKENS = 5
"""What a provider writes before it sees that nobody reads: at 100 tokens a second, 50 ms away."""


async def usage_of(exchange: Exchange, tokens: TokenCounter, *, left: bool) -> Usage | None:
    """Of all its answers together; None where none can be read. `left` says whether the client has gone before the end."""
    answer = exchange.upstream_answer if exchange.upstream_answer is not None else exchange.answer
    if answer is None:
        return None
    answers: list[tuple[Answer, ContextUse | None]] = [(answer, exchange.facts.context)]
    if exchange.attempts.several:
        answers = [(attempt.upstream_answer, attempt.start.facts.context) for attempt in exchange.attempts]
    total = total_usage([await _of_answer(exchange, one, sent, tokens, left=left) for one, sent in answers])
    return structs.replace(total, calls=total.calls + exchange.rounds) if exchange.rounds else total


async def _of_answer(exchange: Exchange, answer: Answer, sent: ContextUse | None, tokens: TokenCounter, *, left: bool) -> Usage:
    whole = bool(answer.choices) and all(choice.finish_reason is not None for choice in answer.choices)
    told = answer.usage
    if whole and told is not None:
        return told
    model = tokens.model(exchange.model)
    if told is None and sent is None:
        prompt = exchange.prompt if exchange.enforced else exchange.original  # in shadow mode what was sent is what came
        sent = await tokens.count_request(prompt.messages, prompt.tools, exchange.wants, model)
    texts = [text for c in answer.choices for text in (c.text, c.refusal, c.reasoning, *c.inputs, *(t.arguments for t in c.tool_calls))]
    output = await run_in_thread_if_large(sum(map(len, texts)), _count, texts, tokens, model)
    output += _ON_ITS_WAY_TOKENS if left and not whole else 0
    before = told or Usage(sent.used_tokens if sent is not None else 0, 0)
    completion = max(before.completion_tokens, output)
    return structs.replace(before, completion_tokens=completion, estimated=True)


def _count(texts: list[str], tokens: TokenCounter, model: ModelInfo) -> int:
    return sum(tokens.count_text(text, model) for text in each(texts) if text)
