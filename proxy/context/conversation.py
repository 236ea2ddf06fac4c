"""A conversation as its parts: what may be taken out of it, and what must stay together. Pure functions over messages.

A *block* is the smallest run of messages that may be moved or replaced: one message, or an assistant message that calls tools with all the
results of its calls. Cutting at block borders keeps every list of messages one that the chat API accepts. A *transcript* is a run of
messages as text that a person, a model and a search can read: what was said byte for byte, tool results too, under a line that tells whose
it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal

import orjson
from msgspec import Struct

from proxy.exchange import Evidence, Exchange, Message, Request
from proxy.language.lru import LRU
from proxy.language.text import text_of
from proxy.offloop import LARGE

Kind = Literal["system", "user", "assistant", "tools", "other"]


class MessageBlock(Struct, frozen=True):
    """``messages[start:end]``, which stay together."""

    kind: Kind
    """``tools`` is an assistant message that calls tools, with the results."""
    start: int
    end: int


def blocks_of(messages: Sequence[Message]) -> list[MessageBlock]:
    """All of `messages`, in order. A tool result that answers nothing before it is a block of its own (``other``)."""
    found: list[MessageBlock] = []
    i = 0
    while i < len(messages):
        message = messages[i]
        end = i + 1
        kind = _kind(message)
        if kind == "tools":
            while end < len(messages) and messages[end].get("role") in ("tool", "function"):
                end += 1
        found.append(MessageBlock(kind, i, end))
        i = end
    return found


def calls_of(message: Message) -> list[Mapping[str, Any]]:
    """The tool calls of an assistant message, those that are objects."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def answered_calls(messages: Sequence[Message]) -> dict[int, Mapping[str, Any]]:
    """The call that a tool's result answers, by the result's position: the latest one before it with its id."""
    called: dict[str, Mapping[str, Any]] = {}
    found: dict[int, Mapping[str, Any]] = {}
    for i, message in enumerate(messages):
        if message.get("role") == "tool" and isinstance(id_ := message.get("tool_call_id"), str) and id_ in called:
            found[i] = called[id_]
        for call in reversed(calls_of(message)):
            if isinstance(call.get("id"), str):
                called[call["id"]] = call
    return found


def answered_calls_of(exchange: Exchange) -> Mapping[int, Mapping[str, Any]]:
    """`answered_calls` of its conversation."""
    given = (exchange.conversation,)
    return exchange.once("answered calls", given, partial(answered_calls, *given))


def called_ids(message: Message) -> list[str]:
    """Ids of the tool calls of an assistant message."""
    return [call["id"] for call in calls_of(message) if isinstance(call.get("id"), str)]


def problems(messages: Sequence[Message]) -> list[str]:
    """Why OpenAI's API would refuse these messages, for tests and as a last check: orphaned results, unanswered calls, no messages."""
    found = [] if messages else ["no messages"]
    for block in blocks_of(messages):
        first = messages[block.start]
        if block.kind == "other" and first.get("role") in ("tool", "function"):
            found.append(f"messages[{block.start}]: a tool result that answers no call")
        if block.kind != "tools":
            continue
        asked = called_ids(first)
        answered = [m.get("tool_call_id") for m in messages[block.start + 1 : block.end] if m.get("role") == "tool"]
        if missing := [id_ for id_ in asked if id_ not in answered]:
            found.append(f"messages[{block.start}]: calls without a result: {', '.join(missing)}")
        found += [f"messages[{block.start}]: a result for {id_!r}, which was not called" for id_ in answered if id_ not in asked]
    return found


class _KnownPrefix(Struct, frozen=True):
    """A conversation that was read on an earlier turn."""

    digest: hashlib.blake2b
    """Of all of it; only copied."""
    hashes: tuple[str, ...]
    """Of every beginning of it, nothing and all of it among them."""


class _Prefixes:
    """Hashes of every beginning of a conversation. What came on an earlier turn is known by hashes of its texts, and not read again."""

    def __init__(self, data_of: Callable[[Message], bytes]) -> None:
        """`data_of` is what of a message goes into the hashes."""
        self._data_of = data_of
        self._known: LRU[_KnownPrefix] = LRU(MAX_KNOWN_HASHES, lambda known: len(known.hashes))

    def of(self, seed: bytes, messages: Sequence[Message], digest_size: int) -> tuple[str, ...]:
        """One hash more than there are messages: that of nothing, of the first message, of the first two, …"""
        key, keys = hash((seed, digest_size)), list[int]()
        for message in messages:
            keys.append(key := hash((key, _message_key(message))))
        there = ((i, known) for i in range(len(keys), 0, -1) if (known := self._known.get(keys[i - 1])) is not None)
        start, known = next(there, (0, None))
        digest = hashlib.blake2b(seed, digest_size=digest_size) if known is None else known.digest.copy()
        found = [digest.hexdigest()] if known is None else [*known.hashes]
        for message in messages[start:]:
            digest.update(self._data_of(message))
            found.append(digest.hexdigest())
        if start < len(keys):
            self._known.put(keys[-1], _KnownPrefix(digest, tuple(found)))
        return tuple(found)


MAX_KNOWN_HASHES = 60_000
"""Of all conversations together: some 5 MB."""
_PLAIN_FIELDS = frozenset(("role", "content", "tool_call_id", "name"))


def _message_key(message: Message) -> int:
    """The same for a message that says the same; texts are known by their hash (`proxy.language.lru`)."""
    plain = message.get("content").__class__ is str and _PLAIN_FIELDS.issuperset(message)
    said = message if plain else without_passing_fields(message)
    if plain or (said.get("content").__class__ is str and _PLAIN_FIELDS.issuperset(said)):
        role, id_, name = said.get("role"), said.get("tool_call_id"), said.get("name")
        if role.__class__ is str and (id_ is None or id_.__class__ is str) and (name is None or name.__class__ is str):
            return hash((said["content"], role, id_, name, len(said)))
    return hash(orjson.dumps(said, option=orjson.OPT_SORT_KEYS))


def _whole(message: Message) -> bytes:
    data = orjson.dumps(without_passing_fields(message), option=orjson.OPT_SORT_KEYS)
    return len(data).to_bytes(8, "big") + data


def _turn(message: Message) -> bytes:
    return _SYSTEM_STANDS if message.get("role") in _SYSTEM else _whole(message)


_SYSTEM = ("system", "developer")
_SYSTEM_STANDS = (6).to_bytes(8, "big") + b"system"
_of_messages, _of_turns = _Prefixes(_whole), _Prefixes(_turn)


def prefix_hashes(messages: Sequence[Message], ends: Sequence[int], *, turns_only: bool = False) -> dict[int, str]:
    """For each position in `ends` a hash of all messages before it: the same prefix has the same hash everywhere.

    With `turns_only`, of system messages only that they stand there: many agents write a clock, or a counter, anew into theirs.
    """
    if turns_only:
        messages = [_ANY_SYSTEM if message.get("role") in _SYSTEM else message for message in messages]
    found = (_of_turns if turns_only else _of_messages).of(b"", messages, 16)
    return {end: found[end] for end in sorted(set(ends))}


_ANY_SYSTEM: Message = {"role": "system"}


def turn_hashes(exchange: Exchange) -> tuple[str, ...]:
    """`prefix_hashes` of its conversation's turns alone: of the first none, one, two, … messages."""
    messages = exchange.conversation
    return exchange.once("turn hashes", (messages,), partial(_turn_hashes, messages))


def _turn_hashes(messages: Sequence[Message]) -> tuple[str, ...]:
    return tuple(prefix_hashes(messages, range(len(messages) + 1), turns_only=True).values())


MAX_KNOWN_TEXTS = 20_000
_known_texts: LRU[bool] = LRU(MAX_KNOWN_TEXTS)
"""Hashes of texts of messages that came before."""


def unread_size(exchange: Exchange) -> int:
    """As `Request.size`, for a pass that remembers by its hash what it read of a text: texts that this process has read do not count."""
    given = (exchange.original,)
    return exchange.once("unread size", given, partial(_unread_size, *given))


def _unread_size(request: Request) -> int:
    if request.quick_size >= LARGE:
        return request.size
    unread = 0
    for message in request.messages:
        text = text_of(message.get("content"))
        if _known_texts.get(key := hash(text)) is None:
            unread += len(text)
            _known_texts.put(key, True)
    return max(request.quick_size, unread)


_CACHE_MARKS = frozenset(("cache_control", "prompt_cache_breakpoint"))
"""Keys of a message or a part that tell a provider's cache how far to keep the prompt."""
_PASSING_FIELDS = _CACHE_MARKS | {"reasoning", "reasoning_content", "reasoning_details"}
"""Of a message: clients leave an answer's thoughts out once the user has spoken again, as DeepSeek's API asks them to."""


def without_passing_fields(message: Message) -> Message:
    """What a message says for as long as it is sent; the message itself where nothing is to be left out.

    Agents put a mark for the cache at the end of the conversation, and so take it off older messages on each turn. Some write a text that
    has one as a list with one part, which says the same as the text alone.
    """
    content = message.get("content")
    if not isinstance(content, list):
        return _without(_PASSING_FIELDS, message)
    parts: Any = [_without(_CACHE_MARKS, part) if isinstance(part, Mapping) else part for part in content]
    if len(parts) == 1 and isinstance(parts[0], Mapping) and parts[0].keys() == {"type", "text"} and parts[0]["type"] == "text":
        parts = parts[0]["text"]
    return {**_without(_PASSING_FIELDS, message), "content": parts}


def _without(names: frozenset[str], fields: Mapping[str, Any]) -> Mapping[str, Any]:
    return fields if names.isdisjoint(fields) else {key: value for key, value in fields.items() if key not in names}


def last_user(messages: Sequence[Message]) -> int | None:
    """Position of the last user message."""
    return next((i for i in range(len(messages) - 1, -1, -1) if messages[i].get("role") == "user"), None)


def last_user_text(messages: Sequence[Message]) -> str:
    """What the last user message says; "" without one."""
    last = last_user(messages)
    return text_of(messages[last].get("content")) if last is not None else ""


def with_text_after(message: Message, block: str) -> Message | None:
    """A copy of `message` with `block` behind its text, a blank line between them; None where its content is no text and no parts."""
    content = message.get("content")
    if content is None or content == "":
        return {**message, "content": block}
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{block}"}
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return {**message, "content": [*content, {"type": "text", "text": block}]}
    return None


def _kind(message: Message) -> Kind:
    role = message.get("role")
    if role in ("system", "developer"):
        return "system"
    if role == "user":
        return "user"
    if role == "assistant":
        return "tools" if called_ids(message) or isinstance(message.get("function_call"), dict) else "assistant"
    return "other"


_KINDS: Mapping[str, Any] = {"tool": "tool_result", "function": "tool_result", "user": "user", "assistant": "assistant"}


def transcript(messages: Sequence[Message], start: int, end: int) -> str:
    """``messages[start:end]``; each begins with a line as ``--- message 7, tool (get_user, call_3)``."""
    names = called_names(messages)
    return "\n".join(line for i in range(start, end) for line in _lines(messages[i], i, names))


def named_calls(message: Message) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call of an assistant message, the legacy form included."""
    found = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            found.append((str(call.get("id") or ""), str(function.get("name") or ""), str(function.get("arguments") or "")))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        found.append(("", str(legacy.get("name") or ""), str(legacy.get("arguments") or "")))
    return found


def called_names(messages: Sequence[Message]) -> dict[str, str]:
    """Name of the called tool by the call's id."""
    return {id_: name for message in messages for id_, name, _ in named_calls(message) if id_}


def result_name(message: Message, names: Mapping[str, str]) -> str:
    """Name of the tool whose result `message` is; "" when it cannot be told."""
    name = names.get(str(message.get("tool_call_id"))) or message.get("name")
    return name if isinstance(name, str) else ""


def content_bytes(message: Message) -> bytes:
    """A message's content: a string's own bytes, anything else as JSON."""
    content = message.get("content")
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else orjson.dumps(content)


def evidence_of(message: Message, position: int, names: Mapping[str, str]) -> Evidence | None:
    """What an answer may rest on when the message is no longer in the prompt; None for one without text."""
    text = text_of(message.get("content"))
    kind = _KINDS.get(str(message.get("role")))
    if not text or kind is None:
        return None
    source = result_name(message, names) if kind == "tool_result" else ""
    return Evidence(text, source=source, kind=kind, message_index=position)


def _lines(message: Message, position: int, names: Mapping[str, str]) -> Iterator[str]:
    role = str(message.get("role"))
    name = ", ".join(part for part in (result_name(message, names), str(message.get("tool_call_id") or "")) if part)
    yield f"--- message {position}, {role}" + (f" ({name})" if name else "")
    content = message.get("content")
    if content is not None:
        yield content if isinstance(content, str) else _parts(content)
    for key in ("tool_calls", "function_call", "refusal"):
        if message.get(key):
            yield f"{key}: {orjson.dumps(message[key]).decode()}"


def _parts(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text_of([part]) or orjson.dumps(part).decode() for part in parts)


# ---- which run a conversation belongs to ----
#
# Which run a conversation belongs to, where its client does not say: told by its beginnings, so that two that fork are two runs.
#
# Every request brings its whole conversation. Its turns tell it; system messages do not, for many agents write a clock, a date or a counter
# into theirs, anew for each request. How a conversation opens is told by its system message, too, but by sentences that stay. It goes on
# with the run that knows its longest beginning, unless that run has gone on otherwise: then what it learned there is none of this
# conversation's. `proxy.store.conversations` keeps who went on how.

MAX_BEGINNINGS = 64
"""Of one conversation, the longest: one more turn than the run knows is what is expected."""


STEADY_SENTENCES, STEADY_CHARS = 3, 20_000
_SHORTEST_SENTENCE = 12
_HEADER_LINE = re.compile(r"\s{0,8}x-[a-z-]{1,60}:", re.I)
"""``x-anthropic-billing-header: …; cch=…``, which Claude Code puts first."""
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？]) {1,4}")
_DIGIT, _WORD = re.compile(r"\d"), re.compile(r"\w+")
_MOVING = frozenset(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september october november
    december montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz mai juni juli oktober dezember lunes martes
    miércoles jueves viernes sábado domingo enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre lundi
    mardi mercredi jeudi vendredi samedi dimanche janvier février mars avril juin juillet août septembre octobre novembre décembre
    """.split()  # noqa: SIM905 (a list of them would be a page long)
)
"""Days and months."""


class Beginnings(Struct, frozen=True):
    """A conversation's beginnings, as hashes: what stood before each time that the assistant spoke, and all of it."""

    hashes: tuple[str, ...]
    """The longest first: all of it."""
    opening: str
    """The run of a conversation that nobody has heard of: named by how it opens."""
    whole: bool = True
    """Whether the last of the hashes is the opening's: no beginning was left out."""

    @property
    def is_opening(self) -> bool:
        """Whether the assistant has not spoken yet."""
        return len(self.hashes) == 1


def beginnings_of(client: str, route: str, messages: Sequence[Message]) -> Beginnings:
    """Linear in the messages' size."""
    seed, opening = f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), opening_of(client, route, messages)
    turns = [message for message in messages if message.get("role") not in _SYSTEM]
    hashes = _of_talk.of(seed, turns, 12)
    ends = [i for i, message in enumerate(turns) if i and message.get("role") == "assistant" != turns[i - 1].get("role")]
    ends.append(len(turns))
    first = hashlib.blake2b(seed, digest_size=12)  # two conversations that open with the same words under other rules are two
    for message in turns[: ends[0]]:
        first.update(_talk(message))
    first.update(opening.encode())
    found = [first.hexdigest(), *(hashes[end] for end in ends[1:])]
    kept = tuple(reversed(found[-MAX_BEGINNINGS:]))
    return Beginnings(kept, opening, whole=len(kept) == len(found))


def _talk(message: Message) -> bytes:
    said = without_passing_fields(message)
    return orjson.dumps([said.get(name) for name in ("role", "content", "tool_calls", "tool_call_id", "function_call")])


_of_talk = _Prefixes(_talk)


def opening_of(client: str, route: str, messages: Sequence[Message]) -> str:
    """The same for every conversation that opens so: from client, route, what is steady in the system messages, the first user message."""
    digest = hashlib.blake2b(f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), digest_size=12)
    for message in messages:
        role = message.get("role")
        content = without_passing_fields(message).get("content")
        digest.update(orjson.dumps([role, steady(text_of(content)[:STEADY_CHARS]) if role in _SYSTEM else content]))
        if role == "user":
            break
    return "run_" + digest.hexdigest()


@lru_cache(maxsize=64)  # a client's system message comes again with each of its turns
def steady(text: str) -> tuple[str, ...]:
    """The first `STEADY_SENTENCES` of a system message that do not say what moves: no digit, no day or month, no header of a client's."""
    found: list[str] = []
    for line in text.splitlines():
        if _HEADER_LINE.match(line):
            continue
        for part in _SENTENCE_END.split(line):
            if _DIGIT.search(part):
                continue
            sentence = part.strip()
            if len(sentence) >= _SHORTEST_SENTENCE and _MOVING.isdisjoint(_WORD.findall(sentence.lower())):
                found.append(sentence)
                if len(found) == STEADY_SENTENCES:
                    return tuple(found)
    return tuple(found)


def branch_of(run: str, beginning: str) -> str:
    """The name of the run that leaves `run` with `beginning`; the same in every worker."""
    return "run_" + hashlib.blake2b(f"{run}\0{beginning}".encode(), digest_size=12).hexdigest()
