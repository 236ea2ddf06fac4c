"""Stages of an operator's own: a class in a file beside the policy, in a module that can be imported, or of an installed package.

In: the name that a policy gives an entry of ``stages:``. Out: the stage's class, or `NotFound` with what was looked for.
``checks.py:Links`` is a file, its folder the policy's; ``my_package.checks:Links`` a module; any other name an entry point of the group
``groundwire.stages``. An operator's policy decides which code runs, so only the names in a policy file are ever loaded, and nothing is
searched for.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Collection
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from proxy.ports.stage import Stage, StageOptions
from proxy.stages.registry import STAGES
from proxy.wire.http.headers import PREFIX, RESPONSE

T = TypeVar("T")
GROUP = "groundwire.stages"
"""The entry points' group: https://packaging.python.org/en/latest/specifications/entry-points/."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_HEADER = re.compile(r"[a-z][a-z0-9-]{0,60}")


class NotFound(Exception):
    """There is no such stage, or it cannot be used; the message says why."""


def names() -> tuple[str, ...]:
    """The stages that installed packages offer."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def load(name: str, folder: Path, taken: Collection[str]) -> type[Stage]:
    """The stage that a policy in `folder` calls `name`. `taken` are the names of other stages. Raises `NotFound`."""
    where, colon, attribute = name.rpartition(":")
    if not colon:
        found = next(iter(entry_points(group=GROUP, name=name)), None)
        if found is None:
            raise NotFound(f"unknown stage {name!r}")
        return _check_stage(_load_or_refuse(name, found.load), name, taken)
    module = _load_or_refuse(name, lambda: _file(folder / where) if where.endswith(".py") else importlib.import_module(where))
    if not hasattr(module, attribute):
        raise NotFound(f"{where} has no {attribute}")
    return _check_stage(getattr(module, attribute), name, taken)


def _load_or_refuse(name: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except Exception as error:  # the operator's own code: whatever it does while it is imported
        raise NotFound(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error


def _file(path: Path) -> ModuleType:
    """A file as a module, once in a process however many policies name it."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    name = f"groundwire_stage_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def _check_stage(found: object, name: str, taken: Collection[str]) -> type[Stage]:
    if not (isinstance(found, type) and issubclass(found, Stage)):
        raise NotFound(f"{name} is not a class derived from proxy.ports.stage.Stage")
    own = getattr(found, "name", None)
    if not isinstance(own, str) or not _NAME.fullmatch(own):
        raise NotFound(f'{name} has no name: set one of small letters, digits and _, as name = "links"')
    if own in taken:
        raise NotFound(f"{name} is called {own!r}, as a stage of Groundwire's own")
    if not issubclass(found.Options, StageOptions):
        raise NotFound(f"{name}.Options is not derived from proxy.ports.stage.StageOptions")
    for header in found.headers:
        if not _HEADER.fullmatch(header.name):
            raise NotFound(f"{name}: header {header.name!r}: expected small letters, digits and hyphens, without {PREFIX}")
        if header.name in RESPONSE or any(header.name == own.name for stage in STAGES for own in stage.headers):
            raise NotFound(f"{name}: the header {PREFIX}{header.name} is Groundwire's own")
    if found.panel is not None and any(stage.panel is not None and stage.panel.name == found.panel.name for stage in STAGES):
        raise NotFound(f"{name}: the panel {found.panel.name!r} is Groundwire's own")
    return found
