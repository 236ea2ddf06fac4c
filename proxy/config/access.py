"""Who may use which route, and which paths below ``/v1`` it serves: client keys; a dialect's paths, others where it passes them on.

With ``keys:`` in config.yaml, or ``store.keys``, a request needs a key; they are stored as SHA-256 (a key has 256 random bits, so a slow
hash would add nothing). Without, a client is told from another by the hash of its ``Authorization``. A key in ``x-api-key`` or
``x-goog-api-key`` is the same client's as that key behind ``Bearer``.

What a proxy reads as one path and the server behind it as another gets around every policy; so a path that could be spelled otherwise is
refused, and what is forwarded is the very text that was looked at. RFC 3986 sections 2.3 and 6.2.2 say what can be spelled otherwise.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote

import msgspec
from msgspec import Struct

from proxy.errors import ConfigError, InvalidApiKey, InvalidRequest, NotFound, Overloaded, PolicyNotAllowed, ProxyError

if TYPE_CHECKING:
    from proxy.config.keys import KeySettings, Limits

ANONYMOUS = "anonymous"
_REMEMBERED_CHARS = 512
"""Longest key whose hash is kept: no key is as long, and what a client may send is."""


def new_key() -> tuple[str, str]:
    """A fresh key and its SHA-256 in hex."""
    key = "gw-" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


class Clients:
    """Tells clients apart."""

    def __init__(self, keys: Sequence[KeySettings], *, stored: bool = False, clock: Callable[[], float] = time.time) -> None:
        """`stored`: further keys are in the store, and come by `replace`."""
        self._configured = {key.sha256.lower(): (key, key.until) for key in keys}
        self._keys, self._by_name, self._clock = self._configured, {key.name: key for key in keys}, clock
        self.keyed = bool(keys) or stored
        """Whether a client needs a key of this server's."""
        self._away = stored
        """Whether the store's keys have not come yet."""

    def replace(self, stored: Mapping[str, tuple[KeySettings, float]]) -> None:
        """Those of the store are these, by SHA-256, each with the time from which on it is refused."""
        self._keys = {**stored, **self._configured}
        self._by_name = {key.name: key for key, _ in self._keys.values()}
        self._away = False

    def version(self, teams: Mapping[str, Limits]) -> str:
        """Hash of all keys and limits; no key can be told from it."""
        every = sorted((sha256, until, msgspec.json.encode(key)) for sha256, (key, until) in self._keys.items())
        named = sorted((name, msgspec.json.encode(limits)) for name, limits in teams.items())
        return hashlib.blake2b(repr((every, named)).encode(), digest_size=4).hexdigest()

    def key(self, client: str) -> KeySettings | None:
        """The key of a client that `identify` has named; None where clients have none."""
        return self._by_name.get(client)

    def identify(self, sent: Sequence[tuple[str, str]], route: str | None, form: str = "Authorization: Bearer KEY") -> str:
        """Whose request this is, for route prefix `route` (None for what is no route's); `sent` are the headers with its keys, the one that
        counts most first, `form` how a key is to be sent. Raises `InvalidApiKey`, `PolicyNotAllowed`, `Overloaded`.
        """
        credentials = [value if name == "authorization" else f"Bearer {value}" for name, value in sent if value]
        if not self.keyed:
            return f"auth:{_sha256(credentials[0])[:16]}" if credentials else ANONYMOUS
        found = next((known for given in credentials if (known := self._identity_of(given)) is not None), None)
        if found is None and credentials and self._away:
            raise Overloaded("the store is away, and with it which keys are known; try again in a moment", headers=(("retry-after", "1"),))
        if found is None:
            # Client libraries look for these words to raise their own authentication error.
            wrong, missing = "this key is not known here", f"a key is needed: send it as '{form}'"
            message = f"Incorrect API key provided: {wrong if credentials else missing}"
            raise InvalidApiKey(message)
        key, until = found
        if until <= self._clock():
            raise InvalidApiKey(f"Incorrect API key provided: the key {key.name!r} has expired, or was replaced or revoked")
        if route is not None and key.routes and route not in key.routes:
            raise PolicyNotAllowed(f"the key {key.name!r} may not use this route")
        return key.name

    def _identity_of(self, credential: str) -> tuple[KeySettings, float] | None:
        scheme, _, token = credential.partition(" ")
        return self._keys.get(_sha256(token.strip())) if scheme.lower() == "bearer" else None


def _sha256(text: str) -> str:
    return _cached_hash(text) if len(text) <= _REMEMBERED_CHARS else _hash(text)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


_cached_hash = lru_cache(maxsize=256)(_hash)
"""A client sends the same key with each request."""


Passthrough = tuple[str, ...] | Literal["none"] | None
"""A route's ``passthrough:`` - names of `PASSED`, or other paths below ``/v1``; None for the default."""
_POLICY_PATHS = ("chat", "messages", "generateContent")
"""Paths of which a dialect serves all there is."""
_PLAIN_CHARACTERS = "!$&'()*+,;=:@~"
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\\%]")
_NAME = re.compile(r"[a-z0-9_-]+(?:/[a-z0-9_-]+)*")


def normal(raw: str) -> str:
    """`raw`, a path as it was sent without its query, if that is its one normal spelling. Raises `InvalidRequest`."""
    for segment in raw.split("/")[1:]:
        try:
            text = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            raise _abnormal(raw, "is not UTF-8") from None
        if not text:
            raise _abnormal(raw, "has an empty segment")
        if quote(text, safe=_PLAIN_CHARACTERS) != segment:
            raise _abnormal(raw, f"is not in normal form: {segment!r} should be {quote(text, safe=_PLAIN_CHARACTERS)!r}")
        if _CONTROL.search(text):
            raise _abnormal(raw, "has a control character, a backslash or a per cent sign in a segment")
        if "/" in text and not raw.startswith("/models/"):  # names of models have slashes; elsewhere it could be read as another path
            raise _abnormal(raw, "has an encoded slash")
        if any(piece in (".", "..") for piece in re.split("[/;]", text)):
            raise _abnormal(raw, "has a dot segment")
    return raw


def _abnormal(raw: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"the path {raw[:200]!r} {problem}; send each path in its plain form, as /v1/chat/completions")


class PassthroughRules(Struct, frozen=True):
    """A path that can be passed on."""

    name: str
    """Below ``/v1``."""
    methods: frozenset[str]
    below: bool = False
    """Whether what stands below it (``models/ID``) is meant, too."""
    itself: bool = True
    answers: bool = False
    """Whether a model's answer comes back, which a policy that refuses answers would have to judge."""

    def covers(self, method: str, path: str) -> bool:
        """Whether it is the path of this request, without the leading slash; ``OPTIONS`` asks about every method at once."""
        return (method in self.methods or method == "OPTIONS") and (
            (self.itself and path == self.name) or (self.below and path.startswith(self.name + "/"))
        )


_GET, _POST = frozenset(("GET", "HEAD")), frozenset(("POST",))
_EVERY = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"))
PASSED: tuple[PassthroughRules, ...] = (
    PassthroughRules("models", _GET, below=True),
    PassthroughRules("embeddings", _POST),
    PassthroughRules("moderations", _POST),
    PassthroughRules("rerank", _POST),
    PassthroughRules("messages/count_tokens", _POST),
    PassthroughRules("generateContent/countTokens", _POST),
    PassthroughRules("decisions", _POST),
    PassthroughRules("systemone", _POST),
    PassthroughRules("completions", _POST, answers=True),
    PassthroughRules("responses/input_tokens", _POST),
    PassthroughRules("responses/compact", _POST),
    PassthroughRules("responses", frozenset(("DELETE",)), below=True, itself=False),
    PassthroughRules("responses", _GET | _POST, below=True, itself=False, answers=True),
    PassthroughRules("conversations", _GET | _POST | {"DELETE"}, below=True, answers=True),
)
"""What a route passes on unless it says otherwise. Nothing of an account's own is among it (files, fine-tuning, batches, organisation): the
operator's key would open it."""


class PathRules:
    """What one route passes on."""

    def __init__(self, names: Passthrough) -> None:
        self._chosen = names is not None
        wanted = () if names == "none" else names
        known = {passed.name for passed in PASSED}
        self._passed = PASSED if wanted is None else tuple(p for p in PASSED if p.name in wanted)
        self._passed += tuple(PassthroughRules(name, _EVERY, below=True, answers=True) for name in wanted or () if name not in known)

    def refusal(self, method: str, path: str, *, strict: bool) -> ProxyError | None:
        """Why a request is not passed on; `path` is below ``/v1``, `strict` that the policy refuses answers. None where it is."""
        name = path.removeprefix("/")
        passed = next((p for p in self._passed if p.covers(method, name)), None)
        if passed is None:
            first = name.partition("/")[0]
            if first == "v1":
                return NotFound(f"/v1{path[:200]} has /v1 twice: this client adds it itself, so its base_url is the one without /v1")
            helps = first not in _POLICY_PATHS and any(one.covers(method, name) for one in PathRules((first,))._passed)
            hint = f"; passthrough: [{first[:100]}] in config.yaml would" if helps else ""
            return NotFound(f"this route does not pass {method} /v1{path[:200]} on{hint}")
        if strict and passed.answers and not self._chosen:
            return PolicyNotAllowed(
                f"this route's policy refuses answers, and it cannot judge those of /v1{path[:200]}: use /v1/chat/completions, or let the "
                f"route pass it on unjudged with passthrough: [{passed.name}]"
            )
        return None


def check_passthrough(names: Passthrough, file: str, at: str) -> None:
    """Raises `ConfigError` for a name that is no path below ``/v1``, or one that the policy itself serves."""
    for i, name in enumerate(names if isinstance(names, tuple) else ()):
        if not _NAME.fullmatch(name):
            raise ConfigError(file, f"{at}[{i}]", f"expected a path below /v1 without slashes at its ends, as audio/speech, got {name!r}")
        if name in _POLICY_PATHS or name.startswith("chat/completions"):
            raise ConfigError(file, f"{at}[{i}]", f"{name} goes through the policy; x-groundwire-skip leaves stages out")
