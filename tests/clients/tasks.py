"""A task of ten turns for agents: files, a search, a shell, a tool of each of two MCP servers. What the model calls is fixed; what comes of it
is the folder's and the servers'.

`step` gives the next call in the words of whichever agent asks: its own tools for reading, writing and searching where it has some, else
its shell, also in place of an MCP server that it has not. The answer says what the second server and the last command printed, so that a
result which was lost on the way is missed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

Call = tuple[str, dict[str, Any]]
FOLDER = re.compile(r"harbour task in (/\S+)")
ANSWER = "Done: the depth is 4 m, slack water is at 11:42, the pilot's order is P-417."
_TURN = re.compile(r"\bTurn \d+(?=[.:])")
_PRINTED = re.compile(r"depth 4 m, slack (\d\d:\d\d)")
_ORDER = re.compile(r"order (P-\d+) stands")
FILES: Mapping[str, str] = {
    "notes/harbour.md": "# Harbour\n\nSlack water today: 11:42. The pilot boards at the fairway buoy.\n",
    "notes/crew.md": "# Crew\n\nAda steers, Ben keeps the log.\n",
    "notes/tide_table.txt": "High water at 05:31 and 17:54.\n",
    "notes/order_pilot.txt": "The pilot's order P-417 stands.\n",
    "src/tide.py": "depth = 3\nslack = open('report.md').read().split()[-1]\nprint(f'depth {depth} m, slack {slack}')\n",
    "data/gauge.csv": "time,level\n" + "".join(f"{hour:02}:00,{hour % 7}.{hour}\n" for hour in range(24)),
}
REPORT = "Slack water: 11:42\n"
ACTIONS: Sequence[tuple[str, ...]] = (
    ("search", "Slack"),
    ("read", "notes/harbour.md"),
    ("read", "src/tide.py"),
    ("run", "python3 src/tide.py"),
    ("ask", "tide_table", "port"),
    ("write", "report.md", REPORT),
    ("edit", "src/tide.py", "depth = 3", "depth = 4"),
    ("ask", "order_pilot", "ship"),
    ("run", "python3 src/tide.py"),
)
"""The fourth fails: there is no report yet. Of ``ask`` the name of an MCP server's tool and of its one parameter."""


def task(folder: Path) -> str:
    """What the agent is asked."""
    return f"Do the harbour task in {folder} : report the slack water, correct the depth to 4 m, order a pilot, and run src/tide.py."


def prepare(home: Path) -> Path:
    """The folder of the task."""
    folder = home / "work"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def step(question: str, tools: Sequence[str], done: int, results: Sequence[str]) -> list[Call] | str | None:
    """The next call, or the answer; None where this is not the task."""
    folder = FOLDER.search(question)
    if folder is None or not tools:
        return None
    if done < len(ACTIONS):
        kind, *given = ACTIONS[done]
        return [_call(kind, given, Path(folder[1]), tools)]
    return answer(results)


LINES: Sequence[str] = (
    *("/run grep -rn Slack notes src", "{} Turn 1."),
    *("/run cat notes/harbour.md", "Turn 2."),
    *("/run cat src/tide.py", "Turn 3."),
    *("/run python3 src/tide.py", "Turn 4."),
    *("/run cat notes/tide_table.txt", "Turn 5."),
    "Turn 6: write the report.",
    "Turn 7: correct the depth.",
    *("/run cat notes/order_pilot.txt", "Turn 8."),
    *("/run python3 src/tide.py", "Turn 9."),
    "Turn 10: what was done?",
)
"""The task for a model that calls no tools: what its user types, who runs the commands."""
_BLOCK = "{}\n```\n<<<<<<< SEARCH\n{}=======\n{}>>>>>>> REPLACE\n```\n"
_EDITS: Mapping[str, str] = {
    "Turn 6": _BLOCK.format("report.md", "", REPORT),
    "Turn 7": _BLOCK.format("src/tide.py", "depth = 3\n", "depth = 4\n"),
}


def edit(question: str, said: Sequence[str]) -> str | None:
    """What a model without tools answers to one of `LINES`: edits as aider takes them, the answer, or that it has read on; else None."""
    turn = _TURN.search(question)
    if turn is None:
        return None
    return answer(said) if turn[0] == "Turn 10" else _EDITS.get(turn[0], "I have read it.")


def answer(results: Sequence[str]) -> str:
    """What the model says of all results."""
    printed = [time for result in results for time in _PRINTED.findall(result)]
    orders = [order for result in results for order in _ORDER.findall(result)]
    if not printed or not orders:
        return "The program printed nothing that I know of, or the pilot has no order."
    return f"Done: the depth is 4 m, slack water is at {printed[-1]}, the pilot's order is {orders[-1]}."


_OWN: Mapping[str, Mapping[str, Callable[[Path, Sequence[str]], dict[str, Any]]]] = {
    "read": {
        "Read": lambda folder, given: {"file_path": str(folder / given[0])},
        "read": lambda folder, given: {"filePath": str(folder / given[0])},
        "read_file": lambda folder, given: {"file_path": str(folder / given[0])},
        "read_files": lambda folder, given: {"files": [{"path": str(folder / given[0])}]},
    },
    "write": {
        "Write": lambda folder, given: {"file_path": str(folder / given[0]), "content": given[1]},
        "write": lambda folder, given: {"filePath": str(folder / given[0]), "content": given[1]},
        "write_file": lambda folder, given: {"file_path": str(folder / given[0]), "content": given[1]},
    },
    "edit": {
        "Edit": lambda folder, given: {"file_path": str(folder / given[0]), "old_string": given[1], "new_string": given[2]},
        "edit": lambda folder, given: {"filePath": str(folder / given[0]), "oldString": given[1], "newString": given[2]},
        "replace": lambda folder, given: {
            "file_path": str(folder / given[0]),
            "old_string": given[1],
            "new_string": given[2],
            "instruction": "Correct it.",
        },
        "editor": lambda folder, given: {"path": str(folder / given[0]), "old_text": given[1], "new_text": given[2]},
    },
    "search": {
        "Grep": lambda folder, given: {"pattern": given[0], "path": str(folder)},
        "grep": lambda folder, given: {"pattern": given[0], "path": str(folder)},
        "grep_search": lambda folder, given: {"pattern": given[0], "dir_path": str(folder)},
    },
}
"""Agents' own tools, by what they do: the arguments of each."""
_SHELLS: Mapping[str, Callable[[str], dict[str, Any]]] = {
    "exec_command": lambda command: {"cmd": command},
    "Bash": lambda command: {"command": command, "description": "Runs a command."},
    "bash": lambda command: {"command": command, "description": "Runs a command."},
    "run_shell_command": lambda command: {"command": command},
    "run_commands": lambda command: {"commands": [command]},
    "shell_command": lambda command: {"command": command},
    "shell": lambda command: {"command": command},
}


def _call(kind: str, given: Sequence[str], folder: Path, tools: Sequence[str]) -> Call:
    if kind == "ask":
        for name in tools:
            if name.endswith(given[0]):
                return name, {given[1]: "Ada"}
    for name, arguments in _OWN.get(kind, {}).items():
        if name in tools:
            return name, arguments(folder, given)
    commands = {
        "ask": f"cat notes/{given[0]}.txt",
        "run": given[0],
        "read": f"cat {given[0]}",
        "search": f"grep -rn {given[0]} notes src",
        "write": f"printf %s {shlex.quote(given[-1])} > {given[0]}",
        "edit": f"sed -i 's/{given[1]}/{given[-1]}/' {given[0]}" if kind == "edit" else "",
    }
    shell = next(name for name in _SHELLS if name in tools)
    return shell, _SHELLS[shell](f"cd {folder} && {commands[kind]}")
