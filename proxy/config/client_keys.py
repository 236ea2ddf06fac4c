"""Client keys: who sends a request, and which routes are open to it.

With ``keys:`` in config.yaml a request needs one of them; they are stored as SHA-256 (a key has 256 random bits, so a slow hash
would add nothing). Without, a client is told from another by the hash of its ``Authorization``.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence

from proxy.config.settings import KeySettings
from proxy.errors import InvalidApiKey, PolicyNotAllowed

ANONYMOUS = "anonymous"


def new_key() -> tuple[str, str]:
    """A fresh key and its SHA-256 in hex."""
    key = "gw-" + secrets.token_urlsafe(32)
    return key, hashlib.sha256(key.encode()).hexdigest()


class Clients:
    """Tells clients apart."""

    def __init__(self, keys: Sequence[KeySettings]) -> None:
        self._keys = {key.sha256.lower(): key for key in keys}

    def identify(self, authorization: str, route: str) -> str:
        """Whose request this is, for route prefix `route`. Raises `InvalidApiKey`, `PolicyNotAllowed`."""
        if not self._keys:
            return f"auth:{_sha256(authorization)[:16]}" if authorization else ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        key = self._keys.get(_sha256(token.strip())) if scheme.lower() == "bearer" else None
        if key is None:
            # Client libraries look for these words to raise their own authentication error.
            wrong, missing = "this key is not known here", "a key is needed: send it as 'Authorization: Bearer KEY'"
            message = f"Incorrect API key provided: {wrong if authorization else missing}"
            raise InvalidApiKey(message)
        if key.routes and route not in key.routes:
            raise PolicyNotAllowed(f"the key {key.name!r} may not use this route")
        return key.name


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
