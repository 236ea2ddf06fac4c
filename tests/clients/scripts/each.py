"""Runs a script of cases once for each address, all in one process: to import its libraries takes longer than its cases do.

``python each.py SCRIPT RESULTS`` has the addresses by name from the environment (ROUTES) and gives each run its own, as OPENAI_BASE_URL.
"""

import json
import os
import runpy
import sys
from pathlib import Path


def run(script, place, url):
    """The results of the script at one address; nothing of it stays for the next one but the libraries."""
    os.environ["OPENAI_BASE_URL"], sys.argv = url, [script, place]
    runpy.run_path(script, run_name="__main__")
    del sys.modules["cases"]
    return json.loads(Path(place).read_text("utf-8"))


def main(script, results):
    """Results by the address's name."""
    routes = json.loads(os.environ["ROUTES"])
    Path(results).write_text(json.dumps({name: run(script, f"{results}.{name}", url) for name, url in routes.items()}), "utf-8")


main(*sys.argv[1:])
