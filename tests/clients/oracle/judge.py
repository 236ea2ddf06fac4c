"""What a client showed, held against what the check read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.clients.oracle.house import Seen
from tests.clients.oracle.words import marks

NAMES = frozenset(
    str.split("""id model item_id call_id tool_use_id response_id file_id container_id message_id name tool_name system_fingerprint signature
    encrypted_content obfuscation type object status role phase finish_reason stop_reason reason code service_tier inference_geo speed
    severity created_at expires_at created_by encoding truncation provider state format version ttl effort verbosity summary event""")
)
"""Last names of places that hold names, states and seals: whatever is one word is taken for one there, as every key of an object is."""

_SENTENCES = re.compile(r"(?<=[a-z]{2}\.)(?=[A-Z][a-z])")
_HEADERS = tuple(f"header {name}" for name in ("openai-", "anthropic-", "x-request-id", "request-id", "x-ratelimit-", "retry-after"))
"""Headers of an upstream's that SDKs read."""


@dataclass(slots=True, frozen=True, order=True)
class Unread:
    """Text that a client showed and no check read."""

    client: str
    place: str
    """Where the client has it: a path in its objects, or the name of a text that it shows as one."""
    text: str
    how: str
    """``word`` for one that was read nowhere, ``joined`` for a text that was nowhere read as it is shown."""

    def __str__(self) -> str:
        return f"{self.client} shows at {self.place} what was not read ({self.how}): {self.text[:120]!r}"


def unread(seen: Seen) -> list[Unread]:
    """Everything that was shown and not read, each word once a client."""
    read = [spaced(text) for text in seen.read.values()]
    known = {mark for text in read for mark in marks(text)}
    found: dict[tuple[str, str], Unread] = {}
    for client, shown in seen.shown.items():
        for path, text in shown["strings"]:
            named = _is_name(path, text)
            for mark in marks(text):
                if mark not in known and not named:
                    found.setdefault((client, mark), Unread(client, path, text, "word"))
        for name, text in shown["texts"].items():
            said = spaced(text)
            missing = [mark for mark in marks(said) if mark not in known]
            paragraphs = [spaced(one) for one in text.split("\n\n")]  # a client may show a refusal and a text as one
            shown_as_read = any(said in one for one in read) or all(any(part in one for one in read) for part in paragraphs)
            if said and (missing or not shown_as_read):
                found.setdefault((client, name), Unread(client, name, text, "word" if missing else "joined"))
    return sorted(found.values())


def _is_name(path: str, text: str) -> bool:
    """Whether a client has a name, a state or a number there, and no text."""
    one_word = not text.split()[1:]
    return one_word and (
        path.startswith(_HEADERS)
        or path.endswith(("{}", "Id", "Reason"))
        or path.rsplit(".", 1)[-1] in NAMES
        or text.replace(".", "", 1).isdigit()
    )


def spaced(text: str) -> str:
    """The text with one space for each run of white space, and between two sentences: more or less of it there says nothing else, but some
    or none in a word does.
    """
    return " ".join(_SENTENCES.sub(" ", text).split())


def said(seen: Seen) -> Iterator[tuple[str, str, str]]:
    """Client, name and text of what each shows as its answer."""
    for client, shown in seen.shown.items():
        for name, text in shown["texts"].items():
            if text:
                yield client, name, text
