"""Other proxies, each in an environment of its own under ``benchmarks/results/peers`` (ignored by git).

Pinned to the versions that were measured; installed on the first run that asks for them.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from benchmarks.load.processes import StartFailed, free_port
from benchmarks.load.systems import REPOSITORY, Missing, Place, System

LITELLM = "litellm[proxy]==1.106.0"
PORTKEY = "@portkey-ai/gateway@1.15.2"
PEERS = REPOSITORY / "benchmarks" / "results" / "peers"
_START_S = 120.0


def litellm(place: Place) -> System:
    """LiteLLM's own proxy server, one worker, no database, no logging. It refuses to start without a master key."""
    port = free_port()
    key = f"sk-{secrets.token_hex(32)}"
    config = place.folder / "litellm.yaml"
    upstream = {"model": "openai/gpt-4o", "api_base": f"http://127.0.0.1:{place.upstream_port}/v1", "api_key": "sk-benchmark"}
    settings: dict[str, Any] = {
        "model_list": [{"model_name": "gpt-4o", "litellm_params": upstream}],
        "litellm_settings": {"telemetry": False},
    }
    settings["general_settings"] = {"master_key": key}
    config.write_text(yaml.safe_dump(settings))
    command = [str(_litellm_command()), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_MODE": "PRODUCTION"}
    system = _start(place, "litellm", command, port, "/health/liveliness", env)
    system.key = key
    return system


def portkey(place: Place) -> System:
    """Portkey's gateway on Node."""
    if not shutil.which("node"):
        raise Missing("node is not installed")
    port = free_port()
    script = _portkey_script()
    system = _start(place, "portkey", ["node", str(script), f"--port={port}", "--headless"], port, None, {"NODE_ENV": "production"})
    system.headers = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"http://127.0.0.1:{place.upstream_port}/v1"}
    return system


def _start(place: Place, name: str, command: list[str], port: int, ready: str | None, env: dict[str, str]) -> System:
    try:
        server, ready_s = place.launch(name, command, port, ready, env, _START_S)
    except StartFailed as error:
        raise Missing(str(error)) from error
    return System(name, port, server, peer=True, ready_s=ready_s)


def _litellm_command() -> Path:
    folder = PEERS / "litellm"
    command = folder / "bin" / "litellm"
    if not command.exists():
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", LITELLM]
        _install([sys.executable, "-m", "venv", str(folder)], install)
    return command


def _portkey_script() -> Path:
    folder = PEERS / "portkey"
    script = folder / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    if not script.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _install(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), PORTKEY])
    return script


def _install(*commands: list[str]) -> None:
    for command in commands:
        print(f"installing: {' '.join(command)}", flush=True)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Missing(f"installation failed: {done.stderr[-800:]}")
