"""``groundwire init``: the configuration, policies and schemas that the package carries, as files of one's own.

On a terminal it asks which provider, where its key is, which policy, and which agent; options answer beforehand, and elsewhere the defaults
do. Everything is asked before anything is written, and what is there stays.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from proxy.config.conversion import suggested
from proxy.config.extras import EMBEDDING, VERIFYING, missing, missing_model
from proxy.config.settings import LOCAL
from proxy.errors import ConfigError

KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
"""By provider, which is an upstream and a route of the shipped configuration, the variable of its key."""
AGENTS = {
    "codex": ("openai", "in ~/.codex/config.toml", 'openai_base_url = "http://127.0.0.1:4000/openai/v1"'),
    "claude-code": ("anthropic", "before its command", "ANTHROPIC_BASE_URL=http://127.0.0.1:4000/anthropic"),
    "gemini-cli": ("gemini", "before its command", "GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000/gemini"),
    "openai-sdk": ("openai", "its base URL", "http://127.0.0.1:4000/openai/v1"),
    "anthropic-sdk": ("anthropic", "its base URL", "http://127.0.0.1:4000/anthropic"),
    "google-genai": ("gemini", "its base URL", "http://127.0.0.1:4000/gemini"),
}
"""By agent: the provider whose API it speaks, where a line goes, and the line, as docs/guides/connect.md has it."""
_ADDRESS = re.compile(r"https?://[^/\s\"'{}$\\][^\s\"'{}$\\]*")
"""What stands between quotes in the file as it is."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WITHOUT_MODELS = ("observe",)
"""Shipped policies that run in an installation without the models' libraries."""
_OPENAI, _LOCAL = "https://api.openai.com/v1", "  local: {kind: embedded}\n"


class Answers(Struct, frozen=True):
    """What somebody has chosen; "" where nobody has."""

    provider: str = ""
    key_variable: str = ""
    policy: str = ""
    agent: str = ""


Ask = Callable[[str], str]
"""Puts a question to somebody."""


def init(bundled: Path, config: str, folder: Path, given: Answers, policies: Sequence[str], ask: Ask | None) -> Iterator[str]:
    """Lines that tell of each file of `bundled`, where the configuration is the file `config`; and what to do next, where something was
    answered. Raises `ConfigError` for what was given and cannot be, and where a file cannot be written.
    """
    target = folder / config
    if given != Answers() and target.exists():
        raise ConfigError(str(target), "", "is there already and stays as it is: name another folder, or edit it")
    lacking = missing_model(*EMBEDDING) or missing_model(*VERIFYING)
    here = [name for name in policies if not lacking or name in _WITHOUT_MODELS]
    answers = None if target.exists() else _answered(given, here, policies, lacking, ask)
    for source in (bundled / config, *sorted((bundled / "policies").glob("*.yaml")), *sorted((bundled / "schemas").glob("*.json"))):
        text = source.read_text(encoding="utf-8")
        yield _write(
            folder / source.relative_to(bundled), _chosen(text, answers, here) if answers is not None and source.name == config else text
        )
    if answers is not None and (ask is not None or given != Answers()):
        _, place, line = AGENTS[answers.agent]
        yield from ("", f"export {answers.key_variable}=…", f"groundwire serve --config {target}", f"{answers.agent}, {place}: {line}")


def _write(target: Path, text: str) -> str:
    if target.exists():
        return f"{target}: left as it is"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(str(target), "", f"cannot be written: {error.strerror}") from error
    return f"{target}: written"


def _answered(given: Answers, policies: Sequence[str], shipped: Sequence[str], lacking: str, ask: Ask | None) -> Answers:
    """`policies` are those of the `shipped` ones that can run here; `lacking` says why the others cannot."""

    def policy_problem(value: str) -> str:
        return f"it {lacking}" if value in shipped and value not in policies else _choice_problem(value, policies)

    def answer(name: str, value: str, question: str, default: str, problem: Callable[[str], str]) -> str:
        while not value and ask is not None:
            value = ask(f"{question} [{default}]: ").strip() or default
            if wrong := problem(value):
                print(wrong, file=sys.stderr)
                value = ""
        value = value or default
        if wrong := problem(value):
            raise ConfigError(f"--{name}", "", wrong)
        return value

    provider = answer(
        "provider",
        given.provider,
        f"Provider: {', '.join(KEYS)}, or the address of an OpenAI-compatible server",
        "openai",
        _provider_problem,
    )
    route = provider if provider in KEYS else "openai"
    key = answer("key-env", given.key_variable, "The environment variable that has its key", KEYS[route], _variable_problem)
    usual = "default" if "default" in policies else policies[0]
    policy = answer("policy", given.policy, f"Policy: {', '.join(policies)}", usual, policy_problem)
    fitting = [name for name, (api, *_) in AGENTS.items() if api == route]
    agent = answer("agent", given.agent, f"Agent: {', '.join(fitting)}", fitting[0], lambda value: _choice_problem(value, fitting))
    return Answers(provider, key, policy, agent)


def _provider_problem(value: str) -> str:
    return "" if value in KEYS or _ADDRESS.fullmatch(value) else f"expected {', '.join(KEYS)}, or an address with http:// or https://"


def _variable_problem(value: str) -> str:
    return "" if _VARIABLE.fullmatch(value) else "expected a variable's name like OPENAI_API_KEY; the key itself stays out of the file"


def _choice_problem(value: str, choices: Sequence[str]) -> str:
    near = suggested(value, choices)
    return "" if value in choices else f"did you mean {near!r}?" if near else f"expected one of {', '.join(choices)}"


def _chosen(text: str, answers: Answers, policies: Sequence[str]) -> str:
    """The shipped configuration with the answers in it, without the local model where nothing here could run it; clients may ask for the
    `policies` that can. Raises `ConfigError` where it has no place for an answer.
    """
    route = answers.provider if answers.provider in KEYS else "openai"
    rules, others = "policy: policies/{}.yaml, allow_policies: [{}]", ("observe", "default", "rag", "agent", "strict")

    def of(policy: str, allowed: Sequence[str]) -> str:
        return rules.format(policy, ", ".join(name for name in others if name != policy and name in allowed))

    changes = [(f"${{{KEYS[route]}:-}}", f"${{{answers.key_variable}:-}}"), (of("default", others), of(answers.policy, policies))]
    if answers.provider not in KEYS:
        changes.append((f"${{OPENAI_BASE_URL:-{_OPENAI}}}", answers.provider))
    if missing(*LOCAL):
        changes += [(_LOCAL, _LOCAL.replace("local", "# local", 1)), ('{prefix: "", upstream: local', f'{{prefix: "", upstream: {route}')]
    for old, new in changes:
        if old not in text:
            raise ConfigError("the shipped configuration", "", f"has no {old!r} in whose place {new!r} could stand: nothing was written")
        text = text.replace(old, new)
    return text
