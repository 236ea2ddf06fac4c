"""What mkdocs calls while it builds the site: upgrade notes out of CHANGELOG.md, and a check that no page loads anything from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NOTES = "<!-- upgrade notes -->"
WANTED = ("Security", "Removed", "Changed")
"""Sections of a version that somebody who upgrades has to know; the first word of their headings."""
_VERSION = re.compile(r"^## (.+)$", re.MULTILINE)
_SECTION = re.compile(r"^### (.+)$", re.MULTILINE)
_LOADED = re.compile(r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href|srcset)=[\"']?(?:https?:)?//[^\"' >]+", re.IGNORECASE)


class LoadsFromElsewhere(Exception):
    """A page of the site would make its reader's browser ask another server."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the upgrade notes in their place."""
    if NOTES not in markdown:
        return markdown
    return markdown.replace(NOTES, upgrade_notes((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), WANTED))


def on_post_build(config: Any, **_: Any) -> None:
    """Look at what was built. Raises `LoadsFromElsewhere`."""
    pages = sorted(Path(config["site_dir"]).rglob("*.html"))
    found = [f"{page.name}: {match[0][:200]}" for page in pages for match in _LOADED.finditer(page.read_text(encoding="utf-8"))]
    if found or not pages:
        raise LoadsFromElsewhere("\n".join(found) or "no page was built")


def upgrade_notes(changelog: str, wanted: Sequence[str]) -> str:
    """Of each version the sections that begin with a word of `wanted`, in that order."""
    parts = []
    for version, body in _split(_VERSION, changelog):
        sections = [(title, text) for word in wanted for title, text in _split(_SECTION, body) if title.startswith(word)]
        if sections:
            parts.append("\n\n".join([f"## {version}", *(f"### {title}\n\n{text.strip()}" for title, text in sections)]))
    # The changelog's links start at the top of the repository, which the site does not hold.
    return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"`\1`", "\n\n".join(parts))


def _split(heading: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """Titles with what stands below each."""
    pieces = heading.split(text)
    return list(zip(pieces[1::2], pieces[2::2], strict=True))
