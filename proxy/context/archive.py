"""What stands in a prompt for content that has left it, and how the model reads that content back: in pages, or by the places that match.

For the stages that archive: they name `READ_ARCHIVE` in `Stage.answers`, call `offer_archive` when the messages are as they will be sent,
and `answer_from_archive` from `on_tool_call`. A client gets at its own items only: those of the run, and those that its prompt refers to.
References, pages and searches are pure functions over text and bytes.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Message, Tool, ToolCall, tool_name
from proxy.ports import Scratchpad, ScratchpadItem
from proxy.ports.stage import can_answer_tools

READ_ARCHIVE = "groundwire_read_archive"
ID_CHARS = 15
"""Of a scratchpad id in a reference: ``sp_`` and 48 bits. Among 100,000 items of one client two share them with p = 0.00002."""
REFERENCE_TOKENS = 30
"""What a message that refers to an archived result takes at least (o200k): no shorter one is archived."""
PAGE_BYTES = 6000
"""About 2,000 tokens (o200k): 1,700 of English or Chinese, 2,500 of JSON full of numbers."""
_MIN_PAGE_BYTES = 64
_WHAT_CHARS = 40
_QUERY_CHARS = 200
_MATCHES = 10
"""Most places that one search shows."""
_MAX_COUNTED = 1000
"""Matches up to which a search counts."""
_WORDS = 12
"""Of a query that stands nowhere as a whole: its words that are looked for."""
_AROUND_CHARS = 150
_REFERENCE = re.compile(rf"\[archived ([^\[\]]*?), (\d+(?:\.\d)?[kMG]?B): {READ_ARCHIVE} (sp_[0-9a-f]{{12,32}})\]")


class Reference(Struct, frozen=True):
    """What stands for an archived piece of context."""

    id: str
    """The first characters of its scratchpad id."""
    what: str
    size: str


# ---- references ----


def reference(item_id: str, what: str, size_bytes: int) -> str:
    """The text that stands for an item: what it was (a tool's name, ``user message``), its size, and how to read it."""
    plain = re.sub(r"[^\w./:#@+-]+", " ", what).strip()
    return f"[archived {plain[:_WHAT_CHARS].rstrip() or 'text'}, {size_of(size_bytes)}: {READ_ARCHIVE} {item_id[:ID_CHARS]}]"


def references_in(messages: Iterable[Message]) -> list[Reference]:
    """The references in the texts of `messages`, in order, each id once."""
    found: dict[str, Reference] = {}
    for message in messages:
        for text in _texts(message.get("content")):
            for what, size, item_id in _REFERENCE.findall(text):
                found.setdefault(item_id, Reference(item_id, what, size))
    return list(found.values())


def reference_ids(text: str) -> set[str]:
    """The ids that references in `text` name, cut to `ID_CHARS`."""
    return {item_id[:ID_CHARS] for _, _, item_id in _REFERENCE.findall(text)}


def size_of(size_bytes: int) -> str:
    """``812B``, ``4.1kB``, ``2.3MB``: in units of 1,000, rounded."""
    if size_bytes < 1000:
        return f"{size_bytes}B"
    value = float(size_bytes)
    for unit in ("kB", "MB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f}{unit}"
    return f"{value / 1000:.1f}GB"


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        return []
    return [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]


# ---- the tool ----


def read_archive_tool() -> Tool:
    """The tool as the model sees it: always the same, as it stands at the prompt's beginning."""
    description = (
        "Read what was moved out of this conversation to save space. Where something was, there is a reference: [archived WHAT, SIZE: "
        f"{READ_ARCHIVE} ID]. Call this whenever the task needs exact values or details from it, and before you say that you no longer "
        "have them or call another tool again for the same data. Long contents come in pages; with `search` only the places that match."
    )
    properties = {
        "id": {"type": "string", "description": "The ID in the reference, such as sp_0123456789ab."},
        "page": {"type": "integer", "description": "Which page to read, from 1 on; 1 if left out."},
        "search": {"type": "string", "description": "Text to look for, such as a name or a number; upper and lower case are the same."},
    }
    parameters = {"type": "object", "properties": properties, "required": ["id"], "additionalProperties": False}
    return {"type": "function", "function": {"name": READ_ARCHIVE, "description": description, "parameters": parameters}}


# ---- reading ----


def read(content: bytes, page: int | None = None, search: str = "", *, page_bytes: int = PAGE_BYTES) -> str:
    """A page of `content`, the first if none is named, or the places that match `search`, from `page` on if one is named.

    What is no UTF-8 in it (a lone surrogate) is shown as U+FFFD.
    """
    text = content.decode("utf-8", "replace")
    parts = pages(text, page_bytes)
    if page is not None and not 1 <= page <= len(parts):
        return f"There is no such page: it has {len(parts)} page{'s' * (len(parts) > 1)} ({size_of(len(content))})."
    if search.strip():
        return _search(text, parts, search.strip()[:_QUERY_CHARS], page or 1)
    number = page or 1
    return f"[page {number} of {len(parts)}]\n{parts[number - 1]}"


def pages(text: str, page_bytes: int = PAGE_BYTES) -> list[str]:
    """`text` in pieces of at most `page_bytes` bytes of UTF-8, cut behind a line or a word where there is one; joined they are `text`."""
    data, size = text.encode("utf-8", "replace"), max(page_bytes, _MIN_PAGE_BYTES)
    found, start = [], 0
    while len(data) - start > size:
        end = _cut(data, start, start + size)
        found.append(data[start:end].decode())
        start = end
    return [*found, data[start:].decode()]


def _cut(data: bytes, start: int, end: int) -> int:
    """Where to end a page that may reach to `end`: in its last quarter behind a line's end or a space, else at a character's."""
    for separator in (b"\n", b" "):
        at = data.rfind(separator, end - (end - start) // 4, end)
        if at >= 0:
            return at + 1
    while data[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return end


# ---- searching ----

_Span = tuple[int, int]


def _search(text: str, parts: Sequence[str], query: str, page: int) -> str:
    """The places that match from `page` on: the whole query, or else that of its words which stands there least often."""
    starts = [0, *accumulate(len(part) for part in parts[:-1])]
    folded, wanted = _lower(text), _lower(query)
    spans, kind = _occurrences(folded, wanted, starts[page - 1]), "matches of"
    if not spans:
        each_word = (_occurrences(folded, word, starts[page - 1]) for word in wanted.split()[:_WORDS])
        spans, kind = min(filter(None, each_word), key=len, default=[]), "matches of the rarest word of"
    extent = f"from page {page} of {len(parts)}"
    if not spans:
        return f"[no match of {query!r}, {extent}] Try a single word or another spelling, or read the pages."
    number = f"{_MAX_COUNTED} or more" if len(spans) >= _MAX_COUNTED else str(len(spans))
    return "\n".join((f"[{number} {kind} {query!r}, {extent}]", *_show_places(text, starts, spans)))


def _show_places(text: str, starts: Sequence[int], spans: Sequence[_Span]) -> list[str]:
    """The places with what stands around them, at most `_MATCHES`, and where to find more; matches that are in sight are left out."""
    lines: list[str] = []
    right = -1
    for at, end in spans:
        if end <= right:
            continue
        page = bisect_right(starts, at)
        if len(lines) == _MATCHES:
            return [*lines, f"[more follow, on page {page} and behind it: read that page, search from it on, or for something more exact]"]
        left, right = max(0, at - _AROUND_CHARS), min(len(text), end + _AROUND_CHARS)
        lines.append(f"[page {page}, character {at}] {'…' * (left > 0)}{text[left:right]}{'…' * (right < len(text))}")
    return lines


def _lower(text: str) -> str:
    """`text` in lower case, each character where it was."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(low if len(low := char.lower()) == 1 else char for char in text)


def _occurrences(folded: str, wanted: str, start: int) -> list[_Span]:
    """Where `wanted` stands, at most `_MAX_COUNTED` times."""
    found: list[_Span] = []
    at = folded.find(wanted, start)
    while at >= 0 and len(found) < _MAX_COUNTED:
        found.append((at, at + len(wanted)))
        at = folded.find(wanted, at + len(wanted))
    return found


_DIGITS = re.compile(r"[0-9a-f]{4,32}")
_MAX_LISTED = 20
_OFF_LOOP_BYTES = 200_000
"""Content that takes longer than some milliseconds to decode and search."""


_WINDOW_BYTES = 3
"""Of a page for each 8 tokens of the window: at about 3 bytes a token a page takes an eighth of a small one."""


_FRAME_TOKENS = 200
"""Of the window, for the call, the words about its result, and the next call."""
_BYTES_A_TOKEN = 2
"""Few, to be on the safe side: English has 4, JSON and code 3."""
_CUT = "\n[Cut here: the context window is full. Search for a few words of what you need, or answer with what you have.]"


def archive_tool_for(exchange: Exchange) -> Tool | None:
    """The tool, when something that is to be sent refers to the archive and the tool is not there yet; else None."""
    if any(tool_name(tool) == READ_ARCHIVE for tool in exchange.tools) or not can_answer_tools(exchange, READ_ARCHIVE):
        return None
    return read_archive_tool() if references_made(exchange) else None


def offer_archive(exchange: Exchange) -> bool:
    """Put the tool before the first of the client's, behind the proxy's own that are there; whether it was added.

    It stands in that place on every turn of a run, so that a provider's prompt cache keeps hitting.
    """
    tool = archive_tool_for(exchange)
    if tool is None:
        return False
    given = {id(tool) for tool in exchange.original.tools}
    tools = list(exchange.tools)
    place = next((i for i, other in enumerate(tools) if id(other) in given), len(tools))
    exchange.tools = (*tools[:place], tool, *tools[place:])
    return True


async def answer_from_archive(scratchpad: Scratchpad, exchange: Exchange, call: ToolCall) -> str:
    """What the model is told on `call`: a page, what a search found, or what is wrong and which ids there are."""
    arguments, known = call.parsed or {}, references_made(exchange)
    asked = _text(arguments.get("id"))
    prefix = _prefix(asked, known)
    page, search = _page(arguments.get("page")), _text(arguments.get("search"))
    if prefix is None:
        return f"Error: expected the id of something archived.{_list_ids(known)}"
    if page is None:
        return "Error: page: expected a number from 1 on."
    try:
        item = await scratchpad.find(prefix, client=exchange.client)
    except StoreUnavailable:
        return "Error: the archive cannot be read at the moment. Go on without it, or try again later."
    if item is None or not _may_read(item, exchange, known):
        return f"Error: {asked[:40] or prefix}: unknown id.{_list_ids(known)}"
    reading = partial(read, item.content, page or None, search, page_bytes=_page_bytes(exchange))
    return fitting(reading() if item.size_bytes < _OFF_LOOP_BYTES else await asyncio.to_thread(reading), exchange)


def _page_bytes(exchange: Exchange) -> int:
    """The same on every turn of a conversation, so that page numbers are; fewer in a small window."""
    use = exchange.facts.context_before
    window = use.window_tokens if use is not None else None
    return min(PAGE_BYTES, window // 8 * _WINDOW_BYTES) if window else PAGE_BYTES


def fitting(text: str, exchange: Exchange) -> str:
    """`text`, or as much of it as the window has room for behind what was sent last: what is read must not end the conversation.

    The room is taken: another result of the same answer has what is left, until what is sent is measured anew.
    """
    use, reserve = exchange.facts.context, exchange.facts.output_reserve_tokens or 0
    if use is None or not use.window_tokens:
        return text
    most = max(0, (use.window_tokens - use.used_tokens - reserve - _FRAME_TOKENS) * _BYTES_A_TOKEN)
    whole = text.encode()
    exchange.facts.context = replace(use, used_tokens=use.used_tokens + min(len(whole), most) // _BYTES_A_TOKEN)
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


def _may_read(item: ScratchpadItem, exchange: Exchange, known: Sequence[Reference]) -> bool:
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


def _list_ids(known: Sequence[Reference]) -> str:
    """The ids that there are, for the model to choose from."""
    if not known:
        return " Nothing is archived in this conversation."
    more = f", and {len(known) - _MAX_LISTED} more" if len(known) > _MAX_LISTED else ""
    return " There are: " + ", ".join(f"{r.id} ({r.what}, {r.size})" for r in known[-_MAX_LISTED:]) + more
