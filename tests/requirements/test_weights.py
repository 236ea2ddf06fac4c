"""Every weight says where it comes from, and is the file that it says it is."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from proxy.models.tokens import encodings
from proxy.upstreams import gguf
from requirements.pins import ROOT, read_lock
from requirements.weights import TABLE, Weight, checksum, location, read_weights, unlisted

WEIGHTS = read_weights()


def named(weight: Weight) -> str:
    return weight.file.rsplit("/", 1)[-1]


@pytest.mark.parametrize("weight", [weight for weight in WEIGHTS if not weight.wheel_sha256], ids=named)
def test_a_weight_is_the_file_that_the_table_describes(weight: Weight) -> None:
    path = location(weight)
    assert path is not None, f"{weight.package} is not installed"
    assert weight.sha256 == checksum(path)


def test_no_file_of_numbers_is_without_provenance() -> None:
    assert [] == unlisted()


def test_a_weight_that_nobody_listed_is_found(tmp_path: Path) -> None:
    (tmp_path / "proxy" / "models").mkdir(parents=True)
    (tmp_path / TABLE).write_bytes((ROOT / TABLE).read_bytes())
    for name in ("code.py", "coefficients.py", "new.onnx", "new.json.gz"):
        (tmp_path / "proxy" / name).touch()
    assert ["proxy/coefficients.py", "proxy/new.json.gz", "proxy/new.onnx"] == unlisted(tmp_path)


@pytest.mark.parametrize("weight", [weight for weight in WEIGHTS if not weight.package], ids=named)
def test_what_is_shipped_was_made_by_a_script_that_is_here(weight: Weight) -> None:
    made_by = re.fullmatch(r"python -m ((?:training|requirements)\.[\w.]+)", weight.made_by)
    assert made_by is not None
    assert importlib.util.find_spec(made_by[1]) is not None


@pytest.mark.parametrize("weight", [weight for weight in WEIGHTS if not weight.package], ids=named)
def test_the_data_of_what_is_shipped_stands_in_notice(weight: Weight) -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert f"{weight.file}:" in notice or f"{weight.file.rsplit('/', 1)[0]}/:" in notice


@pytest.mark.parametrize("weight", [weight for weight in WEIGHTS if weight.package], ids=named)
def test_a_package_that_carries_weights_stands_in_notice(weight: Weight) -> None:
    notice = " ".join((ROOT / "NOTICE").read_text(encoding="utf-8").split())
    assert f"package {weight.package}" in notice


def test_the_packages_that_carry_weights_are_the_locked_ones() -> None:
    locked = {(pin.name, pin.version) for pin in read_lock(ROOT / "requirements" / "all.txt")}
    assert set() == {(w.package, w.version) for w in WEIGHTS if w.package and not w.wheel_sha256} - locked


def test_the_fetched_model_is_the_one_that_fetch_model_accepts() -> None:
    (fetched,) = (weight for weight in WEIGHTS if weight.wheel_sha256)
    expected = (gguf.PACKAGE, gguf.VERSION, gguf.WHEEL_SHA256, gguf.MODEL_FILE, gguf.MODEL_SHA256)
    assert expected == (fetched.package, fetched.version, fetched.wheel_sha256, named(fetched), fetched.sha256)


def test_the_vocabularies_are_those_that_the_counter_accepts() -> None:
    accepted = {checksum for _, checksum in encodings._FILES.values()}
    assert {weight.sha256 for weight in WEIGHTS if weight.made_by.endswith("requirements.bundled")} <= accepted


def test_the_verifiers_card_has_the_same_checksums() -> None:
    card = json.loads((ROOT / "proxy/models/verifier/grounding_model/verifier.json").read_text(encoding="utf-8"))
    assert card["sha256"] == {
        named(w): w.sha256 for w in WEIGHTS if w.file.startswith("proxy/models/verifier/grounding_model/") and named(w) in card["sha256"]
    }
