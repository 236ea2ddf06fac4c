"""The judge's training goes on where it stopped: a tiny encoder on made-up examples, where torch is installed beside the project (slow)."""

import io
import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

torch = pytest.importorskip("torch")

from training.grounding.encoder import Encoder, distance_buckets  # noqa: E402 - torch comes first
from training.grounding.export import Integers, export  # noqa: E402
from training.grounding.train import loss_of  # noqa: E402
from training.judge import loop, packed, quantised, start, written  # noqa: E402

pytestmark = pytest.mark.slow


def data(count: int) -> packed.Pack:
    rng = np.random.default_rng(4)
    lengths = rng.integers(6, 20, count)
    texts = {"sources": np.array([written.FOUND] * count), "languages": np.array(["en"] * count)}
    return packed.Pack(
        rng.integers(0, 60, lengths.sum()).astype(np.uint16),
        np.cumsum([0, *lengths]),
        np.full(count, 3, np.uint16),
        np.arange(count, dtype=np.uint8) % 3,
        **texts,
        sets=np.full(count, -1, np.int32),
    )


def encoder() -> Encoder:
    torch.manual_seed(5)
    return Encoder(60, 2, hidden=32, heads=2, inner=64, positions=32)


class Interrupting(packed.Rounds):
    """The process is told to stop in the middle of round 2."""

    def batches(self, number: int, batch_tokens: int) -> Iterator[list[int]]:
        made = list(super().batches(number, batch_tokens))
        if number == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return iter(made)


def train(folder: Path, order: type[packed.Rounds] = packed.Rounds, dropout: float = 0.0) -> tuple[str, Encoder]:
    shown = data(60)
    model = encoder()
    rounds = order(shown.lengths(), ["own"] * 60, {"own": 1.0}, 700, 1)
    return loop.Training(model, rounds, shown, data(9), folder, loop.Settings(4000, batch_tokens=128, dropout=dropout)).run(), model


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_training_in_two_calls_is_the_training_in_one(tmp_path: Path, dropout: float) -> None:
    whole, straight = train(tmp_path / "one", dropout=dropout)
    broken_off, _ = train(tmp_path / "two", Interrupting, dropout)
    assert not (tmp_path / "two" / "pid").exists()
    rest, resumed = train(tmp_path / "two", dropout=dropout)
    assert ("budget", "signal", "budget") == (whole, broken_off, rest)
    for name, value in straight.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    averages = [torch.load(tmp_path / name / "checkpoint.pt", weights_only=True)["average"] for name in ("one", "two")]
    assert [] == [name for name, value in averages[0].items() if not torch.equal(value, averages[1][name])]


def test_what_is_used_is_the_average_of_the_last_steps_weights(tmp_path: Path) -> None:
    start.save(encoder(), tmp_path / "pack" / "start.npz")
    _, last = train(tmp_path)
    average = loop.trained(tmp_path).state_dict()
    moved = (last.head.weight - encoder().head.weight).abs().max()
    assert 0.02 * moved < (last.head.weight - average["head.weight"]).abs().max() < moved


def test_the_average_is_of_more_steps_the_longer_it_goes_on() -> None:
    assert [1.0, 2.0, 31.0, 60, 60] == [loop.averaged_over(step) for step in (0, 10, 300, 600, 9000)]


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    with pytest.raises(SystemExit, match="kill -TERM"):
        train(tmp_path)


def test_the_rate_warms_up_stays_and_falls_to_nothing() -> None:
    settings = loop.Settings(2_000_000, rate=1.0)
    assert [0.0083, 1.0, 1.0, 0.5, 0.0] == [round(loop.rate_at(n, settings), 4) for n in (0, 120_000, 1_400_000, 1_700_000, 2_000_000)]


def test_16_bits_are_taken_where_they_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    for wanted in (True, False):
        loop.fast_in_16_bits.cache_clear()
        monkeypatch.setattr(loop, "_seconds", lambda *_, in_16_bits, wanted=wanted: 1.0 if in_16_bits == wanted else 2.0)
        assert wanted == loop.fast_in_16_bits("cpu")
    loop.fast_in_16_bits.cache_clear()
    assert loop.fast_in_16_bits("cuda")


def test_a_distance_has_a_bucket_of_its_own_while_it_is_small() -> None:
    found = distance_buckets(200, 32)
    assert [7, 6, 0, 17, 18] == [int(found[100, 100 + away]) for away in (-7, -6, 0, 1, 2)]
    assert [15, 15, 31, 31] == [int(found[max(-away, 0), max(away, 0)]) for away in (-199, -128, 128, 199)]


def test_tokens_in_another_distance_are_read_otherwise_and_padding_is_not() -> None:
    torch.manual_seed(5)
    model = Encoder(60, 2, hidden=32, heads=2, inner=64, positions=32, buckets=8).eval()
    model.position.weight.data.zero_()
    nothing = torch.zeros(1, 5, dtype=torch.long)
    near, far = (model(torch.tensor([ids]), torch.ones_like(nothing), nothing) for ids in ([1, 7, 8, 9, 9], [1, 9, 9, 7, 8]))
    assert not torch.allclose(near, far)
    padded = model(torch.tensor([[1, 7, 8, 9, 9, 0, 0]]), torch.tensor([[1] * 5 + [0] * 2]), torch.zeros(1, 7, dtype=torch.long))
    assert torch.allclose(near, padded, atol=1e-6)


def test_lower_layers_stay_where_they_are_told_to(tmp_path: Path) -> None:
    shown, model, before = data(60), encoder(), encoder().state_dict()
    rounds = packed.Rounds(shown.lengths(), ["own"] * 60, {"own": 1.0}, 700, 1)
    loop.Training(model, rounds, shown, data(9), tmp_path, loop.Settings(1000, batch_tokens=128, freeze=1)).run()
    moved = {name.split(".")[1] for name, value in model.state_dict().items() if "layers" in name and not torch.equal(value, before[name])}
    assert {"1"} == moved


def test_what_is_left_out_is_left_out_of_trained_layers_in_training_alone() -> None:
    model, ids = encoder(), torch.arange(1, 12)[None]
    given = ids, torch.ones_like(ids), torch.zeros_like(ids)
    whole = model.eval().hidden(*given)
    model.freeze(1, 0.1)
    assert torch.equal(whole, model.hidden(*given))
    torch.manual_seed(1)
    changed = torch.stack([model.train().hidden(*given) for _ in range(50)])
    assert not torch.equal(changed[0], changed[1])
    assert (changed.mean(0) - whole).abs().mean() < 0.4 * (changed[0] - whole).abs().mean()
    model.freeze(2, 0.1)
    assert torch.equal(whole, model.hidden(*given))


def test_a_pack_with_more_rows_is_gone_on_with_at_the_beginning_of_the_round(tmp_path: Path) -> None:
    train(tmp_path, Interrupting)
    shown = data(70)
    rounds = packed.Rounds(shown.lengths(), ["own"] * 70, {"own": 1.0}, 700, 1)
    assert "budget" == loop.Training(encoder(), rounds, shown, data(9), tmp_path, loop.Settings(4000, batch_tokens=128)).run()
    rows = [json.loads(line) for line in (tmp_path / "curve.jsonl").read_text().splitlines()]
    assert 4000 <= rows[-1]["tokens"]


def test_a_row_without_a_teacher_s_opinion_is_learnt_from_its_label() -> None:
    logits, targets = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 3])
    nothing = torch.full((2, 3), torch.nan)
    assert torch.allclose(loss_of(logits, targets), loop.distilled(logits, targets, nothing))


def test_a_teacher_s_doubt_pulls_towards_doubt() -> None:
    logits, targets = torch.zeros(1, 3, requires_grad=True), torch.tensor([0])
    loop.distilled(logits, targets, torch.tensor([[0.2, 0.7, 0.1]])).backward()
    assert logits.grad is not None
    sure = torch.zeros(1, 3, requires_grad=True)
    loss_of(sure, targets).backward()
    assert sure.grad is not None
    assert logits.grad[0, 0] > sure.grad[0, 0]
    assert logits.grad[0, 1] < 0 < sure.grad[0, 1]


def test_start_weights_come_back_nearly_as_they_were(tmp_path: Path) -> None:
    model = encoder()
    start.save(model, tmp_path / "start.npz")
    again = start.load(tmp_path / "start.npz").state_dict()
    for name, value in model.state_dict().items():
        assert float((value - again[name]).abs().max()) <= float(value.abs().max()) / 254 + 1e-6, name


def test_a_large_start_lies_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start.save(encoder(), tmp_path / "start.npz")
    whole = start.load(tmp_path / "start.npz").state_dict()
    monkeypatch.setattr(start, "PIECE_BYTES", 5000)
    start.save(encoder(), tmp_path / "start.npz")
    assert len(list(tmp_path.iterdir())) > 1
    assert not (tmp_path / "start.npz").exists()
    for name, value in start.load(tmp_path / "start.npz").state_dict().items():
        assert torch.equal(whole[name], value), name


def test_a_cut_vocabulary_reads_what_it_kept_as_before() -> None:
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁sun", "▁moon", "a", "日", "b"]
    tokenizer = Tokenizer(models.Unigram([(piece, -float(i)) for i, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    torch.manual_seed(5)
    model = Encoder(len(pieces), 1, hidden=32, heads=2, inner=64, positions=16)
    smaller, reader = start.cut(model, tokenizer, Counter({6: 5, 8: 4, 5: 1}), most=8)
    before, after = (each.encode("moon ab", "moon") for each in (tokenizer, reader))
    assert before.tokens == after.tokens
    assert ["<s>", "<pad>", "</s>", "<unk>", "▁", "▁moon", "a", "b"] == sorted(reader.get_vocab(), key=reader.token_to_id)
    assert torch.equal(model.word.weight[before.ids], smaller.word.weight[after.ids])


def test_a_batch_is_filled_up_and_says_the_same() -> None:
    model = encoder().eval()
    chosen = [packed.Encoded(np.array([1, *range(5, 5 + n)], np.int32), 2, 0) for n in (3, 9, 6)]
    alone = [loop.logits(model, [one], "cpu") for one in chosen]
    assert (3, 3) == loop.logits(model, chosen, "cpu").shape
    assert torch.allclose(torch.cat(alone), loop.logits(model, chosen, "cpu"), atol=0.02)


def test_trained_weights_travel_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "PIECE_BYTES", 20_000)
    torch.manual_seed(6)
    trained, at_start = Encoder(60, 2, hidden=32, heads=2, inner=64, positions=32), encoder()
    trained.word.load_state_dict(at_start.word.state_dict())
    start.write_pieces(trained, at_start, tmp_path)
    pieces = sorted(tmp_path.iterdir())
    assert len(pieces) > 1
    with np.load(io.BytesIO(b"".join(path.read_bytes() for path in pieces))) as saved:
        assert not any(name.startswith("word.") for name in saved.files)
    start.read_pieces(at_start, tmp_path)
    assert torch.allclose(trained.head.weight, at_start.head.weight, atol=float(trained.head.weight.detach().abs().max()) / 127)
    assert torch.equal(encoder().word.weight, at_start.word.weight)


@pytest.mark.parametrize("more", [{}, {"buckets": 8, "first_position": 2}])
def test_an_exported_encoder_reads_as_the_one_it_was_made_of(tmp_path: Path, more: dict[str, int]) -> None:
    pytest.importorskip("onnxruntime")
    model = distant(more)
    assert deviation(model, exported(model, tmp_path)) < 0.2  # 8 bits


def test_what_is_large_is_better_kept_apart(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = distant({"buckets": 8, "first_position": 2})
    with torch.no_grad():
        model.word.weight.copy_(torch.round(4 * model.word.weight).clamp(-7, 7))
        model.word.weight[:, 0] = 7  # 4 bits hold these as they are
        model.layers[0].norm1.weight[[3, 40]] *= 30
    apart = quantised.outliers(model, data(12), 2)
    assert [3, 40] == apart["layers.0.up"].tolist()
    assert deviation(model, exported(model, tmp_path, apart)) < 0.85 * deviation(model, exported(model, tmp_path))


def test_what_was_exported_is_trained_on_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, other = distant({"buckets": 8, "first_position": 2}), distant({"buckets": 8, "first_position": 2})
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.5)
        model.layers[1].down.weight[:, [5, 9]] *= 100  # 8 bits hold little beside these
    columns = {"layers.1.down": np.array([5, 9]), "layers.0.qkv": np.array([1])}
    export(model, tmp_path / "model.onnx", columns)
    monkeypatch.setattr(start, "mpnet", lambda wheels: (other, None))
    read, _ = start.large(tmp_path, tmp_path)
    for name, weight in read.state_dict().items():
        if name.startswith(("layers.", "norm.", "pooler.", "head.")):
            assert torch.allclose(model.state_dict()[name], weight, atol=float(model.state_dict()[name].abs().max()) / 120), name
    assert torch.equal(model.layers[1].down.weight[:, [5, 9]], read.layers[1].down.weight[:, [5, 9]])
    assert torch.equal(other.word.weight, read.word.weight)
    with pytest.raises(SystemExit, match=r"model.onnx is missing: the teacher goes on from it"):
        start.large(tmp_path / "absent", tmp_path)


def test_a_start_has_as_many_places_as_were_exported(tmp_path: Path) -> None:
    model = Encoder(60, 2, positions=42).eval()
    export(model, tmp_path / "model.onnx", longest=30)
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(tmp_path / "tokenizer.json"))
    read, _ = start.shipped(tmp_path)
    assert (30, 384) == tuple(read.position.weight.shape)
    assert torch.equal(model.position.weight[:30], read.position.weight)


def test_an_exported_encoder_has_no_more_places_than_it_will_read(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = distant({"buckets": 8, "first_position": 2})
    found = exported(model, tmp_path)
    whole = export(model, tmp_path / "whole.onnx")
    assert export(model, tmp_path / "model.onnx", longest=IDS.shape[1]) < whole
    assert np.array_equal(found, _logits(tmp_path / "model.onnx"))


def test_an_exported_encoder_that_reads_distances_is_not_the_one_without(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = distant({"buckets": 8, "first_position": 2})
    found = exported(model, tmp_path)
    read = deviation(model, found)
    assert model.relative is not None
    model.relative.weight.data.zero_()
    assert read < deviation(model, found) / 2


IDS = torch.randint(0, 60, (6, 30), generator=torch.Generator().manual_seed(8))


def distant(more: dict[str, int]) -> Encoder:
    torch.manual_seed(7)
    model = Encoder(60, 2, hidden=64, heads=2, inner=128, positions=42, **more).eval()
    for layer in model.layers:  # so that what is attended to counts
        layer.out.weight.data *= 8
        layer.qkv.weight.data *= 3
    if model.relative is not None:
        model.relative.weight.data *= 3
    return model


def exported(model: Encoder, folder: Path, apart: dict[str, Integers] | None = None) -> np.ndarray:
    """The logits that onnxruntime makes of `IDS`."""
    export(model, folder / "model.onnx", apart)
    return _logits(folder / "model.onnx")


def _logits(path: Path) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    given = {"input_ids": IDS.numpy(), "attention_mask": np.ones_like(IDS), "token_type_ids": np.ones_like(IDS)}
    return np.asarray(session.run(None, given)[0])


def deviation(model: Encoder, found: np.ndarray) -> float:
    """How far the model's logits are from `found`, in parts of their own spread."""
    expected = model(IDS, torch.ones_like(IDS), torch.ones_like(IDS)).detach().numpy()
    return float(np.abs(expected - found).mean() / expected.std())


@pytest.mark.parametrize("more", [{}, {"buckets": 8, "first_position": 2}], ids=["BERT", "MPNet"])
def test_the_last_layer_is_computed_for_the_token_that_is_read(tmp_path: Path, more: dict[str, int]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export(distant(more), tmp_path / "model.onnx")
    made = onnx.load(str(tmp_path / "model.onnx"))
    made.graph.output.extend(onnx.helper.make_empty_tensor_value_info(f"layers.{i}.up") for i in range(2))
    given = {"input_ids": IDS.numpy(), "attention_mask": np.ones_like(IDS), "token_type_ids": np.ones_like(IDS)}
    _, first, last = onnxruntime.InferenceSession(made.SerializeToString()).run(None, given)
    assert (IDS.shape[1], 1) == (first.shape[1], last.shape[1])


def test_what_8_bits_cost_is_told(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model, rows = distant({"buckets": 8, "first_position": 2}), data(12)
    export(model, tmp_path / "model.onnx")
    before = loop.probabilities(model, rows, "cpu", batch=1)
    after, took = quantised.run(tmp_path / "model.onnx", rows)
    assert np.abs(before - after).max() < 0.1
    assert took.min() > 0
    assert "the same label: " in quantised.report(tmp_path / "model.onnx", rows, before)
