"""The verifier in the package: there, whole, small enough, and right on what is plain."""

import pytest

from proxy.exchange.judgements import ClaimPair
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
from requirements.pins import ROOT

TOWER = {
    "en": "The Eiffel Tower is a wrought-iron tower in Paris, France. It was completed in 1889 and is 330 metres tall.",
    "de": "Der Eiffelturm ist ein Turm aus Eisen in Paris. Er wurde 1889 fertiggestellt und ist 330 Meter hoch.",
    "es": "La Torre Eiffel es una torre de hierro en París, Francia. Se terminó en 1889 y mide 330 metros.",
    "fr": "La tour Eiffel est une tour en fer située à Paris, en France. Elle a été achevée en 1889 et mesure 330 mètres.",
}


@pytest.fixture(scope="module")
def verifier() -> OnnxVerifier:
    loaded = OnnxVerifier(threads=1)
    loaded.load()
    return loaded


def test_its_weights_are_at_most_35_megabytes() -> None:
    assert (FOLDER / "model.onnx").stat().st_size <= 35_000_000


@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("en", "The Eiffel Tower is in Paris.", "The Eiffel Tower is in London."),
        ("en", "It was completed in 1889.", "It was completed in 1899."),
        ("de", "Der Eiffelturm steht in Paris.", "Der Eiffelturm steht in London."),
        ("es", "La Torre Eiffel está en París.", "La Torre Eiffel está en Londres."),
        ("fr", "La tour Eiffel se trouve à Paris.", "La tour Eiffel se trouve à Londres."),
    ],
)
def test_it_tells_a_right_place_or_date_from_a_wrong_one(verifier: OnnxVerifier, language: str, right: str, wrong: str) -> None:
    supported, contradicted = verifier.judge([ClaimPair(claim, TOWER[language], language) for claim in (right, wrong)])
    assert supported is not None
    assert contradicted is not None
    assert supported.supported >= 0.5 > contradicted.supported
    assert contradicted.contradicted > supported.contradicted


def test_a_language_it_was_not_trained_on_is_not_judged(verifier: OnnxVerifier) -> None:
    assert [None] == verifier.judge([ClaimPair("エッフェル塔はパリにあります。", TOWER["en"], "ja")])


def test_the_same_pair_has_the_same_answer_whatever_else_is_judged(verifier: OnnxVerifier) -> None:
    pair, other = ClaimPair("It is 330 metres tall.", TOWER["en"]), ClaimPair("It is red. " * 40, TOWER["fr"])
    assert verifier.judge([pair]) == verifier.judge([other, pair])[1:]


# ---- the large one, in the repository alone ----


@pytest.fixture(scope="module")
def large() -> OnnxVerifier:
    loaded = OnnxVerifier(ROOT / "packages" / "large-verifier", threads=1, decides=True)
    loaded.load()
    return loaded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("The Eiffel Tower is in Paris.", "The Eiffel Tower is in London."),
        ("It was completed in 1889.", "It was completed in 1899."),
        ("It is made of iron.", "It is made of stone."),
    ],
)
def test_the_large_one_tells_right_from_wrong_and_contradicts_nothing_by_itself(large: OnnxVerifier, right: str, wrong: str) -> None:
    supported, other = large.judge([ClaimPair(claim, TOWER["en"]) for claim in (right, wrong)])
    assert supported is not None
    assert other is not None
    assert supported.supported >= 0.5 > other.supported
    assert not other.decides


@pytest.mark.slow
def test_the_large_one_is_below_what_a_code_host_takes_and_reads_english(large: OnnxVerifier) -> None:
    assert (ROOT / "packages" / "large-verifier" / "model.onnx").stat().st_size < 100 * 2**20
    assert [True, False] == [large.knows("en"), large.knows("de")]
