"""A server's list of models, or one of them, as another API tells it: Gemini's have names where all others' have ids.

Reference: https://platform.openai.com/docs/api-reference/models/list, https://docs.anthropic.com/en/api/models-list and
https://ai.google.dev/api/models#method:-models.list
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.config.settings import Api
from proxy.wire.bodies import object_in, objects_of

_PREFIX = "models/"
_EPOCH = "1970-01-01T00:00:00Z"
"""The time of a model that tells of none, as Anthropic says it."""
_METHODS = ["generateContent", "countTokens"]


def models_for(client: Api, body: bytes) -> bytes:
    """As the client's API has it; a body in which no model stands as it came."""
    fields = object_in(body) or {}
    listed = next((fields[name] for name in ("data", "models") if isinstance(fields.get(name), list)), None)
    made = [_model(client, one) for one in objects_of([fields] if listed is None else listed) if _id_of(one)]
    if listed is None:
        return orjson.dumps(made[0]) if made else body
    if client == "gemini":
        return orjson.dumps({"models": made})
    ends = {"first_id": made[0]["id"], "last_id": made[-1]["id"]} if made else {"first_id": None, "last_id": None}
    return orjson.dumps({"data": made, "has_more": False, **ends} if client == "messages" else {"object": "list", "data": made})


def _id_of(model: Mapping[str, Any]) -> str:
    given = model.get("id") or model.get("name")
    return given.removeprefix(_PREFIX) if isinstance(given, str) else ""


def _model(client: Api, model: Mapping[str, Any]) -> dict[str, Any]:
    identity = _id_of(model)
    title = str(model.get("display_name") or model.get("displayName") or identity)
    if client == "gemini":
        return {"name": _PREFIX + identity, "displayName": title, "supportedGenerationMethods": _METHODS}
    if client == "messages":
        return {"type": "model", "id": identity, "display_name": title, "created_at": model.get("created_at") or _EPOCH}
    return {"id": identity, "object": "model", "created": 0, "owned_by": "google"}
