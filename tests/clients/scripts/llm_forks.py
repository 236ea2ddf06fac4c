"""The `llm` command for each line of JSON: `arguments`, `environment`, `folder`; a line with its exit status and what it wrote comes back.

Each runs in a process of its own, forked from one that has imported the command: that takes longer than a call.
"""

import json
import os
import sys
import tempfile

import openai.resources.chat  # noqa: F401 - as the command does, late
from llm.cli import cli


def run(asked, *written):
    """Be the command; does not return."""
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, file in enumerate((open(os.devnull), *written)):  # noqa: SIM115
        os.dup2(file.fileno(), number)
    sys.stdin = os.fdopen(0)  # without what was read ahead
    sys.argv = ["llm", *asked["arguments"]]
    sys.exit(cli())


def answer(asked):
    """The status and what was written to the standard output and the standard error."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        child = os.fork()
        if not child:
            run(asked, said, complained)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        return [status, *(os.pread(file.fileno(), 1_000_000, 0).decode() for file in (said, complained))]


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
