"""A key that stands twice in one object: RFC 8259 section 4 leaves open which of the two counts, so a provider may read the other one."""

from __future__ import annotations

import json
from typing import Any

from proxy.errors import InvalidRequest


def check_duplicates(body: bytes) -> None:
    """Raises `InvalidRequest` with the key's name. `body` has been parsed before; milliseconds for a megabyte."""
    json.loads(body, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise InvalidRequest(f"the key {twice[:80]!r} stands twice in one object: which of them counts is not defined", param=twice[:80])
