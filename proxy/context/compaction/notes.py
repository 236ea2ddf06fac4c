"""One message for a run of messages: a summary with where to read the whole, or the latter alone. The run goes to the scratchpad first.

The message is a user's, marked as data (`proxy.context.summaries.message`). The scratchpad gets the client's own messages of the whole run,
those that an earlier summary already stood for included: one reference is enough to read them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from proxy.context.archive import reference, reference_ids
from proxy.context.compaction.late import LateSummaries
from proxy.context.compaction.measure import token_counter
from proxy.context.compaction.parts import Part
from proxy.context.compaction.runs import Run
from proxy.context.compaction.transcript import transcript
from proxy.context.summaries import extractive
from proxy.context.summaries.message import is_summary, summary_message, summary_text
from proxy.exchange import Exchange, Message
from proxy.language.detection import language
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Ports

if TYPE_CHECKING:
    from proxy.context.summaries.summariser import Summariser, Summary


SUMMARY_TOKENS = 200
SUMMARY_SHARE = 1 / 18
"""Of the tokens that a summary stands for: at 8,000 tokens 440. RF-005 has 200 for 3,000, and 800 of 7,400 in all where everything is
folded."""
_MOST_OF_WINDOW = 1 / 8
SUMMARY_TOKENS_HELP = (
    "most tokens of one summary, with the message around it and the reference; by default 200, or an eighteenth of what it stands for "
    "and the length of earlier summaries that it takes in, up to an eighth of the window"
)


def most_summary_tokens(exchange: Exchange, own_tokens: int, earlier_tokens: int, asked: int | None) -> int:
    """Of a summary of so many tokens and of earlier summaries: what the policy asks for, else what the default comes to.

    What an earlier summary says has been chosen out of much already: it must not give way to what came last.
    """
    if asked is not None:
        return asked
    use = exchange.facts.context_before
    bound = int((use.window_tokens or 0) * _MOST_OF_WINDOW) if use is not None else 0
    return max(SUMMARY_TOKENS, min(int(own_tokens * SUMMARY_SHARE) + earlier_tokens, bound or SUMMARY_TOKENS))


class Noted(Struct, frozen=True):
    """A message in place of a run."""

    part: Part
    summary: Summary | None = None


async def archived_run(
    exchange: Exchange, ports: Ports, parts: Sequence[Part], run: Run, query: str, *, max_important_tokens: int = 0
) -> Noted:
    """A message that says where to read the run; earlier summaries in it are carried over. Raises `StoreUnavailable`.

    Up to `max_important_tokens` of what the task hangs on stand before that: constraints, decisions, identifiers, open tasks.
    """
    inside = parts[run.start : run.end]
    texts = [text for part in inside if (text := earlier_text(part))]
    line, spoken = await _archived(exchange, ports, inside), await _language(query)
    if max_important_tokens:
        own = [part.message for part in inside if not part.made]
        count, left_tokens = await _around(exchange, ports, lambda text: _part(inside, f"{text}\n{line}", spoken), max_important_tokens)
        texts.append(await asyncio.to_thread(_important, own, query, left_tokens, count))
    return Noted(_part(inside, "\n".join(text for text in (*texts, line) if text), spoken))


def _important(messages: Sequence[Message], query: str, max_tokens: int, count: Callable[[str], int]) -> str:
    return extractive.summarise(messages, query=query, max_tokens=max_tokens, count=count, important_only=True)


async def summarised_run(
    exchange: Exchange,
    ports: Ports,
    summariser: Summariser,
    late: LateSummaries,
    parts: Sequence[Part],
    run: Run,
    *,
    query: str,
    max_tokens: int | None,
) -> Noted:
    """A summary of the run and where to read it whole: a message of at most `max_tokens` (None: by default), or of the latter alone.

    Raises `StoreUnavailable`.
    """
    inside = parts[run.start : run.end]
    line = await _archived(exchange, ports, inside)
    spoken = await _language(query)
    messages = [message for part in inside for message in _readable(part, exchange.conversation)]
    used: asyncio.Future[Part] = asyncio.get_running_loop().create_future()

    def noted(text: str) -> Part:
        return _part(inside, f"{text}\n{line}" if text else line, spoken)

    most = most_summary_tokens(exchange, *await own_and_earlier_tokens(exchange, ports, inside), max_tokens)
    count, left_tokens = await _around(exchange, ports, noted, most)

    async def on_late(better: Summary) -> None:
        await late.came((await used).message, noted(better.text).message)

    try:
        summary = await summariser.summarise(
            messages,
            query=query,
            max_tokens=left_tokens,
            count=count,
            client=exchange.client,
            on_late=on_late,
        )
        used.set_result(noted(summary.text))
    finally:
        used.cancel()  # where it has no result: nothing was sent that a late one could replace
    return Noted(used.result(), summary)


async def own_and_earlier_tokens(exchange: Exchange, ports: Ports, parts: Sequence[Part]) -> tuple[int, int]:
    """Tokens of messages, and of earlier summaries among them."""
    tokens = token_counter(exchange, ports)
    framing = await tokens([])
    earlier = [part.message for part in parts if part.note]
    return await tokens([part.message for part in parts if not part.note]) - framing, await tokens(earlier) - framing


async def _around(exchange: Exchange, ports: Ports, noted: Callable[[str], Part], max_tokens: int) -> tuple[Callable[[str], int], int]:
    """What counts a summary's text by what it adds to its message, and how much of `max_tokens` is left for it."""
    tokens, model = token_counter(exchange, ports), ports.tokens.model(exchange.model)
    alone = ports.tokens.count_text(str(noted("").message["content"]), model)

    def count(text: str) -> int:
        return ports.tokens.count_text(str(noted(text).message["content"]), model) - alone

    return count, max(0, max_tokens - await tokens([noted("").message]) + await tokens([]))


def earlier_text(part: Part) -> str:
    """What a message made earlier says, without its references; "" for any other message."""
    if not part.made or not is_summary(part.message):
        return ""
    lines = summary_text(part.message).split("\n")
    return "\n".join(line for line in lines if not (line.startswith("[archived ") and reference_ids(line)))


def _readable(part: Part, original: Sequence[Message]) -> Sequence[Message]:
    """What a summary should be made of: an earlier summary by its text, anything archived as the client sent it."""
    if text := earlier_text(part):
        return [summary_message(text)]
    return original[part.start : part.end] if part.made else [part.message]


async def _archived(exchange: Exchange, ports: Ports, inside: Sequence[Part]) -> str:
    """Put the run's messages into the scratchpad; the reference to them."""
    start, end = _span(inside)
    content = await run_in_thread_if_large(exchange.original.size, _transcript, exchange.conversation, start, end)
    item_id = await ports.scratchpad.put(content, client=exchange.client, run_id=exchange.run_id)
    return reference(item_id, f"messages {start} to {end - 1}" if end - start > 1 else f"message {start}", len(content))


def _transcript(messages: Sequence[Message], start: int, end: int) -> bytes:
    return transcript(messages, start, end).encode("utf-8", "surrogatepass")


async def _language(query: str) -> str:
    return await asyncio.to_thread(language, query)  # it loads a model the first time


def _part(inside: Sequence[Part], text: str, spoken: str) -> Part:
    return Part(summary_message(text, spoken), *_span(inside), made=True)


def _span(inside: Sequence[Part]) -> tuple[int, int]:
    return inside[0].start, max(part.end for part in inside)
