"""JSON whose integers are kept to the last digit: orjson reads those beyond 64 bits as floats.

Python's own parser reads them, and orjson writes them as they stood. For bodies that are read to be written again.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

_BIG = re.compile(rb"[0-9]{19}")
_BIG_DIGITS = 19
"""2**63 has as many."""


def exact(text: bytes | str) -> Any:
    """The value of JSON; an integer that does not fit in 64 bits is an `orjson.Fragment` of its digits. Raises `ValueError`."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if not _BIG.search(data):
        return orjson.loads(data)
    orjson.loads(data)  # stricter than Python's parser: what is no JSON to it is none here
    try:
        return json.loads(data, parse_int=_integer)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _integer(digits: str) -> Any:
    return int(digits) if len(digits.lstrip("-")) < _BIG_DIGITS else orjson.Fragment(digits)
