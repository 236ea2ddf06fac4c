"""Which run a conversation belongs to, where its client does not say: told by its beginnings, so that two that fork are two runs.

Every request brings its whole conversation. Its turns tell it; system messages do not, for many agents write a clock, a date or a counter
into theirs, anew for each request. How a conversation opens is told by its system message, too, but by sentences that stay. It goes on
with the run that knows its longest beginning, unless that run has gone on otherwise: then what it learned there is none of this
conversation's. `proxy.store.conversations` keeps who went on how.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import orjson
from msgspec import Struct

from proxy.exchange import Message
from proxy.language.text import text_of

MAX_BEGINNINGS = 64
"""Of one conversation, the longest: one more turn than the run knows is what is expected."""


STEADY_SENTENCES, STEADY_CHARS = 3, 20_000
_SHORTEST_SENTENCE = 12
_SYSTEM = ("system", "developer")
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
    digest = hashlib.blake2b(f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), digest_size=12)
    opening, found = opening_of(client, route, messages), list[str]()
    turns = [message for message in messages if message.get("role") not in _SYSTEM]
    for i, message in enumerate(turns):
        if message.get("role") == "assistant" and i and turns[i - 1].get("role") != "assistant":
            found.append(digest.hexdigest() if found else _first(digest, opening))
        digest.update(orjson.dumps([message.get(name) for name in ("role", "content", "tool_calls", "tool_call_id", "function_call")]))
    found.append(digest.hexdigest() if found else _first(digest, opening))
    kept = tuple(reversed(found[-MAX_BEGINNINGS:]))
    return Beginnings(kept, opening, whole=len(kept) == len(found))


def _first(digest: hashlib.blake2b, opening: str) -> str:
    """Of what stands before the assistant's first word: two conversations that open with the same words under other rules are two."""
    own = digest.copy()
    own.update(opening.encode())
    return own.hexdigest()


def opening_of(client: str, route: str, messages: Sequence[Message]) -> str:
    """The same for every conversation that opens so: from client, route, what is steady in the system messages, the first user message."""
    digest = hashlib.blake2b(f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), digest_size=12)
    for message in messages:
        role = message.get("role")
        content = message.get("content")
        digest.update(orjson.dumps([role, steady(text_of(content)) if role in _SYSTEM else content]))
        if role == "user":
            break
    return "run_" + digest.hexdigest()


def steady(text: str) -> list[str]:
    """The first `STEADY_SENTENCES` of a system message that do not say what moves: no digit, no day or month, no header of a client's."""
    found: list[str] = []
    for line in text[:STEADY_CHARS].splitlines():
        if _HEADER_LINE.match(line):
            continue
        for part in _SENTENCE_END.split(line):
            if _DIGIT.search(part):
                continue
            sentence = part.strip()
            if len(sentence) >= _SHORTEST_SENTENCE and _MOVING.isdisjoint(_WORD.findall(sentence.lower())):
                found.append(sentence)
                if len(found) == STEADY_SENTENCES:
                    return found
    return found


def branch_of(run: str, beginning: str) -> str:
    """The name of the run that leaves `run` with `beginning`; the same in every worker."""
    return "run_" + hashlib.blake2b(f"{run}\0{beginning}".encode(), digest_size=12).hexdigest()
