"""Fields of a client's request, each with its place: what is wrong is told with the path to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from proxy.errors import InvalidRequest
from proxy.wire.bodies import kind_of

Place = tuple[str | int, ...]
"""From the body's top: ``("questions", 0, "choices")``."""


class BadField(InvalidRequest):
    """A field is wrong; ``param`` is its path: ``questions[0].choices``."""

    def __init__(self, place: Place, problem: str) -> None:
        path = path_of(place)
        super().__init__(f"{path}: {problem}", param=path)
        self.place, self.problem = place, problem


def path_of(place: Place) -> str:
    """A place as OpenAI writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).removeprefix(".")


def text(value: Any, place: Place, *, empty: bool = False) -> str:
    """A string. Raises `BadField`."""
    if not isinstance(value, str) or not (value.strip() or empty):
        raise BadField(place, f"expected a text, got {kind_of(value) if not isinstance(value, str) else 'an empty one'}")
    return value


def list_at(value: Any, place: Place, least: int, most: int) -> Sequence[Any]:
    """A list with so many items. Raises `BadField`."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        got = f"{len(value)}" if isinstance(value, list) else kind_of(value)
        raise BadField(place, f"expected a list of {least} to {most}, got {got}")
    return value


def object_at(value: Any, place: Place, least: int = 0, most: int = 10_000) -> dict[str, Any]:
    """An object with so many fields. Raises `BadField`."""
    if not isinstance(value, dict) or not least <= len(value) <= most:
        got = f"{len(value)} fields" if isinstance(value, dict) else kind_of(value)
        raise BadField(place, f"expected an object of {least} to {most} fields, got {got}")
    return value


def content(value: Any, place: Place) -> str:
    """A text, or JSON as text. Raises `BadField`."""
    if isinstance(value, dict | list):
        return orjson.dumps(value).decode()
    return text(value, place)


def described(value: Any, place: Place) -> str:
    """A description, "" for none. Raises `BadField`."""
    return "" if value is None or value == "" else content(value, place)


def unrepeated(names: Sequence[str], place: Place) -> tuple[str, ...]:
    """`names`, if they differ. Raises `BadField`."""
    if len(set(names)) < len(names):
        raise BadField(place, "each must stand there once")
    return tuple(names)
