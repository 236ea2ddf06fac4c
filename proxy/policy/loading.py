"""policies/*.yaml -> an ordered, checked list of stages.

A policy is refused when it is loaded, with file, path and what was expected: unknown stages and keys, wrong types, a stage placed
before what it needs, the same stage twice, and a check that would hold answers back under ``delivery: tap``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec.structs import replace

from proxy.config.conversion import Problems, checked, read_yaml, suggested
from proxy.config.extras import EMBEDDING, VERIFYING, missing, missing_model
from proxy.config.settings import RouteSettings, Settings, forwarding
from proxy.context.passages import RETRIEVAL_TOOLS
from proxy.errors import ConfigError
from proxy.grounding.judging.questions import JudgeOptions
from proxy.policy import plugins
from proxy.policy.judge_keys import gone, judge_of
from proxy.ports.stage import Action, SentenceStage, Stage, StageOptions
from proxy.stages.registry import STAGES

Delivery = Literal["hold", "gate", "tap"]
LoadModels = Literal["at_start", "at_first_use"]
Unknown = Literal["drop", "refuse"]
KEYS = ("name", "delivery", "enforce", "judge", "load_models", "retrieval_tools", "second_opinion", "stages", "unknown")
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
    load_models: LoadModels = "at_first_use"
    """When this process reads the weights that its stages use: before a request comes, or when a conversation first has work for them."""

    unknown: Unknown = "drop"
    """What becomes of an answer of which something is not recognised, where a stage that looks at it refuses what it cannot check."""
    judge: JudgeOptions | None = None
    """Whom its stages ask what a text means; None for the built-in models alone."""

    @property
    def label(self) -> str:
        """``NAME@hash8``"""
        return f"{self.name}@{self.digest}"

    @property
    def writes_anew(self) -> bool:
        """Whether of an answer what is recognised leaves, and nothing else."""
        return _writes_anew(self.delivery, self.stages)

    def actions(self, spec: StageSpec) -> tuple[Action, ...]:
        """What one of its stages may do. How right each is was measured with the built-in models; another judge's findings are others."""
        found = spec.stage.actions(spec.options)
        if self.judge is None or not spec.stage.judges(spec.options):
            return found
        return tuple(action if action.exact else replace(action, code=f"{action.code}, by a judge of one's own") for action in found)

    @property
    def judges(self) -> bool:
        """Whether what a request says may make it change or refuse something: then every reader must read the same in it."""
        actions = [action for spec in self.stages for action in self.actions(spec)]
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
    """Read and check one file. Raises `ConfigError`, which has everything that is wrong in it."""
    file, found = str(path), Problems()
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ConfigError(file, "", "expected a mapping with name, delivery and stages")
    for key in raw:
        if key not in KEYS:
            near = suggested(str(key), [known for known in KEYS if known not in raw])
            hint = f"did you mean {near!r}?" if near else f"known here: {', '.join(KEYS)}"
            found.found.append(ConfigError(file, str(key), f"unknown key; {hint}"))
    said: dict[str, Any] = {}
    for name, default in _HEAD.items():
        with found.caught():
            said[name] = _word(raw.get(name, default), name, file)
    with found.caught():
        said["retrieval_tools"] = _retrieval_tools(raw.get("retrieval_tools"), file)
    with found.caught():
        said["judge"] = judge_of(raw, file)
    specs = _specs(raw, file, stages, found)
    if specs is not None:
        _check_order(specs, file, said.get("delivery", "hold"), found)
        _check_judge(specs, file, said.get("judge"), found)
        if "unknown" in raw and not _writes_anew(said.get("delivery", "hold"), specs):
            found.found.append(ConfigError(file, "unknown", _OPEN))
    found.raised()
    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]
    return Policy(digest=digest, stages=tuple(s for s in specs or () if s.options.enabled), file=file, **said)


_HEAD = {"name": None, "delivery": "hold", "enforce": True, "load_models": "at_first_use", "unknown": "drop"}
"""Keys beside the stages, with their defaults."""
_CHOICES = {"delivery": DELIVERIES, "load_models": get_args(LoadModels), "unknown": get_args(Unknown)}


_OPEN = "only where delivery is hold or gate and a stage that looks at answers has on_error: closed; elsewhere bytes leave as they came"


def _writes_anew(delivery: Delivery, specs: Sequence[StageSpec]) -> bool:
    """Whether answers wait for a stage that looks at them and refuses what it cannot check."""
    looking = [spec for spec in specs if _looks_at_answers(spec.stage)]
    return delivery != "tap" and any(spec.options.enabled and spec.options.on_error == "closed" for spec in looking)


def _leaves_requests_alone(stage: type[Stage]) -> bool:
    """Whether there is nothing but answers that it could refuse."""
    return stage.on_request is Stage.on_request and not stage.answers


def _looks_at_answers(stage: type[Stage]) -> bool:
    return stage.on_answer is not Stage.on_answer or issubclass(stage, SentenceStage)


def _word(value: Any, key: str, file: str) -> Any:
    """The checked value of one key of `_HEAD`. Raises `ConfigError`."""
    if key in _CHOICES:
        if value not in _CHOICES[key]:
            near = suggested(str(value), _CHOICES[key])
            expected = f"expected one of {', '.join(_CHOICES[key])}, got {value!r}"
            raise ConfigError(file, key, expected + (f"; did you mean {near!r}?" if near else ""))
        return value
    if key == "enforce":
        return checked(value, bool, file, key)
    name = checked(value, str, file, key)
    if not name or not name.isascii() or any(c.isspace() or c in "@,;" for c in name):
        raise ConfigError(file, key, f"expected a word of ASCII letters, digits, - and _, got {name!r}")
    return name


def _specs(raw: Mapping[str, Any], file: str, stages: Sequence[type[Stage]], found: Problems) -> list[StageSpec] | None:
    """The stages; None where one is wrong, so that their order says nothing."""
    entries, specs, wrong = raw.get("stages") or [], [], len(found.found)
    if not isinstance(entries, list):
        found.found.append(ConfigError(file, "stages", "expected a list of stages"))
        return None
    for i, entry in enumerate(entries):
        with found.caught():
            specs.append(_spec(entry, i, file, stages))
    return specs if len(found.found) == wrong else None


def load_policies(settings: Settings, stages: Sequence[type[Stage]] = STAGES, source: str = "") -> dict[str, RoutePolicies]:
    """Every route's policies by prefix; a file that several routes name is read once. Raises `ConfigError`, with all that is wrong.

    `source` is the file that the settings come from, for what is said of its routes.
    """
    reading = PolicyReading(settings, source or str(Path(settings.folder) / "config.yaml"), stages)
    found = {route.prefix: reading.route(i, route) for i, route in enumerate(settings.routes)}
    reading.problems.raised()
    return {prefix: policies for prefix, policies in found.items() if policies is not None}


class PolicyReading:
    """Reads policy files, each once."""

    def __init__(self, settings: Settings, source: str, stages: Sequence[type[Stage]] = STAGES) -> None:
        self._settings, self._source, self._stages = settings, source, stages
        self.problems = Problems()
        self.read: dict[Path, Policy | None] = {}
        """By file; None for one that is wrong."""

    def file(self, path: Path) -> Policy | None:
        """One policy."""
        if path not in self.read:
            self.read[path] = None
            with self.problems.caught():
                policy = load_policy(path, self._stages)
                for look in (_unusable_upstreams, _unknown_servers, _missing_folders, _missing_models):
                    self.problems.found += look(policy, self._settings)
                self.read[path] = policy
        return self.read[path]

    def route(self, i: int, route: RouteSettings) -> RoutePolicies | None:
        """Those of the route with the index `i`; None where its own is wrong."""
        path = Path(self._settings.folder) / route.policy
        default = self._policy_in(path, f"routes[{i}].policy")
        allowed = {default.name: default} if default is not None else {}
        for n, entry in enumerate(route.allow_policies if default is not None or path.is_file() else ()):  # they stand beside it
            other_path = path.parent / f"{entry}.yaml" if not entry.endswith((".yaml", ".yml")) else Path(self._settings.folder) / entry
            other = self._policy_in(other_path, f"routes[{i}].allow_policies[{n}]")
            if other is not None and allowed.setdefault(other.name, other) is not other:
                self.problems.found.append(
                    ConfigError(other.file, "name", f"{other.name!r} is also the name of {allowed[other.name].file}")
                )
        return RoutePolicies(default, allowed) if default is not None else None

    def _policy_in(self, path: Path, place: str) -> Policy | None:
        """The policy in a file that config.yaml names at `place`."""
        if path.is_file():
            return self.file(path)
        root = Path(self._settings.folder)
        folder = root / "policies" if path.parent == root and not path.suffix else path.parent
        there = sorted(
            str(file.relative_to(root) if file.is_relative_to(root) else file) for file in folder.glob("*.y*ml") if has_stages(file)
        )
        near = next((name for name in there if Path(name).stem == path.stem), "") or suggested(path.name, there)
        none = f"{folder} has no policies (groundwire init writes some)"
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(there)}" if there else none
        self.problems.found.append(ConfigError(self._source, place, f"no such policy file: {path}; {hint}"))
        return None


def has_stages(file: Path) -> bool:
    """Whether a YAML file is a policy, and not other YAML that stands beside them."""
    return "stages:" in file.read_text("utf-8", "replace")


def _unusable_upstreams(policy: Policy, settings: Settings) -> Iterator[ConfigError]:
    """Upstreams that a stage or the judge asks, and that do not exist or have no key of their own."""
    asked = [(f"stages.{s.stage.name}.{option}", name) for s in policy.stages for option, name in s.stage.asks(s.options).items()]
    if policy.judge is not None and policy.judge.upstream:
        asked.append(("judge.upstream", policy.judge.upstream))
    for path, name in asked:
        if name not in settings.upstreams:
            yield ConfigError(policy.file, path, f"no upstream {name!r} in config.yaml; known: {', '.join(settings.upstreams)}")
        elif name in forwarding(settings):
            problem = f"upstream {name} has no key of its own (api_key: forward), so the proxy cannot ask it for itself"
            yield ConfigError(policy.file, path, problem)


def _unknown_servers(policy: Policy, settings: Settings) -> Iterator[ConfigError]:
    """MCP servers that a stage names, and that do not exist."""
    servers = settings.mcp.servers
    for spec in policy.stages:
        for i, name in enumerate(spec.stage.tool_servers(spec.options)):
            if name not in servers:
                hint = f"; did you mean {near!r}?" if (near := suggested(name, tuple(servers))) else ""
                problem = f"no MCP server {name!r} in config.yaml (mcp.servers); known: {', '.join(servers) or '(none)'}{hint}"
                yield ConfigError(policy.file, f"stages.{spec.stage.name}.servers[{i}]", problem)


def _missing_folders(policy: Policy, settings: Settings) -> Iterator[ConfigError]:
    """Folders that a stage reads and that are not there, or that nothing here can search; what is asked for in the store needs neither."""
    for spec in policy.stages if not settings.stored_knowledge else ():
        for option, name in spec.stage.folders(spec.options).items():
            folder = Path(settings.folder) / name
            if not folder.is_dir():
                yield ConfigError(policy.file, f"stages.{spec.stage.name}.{option}", f"no such folder: {folder}")
            elif problem := missing("FAISS", "faiss", "tools"):
                yield ConfigError(policy.file, f"stages.{spec.stage.name}", problem)


def _missing_models(policy: Policy, settings: Settings) -> Iterator[ConfigError]:
    """Stages for models whose libraries are not here: an installation of requirements/plain.txt has none."""
    for spec in policy.stages:
        embeds, verifies = spec.stage.local_models(spec.options)
        own = settings.embeddings.kind == "builtin"
        for model, modules in ([EMBEDDING] if embeds and own else []) + ([VERIFYING] if verifies else []):
            if problem := missing_model(model, modules):
                yield ConfigError(policy.file, f"stages.{spec.stage.name}", problem)


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
    problems = Problems()
    problems.found += gone(options, stage.Options, file, f"{path}.{name}")
    problems.raised()
    return StageSpec(stage, checked(options or {}, stage.Options, file, f"{path}.{name}"))


def _plugin(name: str, known: Mapping[str, type[Stage]], file: str, path: str) -> type[Stage]:
    """A stage that is not Groundwire's own."""
    try:
        return plugins.load(name, Path(file).parent, known)
    except plugins.NotFound as error:
        near = suggested(name, (*known, *plugins.names()))
        hint = "" if ":" in name else f"; did you mean {near!r}?" if near else f"; known: {', '.join((*known, *plugins.names()))}"
        raise ConfigError(file, path, f"{error}{hint}") from error


def _check_judge(specs: Sequence[StageSpec], file: str, judge: JudgeOptions | None, found: Problems) -> None:
    """Whether who asks for a judge has one, and who has one asks it."""
    asks = judge is not None and bool(judge.upstream)
    for i, spec in enumerate(specs):
        if spec.options.enabled and not asks and (option := spec.stage.needs_judge(spec.options)):
            problem = f"{option} needs a judge at the top of the policy: judge: {{upstream: …, model: …}}"
            found.found.append(ConfigError(file, f"stages[{i}].{spec.stage.name}", problem))
    if judge is not None and not any(spec.options.enabled and spec.stage.judges(spec.options) for spec in specs):
        found.found.append(ConfigError(file, "judge", "no stage of this policy asks one; claims does"))


def _check_order(specs: Sequence[StageSpec], file: str, delivery: Delivery, found: Problems) -> None:
    """What is wrong with the stages together is added to what was `found`."""
    assigned: set[str] = set()
    later = {fact: spec.stage.name for spec in specs if spec.options.enabled for fact in spec.stage.assigns}
    names = [spec.stage.name if spec.options.enabled else "" for spec in specs]
    seen: set[str] = set()
    for i, spec in enumerate(specs):
        path = f"stages[{i}].{spec.stage.name}"
        if spec.stage.name in seen:
            found.found.append(ConfigError(file, path, "this stage stands here twice"))
        seen.add(spec.stage.name)
        if spec.options.enabled:
            said = (*_order_problems(spec, names, i, assigned, later), *_undeliverable(spec, delivery))
            found.found += (ConfigError(file, path, problem) for problem in said)
            assigned.update(spec.stage.assigns)


def _order_problems(spec: StageSpec, names: Sequence[str], i: int, assigned: Collection[str], later: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the place of a stage among the others."""
    for fact in spec.stage.requires:
        if fact not in assigned:
            where = f"put it after {later[fact]!r}" if fact in later else "no stage of this policy provides it"
            yield f"needs {fact}: {where}"
    for name in spec.stage.follows:
        if name in names[i:]:
            yield f"must stand after {name!r}"
    for name in spec.stage.needs(spec.options):
        if name not in names:
            yield f"needs stage {name}"


def _undeliverable(spec: StageSpec, delivery: Delivery) -> Iterator[str]:
    """What a stage may do that this way of delivery cannot."""
    if delivery == "tap" and spec.stage.blocks_answers(spec.options):
        yield "can hold back or change an answer, which delivery: tap cannot; use hold or gate"
    elif delivery == "tap" and spec.options.on_error == "closed" and _looks_at_answers(spec.stage) and _leaves_requests_alone(spec.stage):
        yield "on_error: closed refuses an answer that could not be checked, which delivery: tap cannot; use hold or gate"
    elif delivery != "hold" and (option := spec.stage.needs_hold(spec.options)):
        yield f"{option} needs the whole answer before any of it has left: delivery: hold, not {delivery}"
