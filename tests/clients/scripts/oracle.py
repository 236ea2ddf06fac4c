"""What the oracles of `tests.clients.oracle` share: a line of JSON in for each answer that waits at an address, a line out with what each
client showed of it.
"""

import json
import os
import re
import signal
import sys

MARK = re.compile(r"q[b-df-hj-np-tv-xz]{4}a|(?<![0-9])8[0-9]{6}3(?![0-9])")
"""As in tests/clients/oracle/words.py, which this environment does not have."""
HELLO = [{"role": "user", "content": "Where is it?"}]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TIMEOUT_S = 5


class Shown:
    """What one client showed."""

    def __init__(self):
        self.texts, self.strings, self.error = {}, {}, ""

    def say(self, name, text):
        """More of a text that the user sees; what is no text is looked through."""
        if isinstance(text, str):
            self.texts[name] = self.texts.get(name, "") + text
        else:
            self.look(text, name)

    def look(self, value, path="", depth=0):
        """Every marked text in an object that the user has in hand."""
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            if MARK.search(text := str(value)):
                self.strings.setdefault(text, path)
        elif depth > 12 or value is None:
            return
        elif isinstance(value, dict):
            for key, one in value.items():
                self.look(key, f"{path}{{}}", depth + 1)
                self.look(one, f"{path}.{key}" if not MARK.search(str(key)) else f"{path}{{}}", depth + 1)
        elif isinstance(value, list | tuple):
            for one in value:
                self.look(one, f"{path}[]", depth + 1)
        elif hasattr(value, "__dict__"):
            fields = {**value.__dict__, **(getattr(value, "__pydantic_extra__", None) or {})}
            self.look({key: one for key, one in fields.items() if not key.startswith("_")}, path, depth + 1)

    @property
    def written(self):
        return {"texts": self.texts, "strings": [[path, text] for text, path in self.strings.items()], "error": self.error}


def _late(*_):
    raise TimeoutError("never came to an end")


def serve(runs):
    """Answer lines until there are none; ``runs[api, streamed]`` is a list of functions of an ask and a `Shown`."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    signal.signal(signal.SIGALRM, _late)
    print(json.dumps("ready"), file=out, flush=True)
    for line in sys.stdin:
        ask = json.loads(line)
        found = {}
        for run in runs[ask["api"], ask["streamed"]]:
            shown = Shown()
            signal.setitimer(signal.ITIMER_REAL, TIMEOUT_S, 1)  # again, where a library swallows it
            try:
                run(ask, shown)
            except Exception as error:
                shown.error = f"{type(error).__name__}: {error}"[:300]
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            found[run.__name__] = shown.written
            if shown.error.startswith("TimeoutError"):
                print(run.__name__, ask, shown.error, file=sys.stderr, flush=True)
        print(json.dumps(found), file=out, flush=True)
