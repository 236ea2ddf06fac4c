"""What docs/ says of the code is so."""

import re
from pathlib import Path

import proxy.faithful
from docs import picture
from proxy.context import faithful

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
