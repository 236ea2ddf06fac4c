"""What is shipped out of litellm's package is what the locked one has."""

import importlib.util

import pytest

from proxy.models.tokens.encodings import _FILES, BUNDLED, PRICE_LIST, Encodings
from requirements.bundled import FOLDER, PRICES, VOCABULARIES, price_list, source, vocabulary

if importlib.util.find_spec("litellm") is None:
    pytest.skip("needs the extra groundwire[litellm]", allow_module_level=True)


def test_the_list_of_models_is_litellms() -> None:
    assert price_list(source()) == (FOLDER / PRICES).read_text(encoding="utf-8")


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
