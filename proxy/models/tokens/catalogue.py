"""A model's name -> what is known of it: context window, longest answer, encoding, prices.

Comes before counting: `proxy.models.tokens.counter` asks here for every request. ``models:`` of config.yaml wins; the rest is litellm's
bundled price list, read as plain JSON (its package is located, never imported: that would cost seconds). Which encoding a model has
follows OpenAI's own table in ``tiktoken.model``, widened to the later members of the same families; no other provider publishes the
tokenizer of its hosted models in that form, so all of those are estimates.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from proxy.config.settings import ModelSettings
from proxy.ports import ModelInfo

log = logging.getLogger(__name__)

Entry = tuple[int | None, int | None, float | None, float | None, float | None]
"""Window and longest answer in tokens, price of input, output and cached input in USD a token: a tuple, as there are thousands of them."""

PRICE_LIST = "model_prices_and_context_window_backup.json"
REMEMBERED_NAMES = 1024
"""Names come from clients, so what is kept of them is bounded."""

_OPENAI_HOSTS = frozenset(("openai", "azure", "azure_ai", "openrouter", "vercel_ai_gateway", "us", "eu", "global", "global-standard"))
"""Prefixes behind which a name of OpenAI's means OpenAI's model: ``azure/eu/gpt-4o``, ``openrouter/openai/gpt-4o``."""

_STAMP = r"(-\d{4}-\d\d-\d\d|-\d{4}|-preview|-latest)*"
_FAMILIES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(f"(?:{names}){_STAMP}"), encoding)
    for names, encoding in (
        (r"(chatgpt-|gpt-)4o(-mini)?(-audio|-search|-realtime)?", "o200k_base"),
        (r"gpt-4\.(1(-mini|-nano)?|5)", "o200k_base"),
        (r"gpt-5(\.\d+)?(-(mini|nano|pro|chat|codex|max|luna|sol|terra|search|api))*", "o200k_base"),
        (r"o1(-mini|-pro)?|o3(-mini|-pro|-deep-research)?|o4-mini(-deep-research)?", "o200k_base"),
        (r"gpt-4(-turbo|-32k|-vision|-\d{4})*", "cl100k_base"),
        (r"gpt-3\.?5-turbo(-16k|-instruct|-\d{4})*", "cl100k_base"),
        (r"text-embedding-(ada-002|3-small|3-large)|davinci-002|babbage-002", "cl100k_base"),
        (r"gpt-oss-\d+b", "o200k_harmony"),
    )
)
_DATES = re.compile(r"(-\d{4}-\d\d-\d\d|[-@]\d{8}|-\d{4}|-latest|-preview)$")


def bundled_folder() -> Path | None:
    """Where litellm is installed, found without importing it; None when it is not."""
    spec = importlib.util.find_spec("litellm")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def encoding_of(name: str) -> str | None:
    """tiktoken encoding of one of OpenAI's models, None for every other name."""
    *hosts, last = name.split("/")
    if not _OPENAI_HOSTS.issuperset(hosts):
        return None
    base = last.split(":")[1] if last.startswith("ft:") and last.count(":") else last
    return next((encoding for names, encoding in _FAMILIES if names.fullmatch(base)), None)


def spellings(name: str) -> Iterator[str]:
    """Names to look up, in order: as given, without its prefixes from the left, and each of these without fine-tune and date."""
    rest = name
    while True:
        yield rest
        base = rest
        if base.startswith("ft:") and ":" in base[3:]:
            base = ":".join(base.split(":")[:2])
            yield base
        undated = _DATES.sub("", base)
        if undated != base:
            yield undated
        if undated.startswith("ft:"):
            yield base[3:]
            yield undated[3:]
        _, slash, rest = rest.partition("/")
        if not slash:
            return


class Catalogue:
    """What is known of models; the bundled list is read at the first question it has to answer."""

    def __init__(self, models: Mapping[str, ModelSettings]) -> None:
        self._models = dict(models)
        self._list: dict[str, Entry] | None = None
        self._lock = Lock()
        self.find = lru_cache(REMEMBERED_NAMES)(self._find)

    def _find(self, name: str) -> ModelInfo:
        names = list(dict.fromkeys(spellings(name)))
        listed = self.bundled()
        window, longest, *prices = next((listed[n] for n in names if n in listed), (None,) * 5)
        settings = next((self._models[n] for n in names if n in self._models), None)
        if settings is None:
            return ModelInfo(name, window, longest, encoding_of(name), *prices)
        return ModelInfo(name, settings.window, settings.max_output_tokens or longest, settings.encoding, *prices)

    def bundled(self) -> dict[str, Entry]:
        """The bundled list, compact; empty, with a warning, where it cannot be read."""
        with self._lock:
            if self._list is None:
                self._list = _read_list()
            return self._list


def _read_list() -> dict[str, Entry]:
    folder = bundled_folder()
    try:
        if folder is None:
            raise FileNotFoundError("litellm is not installed")
        return _entries(folder / PRICE_LIST)
    except (OSError, ValueError, AttributeError) as error:
        log.warning("No bundled list of models (%s): windows and prices are known only for `models:` of config.yaml", error)
        return {}


@lru_cache(1)
def _entries(path: Path) -> dict[str, Entry]:
    """The list, read once in a process, as it takes 30 ms and never changes."""
    rows = orjson.loads(path.read_bytes())
    return {name: entry for name, row in rows.items() if (entry := _entry(row)) is not None}


def _entry(row: Mapping[str, Any]) -> Entry | None:
    window = _number(row.get("max_input_tokens")) or _number(row.get("max_tokens"))
    longest = _number(row.get("max_output_tokens"))
    price_in, price_out = _number(row.get("input_cost_per_token")), _number(row.get("output_cost_per_token"))
    if window is None and price_in is None:
        return None
    return (
        int(window) if window else None,
        int(longest) if longest else None,
        price_in,
        price_out,
        _number(row.get("cache_read_input_token_cost")),
    )


def _number(value: Any) -> float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
