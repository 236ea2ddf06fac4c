"""A software bill of materials in CycloneDX 1.6: ``python -m requirements.sbom dist/sbom.cdx.json``.

In: requirements/all.txt (everything that a user can install, every extra but torch's), the licences that the installed packages state, and
the provenance of weights. Out: one JSON file, checked against the format's schema before it is written; the same input gives the same
bytes when SOURCE_DATE_EPOCH is set (reproducible-builds.org). The only module that imports cyclonedx.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import sys
import tomllib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from requirements.pins import ROOT, Pin, read_lock
from requirements.weights import TABLE, Weight, read_weights

LOCK = ROOT / "requirements" / "all.txt"
UNSTATED = frozenset({"", "UNKNOWN"})
LONGEST_LICENSE = 100
"""Characters that are taken for a licence's name."""


def bill(made: datetime) -> Bom:
    """The bill of what the lock file and the table of weights name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    root = Component(type=ComponentType.APPLICATION, name=name, version=version, bom_ref=name, purl=PackageURL("pypi", None, name, version),
                     licenses=[LicenseFactory().make_from_string(project["license"])])  # fmt: skip
    pins, weights = read_lock(LOCK), read_weights()
    libraries = [_library(pin) for pin in pins]
    models = [_model(weight) for weight in weights]
    bom = Bom(components=[*libraries, *models], metadata=BomMetaData(component=root, timestamp=made), serial_number=_serial())
    parents = {name: [root]}  # a package that differs by platform is there more than once
    for library in libraries:
        parents.setdefault(library.name, []).append(library)
    for pin, library in zip(pins, libraries, strict=True):
        for parent in (parent for asked_by in pin.parents for parent in parents[asked_by]):
            bom.register_dependency(parent, [library])
    for weight, model in zip(weights, models, strict=True):
        bom.register_dependency(parents.get(weight.package, [root])[0], [model])
    return bom


def render(bom: Bom) -> str:
    """As JSON, valid by the format's strict schema. Raises ValueError."""
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error is not None:
        raise ValueError(f"not valid CycloneDX 1.6: {error}")
    return text + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the bill to the path given."""
    (path,) = map(Path, arguments)
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    bom = bill(datetime.fromtimestamp(int(epoch), tz=UTC) if epoch else datetime.now(tz=UTC))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render(bom), encoding="utf-8")
    unstated = sum(not component.licenses for component in bom.components)
    print(f"{path}: {len(bom.components)} components, {unstated} of them without a stated licence")
    return 0


def _library(pin: Pin) -> Component:
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION, url=XsUri(f"https://pypi.org/project/{pin.name}/{pin.version}/#files"),
        comment="the checksums of every file that may be installed", hashes=[_sha256(digest) for digest in pin.hashes],
    )  # fmt: skip
    where = [Property(name="groundwire:installed-where", value=pin.marker)] if pin.marker else []
    return Component(type=ComponentType.LIBRARY, name=pin.name, version=pin.version, bom_ref=f"{pin.name}=={pin.version}",
                     purl=PackageURL("pypi", None, pin.name, pin.version), licenses=_licenses(pin.name), external_references=[files],
                     properties=where)  # fmt: skip


def _model(weight: Weight) -> Component:
    facts = [("made-by", weight.made_by), *(("made-from", start) for start in weight.made_from)]
    if weight.package:
        facts.append(("carried-by", f"{weight.package}=={weight.version}"))
    return Component(type=ComponentType.MACHINE_LEARNING_MODEL, name=weight.file, bom_ref=weight.file, hashes=[_sha256(weight.sha256)],
                     version=weight.version or None, licenses=[LicenseFactory().make_from_string(weight.license)],
                     properties=[Property(name=f"groundwire:{name}", value=value) for name, value in facts])  # fmt: skip


def _licenses(package: str) -> list[License]:
    """What the installed package states: an SPDX expression, else an SPDX name, else its classifiers, else whatever it calls it."""
    try:
        stated = importlib.metadata.metadata(package)
    except importlib.metadata.PackageNotFoundError:  # for another platform
        return []
    factory = LicenseFactory()
    text = next((stated[field].strip() for field in ("License-Expression", "License") if field in stated), "")
    name = text.splitlines()[0][:LONGEST_LICENSE] if text not in UNSTATED else ""  # some put the whole text there, its name first
    whole = factory.make_from_string(name) if name else None
    if isinstance(whole, LicenseExpression) or (whole and whole.id):
        return [whole]
    classifiers = (text.rsplit(" :: ", 1)[-1] for text in stated.get_all("Classifier") or () if text.startswith("License ::"))
    licenses: list[License] = [factory.make_with_name(text) for text in classifiers if text != "OSI Approved"]
    return licenses or ([whole] if whole else [])


def _sha256(digest: str) -> HashType:
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def _serial() -> uuid.UUID:
    """The same for the same lock file and weights."""
    content = hashlib.sha256(LOCK.read_bytes() + (ROOT / TABLE).read_bytes()).hexdigest()
    return uuid.uuid5(uuid.NAMESPACE_URL, f"https://pypi.org/project/groundwire/#{content}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
