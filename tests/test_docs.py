"""What docs/ says of the code is so."""

import importlib
import json
import re
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import proxy.faithful
from benchmarks import readme
from docs import charts, hooks, picture, reference, versions
from proxy.config.settings import Settings
from proxy.context import faithful
from proxy.stages.registry import STAGES
from tests.browser.pictures import MAX_BYTES, SHOWN

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def test_the_picture_is_made_from_the_contract_as_it_is() -> None:
    assert picture.PICTURE.read_text("utf-8") == picture.draw()


def test_every_file_and_folder_that_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?|[a-z_]+\.py)`", PAGE)
    assert len(named) > 20
    assert [] == [name for name in named if not any((ROOT / top / name).exists() for top in ("", "proxy"))]


def test_the_public_names_of_context_faithful_prompting_are_those_of_its_room() -> None:
    public = {name for name in vars(proxy.faithful) if not name.startswith("_")}
    assert all(getattr(proxy.faithful, name) is getattr(faithful, name) for name in public)
    assert {"build_context_block", "wrap_with_context_faithful_prompt", "extract_citations", "detect_context_ignoring"} <= public


# ---- README, the site, and what is generated ----

_LINK = re.compile(r"(?:\]\(|src=\"|srcset=\")(?!https?:)([^)#\"]*)(?:#([^)\"]*))?[)\"]")


_NO_PROSE = re.compile(r"^```.*?^```$|<picture>.*?</picture>|<!-- generated.*?<!-- end -->", re.MULTILINE | re.DOTALL)


def test_the_readme_is_short() -> None:
    """Below 700 words, without code, pictures and figures."""
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(_NO_PROSE.sub("", text).split()) < 700


def test_every_figure_of_the_readme_on_quality_is_made_by_the_script() -> None:
    section = (ROOT / "README.md").read_text("utf-8").partition("## How good it is")[2].partition("\n## ")[0]
    assert "<!-- generated: promise-short -->" in section
    assert [] == re.findall(r"\d[\d.,]*%?", _NO_PROSE.sub("", section))


def test_what_the_readme_links_to_is_there() -> None:
    """Links of docs/ are checked where the site is built (``make site``)."""
    links = _LINK.findall((ROOT / "README.md").read_text("utf-8"))
    assert len(links) > 30
    assert [] == [path for path, _ in links if not (ROOT / path).is_file()]


def test_the_pictures_are_small_and_come_in_light_and_dark() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()}
    assert {f"{page}-{scheme}.png" for page in SHOWN for scheme in ("light", "dark")} == set(sizes)
    assert [] == [name for name, size in sizes.items() if size > MAX_BYTES]


def test_generated_tables_are_filled_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "docs" / "reference").mkdir(parents=True)
    (tmp_path / "README.md").write_text("nothing here", "utf-8")
    page = tmp_path / "docs" / "reference" / "errors.md"
    page.write_text("<!-- generated: errors -->\nold\n<!-- end -->\n", "utf-8")
    found = readme.stale(readme.pages(tmp_path))
    assert [page] == list(found)
    assert "| 400 | `policy_blocked` |" in found[page]


def test_each_error_of_the_reference_has_its_whole_sentence() -> None:
    rows = reference.errors().splitlines()[2:]
    assert [] == [row for row in rows if not row.endswith(". |")]


def test_the_pictures_of_quality_and_speed_are_those_of_the_results() -> None:
    assert {path: path.read_text("utf-8") for path in charts.files()} == charts.files()


def test_a_bar_is_as_long_as_its_share(tmp_path: Path) -> None:
    found = {"n": 10, "wrong_flagged": 3, "wrong_pass": 2}
    report = {"policies": [{"policy": charts.POLICY, "groups": {"what is wrong": {"date": found}}}]}
    (tmp_path / "promise.json").write_text(json.dumps(report), "utf-8")
    bars = re.findall(r'<rect class="(\w)" [^>]*width="([\d.]+)" height="22"', charts.quality(tmp_path))
    assert [("a", "186.0"), ("b", "310.0"), ("c", "124.0")] == bars


def test_every_key_option_and_figure_of_the_reference_says_what_it_means() -> None:
    made = {name: reference.TABLES[name]() for name in ("config", "stages", "metrics", "errors", "response-headers")}
    assert [] == [
        f"{name}: {line}" for name, text in made.items() for line in text.splitlines() if line.startswith("| `") and line.endswith("|  |")
    ]


def test_the_reference_has_all_of_config_yaml() -> None:
    told = {kind for _, kind in reference.SECTIONS}
    fields = [field.type for field in msgspec.structs.fields(Settings)]
    assert [] == [kind for kind in fields if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in told]
    assert "## upstreams.NAME, kind: embedded" in reference.config_keys()


def test_the_reference_says_what_a_text_has_to_match() -> None:
    assert "| `sha256` | text that matches `^[0-9a-fA-F]{64}$` |" in reference.config_keys()
    assert "| `name` | text that matches `^[A-Za-z0-9_. -]{0,60}$` |" in reference.config_keys()


def test_a_stage_with_its_own_default_of_a_shared_option_lists_it() -> None:
    parts = dict(re.findall(r"## (.+)\n\n([^#]*)", reference.stages()))
    rows = {
        "mcp": "timeout_ms` | `600000",
        "compression": "timeout_ms` | `15000",
        "claims": "cpu_ms` | `500",
        "Every stage": "cpu_ms` | `250",
    }
    assert [] == [name for name, row in rows.items() if f"| `{row}` |" not in parts[name]]
    assert "timeout_ms" not in parts["citations"]


def test_a_header_that_several_stages_share_stands_among_their_headers() -> None:
    parts = dict(re.findall(r"## (.+)\n\n([^#]*)", reference.stages()))
    assert "- Headers: `x-groundwire-citations`, `x-groundwire-quality`\n" in parts["citations"]
    assert [] == [name for name, part in parts.items() for line in part.splitlines() if line.startswith("- Warning codes: `x-")]


def test_upgrade_notes_are_what_a_version_removed_and_changed() -> None:
    changelog = (
        "# Changelog\n\n## 2.0\n\n### Added\n- tea\n\n### Changed against the contract\n- cups, see [it](a.md)\n\n### Removed\n- saucers\n"
    )
    assert "## 2.0\n\n### Removed\n\n- saucers\n\n### Changed against the contract\n\n- cups, see `it`" == hooks.upgrade_notes(
        changelog, hooks.WANTED
    )


@pytest.mark.parametrize(
    "tag", ['<img src="https://a.example/x.png">', "<script src=//a.example/x.js>", '<link rel=stylesheet href="http://a.example">']
)
def test_a_page_that_loads_from_elsewhere_breaks_the_build(tag: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(f'<a href="https://a.example">fine</a>{tag}', "utf-8")
    with pytest.raises(hooks.LoadsFromElsewhere, match=r"a\.example"):
        hooks.on_post_build({"site_dir": str(tmp_path)})
    (tmp_path / "index.html").write_text('<a href="https://a.example">fine</a>', "utf-8")
    hooks.on_post_build({"site_dir": str(tmp_path)})


def _site(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "index.html").write_text("a page", encoding="utf-8")
    return folder


def test_versions_of_the_site_stand_in_their_order(tmp_path: Path) -> None:
    site = _site(tmp_path, "0.9.0", "0.10.0", "0.10.0rc2", "0.10.0rc10", "assets")
    (site / "0.11.0").mkdir()  # without pages: a build that failed
    assert ["0.10.0", "0.10.0rc10", "0.10.0rc2", "0.9.0"] == versions.versions_in(site)


def test_the_newest_version_of_the_site_is_the_latest_one(tmp_path: Path) -> None:
    site = _site(tmp_path, "1.0", "1.1")
    versions.write_index(site)
    assert [{"version": "1.1", "title": "1.1", "aliases": ["latest"]}, {"version": "1.0", "title": "1.0", "aliases": []}] == json.loads(
        (site / "versions.json").read_text(encoding="utf-8")
    )
    page = (site / "index.html").read_text(encoding="utf-8")
    assert "url=1.1/index.html" in page
    assert page.index('href="1.1/index.html"') < page.index('href="1.0/index.html"')


def test_a_site_without_versions_has_no_index(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no version"):
        versions.write_index(tmp_path)
    assert [] == list(tmp_path.iterdir())


def test_a_version_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="expected a version"):
        versions.build("../elsewhere", tmp_path, tmp_path)


# ---- docs/requirements.md ----

_REQUIREMENTS = (ROOT / "docs" / "requirements.md").read_text("utf-8")
_ADDRESSES = {
    "/dashboard",
    *(f"/groundwire/v1/{name}" for name in ("metrics", "records", "scratchpad", "quarantine", "clashes", "failures", "keys", "spending")),
}


def _rows() -> list[list[str]]:
    """Of all tables, without their heads: what is required, where, shown by, difference."""
    lines = [line for line in _REQUIREMENTS.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [row for row in cells if row[1] != "required" and set(row[1]) != {"-"}]


def _is_there(name: str) -> bool:
    """A file, an option, an importable name, a stage, a header, an address or a counter."""
    if "/" in name:
        return name in _ADDRESSES if name.startswith("/") else (ROOT / name).exists()
    stages = {stage.name: stage for stage in STAGES}
    first, _, rest = name.partition(".")
    if first == "stages":
        return rest in stages
    if first == "proxy":
        return _imported(name)
    if name.startswith("x-groundwire-"):
        return f"| `{name}` |" in (ROOT / "docs/reference/headers.md").read_text("utf-8")
    return (first in stages and rest in stages[first].Options.__struct_fields__) or any(name in stage.counters for stage in STAGES)


def _imported(name: str) -> bool:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        with suppress(ModuleNotFoundError):
            found: object = importlib.import_module(".".join(parts[:length]))
            for part in parts[length:]:
                found = getattr(found, part, None)
            return found is not None
    return False


def _shown(name: str) -> bool:
    """A test's function, a scenario's title, or a script that measures."""
    file, _, title = name.partition("::")
    path = ROOT / (file if file.startswith("benchmarks/") else f"tests/{file}")
    if not path.is_file():
        return False
    text = path.read_text("utf-8")
    if path.suffix == ".feature":
        return any(line.strip() in (f"Scenario: {title}", f"Scenario Outline: {title}") for line in text.splitlines())
    return (not title and file.startswith("benchmarks/")) or re.search(rf"^(?:async )?def {re.escape(title)}\(", text, re.M) is not None


def test_every_requirement_says_where_it_lives_and_what_shows_it() -> None:
    rows = _rows()
    assert len(rows) > 90
    assert [] == [row for row in rows if len(row) != 5 or "`" not in row[2] or "`" not in row[3]]


def test_all_that_the_requirements_name_is_there() -> None:
    assert [] == [name for row in _rows() for name in re.findall(r"`([^`]+)`", row[2]) if not _is_there(name)]
    assert [] == [name for row in _rows() for name in re.findall(r"`([^`]+)`", row[3]) if not _shown(name)]


def test_what_is_not_there_is_found_out() -> None:
    assert [] == [
        name
        for name in ("proxy/nowhere.py", "budget.colour", "proxy.faithful.nothing", "x-groundwire-colour", "a.b_count")
        if _is_there(name)
    ]
    wrong = ("test_docs.py::test_nothing", "features/budget.feature::Nothing", "benchmarks/nowhere.py", "nowhere.py::test_a")
    assert [] == [name for name in wrong if _shown(name)]


def test_every_scenario_of_the_two_specifications_has_a_row() -> None:
    sections = {name: _REQUIREMENTS.partition(f"## {name}")[2].partition("\n## ")[0] for name in ("RF-005", "RF-006")}
    for section in sections.values():
        assert set(range(1, 21)) == {int(number) for number in re.findall(r"^\| scenario (\d+) ", section, re.M)}


def test_every_difference_that_is_pointed_to_is_argued() -> None:
    argued = {
        title.lower().replace(" ", "-") for title in re.findall(r"^### (.+)$", _REQUIREMENTS.partition("## Differences, argued")[2], re.M)
    }
    assert 4 == len(argued)
    assert argued == set(re.findall(r"\]\(#([a-z-]+)\)", _REQUIREMENTS))
