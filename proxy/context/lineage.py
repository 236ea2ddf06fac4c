"""Which run a conversation belongs to, where its client does not say: told by its beginnings, so that two that fork are two runs.

Every request brings its whole conversation. Its turns tell it; system messages do not, for many agents write a clock, a date or a counter
into theirs, anew for each request. How a conversation opens is told by its system message, too, but by sentences that stay. It goes on
with the run that knows its longest beginning, unless that run has gone on otherwise: then what it learned there is none of this
conversation's. `proxy.store.conversations` keeps who went on how. Compactions and first times are kept by hashes of beginnings, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import orjson
from msgspec import Struct

from proxy.exchange import Exchange, Message
from proxy.language.lru import LRU
from proxy.language.text import text_of

# ---- hashes of beginnings ----


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
        if known is not None and start == len(keys):
            return known.hashes
        digest = hashlib.blake2b(seed, digest_size=digest_size) if known is None else known.digest.copy()
        found = [digest.hexdigest()] if known is None else [*known.hashes]
        for message in messages[start:]:
            digest.update(self._data_of(message))
            found.append(digest.hexdigest())
        if keys:
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


# ---- runs ----

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
