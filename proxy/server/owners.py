"""Whose what a provider keeps under the operator's key is: a response, its items, a conversation, a file.

In: the ids that a request names, in its path or its body, and the ids that an answer brings. Where clients have keys, an id that is not
remembered as this client's is a 404, whoever else's it is; where they have none, only an id that is remembered as another's (a single
user's programs go on with what they made before). A client whose own key is forwarded is the upstream's to judge.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Collection, Sequence
from functools import partial
from urllib.parse import unquote

import orjson

from proxy.errors import NotFound, Overloaded, StoreUnavailable
from proxy.language.lru import LRU
from proxy.ledger import Ledger, Party
from proxy.ports.deadline import AwakeTimeout, with_one_retry
from proxy.ports.upstream import Reply, WrappedReply, is_event_stream
from proxy.store.conversations import DatabaseOwners
from proxy.wire.responses.items import ids_of_body, ids_of_event
from proxy.wire.sse import EventSplitter

log = logging.getLogger("groundwire.endpoint")

TIMEOUT_S = 5.0
"""For the store."""
REMEMBERED = 16_384
"""Ids whose owner needs no look at the store."""
_COLLECTIONS = (
    *("responses", "conversations", "files", "uploads", "batches", "vector_stores", "containers", "videos", "evals"),
    *("assistants", "threads", "fine_tuning/jobs", "skills", "messages/batches"),
)
"""Paths below which an account's own things stand by their ids."""
_ACTIONS = frozenset(("input_tokens", "compact"))
"""What stands below ``responses`` and is no id."""


class Owners:
    """Of one server."""

    def __init__(self, store: DatabaseOwners, ledger: Ledger, *, keyed: bool) -> None:
        """`keyed`: whether clients have keys of this server's."""
        self._store, self._ledger, self._keyed = store, ledger, keyed
        self._known: LRU[str] = LRU(REMEMBERED)

    async def check(self, upstream: str, named: Collection[str], client: str, party: Party, brought: Collection[str] = ()) -> None:
        """Raises `NotFound` where one of the ids `named` is not the client's, or one of which it has `brought` a part is another's."""
        found = await self._find(upstream, {*named, *brought})
        for one in sorted({*named, *brought}):
            owner = found.get(one)
            if owner == client or (owner is None and (one not in named or not self._keyed)):
                continue
            self._ledger.refused("owner_refused", party, "names what is not its own")
            raise NotFound(f"nothing with the id {one[:100]!r} was made with this key, or it is past its retention")

    async def add(self, upstream: str, ids: Collection[str], client: str) -> None:
        """The client has been given them; a store that is away is logged, and they are forgotten when this process ends."""
        new = [one for one in ids if self._known.get((upstream, one)) is None]
        if not new:
            return
        for one in new:
            self._known.put((upstream, one), client)
        try:
            async with AwakeTimeout(TIMEOUT_S):
                all_its_own = await with_one_retry(partial(self._store.add, upstream, new, client))
                stored = {} if all_its_own else await with_one_retry(partial(self._store.find, upstream, new))
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("client %s: whose %d ids are cannot be kept: %s", client, len(new), error)
            return
        for one, owner in stored.items():  # another worker may have been first
            self._known.put((upstream, one), owner)

    async def only_own(self, upstream: str, body: bytes, client: str) -> bytes:
        """A list without what is another client's, or where clients have keys, not this one's."""
        try:
            listed = orjson.loads(body)
            rows = [row for row in listed["data"] if isinstance(row, dict)]
        except (ValueError, TypeError, KeyError):
            return body if not self._keyed else b'{"object":"list","data":[],"has_more":false}'
        owners = await self._find(upstream, {row["id"] for row in rows if isinstance(row.get("id"), str)})
        own = [row for row in rows if owners.get(str(row.get("id")), "" if self._keyed else client) == client]
        if len(own) == len(listed["data"]):
            return body
        ends = {name: own[at]["id"] if own else None for name, at in (("first_id", 0), ("last_id", -1)) if name in listed}
        return orjson.dumps({**listed, "data": own, **ends})

    async def _find(self, upstream: str, ids: set[str]) -> dict[str, str]:
        found = {one: owner for one in ids if (owner := self._known.get((upstream, one))) is not None}
        unknown = ids - found.keys()
        if unknown:
            try:
                async with AwakeTimeout(TIMEOUT_S):
                    stored = await with_one_retry(partial(self._store.find, upstream, unknown))
            except (StoreUnavailable, TimeoutError) as error:
                if self._keyed:
                    message = "the store is away, and with it whose the ids are that this request names; try again in a moment"
                    raise Overloaded(message, headers=(("retry-after", "1"),)) from error
                stored = {}
            for one, owner in stored.items():
                self._known.put((upstream, one), owner)
            found |= stored
        return found


def id_in(path: str) -> str:
    """The id of the account's own thing that a path below ``/v1`` is about; "" for none."""
    return _parts(path)[1]


def is_collection(path: str) -> bool:
    """Whether things are made, and listed, there."""
    name, one = _parts(path)
    return bool(name) and not one


def _parts(path: str) -> tuple[str, str]:
    """The collection and the id in it."""
    plain = path.partition("?")[0].strip("/")
    for name in _COLLECTIONS:
        if plain == name:
            return name, ""
        if plain.startswith(name + "/"):
            one = unquote(plain[len(name) + 1 :].partition("/")[0])
            return (name, "") if one in _ACTIONS else (name, one)
    return "", ""


class OwnedReply(WrappedReply):
    """A provider's response, whose ids are kept as the client's before its last bytes leave."""

    def __init__(self, reply: Reply, owners: Owners, upstream: str, client: str) -> None:
        """`upstream` is the one that the route names, whichever has answered."""
        super().__init__(reply)
        self._owners, self._named, self._client = owners, upstream, client

    async def chunks(self) -> AsyncIterator[bytes]:
        """As they come; of a body that is no stream, all of it at once."""
        if not is_event_stream(self.headers):
            body = await self._reply.read()
            await self._add(ids_of_body(body))
            yield body
            return
        splitter, first = EventSplitter(), True
        async for chunk in self._reply.chunks():
            for event in splitter.feed(chunk):
                if event.data is not None:
                    await self._add(ids_of_event(event.data, first=first))
                    first = False
            yield chunk

    async def _add(self, ids: Sequence[str]) -> None:
        if ids:
            await self._owners.add(self._named, ids, self._client)
