"""Client keys: who sends a request, and which routes are open to it.

With ``keys:`` in config.yaml a request needs one of them; they are stored as SHA-256 (a key has 256 random bits, so a slow hash
would add nothing). Without, a client is told from another by the hash of its ``Authorization``. A key in ``x-api-key`` is the same
client's as that key behind ``Bearer``.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from functools import lru_cache

from proxy.config.settings import KeySettings
from proxy.errors import InvalidApiKey, PolicyNotAllowed

ANONYMOUS = "anonymous"
_REMEMBERED_CHARS = 512
"""Longest key whose hash is kept: no key is as long, and what a client may send is."""


def new_key() -> tuple[str, str]:
    """A fresh key and its SHA-256 in hex."""
    key = "gw-" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


class Clients:
    """Tells clients apart."""

    def __init__(self, keys: Sequence[KeySettings]) -> None:
        self._keys = {key.sha256.lower(): key for key in keys}
        self.keyed = bool(keys)
        """Whether a client needs a key of this server's."""

    def identify(self, sent: Sequence[tuple[str, str]], route: str | None, form: str = "Authorization: Bearer KEY") -> str:
        """Whose request this is, for route prefix `route` (None for what is no route's); `sent` are the headers with its keys, the one that
        counts most first, `form` how a key is to be sent. Raises `InvalidApiKey`, `PolicyNotAllowed`.
        """
        credentials = [value if name == "authorization" else f"Bearer {value}" for name, value in sent if value]
        if not self._keys:
            return f"auth:{_sha256(credentials[0])[:16]}" if credentials else ANONYMOUS
        key = next((known for given in credentials if (known := self._known(given)) is not None), None)
        if key is None:
            # Client libraries look for these words to raise their own authentication error.
            wrong, missing = "this key is not known here", f"a key is needed: send it as '{form}'"
            message = f"Incorrect API key provided: {wrong if credentials else missing}"
            raise InvalidApiKey(message)
        if route is not None and key.routes and route not in key.routes:
            raise PolicyNotAllowed(f"the key {key.name!r} may not use this route")
        return key.name

    def _known(self, credential: str) -> KeySettings | None:
        scheme, _, token = credential.partition(" ")
        return self._keys.get(_sha256(token.strip())) if scheme.lower() == "bearer" else None


def _sha256(text: str) -> str:
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else _hashed(text)


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


_remembered = lru_cache(maxsize=256)(_hashed)
"""A client sends the same key with each request."""
