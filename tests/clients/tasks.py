"""A task of ten turns for agents of the command line: files, a search, a shell. What the model calls is fixed; what comes of it is the folder's.

`step` gives the next call in the words of whichever agent asks: its own tools for reading, writing and searching where it has some, else
its shell. The answer says what the last command printed, so that a result which was lost on the way is missed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any]]
FOLDER = re.compile(r"harbour task in (/\S+)")
ANSWER = "Done: the depth is 4 m, slack water is at 11:42."
_PRINTED = re.compile(r"depth 4 m, slack (\d\d:\d\d)")
FILES: Mapping[str, str] = {
    "notes/harbour.md": "# Harbour\n\nSlack water today: 11:42. The pilot boards at the fairway buoy.\n",
    "notes/crew.md": "# Crew\n\nAda steers, Ben keeps the log.\n",
    "src/tide.py": "depth = 3\nslack = open('report.md').read().split()[-1]\nprint(f'depth {depth} m, slack {slack}')\n",
    "data/gauge.csv": "time,level\n" + "".join(f"{hour:02}:00,{hour % 7}.{hour}\n" for hour in range(24)),
}
_REPORT = "Slack water: 11:42\n"
ACTIONS: Sequence[tuple[str, ...]] = (
    ("run", "ls -R ."),
    ("search", "Slack"),
    ("read", "notes/harbour.md"),
    ("read", "src/tide.py"),
    ("run", "python3 src/tide.py"),
    ("write", "report.md", _REPORT),
    ("edit", "src/tide.py", "depth = 3", "depth = 4"),
    ("search", "depth"),
    ("run", "python3 src/tide.py"),
)
"""The fifth fails: there is no report yet."""


def task(folder: Path) -> str:
    """What the agent is asked."""
    return f"Do the harbour task in {folder} : report the slack water, correct the depth to 4 m, and run src/tide.py."


def prepare(home: Path) -> Path:
    """The folder of the task."""
    folder = home / "work"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def step(question: str, tools: Sequence[str], done: int, results: Sequence[str]) -> list[Call] | str | None:
    """The next call, or the answer; None where this is not the task."""
    found = FOLDER.search(question)
    if found is None or not tools:
        return None
    if done < len(ACTIONS):
        kind, *given = ACTIONS[done]
        return [_call(kind, given, Path(found[1]), tools)]
    printed = [time for result in results for time in _PRINTED.findall(result)]
    return f"Done: the depth is 4 m, slack water is at {printed[-1]}." if printed else "The program printed nothing that I know of."


def _call(kind: str, given: Sequence[str], folder: Path, tools: Sequence[str]) -> Call:
    own = {name.lower(): name for name in tools}
    path = str(folder / given[0])
    camel = "read" in tools  # OpenCode's names are in lower case, and so are its parameters' first letters
    file, old, new = ("filePath", "oldString", "newString") if camel else ("file_path", "old_string", "new_string")
    if kind == "read" and "read" in own:
        return own["read"], {file: path}
    if kind == "write" and "write" in own:
        return own["write"], {file: path, "content": given[1]}
    if kind == "edit" and "edit" in own:
        return own["edit"], {file: path, old: given[1], new: given[2]}
    if kind == "search" and "grep" in own:
        return own["grep"], {"pattern": given[0], "path": str(folder)}
    commands = {
        "run": given[0],
        "read": f"cat {given[0]}",
        "search": f"grep -rn {given[0]} notes src",
        "write": f"printf %s {shlex.quote(given[-1])} > {given[0]}",
        "edit": f"sed -i 's/{given[1]}/{given[-1]}/' {given[0]}" if kind == "edit" else "",
    }
    return _shell(f"cd {folder} && {commands[kind]}", own)


def _shell(command: str, own: Mapping[str, str]) -> Call:
    if "exec_command" in own:
        return own["exec_command"], {"cmd": command}
    name = next(own[name] for name in ("bash", "shell_command", "shell") if name in own)
    described = {"description": "Runs a command."} if name in ("Bash", "bash") else {}
    return name, {"command": command, **described}
