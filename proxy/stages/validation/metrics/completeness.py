"""Whether content has the fields that it must have. Pure.

A required field is a name or a path: ``price``, ``customer.address.city``, ``items[0].price``. A path that comes to a list without a number
asks it of every item (``items.price``). A field counts as missing when it is not there, null, or has nothing in it (blank text, an empty
list or object); 0 and false are values. It is looked for in the fields that were given with the content, then in the content itself: an
object in JSON, or lines ``name: value``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from proxy.stages.validation.metrics.quality import Metric, unmeasured

_STEP = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")
MAX_LISTED = 20


def completeness(required: Sequence[str], *layers: object, text: str = "") -> Metric:
    """The share of the fields `required` that one of `layers`, or a line of `text`, has."""
    wanted = list(dict.fromkeys(required))
    if not wanted:
        return unmeasured("no required fields")
    missing = [path for path in wanted if not any(has(layer, path) for layer in layers) and not _labelled(text, path)]
    detail: dict[str, object] = {"required": len(wanted), "present": len(wanted) - len(missing)}
    if missing:
        detail["missing"] = missing[:MAX_LISTED]
        detail["reason"] = f"{len(wanted) - len(missing)} of {len(wanted)} required fields, without {', '.join(missing[:MAX_LISTED])}"
    return Metric((len(wanted) - len(missing)) / len(wanted), detail=detail)


def has(value: object, path: str) -> bool:
    """Whether `value` has something at `path`."""
    if isinstance(value, Mapping) and path in value:  # a name with dots in it
        return not empty(value[path])
    return _has(value, [int(index) if index else name for index, name in _STEP.findall(path)])


def _has(value: object, steps: Sequence[int | str]) -> bool:
    if not steps:
        return not empty(value)
    step, rest = steps[0], steps[1:]
    if isinstance(value, Mapping):
        return str(step) in value and _has(value[str(step)], rest)
    if not isinstance(value, list | tuple):
        return False
    if isinstance(step, int) or step.isdecimal():
        at = int(step)
        return at < len(value) and _has(value[at], rest)
    return bool(value) and all(_has(item, steps) for item in value)


def empty(value: object) -> bool:
    """Whether a field says nothing."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    return isinstance(value, Mapping | list | tuple | set | frozenset) and not value


def _labelled(text: str, path: str) -> bool:
    """Whether a line of `text` begins with the field's name, a colon, and something: ``Release date: 2024-05-01``."""
    if not text or text.lstrip()[:1] in ("{", "["):
        return False
    name = r"[ _-]?".join(map(re.escape, re.split(r"[ _-]", path)))
    return re.search(rf"^[ \t>*#-]{{0,10}}{name}\**[ \t]*[:=]\**[ \t]*[^\s*]", text, re.I | re.M) is not None
