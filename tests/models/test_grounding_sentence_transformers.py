"""The adapter with tiny models of random or chosen weights, in the environment of `make test-torch`; without the library, what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.models.verifier.sentence_transformers import TransformersVerifier
from proxy.models.verifier.verifier import BatchingVerifier

INSTALLED = importlib.util.find_spec("sentence_transformers") is not None
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "paris", "london", "is", "in", "tower", "the", "summarize", "output", ":", "text"]
PAIRS = [ClaimPair("the tower is in paris", "the tower is in london"), ClaimPair("paris", "london " * 300), ClaimPair("in " * 300, "x")]

with_library = [pytest.mark.slow, pytest.mark.skipif(not INSTALLED, reason="needs sentence-transformers: make test-torch")]


@pytest.mark.skipif(INSTALLED, reason="sentence-transformers is here")
def test_without_the_extra_the_error_says_how_to_install_it() -> None:
    with pytest.raises(ModelUnavailable, match=r"pip install 'groundwire\[sentence-transformers\]'"):
        TransformersVerifier("some/model").load()


def test_another_model_in_the_same_folder_has_another_name(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"1")
    first = TransformersVerifier(str(tmp_path)).name
    (tmp_path / "weights").write_bytes(b"22")
    assert first != TransformersVerifier(str(tmp_path)).name
    assert "some/model" == TransformersVerifier("some/model").name


def make(folder: Path, labels: list[str] | None, *, tagger: bool = False, bias: list[float] | None = None) -> TransformersVerifier:
    """A BERT of two tiny layers; with `bias` its logits are these, whatever it reads. `labels` None leaves them unnamed."""
    import torch
    import transformers

    torch.manual_seed(1)
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    n = len(labels) if labels is not None else 2
    names: dict[str, Any] = {"id2label": dict(enumerate(labels)), "label2id": {x: i for i, x in enumerate(labels)}} if labels else {}
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        num_labels=n,
        **names,
    )
    kind = transformers.BertForTokenClassification if tagger else transformers.BertForSequenceClassification
    model = kind(config)
    if bias is not None:
        with torch.no_grad():
            model.classifier.weight.zero_()
            model.classifier.bias.copy_(torch.tensor(bias))
    model.save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    made = TransformersVerifier(str(folder), threads=1)
    made.load()
    return made


def only(verifier: TransformersVerifier, pair: ClaimPair = PAIRS[0]) -> Support:
    (found,) = verifier.judge([pair])
    assert found is not None
    return found


NLI = [0.0, 1.0, 2.0]
P = [0.0900, 0.2447, 0.6652]
"""The softmax of `NLI`."""


class TestCrossEncoder:
    pytestmark = with_library

    @pytest.mark.parametrize(
        ("labels", "supported", "contradicted"),
        [
            (["contradiction", "entailment", "neutral"], P[1], P[0]),
            (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], P[0], P[2]),
            (["refuted", "Not enough info", "Supports"], P[2], P[0]),
        ],
    )
    def test_three_labels_are_read_in_any_order_and_case(
        self, tmp_path: Path, labels: list[str], supported: float, contradicted: float
    ) -> None:
        found = only(make(tmp_path / "m", labels, bias=NLI))
        assert (supported, contradicted) == pytest.approx((found.supported, found.contradicted), abs=1e-3)

    @pytest.mark.parametrize(
        ("labels", "supported"), [(["not_entailment", "entailment"], 0.8808), (["consistent", "hallucinated"], 0.1192)]
    )
    def test_two_labels_never_contradict(self, tmp_path: Path, labels: list[str], supported: float) -> None:
        found = only(make(tmp_path / "m", labels, bias=[0.0, 2.0]))
        assert (supported, 0.0) == pytest.approx((found.supported, found.contradicted), abs=1e-3)

    def test_entailment_and_contradiction_are_two_labels_too(self, tmp_path: Path) -> None:
        found = only(make(tmp_path / "m", ["entailment", "contradiction"], bias=[0.0, 2.0]))
        assert (0.1192, 0.8808) == pytest.approx((found.supported, found.contradicted), abs=1e-3)

    def test_one_logit_is_a_score(self, tmp_path: Path) -> None:
        assert 0.8808 == pytest.approx(only(make(tmp_path / "m", ["LABEL_0"], bias=[2.0])).supported, abs=1e-3)

    @pytest.mark.parametrize("labels", [None, ["a", "b", "c"], ["entailment", "entailed", "neutral"], ["neutral", "contradiction"]])
    def test_labels_that_cannot_be_read_are_refused_by_name(self, tmp_path: Path, labels: list[str] | None) -> None:
        with pytest.raises(ModelUnavailable, match=r"labels of the verifier .* cannot be read \(.*; set id2label"):
            make(tmp_path / "m", labels)

    def test_evidence_is_the_premise_and_claim_the_hypothesis(self, tmp_path: Path) -> None:
        verifier = make(tmp_path / "m", ["entailment", "neutral", "contradiction"])
        words = verifier._tokenizer.convert_ids_to_tokens(verifier._encoded(ClaimPair("paris", "london"))["input_ids"])
        assert ["[CLS]", "london", "[SEP]", "paris", "[SEP]"] == words

    def test_the_evidence_is_cut_first_and_any_length_is_judged(self, tmp_path: Path) -> None:
        verifier = make(tmp_path / "m", ["entailment", "neutral", "contradiction"])
        assert [13, 64, 64] == [len(verifier._encoded(pair)["input_ids"]) for pair in PAIRS]
        assert [5, 1, 60] == [sum(verifier._encoded(pair)["claim_mask"]) for pair in PAIRS]
        assert all(verifier.judge(PAIRS))

    def test_neighbours_hardly_change_an_answer(self, tmp_path: Path) -> None:
        verifier = make(tmp_path / "m", ["entailment", "neutral", "contradiction"])
        for alone, beside in zip((only(verifier, pair) for pair in PAIRS), verifier.judge(PAIRS), strict=True):
            assert beside is not None
            assert alone.supported == pytest.approx(beside.supported, abs=1e-5)

    def test_what_the_library_s_cross_encoder_saves_can_be_read(self, tmp_path: Path) -> None:
        import sentence_transformers

        folder = tmp_path / "saved"
        ours = make(tmp_path / "m", ["contradiction", "entailment", "neutral"])
        model = sentence_transformers.CrossEncoder(str(tmp_path / "m"), device="cpu")
        model.save_pretrained(str(folder))
        theirs = model.predict([(PAIRS[0].evidence, PAIRS[0].claim)], apply_softmax=True)[0]
        saved = TransformersVerifier(str(folder))
        saved.load()
        assert only(ours) == only(saved)
        assert [float(theirs[1]), float(theirs[0])] == pytest.approx([only(saved).supported, only(saved).contradicted], abs=1e-5)

    async def test_it_serves_behind_the_queue(self, tmp_path: Path) -> None:
        model = make(tmp_path / "m", ["contradiction", "entailment", "neutral"])
        verifier = BatchingVerifier(lambda: model, "nli")
        assert 3 == len([found for found in await verifier.verify(PAIRS) if found])
        verifier.stop()


class TestTokenClassifier:
    pytestmark = with_library

    @pytest.mark.parametrize(
        ("labels", "supported"), [(None, 0.1192), (["supported", "hallucinated"], 0.1192), (["hallucinated", "supported"], 0.8808)]
    )
    def test_unnamed_labels_are_lettucedetect_s_and_named_ones_are_read(
        self, tmp_path: Path, labels: list[str] | None, supported: float
    ) -> None:
        found = only(make(tmp_path / "m", labels, tagger=True, bias=[0.0, 2.0]))
        assert (supported, 0.0) == pytest.approx((found.supported, found.contradicted), abs=1e-3)

    def test_the_worst_token_of_the_claim_decides_and_no_token_of_the_evidence(self, tmp_path: Path) -> None:
        import torch

        verifier = make(tmp_path / "m", None, tagger=True)
        encoded = verifier._encoded(PAIRS[0])
        mask = torch.tensor([encoded.pop("claim_mask")])
        logits = verifier._model(**{name: torch.tensor([ids]) for name, ids in encoded.items()}).logits.double()
        bad = torch.softmax(logits, -1)[0, :, 1].detach()
        assert 5 == int(mask.sum())
        assert 1 - float(bad[mask[0] == 1].max()) == pytest.approx(only(verifier).supported, abs=1e-5)

    def test_more_than_two_labels_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ModelUnavailable, match="needs two, supported and hallucinated"):
            make(tmp_path / "m", ["a", "b", "c"], tagger=True)

    def test_its_prompt_survives_long_evidence(self, tmp_path: Path) -> None:
        verifier = make(tmp_path / "m", None, tagger=True)
        words = verifier._tokenizer.convert_ids_to_tokens(verifier._encoded(PAIRS[1])["input_ids"])
        assert ["output", ":", "[SEP]", "paris", "[SEP]"] == words[-5:]
        assert "summarize" == words[1]
        assert 64 == len(words)


class TestRefused:
    pytestmark = with_library

    def test_a_folder_without_a_model_says_so(self, tmp_path: Path) -> None:
        with pytest.raises(ModelUnavailable, match="cannot be loaded"):
            TransformersVerifier(str(tmp_path)).load()
