"""Parts of ``upstreams.*``: how long it is waited for and how often it is asked, and how it answers decision models' questions."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct
from msgspec.structs import replace

from proxy.config.sections import Count, Positive, Seconds, Section


class Timeouts(Section, frozen=True, kw_only=True):
    """``upstreams.*.timeouts``, in seconds."""

    connect_s: Seconds = 10.0
    """For the connection."""
    first_byte_s: Seconds = 600.0
    """From the request being sent to the response's first bytes; a model may think for long before it answers unstreamed."""
    between_chunks_s: Seconds = 120.0
    """From one piece of an answer to the next."""
    total_s: Seconds = 1800.0
    """For the whole answer; ends one that drips on for ever."""
    queue_s: Seconds = 600.0
    """For a place where `max_concurrency` calls run; past it the answer is 503 ``overloaded``."""


class Retries(Section, frozen=True, kw_only=True):
    """``upstreams.*.retries``: exponential backoff with full jitter, before the first byte only."""

    attempts: Count = 2
    """Further tries after the first, per upstream."""
    base_s: Seconds = 0.5
    """Longest first pause; it doubles with every try."""
    max_s: Seconds = 8.0
    """Longest pause; a longer ``retry-after`` is passed to the client instead of waited for."""


Shape = Literal["openai", "systemone", "gemini"]
"""OpenAI's ``POST /v1/decisions``, System One's ``POST /v1/systemone``, Google's ``POST /v1beta/decisions``."""
MODEL = "{model}"
PATHS: dict[Shape, str] = {"openai": "/decisions", "systemone": "/systemone", "gemini": "/decisions"}
"""Where each of them has it."""
DECISION_PATHS = frozenset(PATHS.values())


class DecisionsSettings(Section, frozen=True, kw_only=True):
    """``upstreams.*.decisions``; what is left out is as the host of ``base_url`` has it, or else as most servers do."""

    removed = {"max_options": "how many options a question may have goes by the host of base_url"}
    shape: Shape | None = None
    """``openai``, ``systemone``, which most servers of open models speak, or ``gemini``."""
    path: Annotated[str, Meta(pattern=r"^(/[A-Za-z0-9._~@{}-]+)*$")] = ""
    """Behind ``base_url``, as ``/systemone``; ``{model}`` in it stands for the model's name."""
    max_questions: Positive | None = None
    """Of one call; more are asked in several, side by side."""
    usd_per_million_tokens: Annotated[float, Meta(ge=0)] | None = None
    """Of input, where neither the list of prices nor the answer names it; output costs nothing at any provider that is known."""


class DecisionApi(Struct, frozen=True, kw_only=True):
    """What a server offers."""

    shape: Shape = "systemone"
    path: str = "/systemone"
    max_questions: int = 64
    """The least that any server documents."""
    max_options: int = 255
    usd_per_million_tokens: float | None = None


_ANY = DecisionApi()
KNOWN: dict[str, DecisionApi] = {
    "api.openai.com": DecisionApi(shape="openai", path="/decisions", max_questions=400),
    "generativelanguage.googleapis.com": DecisionApi(shape="gemini", path="/decisions", max_questions=1000),
    "api.cloudflare.com": DecisionApi(path=f"/run/@cf/cloudflare/{MODEL}"),
    "api.fireworks.ai": DecisionApi(max_options=208),
    "api.perplexity.ai": DecisionApi(path="/decisions"),
    "openrouter.ai": DecisionApi(path="/decisions"),
}
"""By the host of ``base_url``; docs/guides/which-judge.md has their sources."""


def decision_api(base_url: str, given: DecisionsSettings | None) -> DecisionApi:
    """What the server at `base_url` offers, as far as it is `given` or known."""
    known = KNOWN.get(urlsplit(base_url).hostname or "", _ANY)
    if given is None:
        return known
    shape = given.shape or known.shape
    path = given.path or (known.path if shape == known.shape else PATHS[shape])
    own = {name: value for name in given.__struct_fields__ if (value := getattr(given, name)) is not None}
    return replace(known, **own | {"shape": shape, "path": path})


def path_for(api: DecisionApi, model: str) -> str:
    """The path of a call, with the model's name where it belongs. Raises `ValueError` for a name that would make another path of it."""
    if MODEL not in api.path:
        return api.path
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", model, re.ASCII):
        raise ValueError(f"{model[:100]!r} cannot stand in a path")
    return api.path.replace(MODEL, model)
