"""Prices of models, from a list of this test's own and from the bundled one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proxy.config.settings import ModelSettings
from proxy.exchange import Usage
from proxy.exchange.answers import total_usage
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tokens.encodings import PRICE_LIST, Catalogue
from proxy.ports import ModelInfo
from tests.cost import below

LISTED = {
    "plain": [1000, None, 2e-6, 8e-6, None, None],
    "caching": [1000, None, 2e-6, 8e-6, 5e-7, None],
    "local": [1000, None, None, None, None, None],
    "tiers": [1000, None, 2e-6, 8e-6, 1e-6, None, [["", 100, 4e-6, 12e-6, 2e-6, None], ["flex", 0, 1e-6, 4e-6, 5e-7, None]]],
}


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / PRICE_LIST).write_text(json.dumps(LISTED), "utf-8")
    monkeypatch.setattr("proxy.models.tokens.encodings.BUNDLED", tmp_path)


def prices(name: str, **models: ModelSettings) -> tuple[float | None, float | None, float | None]:
    found = Catalogue(models).find(name)
    return found.input_usd_per_token, found.output_usd_per_token, found.cached_usd_per_token


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", (2e-6, 8e-6, None)),
        ("openai/plain-2024-08-06", (2e-6, 8e-6, None)),
        ("caching", (2e-6, 8e-6, 5e-7)),
        ("local", (None, None, None)),
        ("nobody's", (None, None, None)),
    ],
)
def test_prices_are_those_of_the_list(name: str, expected: tuple[float | None, ...]) -> None:
    assert expected == prices(name)


@pytest.mark.usefixtures("listed")
def test_a_model_of_the_configuration_keeps_its_price() -> None:
    assert (2e-6, 8e-6, 5e-7) == prices("caching", caching=ModelSettings(window=500))


def test_the_bundled_list_names_a_lower_price_for_cached_input() -> None:
    counter = TiktokenCounter({})
    counter.load_list()
    found = counter.model("gpt-4o")
    assert found.cached_usd_per_token is not None
    assert found.input_usd_per_token is not None
    assert 0 < found.cached_usd_per_token < found.input_usd_per_token


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("usage", "micro_usd"),
    [
        (Usage(100, 10), 280.0),
        (Usage(101, 10), 524.0),
        (Usage(101, 10, 50), 424.0),
        (Usage(200, 10, calls=2), 480.0),
        (Usage(100, 10, tier="default"), 280.0),
        (Usage(100, 10, tier="flex"), 140.0),
        (Usage(200, 10, tier="flex"), 240.0),
        (Usage(200, 10, tier="priority"), 920.0),
        (Usage(0, 0, tier="flex"), 0.0),
        (Usage(200, 10, calls=0), 920.0),
    ],
)
def test_long_prompts_and_tiers_of_service_have_prices_of_their_own(usage: Usage, micro_usd: float) -> None:
    assert Catalogue({}).find("tiers").cost_usd(usage) == pytest.approx(micro_usd / 1e6)
    assert Catalogue({"tiers": ModelSettings(window=500)}).find("tiers").cost_usd(usage) == pytest.approx(micro_usd / 1e6)


def test_anthropics_fast_mode_and_place_of_computing_multiply_its_prices() -> None:
    info = Catalogue({}).find("claude-opus-5")
    usd = {tier: info.cost_usd(Usage(1000, 100, 300, 200, tier=tier)) for tier in ("", "us", "fast", "us fast", "standard")}
    assert usd[""] is not None
    factors = {"": 1, "us": 1.1, "fast": 2, "us fast": 2.2, "standard": 1}
    assert {tier: pytest.approx(usd[""] * factor) for tier, factor in factors.items()} == usd


def test_several_answers_together_are_long_where_each_is() -> None:
    assert Usage(300, 20, calls=2, tier="flex") == total_usage([Usage(100, 10), Usage(200, 10, tier="flex")])


@pytest.mark.parametrize(("written", "usd"), [(1.25e-6, 855e-6), (None, 730e-6), (0.0, 730e-6)])
def test_what_a_provider_put_into_its_cache_has_a_price_of_its_own(written: float | None, usd: float) -> None:
    prices = {"input_usd_per_token": 1e-6, "output_usd_per_token": 1e-5, "cached_usd_per_token": 1e-7, "written_usd_per_token": written}
    info = ModelInfo("m", 8192, **prices)
    assert info.cost_usd(Usage(1000, 0, 300, 500)) == pytest.approx(usd)
    assert info.cost_usd(Usage(1000, 0, 300, 5000)) == pytest.approx(30e-6 + 700 * max(1e-6, written or 0.0)), "no more than the prompt has"


@pytest.mark.parametrize(("written", "usd"), [(1.25e-6, 1080e-6), (None, 1030e-6), (3e-6, 1730e-6)])
def test_what_is_kept_for_an_hour_costs_twice_the_input_at_least(written: float | None, usd: float) -> None:
    prices = {"input_usd_per_token": 1e-6, "output_usd_per_token": 1e-5, "cached_usd_per_token": 1e-7, "written_usd_per_token": written}
    info = ModelInfo("m", 8192, **prices)
    assert info.cost_usd(Usage(1000, 0, 300, 500, written_1h_tokens=300)) == pytest.approx(usd)
    assert info.cost_usd(Usage(1000, 0, 300, 500, written_1h_tokens=900)) == info.cost_usd(
        Usage(1000, 0, 300, 500, written_1h_tokens=500)
    ), "no more than was written"


@pytest.mark.parametrize(
    ("read", "written", "ratio"),
    [(1e-7, 1.25e-6, 11.5), (1e-7, None, 9.0), (1e-7, 0.0, 9.0), (1e-7, 8e-8, 9.0), (None, 1.25e-6, 0.0), (0.0, 1.25e-6, 0.0)],
    ids=[
        "dearer than input",
        "not listed",
        "listed as nothing",
        "listed as the keeping alone",
        "no price of reading",
        "reading costs nothing",
    ],
)
def test_a_cache_written_anew_costs_no_less_than_other_input(read: float | None, written: float | None, ratio: float) -> None:
    info = ModelInfo("m", 8192, input_usd_per_token=1e-6, cached_usd_per_token=read, written_usd_per_token=written)
    assert info.rewrite_ratio == pytest.approx(ratio)


@pytest.mark.cost
def test_of_a_name_without_end_nothing_is_known() -> None:
    name, catalogue = "a/" * 100_000, Catalogue({})
    with below(0.2):
        assert ModelInfo(name, None) == catalogue.find(name)
