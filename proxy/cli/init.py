"""``groundwire init``: the configuration, policies and schemas that the package carries, as files of one's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from proxy.errors import ConfigError


def write_files(bundled: Path, config: str, folder: Path) -> Iterator[str]:
    """Copy them from `bundled`, where the configuration is the file `config`, into `folder`, and tell of each: what is there stays.

    Raises `ConfigError` where one cannot be written.
    """
    for source in (bundled / config, *sorted((bundled / "policies").glob("*.yaml")), *sorted((bundled / "schemas").glob("*.json"))):
        target = folder / source.relative_to(bundled)
        if target.exists():
            yield f"{target}: left as it is"
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise ConfigError(str(target), "", f"cannot be written: {error.strerror}") from error
        yield f"{target}: written"
