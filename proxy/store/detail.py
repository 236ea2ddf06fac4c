"""What a record says of its exchange beside its columns: one type, which `proxy.observe.recording` writes and everyone else reads.

It is stored as a JSON object without what is empty. Another version may have written it: `read` takes what it understands and leaves out
the rest, so that a page or a line can still be shown; `decode` is quicker and takes all or nothing, for those who count.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, field

from proxy.exchange import Facts, warning_codes

Json = Mapping[str, Any]
D = TypeVar("D", bound="RecordDetail")
T = TypeVar("T")


class RecordError(Struct, frozen=True):
    """The error that ended an exchange."""

    code: str = ""
    param: str | None = None
    message: str = ""


class RecordVerdict(Struct, frozen=True, omit_defaults=True):
    """What a stage found: a `proxy.exchange.Verdict` without the text that it put in a sentence's place."""

    stage: str = ""
    outcome: str = ""
    code: str = ""
    score: float | None = None
    message: str = ""
    would: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    def noted(self, kind: type[T]) -> T:
        """Its detail as a struct, whose fields have defaults: what is missing or of another shape is left out."""
        return _fitting(self.detail, kind) or kind()


class RecordUsage(Struct, frozen=True):
    """Tokens as the upstream counted them."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0


class RecordAttempt(Struct, frozen=True, omit_defaults=True):
    """One of several upstream answers: what it took, and what the stages found of one that did not leave."""

    delivered: bool
    upstream: str
    ms: float
    characters: list[int]
    """Of each choice's text."""
    usage: RecordUsage | None = None
    verdicts: list[RecordVerdict] = field(default_factory=list)


class RecordDetail(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of it, but for texts."""

    overhead_ms: float | None = None
    """What the proxy added before the upstream's last byte."""
    error: RecordError | None = None
    attempts: int = 1
    """Calls that upstreams got."""
    asked_in: str = ""
    """The API in which the upstream was asked, where that is not the client's: the request was translated, and the answer back."""
    enforced: bool = True
    """False in shadow mode."""
    verdicts: list[RecordVerdict] = field(default_factory=list)
    facts: Facts | None = None
    timings_ms: dict[str, float] = field(default_factory=dict)
    """As `proxy.exchange.Exchange.timings`."""
    changes: list[Json] = field(default_factory=list)
    """What each stage changed: ``{"stage", "what", ...}``."""
    skip: list[str] = field(default_factory=list)
    """Stages that the client left out."""
    usage: RecordUsage | None = None
    """Of all upstream answers together."""
    answers: list[RecordAttempt] = field(default_factory=list)
    """Where there were several."""
    finish_reasons: list[str | None] | None = None
    """Of each choice."""

    @property
    def warnings(self) -> list[str]:
        """As `proxy.exchange.Exchange.warnings`."""
        return warning_codes(self.verdicts)


class RecordTexts(RecordDetail, frozen=True, kw_only=True, omit_defaults=True):
    """With what a stage changed of the texts, where ``store.bodies`` keeps them; secrets are masked."""

    forwarded: Json | None = None
    """``{"messages", "tools"}`` as they went upstream."""
    delivered: list[Json] | None = None
    """The choices as the client got them."""
    answer_texts: list[list[str]] | None = None
    """Of each upstream answer, the texts of its choices."""


decode = msgspec.json.Decoder(RecordDetail).decode
"""Stored JSON -> `RecordDetail`. Raises `msgspec.DecodeError`, `UnicodeDecodeError`."""


def read(stored: Any, kind: type[D]) -> D:
    """A detail from what JSON gave (or another detail), as much as fits."""
    return _fitting(stored, kind) or kind()


def _fitting(value: Any, kind: Any) -> Any:
    """`value` as a `kind`, without those of its parts that are of another shape; None where nothing of it fits."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(value, kind, from_attributes=True)
    for part in get_args(kind) if isinstance(kind, UnionType) else (kind,):
        if isinstance(value, list) and get_origin(part) is list:
            return [found for one in value if (found := _fitting(one, get_args(part)[0])) is not None]
        if isinstance(value, Mapping) and isinstance(part, type) and issubclass(part, Struct):
            fields = {f.name: _fitting(value[f.name], f.type) for f in msgspec.structs.fields(part) if f.name in value}
            with suppress(TypeError):
                return part(**{name: found for name, found in fields.items() if found is not None})
    return None
