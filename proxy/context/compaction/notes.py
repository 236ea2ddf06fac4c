"""One message for a run of messages: a summary with where to read the whole, or the latter alone. The run goes to the scratchpad first.

The message is a user's, marked as data (`proxy.context.summaries.lines`). The scratchpad gets the client's own messages of the whole run,
those that an earlier summary already stood for included: one reference is enough to read them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from proxy.context.archive import reference, reference_ids
from proxy.context.compaction.parts import Part, Run, messages_of, replace_run, token_counter
from proxy.context.conversation import last_user_text, transcript
from proxy.context.summaries import extractive
from proxy.context.summaries.lines import is_summary, summary_message, summary_text
from proxy.context.summaries.summariser import Summariser, Summary
from proxy.exchange import Exchange, Message
from proxy.language.detection import language
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Ports

NOTE_TOKENS = 60
"""What a message that only refers to the scratchpad takes (o200k): a run of no more tokens is left as it is."""
SUMMARY_TOKENS = 200
SUMMARY_SHARE = 1 / 18
"""Of the tokens that a summary stands for: at 8,000 tokens 440. RF-005 has 200 for 3,000, and 800 of 7,400 in all where everything is
folded."""
_MOST_OF_WINDOW = 1 / 8
SUMMARY_TOKENS_HELP = (
    "most tokens of one summary, with the message around it and the reference; by default 200, or an eighteenth of what it stands for "
    "and the length of earlier summaries that it takes in, up to an eighth of the window"
)


class RunNote(Struct, frozen=True):
    """A message in place of a run."""

    part: Part
    summary: Summary | None = None


class FoldedPrompt(Struct, frozen=True):
    """A prompt with some runs replaced."""

    parts: Sequence[Part]
    notes: tuple[RunNote, ...] = ()
    """In order."""


class RunNotes:
    """Writes the messages that stand for runs of one exchange's prompt."""

    def __init__(self, exchange: Exchange, ports: Ports, summariser: Summariser) -> None:
        self._exchange, self._ports, self._summariser = exchange, ports, summariser
        self._tokens, self._model = token_counter(exchange, ports), ports.tokens.model(exchange.model)
        self._query = last_user_text(exchange.conversation)

    async def fold(self, parts: Sequence[Part], runs: Sequence[Run], write: Callable[[Sequence[Part]], Awaitable[RunNote]]) -> FoldedPrompt:
        """Replace each run by what `write` makes of its parts, unless that is no shorter. Raises `StoreUnavailable`."""
        notes: list[RunNote] = []
        for run in reversed(runs):  # the positions of those before it stay true
            inside = parts[run.start : run.end]
            before = await self._tokens(messages_of(inside))
            if before <= NOTE_TOKENS:
                continue
            noted = await write(inside)
            if await self._tokens([noted.part.message]) < before:
                parts = replace_run(parts, run, noted.part)
                notes.insert(0, noted)
        return FoldedPrompt(parts, tuple(notes))

    async def archive(self, inside: Sequence[Part], *, max_important_tokens: int = 0) -> RunNote:
        """A message that says where to read the run; earlier summaries in it are carried over. Raises `StoreUnavailable`.

        Up to `max_important_tokens` of what the task hangs on stand before that: constraints, decisions, identifiers, open tasks.
        """
        texts = [text for part in inside if (text := earlier_text(part))]
        line, spoken = await self._archive_messages(inside), await self._language()
        if max_important_tokens:
            own = [part.message for part in inside if not part.made]
            count, left_tokens = await self._around(lambda text: _part(inside, f"{text}\n{line}", spoken), max_important_tokens)
            important = {"query": self._query, "max_tokens": left_tokens, "count": count, "important_only": True}
            texts.append(await asyncio.to_thread(extractive.summarise, own, **important))  # type: ignore[arg-type]
        return RunNote(_part(inside, "\n".join(text for text in (*texts, line) if text), spoken))

    async def summarise(self, inside: Sequence[Part], max_tokens: int | None) -> RunNote:
        """A summary of the run and where to read it whole: a message of at most `max_tokens` (None: by default), or of the latter alone.

        Raises `StoreUnavailable`.
        """
        line, spoken = await self._archive_messages(inside), await self._language()
        messages = [message for part in inside for message in _readable(part, self._exchange.conversation)]

        def noted(text: str) -> Part:
            return _part(inside, f"{text}\n{line}" if text else line, spoken)

        most = most_summary_tokens(self._exchange, *await self.own_and_earlier_tokens(inside), max_tokens)
        count, left_tokens = await self._around(noted, most)

        summary = await self._summariser.summarise(messages, self._query, left_tokens, count)
        return RunNote(noted(summary.text), summary)

    async def own_and_earlier_tokens(self, parts: Sequence[Part]) -> tuple[int, int]:
        """Tokens of messages, and of earlier summaries among them."""
        framing = await self._tokens([])
        earlier = [part.message for part in parts if part.note]
        return await self._tokens([part.message for part in parts if not part.note]) - framing, await self._tokens(earlier) - framing

    async def _around(self, noted: Callable[[str], Part], max_tokens: int) -> tuple[Callable[[str], int], int]:
        """What counts a summary's text by what it adds to its message, and how much of `max_tokens` is left for it."""
        count_text, model = self._ports.tokens.count_text, self._model
        alone = count_text(str(noted("").message["content"]), model)

        def count(text: str) -> int:
            return count_text(str(noted(text).message["content"]), model) - alone

        return count, max(0, max_tokens - await self._tokens([noted("").message]) + await self._tokens([]))

    async def _archive_messages(self, inside: Sequence[Part]) -> str:
        """Put the run's messages into the scratchpad; the reference to them."""
        exchange, (start, end) = self._exchange, _span(inside)
        content = await run_in_thread_if_large(exchange.original.size, _transcript, exchange.conversation, start, end)
        item_id = await self._ports.scratchpad.put(content, client=exchange.client, run_id=exchange.run_id)
        return reference(item_id, f"messages {start} to {end - 1}" if end - start > 1 else f"message {start}", len(content))

    async def _language(self) -> str:
        return await asyncio.to_thread(language, self._query)  # it loads a model the first time


def _transcript(messages: Sequence[Message], start: int, end: int) -> bytes:
    return transcript(messages, start, end).encode("utf-8", "surrogatepass")


def most_summary_tokens(exchange: Exchange, own_tokens: int, earlier_tokens: int, asked: int | None) -> int:
    """Of a summary of so many tokens and of earlier summaries: what the policy asks for, else what the default comes to.

    What an earlier summary says has been chosen out of much already: it must not give way to what came last.
    """
    if asked is not None:
        return asked
    use = exchange.facts.context_before
    bound = int((use.window_tokens or 0) * _MOST_OF_WINDOW) if use is not None else 0
    return max(SUMMARY_TOKENS, min(int(own_tokens * SUMMARY_SHARE) + earlier_tokens, bound or SUMMARY_TOKENS))


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


def _part(inside: Sequence[Part], text: str, spoken: str) -> Part:
    return Part(summary_message(text, spoken), *_span(inside), made=True)


def _span(inside: Sequence[Part]) -> tuple[int, int]:
    return inside[0].start, max(part.end for part in inside)
