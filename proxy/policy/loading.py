"""policies/*.yaml -> an ordered, checked list of stages.

A policy is refused when it is loaded, with file, path and what was expected: unknown stages and keys, wrong types, a stage placed
before what it needs, the same stage twice, and a check that would hold answers back under ``delivery: tap``.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec.structs import replace

from proxy.config.settings import RouteSettings, Settings, checked, forwarding
from proxy.config.yaml_files import read_yaml
from proxy.context.passages import RETRIEVAL_TOOLS
from proxy.errors import ConfigError
from proxy.grounding.judging.second_opinion import SecondOpinion
from proxy.policy import plugins
from proxy.ports.stage import Stage, StageOptions
from proxy.stages.registry import STAGES

Delivery = Literal["hold", "gate", "tap"]
LoadModels = Literal["at_start", "at_first_use"]
KEYS = ("name", "delivery", "enforce", "load_models", "retrieval_tools", "second_opinion", "stages")
DELIVERIES: tuple[Delivery, ...] = ("hold", "gate", "tap")


@dataclass(slots=True, frozen=True)
class StageSpec:
    """One entry of a policy: which stage, and its checked options."""

    stage: type[Stage]
    options: StageOptions


@dataclass(slots=True, frozen=True)
class Policy:
    """A checked policy file."""

    name: str
    digest: str
    """First eight hex digits of the file's SHA-256."""
    delivery: Delivery
    stages: tuple[StageSpec, ...]
    """Without those that are not enabled."""
    file: str
    retrieval_tools: tuple[str, ...] = RETRIEVAL_TOOLS
    """Tools whose results are passages; ``*`` stands for anything."""
    enforce: bool = True
    """False is shadow mode: judge and record everything, change and block nothing."""
    load_models: LoadModels = "at_start"
    """When this process reads the weights that its stages use: before a request comes, or when a conversation first has work for them."""

    @property
    def label(self) -> str:
        """``NAME@hash8``"""
        return f"{self.name}@{self.digest}"

    @property
    def judges(self) -> bool:
        """Whether what a request says may make it change or refuse something: then every reader must read the same in it."""
        actions = [action for spec in self.stages for action in spec.stage.actions(spec.options)]
        return self.refuses or any(not action.exact and action.kind not in ("annotate", "warn") for action in actions)

    @property
    def refuses(self) -> bool:
        """Whether an answer that no stage has judged would get around it: a stage may refuse or change answers, or must not fail."""
        return any(spec.stage.blocks_answers(spec.options) or spec.options.on_error == "closed" for spec in self.stages)


@dataclass(slots=True, frozen=True)
class RoutePolicies:
    """The policies of one route: its own, and those a client may ask for, by name."""

    default: Policy
    allowed: dict[str, Policy]

    @property
    def stages(self) -> Iterator[type[Stage]]:
        """Of all of them."""
        return (spec.stage for policy in self.allowed.values() for spec in policy.stages)


def load_policy(path: str | Path, stages: Sequence[type[Stage]] = STAGES) -> Policy:
    """Read and check one file. Raises `ConfigError`."""
    file = str(path)
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ConfigError(file, "", "expected a mapping with name, delivery and stages")
    for key in raw:
        if key not in KEYS:
            raise ConfigError(file, str(key), f"unknown key; known here: {', '.join(KEYS)}")
    name = checked(raw.get("name"), str, file, "name")
    if not name or not name.isascii() or any(c.isspace() or c in "@,;" for c in name):
        raise ConfigError(file, "name", f"expected a word of ASCII letters, digits, - and _, got {name!r}")
    delivery = raw.get("delivery", "hold")
    if delivery not in DELIVERIES:
        raise ConfigError(file, "delivery", f"expected one of {', '.join(DELIVERIES)}, got {delivery!r}")
    entries = raw.get("stages") or []
    if not isinstance(entries, list):
        raise ConfigError(file, "stages", "expected a list of stages")
    specs = [_spec(entry, i, file, stages) for i, entry in enumerate(entries)]
    if raw.get("second_opinion") is not None:
        specs = _with_second_opinion(specs, raw["second_opinion"], file)
    _check_order(specs, file, delivery)
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]
    retrieval_tools = _retrieval_tools(raw.get("retrieval_tools"), file)
    enforce = checked(raw.get("enforce", True), bool, file, "enforce")
    load_models = raw.get("load_models", "at_start")
    if load_models not in get_args(LoadModels):
        raise ConfigError(file, "load_models", f"expected one of {', '.join(get_args(LoadModels))}, got {load_models!r}")
    return Policy(name, digest, delivery, tuple(s for s in specs if s.options.enabled), file, retrieval_tools, enforce, load_models)


def load_policies(settings: Settings, stages: Sequence[type[Stage]] = STAGES) -> dict[str, RoutePolicies]:
    """Every route's policies by prefix; a file that several routes name is read once. Raises `ConfigError`."""
    loaded: dict[Path, Policy] = {}

    def load(path: Path) -> Policy:
        if path not in loaded:
            loaded[path] = load_policy(path, stages)
            _check_asked(loaded[path], settings)
            _check_folders(loaded[path], settings)
        return loaded[path]

    return {route.prefix: _route_policies(route, Path(settings.folder), load) for route in settings.routes}


def _check_asked(policy: Policy, settings: Settings) -> None:
    """Every upstream that a stage asks exists and has a key of its own."""
    for spec in policy.stages:
        for option, name in spec.stage.asks(spec.options).items():
            path = f"stages.{spec.stage.name}.{option}"
            if name not in settings.upstreams:
                raise ConfigError(policy.file, path, f"no upstream {name!r} in config.yaml; known: {', '.join(settings.upstreams)}")
            if name in forwarding(settings):
                problem = f"upstream {name} has no key of its own (api_key: forward), so the proxy cannot ask it for itself"
                raise ConfigError(policy.file, path, problem)


def _check_folders(policy: Policy, settings: Settings) -> None:
    """Every folder that a stage reads is there."""
    for spec in policy.stages:
        for option, name in spec.stage.folders(spec.options).items():
            folder = Path(settings.folder) / name
            if not folder.is_dir():
                raise ConfigError(policy.file, f"stages.{spec.stage.name}.{option}", f"no such folder: {folder}")


def _route_policies(route: RouteSettings, folder: Path, load: Any) -> RoutePolicies:
    path = folder / route.policy
    default = load(path)
    allowed = {default.name: default}
    for entry in route.allow_policies:
        other = load(folder / entry if entry.endswith((".yaml", ".yml")) else path.with_name(f"{entry}.yaml"))
        if other.name in allowed and allowed[other.name] is not other:
            raise ConfigError(other.file, "name", f"{other.name!r} is also the name of {allowed[other.name].file}")
        allowed[other.name] = other
    return RoutePolicies(default, allowed)


def _retrieval_tools(value: Any, file: str) -> tuple[str, ...]:
    if value is None:
        return RETRIEVAL_TOOLS
    patterns = checked(value, tuple[str, ...], file, "retrieval_tools")
    for i, pattern in enumerate(patterns):
        if not pattern.strip() or pattern != pattern.strip():
            raise ConfigError(file, f"retrieval_tools[{i}]", f"expected a tool's name or a pattern as search_*, got {pattern!r}")
    return patterns


def _spec(entry: Any, i: int, file: str, stages: Sequence[type[Stage]]) -> StageSpec:
    path = f"stages[{i}]"
    if isinstance(entry, str):
        entry = {entry: {}}
    if not isinstance(entry, dict) or len(entry) != 1:
        raise ConfigError(file, path, "expected one stage with its options, as: - budget: {warn_at: 0.7}")
    name, options = next(iter(entry.items()))
    known = {stage.name: stage for stage in stages}
    stage = known[name] if name in known else _plugin(str(name), known, file, path)
    return StageSpec(stage, checked(options or {}, stage.Options, file, f"{path}.{name}"))


def _plugin(name: str, known: Mapping[str, type[Stage]], file: str, path: str) -> type[Stage]:
    """A stage that is not Groundwire's own."""
    try:
        return plugins.load(name, Path(file).parent, known)
    except plugins.NotFound as error:
        near = difflib.get_close_matches(name, (*known, *plugins.names()), n=1)
        hint = "" if ":" in name else f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join((*known, *plugins.names()))}"
        raise ConfigError(file, path, f"{error}{hint}") from error


def _with_second_opinion(specs: Sequence[StageSpec], value: Any, file: str) -> list[StageSpec]:
    """The policy's second opinion as an option of every stage that has one and does not name its own."""
    opinion = checked(value, SecondOpinion, file, "second_opinion")
    if not any("second_opinion" in spec.options.__struct_fields__ for spec in specs):
        raise ConfigError(file, "second_opinion", "no stage of this policy asks for one; claims does")
    return [
        StageSpec(spec.stage, replace(spec.options, second_opinion=opinion))
        if getattr(spec.options, "second_opinion", opinion) is None
        else spec
        for spec in specs
    ]


def _check_order(specs: Sequence[StageSpec], file: str, delivery: Delivery) -> None:
    assigned: dict[str, str] = {}
    later = {fact: spec.stage.name for spec in specs if spec.options.enabled for fact in spec.stage.assigns}
    names = [spec.stage.name if spec.options.enabled else "" for spec in specs]
    seen: set[str] = set()
    for i, spec in enumerate(specs):
        stage, path = spec.stage, f"stages[{i}].{spec.stage.name}"
        if stage.name in seen:
            raise ConfigError(file, path, "this stage stands here twice")
        seen.add(stage.name)
        if not spec.options.enabled:
            continue
        for fact in stage.requires:
            if fact not in assigned:
                where = f"put it after {later[fact]!r}" if fact in later else "no stage of this policy provides it"
                raise ConfigError(file, path, f"needs {fact}: {where}")
        for name in stage.follows:
            if name in names[i:]:
                raise ConfigError(file, path, f"must stand after {name!r}")
        for name in stage.needs(spec.options):
            if name not in names:
                raise ConfigError(file, path, f"needs stage {name}")
        if delivery == "tap" and stage.blocks_answers(spec.options):
            raise ConfigError(file, path, "can hold back or change an answer, which delivery: tap cannot; use hold or gate")
        if delivery != "hold" and (option := stage.needs_hold(spec.options)):
            raise ConfigError(file, path, f"{option} needs the whole answer before any of it has left: delivery: hold, not {delivery}")
        assigned.update(dict.fromkeys(stage.assigns, stage.name))
