"""What is shipped out of litellm's package is what the locked one has."""

import importlib.util
import json

import pytest

from proxy.models.tokens.encodings import _FILES, BUNDLED, PRICE_LIST, Encodings
from proxy.ports import HOUR_PRICES
from requirements.bundled import FOLDER, PRICES, VOCABULARIES, price_list, source, vocabulary

if importlib.util.find_spec("litellm") is None:
    pytest.skip("needs the extra groundwire[litellm]", allow_module_level=True)


def test_the_list_of_models_is_litellms() -> None:
    assert price_list(source()) == (FOLDER / PRICES).read_text(encoding="utf-8")


def test_what_is_kept_for_an_hour_has_one_price_there() -> None:
    rows = json.loads((source() / "model_prices_and_context_window_backup.json").read_text(encoding="utf-8")).values()
    priced = [row for row in rows if row.get("cache_creation_input_token_cost_above_1hr")]
    ratios = [row["cache_creation_input_token_cost_above_1hr"] / row["input_cost_per_token"] for row in priced]
    assert (True, [pytest.approx(HOUR_PRICES)] * len(ratios)) == (len(ratios) > 100, ratios)


@pytest.mark.parametrize("file", VOCABULARIES)
def test_a_vocabulary_is_litellms(file: str) -> None:
    assert vocabulary(source(), file).read_bytes() == (FOLDER / file).read_bytes()


def test_the_counter_reads_them_there() -> None:
    assert (FOLDER, PRICES) == (BUNDLED, PRICE_LIST)
    assert set() == set(VOCABULARIES.values()) - set(_FILES)


@pytest.mark.parametrize("encoding", VOCABULARIES.values())
def test_each_can_be_counted_with(encoding: str) -> None:
    encodings = Encodings(folders=lambda: [BUNDLED])
    assert (2, True) == encodings.count("Hello world", encoding)
