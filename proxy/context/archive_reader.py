"""The tool by which the model reads what has left its prompt: when it is offered, and what its calls are answered.

For the stages that archive: they name `READ_ARCHIVE` in `Stage.answers`, call `offer` when the messages are as they will be sent, and
`answer` from `on_tool_call`. A client gets at its own items only: those of the run, and those that its prompt refers to.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from proxy.context.archive import ID_CHARS, PAGE_BYTES, READ_ARCHIVE, Reference, read, read_archive_tool, references_in
from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Tool, ToolCall, tool_name
from proxy.ports import Scratchpad, ScratchpadItem
from proxy.ports.stage import can_answer_tools

_TOOL = read_archive_tool()
_DIGITS = re.compile(r"[0-9a-f]{4,32}")
_LISTED = 20
_OFF_LOOP_BYTES = 200_000
"""Content that takes longer than some milliseconds to decode and search."""


_WINDOW_BYTES = 3
"""Of a page for each 8 tokens of the window: at about 3 bytes a token a page takes an eighth of a small one."""


_FRAME_TOKENS = 200
"""Of the window, for the call, the words about its result, and the next call."""
_BYTES_A_TOKEN = 2
"""Few, to be on the safe side: English has 4, JSON and code 3."""
_CUT = "\n[Cut here: the context window is full. Search for a few words of what you need, or answer with what you have.]"


class ArchiveReader(Struct, frozen=True):
    """Offers and answers ``groundwire_read_archive``."""

    page_bytes: int = PAGE_BYTES
    """Most bytes of a page; in a small window it has fewer."""

    def tool(self, exchange: Exchange) -> Tool | None:
        """The tool, when something that is to be sent refers to the archive and the tool is not there yet; else None."""
        if any(tool_name(tool) == READ_ARCHIVE for tool in exchange.tools) or not can_answer_tools(exchange, READ_ARCHIVE):
            return None
        return _TOOL if references_made(exchange) else None

    def offer(self, exchange: Exchange) -> bool:
        """Put the tool before the first of the client's, behind the proxy's own that are there; whether it was added.

        It stands in that place on every turn of a run, so that a provider's prompt cache keeps hitting.
        """
        tool = self.tool(exchange)
        if tool is None:
            return False
        given = {id(tool) for tool in exchange.original.tools}
        tools = list(exchange.tools)
        place = next((i for i, other in enumerate(tools) if id(other) in given), len(tools))
        exchange.tools = (*tools[:place], tool, *tools[place:])
        return True

    async def answer(self, scratchpad: Scratchpad, exchange: Exchange, call: ToolCall) -> str:
        """What the model is told on `call`: a page, what a search found, or what is wrong and which ids there are."""
        arguments, known = call.parsed or {}, references_made(exchange)
        asked = _text(arguments.get("id"))
        prefix = _prefix(asked, known)
        page, search = _page(arguments.get("page")), _text(arguments.get("search"))
        if prefix is None:
            return f"Error: expected the id of something archived.{_listed(known)}"
        if page is None:
            return "Error: page: expected a number from 1 on."
        try:
            item = await scratchpad.find(prefix, client=exchange.client)
        except StoreUnavailable:
            return "Error: the archive cannot be read at the moment. Go on without it, or try again later."
        if item is None or not _allowed(item, exchange, known):
            return f"Error: {asked[:40] or prefix}: unknown id.{_listed(known)}"
        given, page_bytes = (item.content, item.media_type, page or None, search), self._page_bytes(exchange)
        if item.size_bytes < _OFF_LOOP_BYTES:
            return _fitting(read(*given, page_bytes=page_bytes), exchange)
        return _fitting(await asyncio.to_thread(read, *given, page_bytes=page_bytes), exchange)

    def _page_bytes(self, exchange: Exchange) -> int:
        """The same on every turn of a conversation, so that page numbers are."""
        use = exchange.facts.context_before
        window = use.window_tokens if use is not None else None
        return min(self.page_bytes, window // 8 * _WINDOW_BYTES) if window else self.page_bytes


def _fitting(text: str, exchange: Exchange) -> str:
    """`text`, or as much of it as the window has room for behind what was sent last: what is read must not end the conversation."""
    use, reserve = exchange.facts.context, exchange.facts.output_reserve_tokens or 0
    if use is None or not use.window_tokens:
        return text
    most = max(0, (use.window_tokens - use.used_tokens - reserve - _FRAME_TOKENS) * _BYTES_A_TOKEN)
    whole = text.encode()
    if len(whole) <= most:
        return text
    return f"{whole[:most].decode('utf-8', 'ignore')}{_CUT}" if most > len(_CUT) else _CUT.strip()


def references_made(exchange: Exchange) -> list[Reference]:
    """The references that the proxy made; what looks like one in the client's own words is none."""
    original, conversation, messages = exchange.original.messages, exchange.conversation, exchange.messages
    if messages is original and conversation is original:
        return []
    ours = {id(message): message for message in messages}
    for message in original if conversation is original else (*original, *conversation):
        ours.pop(id(message), None)
    made = references_in(ours.values())
    if conversation is original:
        return made
    sent = {id(message) for message in messages}
    for own, edited in zip(original, conversation, strict=True):
        if edited is not own and id(edited) in sent:
            known = references_in([own])
            made += [reference for reference in references_in([edited]) if reference not in (*known, *made)]
    return made


def _allowed(item: ScratchpadItem, exchange: Exchange, known: Sequence[Reference]) -> bool:
    """Whether the item belongs to this conversation: one client may serve many people."""
    return item.run_id == exchange.run_id or any(item.id.startswith(reference.id) for reference in known)


def _prefix(asked: str, known: Sequence[Reference]) -> str | None:
    """The id that `asked` means: in full, cut short but told apart from all that are known, or left out where one is known."""
    found = _DIGITS.search(asked.lower().removeprefix("sp_")) if "sp_" not in asked else _DIGITS.match(asked.partition("sp_")[2])
    if found is None:
        return known[0].id if len(known) == 1 and not asked else None
    meant = [reference.id for reference in known if reference.id.startswith(f"sp_{found[0]}")]
    if len(meant) == 1:
        return meant[0]
    return f"sp_{found[0]}" if len(found[0]) + 3 >= ID_CHARS else None


def _page(value: Any) -> int | None:
    """The page asked for, 0 for none; None when it is no number from 1 on."""
    if value is None or value == "":
        return 0
    try:
        page = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return page if page >= 1 else None


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _listed(known: Sequence[Reference]) -> str:
    """The ids that there are, for the model to choose from."""
    if not known:
        return " Nothing is archived in this conversation."
    more = f", and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return " There are: " + ", ".join(f"{r.id} ({r.what}, {r.size})" for r in known[-_LISTED:]) + more
