"""The keys ``judge:`` and ``second_opinion:`` of a policy, the options of stages that they replace, and other options that have gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.config.conversion import checked
from proxy.errors import ConfigError
from proxy.grounding.judging.questions import JudgeOptions, SecondOpinion
from proxy.ports.stage import StageOptions

JUDGE, OLD_NAME = "judge", "second_opinion"
_REMOVED_KEYS: Mapping[str, str] = {
    "llm": "write judge: {upstream: …, model: …} at the top of the policy instead",
    "second_opinion": "write judge: {upstream: …, model: …, ask: unsure} at the top of the policy instead",
    "combine": "there is one judge: it is asked about what the built-in models are unsure of, or about everything (judge: {ask: all})",
    "unsure": "what the built-in models are unsure of is theirs to say; judge: {ask: all} asks about everything",
}


def judge_of(raw: Mapping[str, Any], file: str) -> JudgeOptions | None:
    """Whom a policy asks. Raises `ConfigError`."""
    if raw.get(OLD_NAME) is not None:
        if raw.get(JUDGE) is not None:
            raise ConfigError(file, OLD_NAME, "is the old name of judge: one of the two")
        return checked(raw[OLD_NAME], SecondOpinion, file, OLD_NAME).judge
    return checked(raw[JUDGE], JudgeOptions, file, JUDGE) if raw.get(JUDGE) is not None else None


def gone(options: Any, known: type[StageOptions], file: str, path: str) -> Iterator[ConfigError]:
    """What a stage's options say that it had, and what they still say of a judge of its own, each with what to write instead."""
    for name, instead in known.removed.items():
        if _has(options, *name.split(".")):
            yield ConfigError(file, f"{path}.{name}", f"there is no such option any more: {instead}")
    for name in options if isinstance(options, Mapping) else ():
        if name in known.__struct_fields__ or name in known.removed:
            continue
        if name == "verifiers":
            yield ConfigError(file, f"{path}.{name}", f"a stage has no verifiers of its own any more: {_instead(options[name])}")
        elif name in _REMOVED_KEYS:
            yield ConfigError(file, f"{path}.{name}", f"a stage has no judge of its own any more: {_REMOVED_KEYS[name]}")


def _has(options: Any, name: str, *inner: str) -> bool:
    """Whether options set a name, or one inside of it."""
    return isinstance(options, Mapping) and name in options and (not inner or _has(options[name], *inner))


def _instead(verifiers: Any) -> str:
    """What to write at the top of the policy for a list of verifiers."""
    listed: Sequence[Any] = verifiers if isinstance(verifiers, list) else [verifiers]
    for entry in listed:
        if isinstance(entry, Mapping) and isinstance(llm := entry.get("llm"), Mapping):
            ask = "unsure" if "builtin" in listed else "all"
            named = f"upstream: {llm.get('upstream', '…')}, model: {llm.get('model', '…')}"
            return f"write judge: {{{named}, ask: {ask}}} at the top of the policy instead"
        if isinstance(entry, Mapping) and "model" in entry:
            return f"write judge: {{kind: builtin, model: {entry['model']}}} at the top of the policy instead"
    return "leave it out: the built-in models judge where the policy names no judge"
