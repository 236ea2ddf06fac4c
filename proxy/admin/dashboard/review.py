"""The page on which a person goes through what was flagged or left undecided, one finding at a time; and the form of an exchange's page.

A decision is a form; the page's script gives each of its buttons a key. The address has the order, the only stage, the finding behind
which findings are sorted and that behind which the page goes on. What was just decided stands in it as ``undo=ID.VERSION``. What a reviewer
skipped stands in a cookie, so that it is left out of the queue until they ask for it (``skipped=1``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from proxy.admin.dashboard.entrance import Entrance, fields_of, form_body, set_cookie
from proxy.admin.dashboard.rendering import Visitor, check_choice, page, record_path, with_query
from proxy.admin.dashboard.summaries import in_words
from proxy.admin.feedback import LABELS, ORDERS, OUTCOMES, FeedbackApi, FeedbackBody
from proxy.errors import InvalidRequest, ProxyError
from proxy.ports.panels import interval

PATH = "/dashboard/review"
_COUNTED = 100
"""Findings that are counted at most behind the one that is shown."""
_PLACE = ("order", "only", "back", "after", "skipped")
"""Of the address, what leads to the finding that is shown."""
_SKIPPED, _MAX_SKIPPED, _SKIPPED_S = "groundwire_skipped", 80, 7 * 86_400
"""The cookie of what a reviewer skipped, the newest `_MAX_SKIPPED` ids, for a week: fewer than are counted, and below 4 KB."""


class ReviewPages:
    """The page, and its forms."""

    def __init__(self, feedback: FeedbackApi, entrance: Entrance, texts: str) -> None:
        """`texts` is ``store.texts``."""
        self._feedback, self._entrance, self._texts = feedback, entrance, texts

    def routes(self) -> list[Route]:
        """For the application."""
        enter = self._entrance
        return [
            Route(PATH, enter.page(self._show)),
            Route(PATH, enter.page(self._submit), methods=["POST"]),
            Route(f"{PATH}/undo", enter.page(self._undo), methods=["POST"]),
            Route("/dashboard/records/{id}/feedback", enter.page(self._submit_of_record), methods=["POST"]),
        ]

    async def _show(self, request: Request, visitor: Visitor) -> Response:
        return await self._page(request.query_params, visitor, _skipped(request))

    async def _page(
        self, query: Mapping[str, str], visitor: Visitor, skipped: Sequence[str], problem: str = "", code: int = 200
    ) -> Response:
        place = {name: query.get(name, "") for name in _PLACE}
        order = place["order"] = place["order"] or ORDERS[0]
        check_choice("order", order, ORDERS)
        # What was taken back is shown again, though the address goes on behind it.
        again = await self._feedback.one(query["item"]) if query.get("item") else None
        found = await self._feedback.waiting(_COUNTED + 1, place["after"], stage=place["only"], order=order, back=place["back"])
        left_out = {*([] if place["skipped"] else skipped), *([again.id] if again is not None else [])}
        waiting = [*([again] if again is not None else []), *(one for one in found.findings if one.id not in left_out)]
        values = {
            "place": place,
            "item": waiting[0] if waiting else None,
            "left": len(waiting) - 1,
            "more": found.more,
            "further": found.further,
            "labels": LABELS if waiting and waiting[0].is_sentence else OUTCOMES,
            "skipped": any(one.id in left_out for one in found.findings),
            "without_words": found.without_words,
            "texts": self._texts,
            "stages": Counter(one.stage for one in waiting),
            "by_stage": [(stage, right, n, interval(right, n)) for stage, (right, n) in (await self._feedback.store.by_stage()).items()],
            "reason": in_words(str(waiting[0].content.get("code", ""))) if waiting else "",
            "problem": problem,
            "done": query.get("done", ""),
            "undo": query.get("undo", ""),
            "undo_item": query.get("undone_item", ""),
        }
        return await page("review.html", visitor, code, **values)

    async def _submit(self, request: Request, visitor: Visitor) -> Response:
        """Keep what a person says, and go on behind it; where another has decided meanwhile, that holds, and it is said."""
        fields = fields_of(await self._entrance.decision(request))
        place = {name: fields.get(name, "") for name in _PLACE}
        item, skipped = fields.get("item", ""), _skipped(request)
        if fields.get("said") == "skip":
            response = RedirectResponse(with_query(PATH, **{**place, "after": item}), 303)
            ids = [*(one for one in skipped if one != item), item][-_MAX_SKIPPED:]
            set_cookie(request, response, "~".join(ids), name=_SKIPPED, path=PATH, max_age_s=_SKIPPED_S)
            return response
        try:
            kept = await self._feedback.say(form_body({**_said(fields), "version": "0"}, FeedbackBody))
        except ProxyError as error:
            return await self._page(
                place | {"after": item if error.status == 409 else place["after"]}, visitor, skipped, error.message, error.status
            )
        done = {"done": fields["said"], "undo": f"{kept.id}.{kept.version}", "undone_item": item}
        return RedirectResponse(with_query(PATH, **{**place, "after": item}, **done), 303)

    async def _undo(self, request: Request, visitor: Visitor) -> Response:
        fields = fields_of(await self._entrance.decision(request))
        place = {name: fields.get(name, "") for name in _PLACE}
        entry, _, version = fields.get("undo", "").rpartition(".")
        if not version.isdecimal() or len(version) > 18:
            raise InvalidRequest("undo: expected an id and a version", param="undo")
        try:
            await self._feedback.take_back(entry, int(version))
        except ProxyError as error:
            return await self._page(place, visitor, _skipped(request), error.message, error.status)
        return RedirectResponse(with_query(PATH, **place, item=fields.get("item", ""), done="undone"), 303)

    async def _submit_of_record(self, request: Request, visitor: Visitor) -> Response:
        """What an exchange's page says of one of its findings, in place of what was said before."""
        fields = fields_of(await self._entrance.decision(request))
        record_id = request.path_params["id"]
        expected = fields.get("expected", "") if fields.get("said") == "wrong" else ""
        await self._feedback.say(form_body(fields | {"record_id": record_id, "expected": expected}, FeedbackBody))
        return RedirectResponse(with_query(record_path(record_id), done="feedback"), 303)


def _skipped(request: Request) -> list[str]:
    """Ids of findings, the last one skipped last."""
    return request.cookies.get(_SKIPPED, "").split("~")


def _said(fields: Mapping[str, str]) -> dict[str, str]:
    """The form as a word on the finding. Of an undecided sentence a person says whether the sentence itself is right."""
    said, expected = fields.get("said", ""), fields.get("expected", "")
    if fields.get("label") == "unsure" and said in ("right", "wrong"):
        return {**fields, "said": "wrong", "expected": "supported" if said == "right" else expected or "unsupported"}
    return {**fields, "expected": expected if said == "wrong" else ""}
