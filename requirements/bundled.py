"""Makes anew what Groundwire ships out of litellm's package: ``python -m requirements.bundled``.

In: the installed litellm, at the version that the extra ``litellm`` pins. Out, in `FOLDER`: the list of models with their windows and
prices (`PRICES`), of each row what `proxy.models.tokens.encodings` uses, and the tiktoken vocabularies under the names by which tiktoken
looks them up. A test compares both with litellm's.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from collections.abc import Mapping
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any

from requirements.pins import ROOT

FOLDER = ROOT / "proxy" / "models" / "tokens" / "bundled"
PRICES = "prices.json"
VOCABULARIES = {
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4": "cl100k_base",
    "fb374d419588a4632f3f557e76b4b70aebbca790": "o200k_base",
    "ec7223a39ce59f226a68acc30dc1af2788490e15": "p50k_base",
}
"""By file: SHA-1 of the address that tiktoken would fetch it from, as in ``tiktoken.load``."""
_PRICE_FIELDS = ("input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost", "cache_creation_input_token_cost")
_OTHER_RATE = re.compile(_PRICE_FIELDS[0] + r"((?:_above_(\d+)k_tokens)?(?:_(?!batches)([a-z]+))?)")
"""The field of input at another rate: beyond so many tokens of a prompt, in another tier of service, or both."""
_FACTORS = ("us", "fast")
"""By which prices of Anthropic's models rise: for computing in one country, and for its fast mode; `proxy.wire.answers` names a tier so."""


def source() -> Path:
    """Where litellm is installed; it is not imported. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("litellm is not installed")
    return Path(spec.submodule_search_locations[0])


def price_list(litellm: Path) -> str:
    """A row a line: window and longest answer in tokens, then USD a token of input, output, input read from a cache and written to it, then
    other rates, where there are any: tier of service, tokens of a prompt beyond which it holds, and the same four.
    """
    rows = json.loads((litellm / "model_prices_and_context_window_backup.json").read_text(encoding="utf-8"))
    entries = ((name, _entry(row)) for name, row in rows.items())
    lines = (f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in entries if entry is not None)
    return "{\n" + ",\n".join(lines) + "\n}\n"


def vocabulary(litellm: Path, file: str) -> Path:
    """A vocabulary of litellm's package."""
    return litellm / "litellm_core_utils" / "tokenizers" / file


def _entry(row: Mapping[str, Any]) -> list[Any] | None:
    """None for a model of which neither window nor price is known."""
    window = _number(row.get("max_input_tokens")) or _number(row.get("max_tokens"))
    longest = _number(row.get("max_output_tokens"))
    prices = [_number(row.get(field)) for field in _PRICE_FIELDS]
    if window is None and prices[0] is None:
        return None
    entry = [int(window) if window else None, int(longest) if longest else None, *prices]
    return [*entry, rates] if (rates := _rates(row)) else entry


def _rates(row: Mapping[str, Any]) -> list[list[Any]]:
    """The other rates by tier and length; what one does not name costs as in the tier, else as in none, else as ever."""
    found = []
    for match in filter(None, map(_OTHER_RATE.fullmatch, row)):
        ending, above, tier = match[1], int(match[2] or 0) * 1000, match[3] or ""
        endings = [ending, f"_{tier}" if tier else "", ending.removesuffix(f"_{tier}"), ""]
        prices = [next((n for e in endings if (n := _number(row.get(f + e))) is not None), None) for f in _PRICE_FIELDS]
        if ending and prices[0] is not None:
            found.append([tier, above, *prices])
    usual = [["", 0, *(_number(row.get(field)) for field in _PRICE_FIELDS)], *(rate for rate in found if not rate[0])]
    factors = {name: factor for name in _FACTORS if (factor := _number((row.get("provider_specific_entry") or {}).get(name)))}
    for names in [names for n in (1, 2) for names in combinations(factors, n)]:
        factor = prod(factors[name] for name in names)
        found += [[" ".join(names), above, *(p and round(p * factor, 14) for p in prices)] for _, above, *prices in usual]
    return sorted(found)


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def main() -> int:
    """Write them."""
    litellm = source()
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / PRICES).write_text(price_list(litellm), encoding="utf-8")
    for file in VOCABULARIES:
        shutil.copyfile(vocabulary(litellm, file), FOLDER / file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
