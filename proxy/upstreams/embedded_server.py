"""The process in which the embedded model runs: `embedded.py` starts this file as a program.

A process of its own because loading a model holds Python's global lock for its whole time, which would stop the event loop, and
because a fault in native code must not take the proxy with it. llama.cpp's server listens on a free loopback port and wants a key.

In: one JSON line on stdin, a `CompletionJob`. Out: one JSON line on stdout, ``{"address"}`` or ``{"error"}``. It lives until stdin ends,
which is when its owner stops it or is gone, for whatever reason; ctrl-C and SIGTERM are for its owner, who has answers to finish.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

import msgspec

_CACHE_MIB = 256
"""Memory for prompts that were pushed out of their slot; llama.cpp's own default is 8 GiB."""
_LOG_WARNINGS = 2


class CompletionJob(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner asks for."""

    path: str
    name: str
    """As answers call the model."""
    key: str
    window: int
    parallel: int
    threads: int
    """For prompts, which profit from every core."""
    decoding_threads: int
    """For single tokens, where threads mostly wait for each other."""
    http_threads: int
    sampling: dict[str, float]
    """Defaults of a request that says nothing: ``temp``, ``top_p``."""


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever native code prints goes to the log
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=CompletionJob)
    try:
        server = _serve(job)
    except Exception as error:
        answers.write(msgspec.json.encode({"error": f"{type(error).__name__}: {error}"}) + b"\n")
        os._exit(1)
    answers.write(msgspec.json.encode({"address": server.listening_address}) + b"\n")
    answers.close()
    while sys.stdin.buffer.read(4096):
        pass
    os._exit(0)  # without native destructors: the system frees everything, at once and surely


def _serve(job: CompletionJob) -> Any:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = job.path
    params.model_alias = {job.name}
    params.n_ctx = job.window * job.parallel
    params.n_parallel = job.parallel
    params.cpuparams.n_threads = job.decoding_threads
    params.cpuparams_batch.n_threads = job.threads
    params.n_threads_http = job.http_threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [job.key]
    params.cors_origins = ""
    params.ui = False
    params.endpoint_slots = False
    params.fit_params = False  # what the settings say, not what a probe of the memory finds
    params.cache_ram_mib = _CACHE_MIB
    params.verbosity = _LOG_WARNINGS
    for name, value in job.sampling.items():
        setattr(params.sampling, name, value)
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
