"""The page of client keys: who may ask, how much of its limits each has taken, what was spent; keys made, rotated and ended by forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from proxy.admin.dashboard.entrance import Entrance, converted, fields_of
from proxy.admin.dashboard.rendering import Visitor, check_choice, page, with_query
from proxy.admin.keys import SHOWN_DAYS, KeyBody, KeyBook, ListedKey, taken_of
from proxy.config.keys import LIMITS, Limits
from proxy.errors import ProxyError

PATH = "/dashboard/keys"
BY: Mapping[str, tuple[str, ...]] = {"key": ("client", "team"), "team": ("team",), "model": ("model",), "day": ("day",)}
_ROWS = 100
_OVERLAP_S = 3600.0
"""Of a key that is rotated here."""


class KeysPage:
    """The page and its forms."""

    def __init__(self, book: KeyBook, entrance: Entrance) -> None:
        self._book, self._entrance = book, entrance

    def routes(self) -> list[Route]:
        """For the application."""
        return [Route(PATH, self._entrance.page(self._show)), Route(PATH, self._entrance.page(self._submit), methods=["POST"])]

    async def _show(self, request: Request, visitor: Visitor) -> Response:
        return await self._page(request, visitor, done=request.query_params.get("done", ""))

    async def _page(self, request: Request, visitor: Visitor, code: int = 200, **said: str) -> Response:
        by = request.query_params.get("by", "key")
        check_choice("by", by, tuple(BY))
        rows, teams = await self._book.all()
        spending = await self._book.spending(BY[by])
        values = {"by": by, "days": SHOWN_DAYS, "stored": self._book.parts.stored, "teams": teams, "limits": LIMITS}
        spent = [(" · ".join(filter(None, (getattr(row, name) for name in BY[by]))) or "none", row) for row in spending[:_ROWS]]
        values |= {"rows": [_row(row) for row in rows], "spending": spent}
        return await page("keys.html", visitor, code, **values, **{"done": "", "problem": "", "text": "", "name": ""} | said)

    async def _submit(self, request: Request, visitor: Visitor) -> Response:
        """Do what a form asks for; a key's text is on the page that follows, and on no other."""
        fields = fields_of(await self._entrance.decision(request))
        name = fields.get("name", "").strip()
        try:
            text = await self._do(fields.get("decision", ""), name, fields)
        except ProxyError as error:
            return await self._page(request, visitor, error.status, problem=error.message)
        if text:
            return await self._page(request, visitor, text=text, name=name)
        return RedirectResponse(with_query(PATH, done=fields["decision"]), 303)

    async def _do(self, decision: str, name: str, fields: Mapping[str, str]) -> str:
        """The text of the key that was made; "" where none was."""
        check_choice("decision", decision, ("add", "rotate", "revoke", "team"))
        if decision == "rotate":
            return (await self._book.rotate(name, _OVERLAP_S))[1]
        if decision == "revoke":
            await self._book.revoke(name)
            return ""
        limits = {limit: value for limit in LIMITS if (value := fields.get(limit, "").strip())}
        if decision == "team":
            await self._book.set_team(name, converted(limits, Limits))
            return ""
        given: dict[str, Any] = {"name": name, "team": fields.get("team", "").strip(), "expires": fields.get("expires", "").strip()}
        given["models"] = [one.strip() for one in fields.get("models", "").split(",") if one.strip()]
        return (await self._book.add(converted(given | {"limits": limits}, KeyBody)))[1]


def _row(row: ListedKey) -> dict[str, Any]:
    """A key with how much of each limit is taken."""
    key, taken = row.key, taken_of(row.standing) or {}
    limits = [(name, taken.get(name), getattr(key.limits, name)) for name in key.limits.names]
    told = {"name": key.name, "team": key.team, "status": row.status, "expires": key.expires, "stored": row.created_at is not None}
    return told | {"routes": key.routes, "models": key.models, "limits": limits, "spent": row.spent}
