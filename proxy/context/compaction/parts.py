"""A forwarded prompt as parts, each of which knows for which of the client's messages it stands; which of them may be replaced by one
message; and how many tokens they take, with the tool that reads the archive where it would be offered.

System messages and the client's last user message always stay, and so does the end of the prompt, which the model has not answered yet.
Positions of runs are those of parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.archive import READ_ARCHIVE, read_archive_tool
from proxy.context.conversation import MessageBlock, blocks_of, called_names, evidence_of, last_user
from proxy.context.lineage import turn_hashes
from proxy.context.pieces import PREFERENCES, with_preferences
from proxy.errors import StoreUnavailable
from proxy.exchange import ContextUse, Evidence, Exchange, Message, Tool, tool_name
from proxy.exchange.answers import OutputRequirements
from proxy.offloop import each, run_in_thread_if_large
from proxy.ports import Compaction, Ports
from proxy.ports.stage import can_answer_tools

RESULT_ROLES = ("tool", "function")


class Part(Struct, frozen=True):
    """One forwarded message."""

    message: Message
    start: int
    """It stands for ``messages[start:end]`` of the client's; an unchanged message stands for itself."""
    end: int
    made: bool = False
    """Whether it is not one of the client's own."""

    @property
    def note(self) -> bool:
        """Whether it was made to stand for a run of messages, and is not a tool's result that was replaced."""
        return self.made and self.message.get("role") not in RESULT_ROLES


def messages_of(parts: Sequence[Part]) -> list[Message]:
    """What is forwarded."""
    return [part.message for part in parts]


def parts_of(forwarded: Sequence[Message], original: Sequence[Message]) -> list[Part]:
    """Parts of `forwarded`; a message is unchanged when it is the very object of `original`."""
    positions: dict[int, list[int]] = {}
    for i, message in enumerate(original):
        positions.setdefault(id(message), []).append(i)
    pieces = [found.pop(0) if (found := positions.get(id(message))) else message for message in forwarded]
    return place_pieces(pieces, original, len(original))


def place_pieces(pieces: Sequence[int | Message], original: Sequence[Message], length: int) -> list[Part]:
    """Parts of a compaction's pieces, which stand for ``original[:length]``.

    A made tool result stands for one message. Another made message stands for all that is missing up to the next piece; of two that
    follow each other it is the first.
    """
    parts: list[Part] = []
    at = 0
    for i, piece in enumerate(pieces):
        if isinstance(piece, int):
            start, end, message, made = piece, piece + 1, original[piece], False
        else:
            message, made = piece, True
            start, end = at, at + 1 if piece.get("role") in RESULT_ROLES else _gap_end(pieces, i + 1, length)
        parts.append(Part(message, start, max(start, end), made))
        at = max(at, end)
    return parts


def _gap_end(pieces: Sequence[int | Message], following: int, length: int) -> int:
    """Where the messages end that are missing before the piece `following`, or before the next one that has a position."""
    results = 0
    for piece in pieces[following:]:
        if isinstance(piece, int):
            return piece - results
        results += piece.get("role") in RESULT_ROLES
    return length - results


def apply_compaction(compaction: Compaction, parts: Sequence[Part], original: Sequence[Message]) -> list[Part] | None:
    """`parts` with the compaction in place of those that it covers; None where it does not fit them.

    A message that stays is taken as it stands in `parts`: an earlier stage may have replaced it, or taken it out.
    """
    length = compaction.length
    positions = [piece for piece in compaction.pieces if isinstance(piece, int)]
    in_order = all(a < b for a, b in pairwise(positions))
    if not in_order or (positions and not 0 <= positions[0] <= positions[-1] < length) or length > len(original):
        return None
    if any(part.start < length < part.end for part in parts):
        return None
    current = {part.start: part for part in parts}
    whole = not any(part.made for part in parts) and len(parts) == len(original)
    found: list[Part] = []
    for part in place_pieces(compaction.pieces, original, length):
        if part.made or whole:
            found.append(part)
        elif part.start in current:
            found.append(current[part.start])
    return [*found, *(part for part in parts if part.start >= length)]


def pieces_of(parts: Sequence[Part], length: int) -> tuple[int | dict[str, Any], ...]:
    """The pieces of a compaction that covers the client's first `length` messages."""
    return tuple(dict(part.message) if part.made else part.start for part in parts if part.start < length)


class Run(Struct, frozen=True):
    """``parts[start:end]``, whole blocks that follow each other."""

    start: int
    end: int


def recent_blocks_start(parts: Sequence[Part], keep: int) -> int:
    """Where the last `keep` blocks begin, at least one; system messages are not counted. Results that the model has not read stay, too."""
    blocks = _spoken_blocks(messages_of(parts))
    starts = [block.start for block in (*blocks[-max(keep, 1) :], *_unread(blocks))]
    return min(starts, default=len(parts))


def recent_messages_start(parts: Sequence[Part], keep: int) -> int:
    """Where the last `keep` messages begin, or some before them where a block would be cut; at least one block stays, and results that the
    model has not read."""
    blocks = _spoken_blocks(messages_of(parts))
    counted, start = 0, len(parts)
    for block in reversed(blocks):
        if counted and counted >= keep:
            break
        counted += block.end - block.start
        start = block.start
    return min([start, *(block.start for block in _unread(blocks))])


def foldable_runs(
    parts: Sequence[Part], end: int, last_user: int | None, wanted: Callable[[Sequence[Part]], bool] = lambda block: True
) -> list[Run]:
    """The longest runs of blocks before `end` that may be replaced and that are `wanted`, in order.

    `last_user` is the position of the client's last user message among the client's messages. Messages that were made earlier join a
    run that they touch, and alone they are none.
    """
    runs: list[Run] = []
    for block in blocks_of(messages_of(parts)):
        inside = parts[block.start : block.end]
        keeps = block.kind == "system" or any(part.start <= last_user < part.end for part in inside if last_user is not None)
        if block.end > end or keeps or not (_is_note(inside) or wanted(inside)):
            continue
        if runs and runs[-1].end == block.start:
            runs[-1] = Run(runs[-1].start, block.end)
        else:
            runs.append(Run(block.start, block.end))
    return [run for run in runs if not _is_note(parts[run.start : run.end])]


def replace_run(parts: Sequence[Part], run: Run, part: Part) -> list[Part]:
    """`parts` with one part in the run's place."""
    return [*parts[: run.start], part, *parts[run.end :]]


def _is_note(parts: Sequence[Part]) -> bool:
    return all(part.note for part in parts)


def _spoken_blocks(messages: Sequence[Message]) -> list[MessageBlock]:
    return [block for block in blocks_of(messages) if block.kind != "system"]


def _unread(blocks: Sequence[MessageBlock]) -> list[MessageBlock]:
    """Of the last turn of calls, where the assistant has said nothing behind it: the model has not read the results yet."""
    last = next((block for block in reversed(blocks) if block.kind in ("assistant", "tools")), None)
    return [last] if last is not None and last.kind == "tools" else []


def _hides_what_is_asked(compaction: Compaction, original: Sequence[Message]) -> bool:
    """Whether a message that it made stands for what the model is to answer: a client that went back to an earlier message, or another
    conversation that began alike, ends where a longer one was folded."""
    parts = place_pieces(compaction.pieces, original, compaction.length)
    blocks = _spoken_blocks(original)
    asked = {i for block in (*blocks[-1:], *_unread(blocks)) for i in range(block.start, block.end)} | {last_user(original)}
    return any(part.made and not asked.isdisjoint(range(part.start, part.end)) for part in parts)


Tokens = Callable[[Sequence[Message]], Awaitable[int]]
"""Tokens of some messages, by the exchange's model."""


def token_counter(exchange: Exchange, ports: Ports) -> Tokens:
    """Counts messages as the exchange's model does."""
    model = ports.tokens.model(exchange.model)

    async def count(messages: Sequence[Message]) -> int:
        return (await ports.tokens.count_request(messages, (), OutputRequirements(), model)).used_tokens

    return count


async def prompt_use(exchange: Exchange, ports: Ports, parts: Sequence[Part]) -> ContextUse:
    """The use of the exchange's window, as the budget set it, if `parts` were sent."""
    tools = exchange.tools
    there = any(tool_name(tool) == READ_ARCHIVE for tool in tools)
    if not there and any(part.made for part in parts) and can_answer_tools(exchange, READ_ARCHIVE):
        tools = (*tools, read_archive_tool())
    model = ports.tokens.model(exchange.model)
    messages = messages_of(parts)
    use = await use_of(exchange, ports, messages, tools)
    before = exchange.facts.context_before
    return replace(use, window_tokens=before.window_tokens if before is not None else model.window_tokens)


async def use_of(exchange: Exchange, ports: Ports, messages: Sequence[Message], tools: Sequence[Tool]) -> ContextUse:
    """Tokens of a prompt by component; those of memories of the user apart, where these have an allocation."""
    model = ports.tokens.model(exchange.model)
    use = await ports.tokens.count_request(messages, tools, exchange.wants, model)
    if PREFERENCES not in (exchange.facts.allocations or {}):
        return use
    size = exchange.original.size
    return await run_in_thread_if_large(size, with_preferences, use, exchange, messages, lambda text: ports.tokens.count_text(text, model))


# ---- the exchange's compaction ----
#
# An exchange's conversation and its compaction: the stored one is applied, a new one is stored, what is left is put into the exchange.
#
# A compaction belongs to a client, a policy, a model and the set of stages that the client left out: another policy or a model with
# another window has its own. The stages of one policy share theirs, so that each goes on from what the others have made.

SHARING_STAGES = frozenset(("history", "compression", "all"))
"""Stages that make compactions, as a client names them when it leaves them out."""
UNAVAILABLE = "store-unavailable"


class CompactedPrompt(Struct, frozen=True):
    """A conversation as it will be forwarded."""

    parts: Sequence[Part]
    length: int = 0
    """How many of the client's messages the stored compaction covers; 0 without one."""
    problem: str = ""
    """``store-unavailable`` where the store could not be asked."""


async def recall(exchange: Exchange, ports: Ports) -> CompactedPrompt:
    """The exchange's messages with the longest stored compaction of their beginning in its place that leaves what is to be answered."""
    parts = await run_in_thread_if_large(exchange.original.quick_size, parts_of, exchange.messages, exchange.conversation)
    hashes = await run_in_thread_if_large(exchange.original.quick_size, _hashes, exchange)
    lengths = {digest: end for end, digest in hashes.items()}
    while lengths:
        try:
            found = await ports.compactions.find(list(lengths), client=exchange.client)
        except StoreUnavailable:
            return CompactedPrompt(parts, problem=UNAVAILABLE)
        if found is None or lengths.get(found.covers) != found.length:
            break
        with_it = apply_compaction(found, parts, exchange.conversation)
        if with_it is not None and not _hides_what_is_asked(found, exchange.conversation):
            return CompactedPrompt(with_it, found.length)
        lengths = {digest: end for digest, end in lengths.items() if end < found.length}
    return CompactedPrompt(parts)


async def store(exchange: Exchange, ports: Ports, parts: Sequence[Part], known: CompactedPrompt) -> CompactedPrompt:
    """`parts`, made of `known`, as the store keeps them: another worker's, if that was first; as they are where the store is away.

    Stored are the client's first messages up to the last that was replaced, and more than `known` covers, where there are more: what covers
    no more than an earlier one would not take its place.
    """
    original = exchange.conversation
    covered = max((part.end for part in parts if part.made), default=0)
    ends = [block.end for block in blocks_of(original) if block.end >= covered]
    length = next((end for end in ends if end > known.length), ends[-1] if ends else 0)
    if not covered or any(part.start < length < part.end for part in parts):
        return CompactedPrompt(parts)
    hashes = await run_in_thread_if_large(exchange.original.quick_size, _hashes, exchange)
    compaction = Compaction(hashes[length], length, pieces_of(parts, length))
    try:
        stored = await ports.compactions.put(compaction, client=exchange.client, run_id=exchange.run_id)
    except StoreUnavailable:
        return CompactedPrompt(parts, problem=UNAVAILABLE)
    if stored.covers != compaction.covers:
        return CompactedPrompt(parts)
    as_stored = apply_compaction(stored, parts_of(exchange.messages, original), original)
    if as_stored is None or _hides_what_is_asked(stored, original):
        as_stored = list(parts)
    return CompactedPrompt(as_stored, stored.length)


async def send(exchange: Exchange, parts: Sequence[Part]) -> None:
    """Forward `parts`; what they leave out stays in the exchange's evidence."""
    messages = messages_of(parts)
    if len(messages) != len(exchange.messages) or any(a is not b for a, b in zip(messages, exchange.messages, strict=True)):
        exchange.messages = messages
    if left_out := await run_in_thread_if_large(exchange.original.size, _unsent_evidence, exchange, parts):
        exchange.evidence = (*exchange.evidence, *left_out)


def _unsent_evidence(exchange: Exchange, parts: Sequence[Part]) -> list[Evidence]:
    """The client's messages that are not forwarded and are no evidence yet."""
    original = exchange.conversation
    there = {part.start for part in parts if not part.made}
    known = {(e.message_index, e.kind) for e in exchange.evidence}
    names = called_names(original)
    left = ((i, evidence_of(message, i, names)) for i, message in enumerate(each(original)) if i not in there)
    return [one for i, one in left if one and (i, one.kind) not in known]


def _hashes(exchange: Exchange) -> dict[int, str]:
    """For each block border a hash of what is before it, for this client's policy and model."""
    hashes = turn_hashes(exchange)
    scope = "\0".join((exchange.policy, exchange.model, *sorted(exchange.skip & SHARING_STAGES)))
    return {block.end: _hash(f"{scope}\0{hashes[block.end]}") for block in blocks_of(exchange.conversation)}


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
