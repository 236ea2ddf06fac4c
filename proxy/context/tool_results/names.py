"""What a tool's name says of it: whether it reads, changes something, or is called again and again. Names are read, not understood."""

from __future__ import annotations

import re

from proxy.language.lru import by_text

# fmt: off
READING = frozenset((
    "get", "list", "search", "read", "find", "fetch", "look", "lookup", "query", "show", "describe", "view", "count", "browse", "retrieve",
    "retrieval", "grep", "glob", "cat", "ls", "head", "tail", "stat", "info", "inspect", "details", "calculate", "calculator", "compute",
    "think", "weather", "check", "extract", "explain", "translate", "compare", "snapshot",
    "suchen", "lesen", "anzeigen", "rechercher", "chercher", "lire", "lister", "buscar", "leer", "listar", "obtener", "consultar",
    "cercare", "cerca", "leggi", "leggere", "ler", "obter",
))
CHANGING = frozenset((
    "set", "update", "delete", "remove", "create", "write", "send", "book", "cancel", "add", "insert", "edit", "modify", "make", "post",
    "put", "patch", "move", "rename", "run", "execute", "exec", "start", "stop", "submit", "apply", "buy", "pay", "order", "transfer",
    "upload", "save", "mark", "change", "reset", "install", "clear", "out", "checkout", "commit", "push", "replace", "and",
))
_LOOKING = frozenset(("status", "poll", "polling", "progress", "health", "monitor", "watch"))
PACED = _LOOKING | frozenset((
    "scroll", "next", "previous", "prev", "press", "click", "tap", "swipe", "step", "tick", "forward", "back", "advance", "continue",
))
"""Those who look change nothing; a click may."""
IDLE = frozenset(("ping", "heartbeat", "keepalive", "alive", "sleep", "wait", "await", "noop", "yield"))
_READING_COMMANDS = READING | _LOOKING | frozenset((
    "select", "logs", "log", "top", "diff", "ps", "df", "du", "pwd", "which", "whoami", "wc", "env", "date", "uptime", "free", "history",
    "version", "blame", "plan", "sort", "uniq", "awk", "jq", "curl", "dig", "nslookup", "test", "pytest", "lint", "rg", "tree",
))
_RUNNING = frozenset(("run", "execute", "exec"))
"""In names of tools that are given a command."""
_CHANGING_COMMANDS = (CHANGING - {"order", "and", "out", "start", "run", "make", "book", "set"}) | frozenset((
    "rm", "mv", "cp", "mkdir", "touch", "chmod", "chown", "kill", "restart", "rollout", "scale", "drop", "alter", "truncate", "merge",
    "rebase", "switch", "tee", "dd", "prune", "down", "up", "deploy", "enable", "disable", "reload", "drain", "cordon",
))
# fmt: on
_BOTH = frozenset(("and", "or", "out"))
"""In names of tools that do two things: get_or_create, check_out."""
_COMMAND = re.compile(r'"(?:command|commands|cmd|query|sql|statement|script|code|args)"\s*:(.*)', re.S)
_COMMAND_WORD, _COMMAND_CHARS = re.compile(r"[A-Za-z]+"), 4_000
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def is_of(tool: str, kinds: frozenset[str]) -> bool:
    """Whether a word of the name is among `kinds`."""
    return not kinds.isdisjoint(words_of_name(tool))


@by_text(1024)
def reads(tool: str) -> bool:
    """By the first verb of its name: ``get_order`` reads, ``order_book`` does not."""
    words = words_of_name(tool)
    verb = next((word for word in words if word in READING or word in CHANGING), "")
    return verb in READING and (_BOTH.isdisjoint(words) or CHANGING.isdisjoint(words))


@by_text(1024)
def changes(tool: str) -> bool:
    """Whether its name says that it changes something: ``edit_file``, ``sendMail``."""
    return is_of(tool, CHANGING) and not reads(tool)


def may_change(tool: str, arguments: str) -> bool:
    """Whether a call may have changed what was read before: neither its name nor the command in its arguments (JSON) says that it reads."""
    if reads(tool) or (is_of(tool, _LOOKING | IDLE) and not is_of(tool, CHANGING)):
        return False
    command = None if is_of(tool, CHANGING - _RUNNING) else _COMMAND.search(arguments[:_COMMAND_CHARS])
    if command is None:
        return True
    words = [word.lower() for word in _COMMAND_WORD.findall(command[1])]
    return ">" in command[1] or _READING_COMMANDS.isdisjoint(words) or not _CHANGING_COMMANDS.isdisjoint(words)


@by_text(1024)
def words_of_name(tool: str) -> tuple[str, ...]:
    """The words of a tool's name: ``get_user``, ``getUser`` and ``server__get-user`` have ``get`` and ``user``."""
    return tuple(word.lower() for word in _WORD.findall(tool[:200]))
