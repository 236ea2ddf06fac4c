"""Builds the pages of this checkout as one version of the site: ``site/VERSION/``, beside those that lie there already.

In: ``docs/`` and ``mkdocs.yml``, the version of ``pyproject.toml`` (or ``--version``), tags to build too (``--tags v0.1.0``: the pages as
they were then, out of git). Out: a folder for each, ``site/versions.json`` as mike writes it and Material's version picker reads it, and
``site/index.html``, which leads to the newest and lists them all. A version that was built before stays until it is built anew, or its
folder is deleted. Runs in the environment that ``make site`` makes; without a network.
"""

from __future__ import annotations

import argparse
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
SITE = ROOT / "site"
VERSION = re.compile(r"\d+(\.\d+)*([a-z]+\d*)?")
"""What a version's folder is called."""
LATEST = "latest"
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="0; url={newest}/index.html">
<title>Groundwire: documentation</title>
</head>
<body>
<h1>Groundwire: documentation</h1>
<ul>
{items}
</ul>
</body>
</html>
"""


def versions_in(site: Path) -> list[str]:
    """Versions whose pages lie there, the newest first; one with letters (``1.0rc1``) stands behind the one without."""
    found = [one.name for one in site.iterdir() if VERSION.fullmatch(one.name) and (one / "index.html").is_file()]
    return sorted(found, key=_order, reverse=True)


def _order(version: str) -> tuple[tuple[int, ...], bool, list[tuple[str, int]]]:
    numbers, letters = re.fullmatch(r"([\d.]+)(.*)", version).groups()  # type: ignore[union-attr]  # as `VERSION` has it
    pieces = [(name, int(number or 0)) for name, number in re.findall(r"([a-z]+)(\d*)", letters)]
    return tuple(map(int, numbers.split("."))), not letters, pieces


def write_index(site: Path) -> None:
    """``versions.json`` and the page that leads to the newest. Raises `FileNotFoundError` where no version lies there."""
    versions = versions_in(site)
    if not versions:
        raise FileNotFoundError(f"{site}: no version of the pages lies there")
    entries = [{"version": one, "title": one, "aliases": [LATEST] if one == versions[0] else []} for one in versions]
    (site / "versions.json").write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")
    items = "\n".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in map(html.escape, versions))
    (site / "index.html").write_text(_PAGE.format(newest=versions[0], items=items), encoding="utf-8")


def build(version: str, source: Path, site: Path) -> None:
    """The pages of `source` into ``site/VERSION``. Raises `subprocess.CalledProcessError`, where a link leads nowhere among others."""
    if not VERSION.fullmatch(version):
        raise SystemExit(f"{version}: expected a version, as 1.2.0 or 1.2.0rc1")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--clean", "--site-dir", str(site / version)]
    subprocess.run(command, cwd=source, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, check=True)


def build_tag(tag: str, site: Path) -> None:
    """The pages as they were at a tag of git, ``v1.2.0`` or ``1.2.0``."""
    with tempfile.TemporaryDirectory(prefix="groundwire-docs-") as folder:
        archive = subprocess.run([shutil.which("git") or "git", "archive", tag], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(folder, filter="data")
        build(tag.removeprefix("v"), Path(folder), site)


def own_version() -> str:
    """That of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def main(given: Sequence[str] | None = None) -> None:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", default=own_version(), help="of these pages (default: that of pyproject.toml)")
    parser.add_argument("--tags", nargs="*", default=[], help="tags of git whose pages are built too")
    parser.add_argument("--site", type=Path, default=SITE, help="where the versions lie (default: site)")
    options = parser.parse_args(given)
    for tag in options.tags:
        build_tag(tag, options.site)
    build(options.version, ROOT, options.site)
    write_index(options.site)


if __name__ == "__main__":
    main()
