"""The built-in verifier's runtime, with a verifier whose logits can be worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.values import consistency
from proxy.models.verifier.onnx import LOGITS, OnnxVerifier, session_options, write_card
from proxy.models.verifier.verifier import WithFallback
from tests.models import tiny_verifier


def loaded(folder: Path) -> OnnxVerifier:
    verifier = OnnxVerifier(folder, threads=1)
    verifier.load()
    return verifier


def tiny(tmp_path: Path, **card: object) -> OnnxVerifier:
    return loaded(tiny_verifier.make(tmp_path / "tiny", **card))


def judged(verifier: OnnxVerifier, claim: str, evidence: str, language: str = "en") -> Support:
    found = verifier.judge([ClaimPair(claim, evidence, language)])[0]
    assert found is not None
    return found


def share(*logits: float) -> list[float]:
    total = sum(math.exp(z) for z in logits)
    return [math.exp(z) / total for z in logits]


# ---- what comes out ----


def test_claim_and_evidence_are_read_as_a_pair_with_their_segments(tmp_path: Path) -> None:
    verifier = tiny(tmp_path)
    assert [3, 1, 2] == verifier.logits(ClaimPair("yes maybe", "yes no")).tolist()
    assert [2, 2, 1] == tiny(tmp_path, segments=False).logits(ClaimPair("yes maybe", "yes maybe no")).tolist()


def test_the_answer_is_the_softmax_in_the_order_of_the_labels(tmp_path: Path) -> None:
    supported, _, contradicted = share(3, 1, 2)
    found = judged(tiny(tmp_path), "yes maybe", "yes no")
    assert (supported, contradicted) == pytest.approx((found.supported, found.contradicted))
    other = judged(tiny(tmp_path, labels=["contradicted", "supported", "unsupported"]), "yes maybe", "yes no")
    assert (share(3, 1, 2)[1], share(3, 1, 2)[0]) == pytest.approx((other.supported, other.contradicted))


def test_a_model_of_two_labels_never_contradicts(tmp_path: Path) -> None:
    verifier = tiny(tmp_path, width=2, labels=["supported", "unsupported"])
    found = judged(verifier, "yes maybe", "yes")
    assert (share(3, 1)[0], 0.0) == pytest.approx((found.supported, found.contradicted))


def test_each_language_has_its_own_calibration(tmp_path: Path) -> None:
    verifier = tiny(tmp_path, languages={"en": {"temperature": 2}, "de": {"bias": [0.5, 0, -1]}})
    assert share(1.5, 0.5, 1)[0] == pytest.approx(judged(verifier, "yes maybe", "yes no").supported)
    assert share(3.5, 1, 1)[0] == pytest.approx(judged(verifier, "yes maybe", "yes no", "de").supported)


def test_a_language_that_is_not_listed_cannot_be_judged(tmp_path: Path) -> None:
    verifier = tiny(tmp_path)
    assert [None, None] == verifier.judge([ClaimPair("oui", "oui", "fr"), ClaimPair("sí", "sí", "es")])


def test_by_evidence_in_a_language_that_is_not_listed_nothing_can_be_judged(tmp_path: Path) -> None:
    evidence = "Музей закритий щопонеділка, а в неділю працює лише до обіду, до дванадцятої години."
    assert [None] == tiny(tmp_path).judge([ClaimPair("yes maybe", evidence)])


def test_the_same_pair_has_the_same_answer_to_the_bit_whatever_is_judged_beside_it(tmp_path: Path) -> None:
    verifier = tiny(tmp_path)
    pairs = [ClaimPair("yes " * n, "no maybe " * n) for n in range(1, 6)]
    alone = [verifier.judge([pair])[0] for pair in pairs]
    assert alone == verifier.judge(pairs)
    assert alone[::-1] == verifier.judge(pairs[::-1])


@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
def test_the_model_gets_the_integers_that_it_asks_for(tmp_path: Path, kind: int) -> None:
    assert [1, 0, 2] == loaded(tiny_verifier.make(tmp_path / "tiny", kind)).logits(ClaimPair("yes", "no")).tolist()


def test_an_answer_that_is_no_number_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a number"):
        judged(tiny(tmp_path), "nan", "yes")


# ---- with features beside the logits ----


def combination(*rows: tuple[float, float], features: tuple[float, ...] | None = None) -> dict[str, object]:
    n = len(consistency.FEATURES)
    weights = [[*row, *([0.0] * n)] for row in rows]
    if features is not None:
        weights[0][2:] = list(features)
    return {"inputs": [*LOGITS, *consistency.FEATURES], "weights": weights, "bias": [0.0] * 3}


def test_a_combination_of_ones_changes_nothing(tmp_path: Path) -> None:
    plain = judged(tiny(tmp_path), "yes maybe", "yes no")
    given = combination((1, 0), (0, 0), (0, 1))
    combined = judged(tiny(tmp_path, languages={"en": {"combination": given}}), "yes maybe", "yes no")
    assert (plain.supported, plain.contradicted) == pytest.approx((combined.supported, combined.contradicted))


def test_features_of_the_pair_count_as_their_weights_say(tmp_path: Path) -> None:
    claim, evidence = "It has 12 rooms.", "It has 13 rooms."
    weights = tuple(float(i + 1) for i in range(len(consistency.FEATURES)))
    verifier = tiny(tmp_path, languages={"en": {"combination": combination((0, 0), (0, 0), (0, 0), features=weights)}})
    z = float(np.dot(weights, consistency.features(claim, evidence, "en")))
    assert share(z, 0, 0)[0] == pytest.approx(judged(verifier, claim, evidence).supported)


def test_a_combination_fitted_on_other_features_is_refused(tmp_path: Path) -> None:
    given = {"inputs": [*LOGITS, "phase_of_the_moon"], "weights": [[1, 0, 0], [0, 0, 0], [0, 1, 0]], "bias": [0, 0, 0]}
    with pytest.raises(ModelUnavailable, match="other features"):
        tiny(tmp_path, languages={"en": {"combination": given}})


# ---- what is too long ----


def test_the_evidence_is_cut_first(tmp_path: Path) -> None:
    encoded = tiny(tmp_path).encode("yes yes", "no " * 100)
    assert 16 == len(encoded.ids)
    assert 2 == encoded.sequence_ids.count(0)


def test_a_claim_keeps_its_share_and_more_where_the_evidence_is_short(tmp_path: Path) -> None:
    verifier = tiny(tmp_path, claim_share=0.6)  # 13 tokens beside [CLS] and twice [SEP]
    assert 7 == verifier.encode("yes " * 100, "no " * 100).sequence_ids.count(0)
    assert 12 == verifier.encode("yes " * 100, "no").sequence_ids.count(0)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> OnnxVerifier:
    return tiny(tmp_path_factory.mktemp("kept"))


@given(claim=st.integers(0, 60), evidence=st.integers(0, 60))
def test_no_input_is_longer_than_the_model_reads(kept: OnnxVerifier, claim: int, evidence: int) -> None:
    assert min(16, claim + max(1, evidence) + 3) == len(kept.encode("yes " * claim, "no " * evidence).ids)


@pytest.mark.parametrize("text", ["", " ", "\x00", "�", "很" * 9000, "a" * 100_000])
def test_any_text_is_judged(tmp_path: Path, text: str) -> None:
    found = judged(tiny(tmp_path), text, text)
    assert 0 < found.supported < 1


# ---- what is refused ----


def broken(folder: Path) -> str:
    with pytest.raises(ModelUnavailable) as caught:
        loaded(folder)
    return str(caught.value)


def test_a_missing_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    assert "set grounding.model to another folder" in broken(tmp_path)
    folder = tiny_verifier.make(tmp_path / "tiny")
    (folder / "model.onnx").unlink()
    assert "model.onnx cannot be read (No such file or directory); export it again" in broken(folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_changed_file_is_refused(tmp_path: Path, name: str) -> None:
    folder = tiny_verifier.make(tmp_path / "tiny")
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    assert f"{name} is not the file that verifier.json names" in broken(folder)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    assert "cannot be loaded" in broken(tiny_verifier.make(tmp_path / "tiny", model=b"what?"))


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ({"labels": ["supported", "contradicted"]}, "labels must be"),
        ({"labels": ["entailment"]}, "Invalid enum value 'entailment'"),
        ({"sha256": {}}, "sha256 must name"),
        ({"languages": {"de": {"bias": [1]}}}, r"languages\.de\.bias must have one number for each label"),
        ({"languages": {"de": {"temperature": 0}}}, "temperature"),
        ({"languages": {"de": {"combination": {"inputs": [], "weights": [], "bias": []}}}}, "must have a row of weights"),
        (
            {"languages": {"de": {"combination": {"inputs": ["a", "b"], "weights": [[1, 1]] * 3, "bias": [0] * 3}}}},
            "must begin with logit_supported",
        ),
        ({"claim_share": 1}, "claim_share"),
    ],
)
def test_a_card_that_makes_no_sense_is_refused(tmp_path: Path, card: dict[str, object], problem: str) -> None:
    with pytest.raises(ModelUnavailable, match=problem):
        tiny(tmp_path, **card)


def test_the_name_has_the_version_once_it_is_known(tmp_path: Path) -> None:
    verifier = OnnxVerifier(tiny_verifier.make(tmp_path / "tiny"))
    assert "tiny" == verifier.name
    verifier.load()
    assert "tiny@7" == verifier.name


def test_the_session_keeps_no_memory_of_its_largest_run_and_has_no_threads_of_its_own() -> None:
    options = session_options(onnxruntime)
    assert (1, 1) == (options.intra_op_num_threads, options.inter_op_num_threads)
    assert (False, False) == (options.enable_cpu_mem_arena, options.enable_mem_pattern)


def test_pairs_judged_side_by_side_have_the_answers_they_have_alone(tmp_path: Path) -> None:
    folder = tiny_verifier.make(tmp_path / "tiny")
    alone, together = OnnxVerifier(folder, threads=1), OnnxVerifier(folder, threads=3)
    alone.load()
    together.load()
    pairs = [ClaimPair("red " * i, "blue red " * (9 - i)) for i in range(1, 9)]
    assert [alone.judge([pair])[0] for pair in pairs] == together.judge(pairs)


def test_a_written_card_is_one_that_loads_and_keeps_what_is_for_people(tmp_path: Path) -> None:
    folder = tiny_verifier.make(tmp_path / "tiny")
    (folder / "verifier.json").unlink()
    write_card(folder, {"name": "new", "version": "1", "languages": {"de": {"temperature": 1.5}}, "metrics": {"de": 0.9}})
    assert "new@1" == loaded(folder).name
    assert b'"metrics"' in (folder / "verifier.json").read_bytes()


def test_a_card_that_makes_no_sense_is_not_written(tmp_path: Path) -> None:
    folder = tiny_verifier.make(tmp_path / "tiny")
    with pytest.raises(msgspec.ValidationError, match="labels must be"):
        write_card(folder, {"name": "new", "version": "1", "languages": {}, "labels": ["supported"]})
    assert "tiny@7" == loaded(folder).name


# ---- a folder's model beside the built-in one ----


def test_what_a_model_of_few_languages_does_not_know_another_judges(tmp_path: Path) -> None:
    english = OnnxVerifier(tiny_verifier.make(tmp_path / "english", languages={"en": {}}), threads=1, decides=True)
    german = OnnxVerifier(tiny_verifier.make(tmp_path / "german", languages={"en": {}, "de": {}}, name="other"), threads=1)
    both = WithFallback(english, german)
    both.load()
    asked = [ClaimPair("yes maybe", "yes no", language) for language in ("de", "en", "fr")]
    first, second, third = both.judge(asked)
    assert first is not None
    assert second is not None
    assert third is None
    assert [("other@7", False), ("tiny@7", True)] == [(first.by, first.decides), (second.by, second.decides)]
    assert "tiny@7" == both.name
    assert [True, True, False] == [both.knows(language) for language in ("en", "de", "fr")]


def test_a_card_can_say_that_its_model_s_word_alone_decides_nothing(tmp_path: Path) -> None:
    folder = tiny_verifier.make(tmp_path / "tiny", decides=False)
    verifier = OnnxVerifier(folder, threads=1, decides=True)
    verifier.load()
    assert not judged(verifier, "yes maybe", "yes no").decides
