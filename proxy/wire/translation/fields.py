"""The fields of a body as a table: which of them says what, how it is read, and how it is written.

A reader goes through a client's body by its API's table; what stands in no table is refused. A writer goes through what was read, the
wishes, by the table of the server's API; a wish that has no field there is refused by the name of the client's field. The same tables are
printed in docs/reference/translation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.wire.translation.neutral import Bounds, NeutralRequest, Wish


def same(value: Any) -> Any:
    """As it is."""
    return value


class Field(Struct, frozen=True):
    """One field of a body; with a dot, a field of an object in it."""

    name: str
    wish: str = ""
    """What it says, whatever an API calls it; "" for one that is left out, as it says nothing to the answer."""
    nothing: tuple[Any, ...] = ()
    """Values beside null that ask for nothing."""
    read: Callable[[Any], Any] = same
    """The client's value -> the wish. Raises `ValueError` for what has no counterpart."""
    write: Callable[[Any], Any] = same
    """The wish -> the server's value. Raises `ValueError` likewise."""
    note: str = ""
    """For the reference."""


def among(*values: Any) -> Callable[[Any], Any]:
    """One of these alone."""

    def check(value: Any) -> Any:
        if value not in values:
            raise ValueError(f"knows {', '.join(str(one) for one in values)} alone")
        return value

    return check


def at_most(limit: float) -> Callable[[Any], Any]:
    """A number up to `limit`."""

    def check(value: Any) -> Any:
        if isinstance(value, int | float) and value > limit:
            raise ValueError(f"takes no more than {limit:g}")
        return value

    return check


def read_fields(ask: NeutralRequest, body: Mapping[str, Any], table: Sequence[Field], elsewhere: Collection[str], bounds: Bounds) -> None:
    """Put what `body` sets into the wishes of `ask`; `elsewhere` are fields that are read by other means. Raises `InvalidRequest`."""
    known = {one.name: one for one in table}
    opened = {name.partition(".")[0] for name in known if "." in name}
    for name, value in body.items():
        if name in elsewhere or value is None:
            continue
        inner = value.items() if name in opened and name not in known and isinstance(value, Mapping) else ()
        for at, given in ((f"{name}.{key}", one) for key, one in inner) if inner else [] if value == {} else [(name, value)]:
            if given is not None and at not in elsewhere:
                _read(ask, at, given, known.get(at), bounds)


def _read(ask: NeutralRequest, at: str, given: Any, field: Field | None, bounds: Bounds) -> None:
    if field is None:
        bounds.refuse(at)
    elif not any(type(given) is type(nothing) and given == nothing for nothing in field.nothing) and field.wish:
        try:
            value = field.read(given)
        except ValueError as error:
            bounds.refuse(at, str(error))
        else:
            if value is not None and field.wish not in ask.wishes:
                ask.wishes[field.wish] = Wish(value, at)


def written(ask: NeutralRequest, table: Sequence[Field], elsewhere: Collection[str], bounds: Bounds) -> dict[str, Any]:
    """The fields for the wishes of `ask`; those `elsewhere` are written by other means. Raises `InvalidRequest`."""
    body: dict[str, Any] = {}
    for name, wish in ask.wishes.items():
        if name not in elsewhere:
            _write(body, wish, next((one for one in table if one.wish == name), None), bounds)
    return body


def _write(body: dict[str, Any], wish: Wish, field: Field | None, bounds: Bounds) -> None:
    if field is None:
        bounds.refuse(wish.at)
        return
    try:
        value = field.write(wish.value)
    except ValueError as error:
        bounds.refuse(wish.at, str(error))
        return
    if value is not None:
        outer, dot, inner = field.name.partition(".")
        if dot:
            body.setdefault(outer, {})[inner] = value
        else:
            body[outer] = value
