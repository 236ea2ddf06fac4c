"""The JSON Schemas: what an editor checks by accepts what Groundwire accepts, and refuses what it refuses."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from docs.schemas import KINDS, schema_text

ROOT = Path(__file__).parents[1]
SHIPPED = (ROOT / "config.yaml", *sorted((ROOT / "policies").glob("*.yaml")), *sorted((ROOT / "examples" / "policies").glob("*.yaml")))
ROUTE = "routes: [{upstream: a, policy: p.yaml}]"


@cache
def written(kind: str) -> str:
    """Made once: half a second each."""
    return schema_text(kind)


def problems(kind: str, text: str) -> list[Any]:
    return list(Draft202012Validator(json.loads(written(kind))).iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_that_editors_read_are_up_to_date(kind: str) -> None:
    assert written(kind) == (ROOT / "schemas" / f"{kind}.json").read_text("utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema(kind: str) -> None:
    Draft202012Validator.check_schema(json.loads(written(kind)))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_what_is_shipped_fits(path: Path) -> None:
    assert [] == problems("config" if path.name == "config.yaml" else "policy", path.read_text("utf-8"))


@pytest.mark.parametrize("path", [path for path in SHIPPED if "examples" not in path.parts], ids=lambda path: path.name)
def test_what_is_shipped_names_its_schema(path: Path) -> None:
    named = re.search(r"(?m)^# yaml-language-server: \$schema=(\S+)$", path.read_text("utf-8"))
    assert named
    assert (path.parent / named[1]).resolve().is_file()


@pytest.mark.parametrize(
    "text",
    [
        "upstreams: {a: {kind: openai, base_url: http://x}}\nserver: {port: '${PORT:-4000}', allow_anonymous: '${X}'}\n" + ROUTE,
        "upstreams: {a: {kind: embedded, threads: 2}}\nlogging: {level: '${LEVEL:-info}'}\n" + ROUTE,
    ],
)
def test_a_configuration_may_refer_to_the_environment(text: str) -> None:
    assert [] == problems("config", text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("config", "upstreams: {a: {kind: openai, api_base: http://x}}\n" + ROUTE),
        ("config", "upstreams: {a: {kind: opnai, base_url: http://x}}\n" + ROUTE),
        ("config", "upstreams: {a: {kind: embedded}}\nserver: {port: many}\n" + ROUTE),
        ("config", "upstreams: {a: {kind: embedded}}\nfolder: x\n" + ROUTE),
        ("config", "upstreams: {a: {kind: embedded}}"),
        ("policy", "name: p\ndelivery: tip"),
        ("policy", "name: a b"),
        ("policy", "name: p\nstages: [bugdet]"),
        ("policy", "name: p\nstages: [budget: {warn_att: 0.5}]"),
        ("policy", "name: p\nstages: [budget: {warn_at: 7}]"),
        ("policy", "name: p\nstages: [{budget: {}, citations: {}}]"),
    ],
)
def test_what_groundwire_refuses_does_not_fit(kind: str, text: str) -> None:
    assert problems(kind, text)


@pytest.mark.parametrize("stage", ["budget", "budget: {warn_at: 0.5}", "budget:", "links.py:Links", "'links.py:Links': {act: block}"])
def test_a_stage_stands_by_its_name_alone_or_with_options_and_may_be_ones_own(stage: str) -> None:
    assert [] == problems("policy", f"name: p\nstages:\n  - {stage}\n")


def test_every_option_of_a_stage_and_every_key_says_what_it_is_for() -> None:
    policy, config = (json.loads(schema_text(kind)) for kind in ("policy", "config"))
    options = [part for name, part in policy["$defs"].items() if name.endswith("Options")]
    assert [] == [name for part in options for name, value in part.get("properties", {}).items() if "description" not in value]
    assert "SSE comment" in config["$defs"]["ServerSettings"]["properties"]["keep_alive_s"]["description"]
