"""Texts as agents send them, made up from a seed: code, diffs, results in JSON, logs, and prose in four scripts, all with line breaks.

For `benchmarks.load.bodies`. Nothing in the proxy was written for these texts, and nothing in it may be tuned on them: they stand beside
the plain ones because a body of words alone has no brace, no backslash and no line break inside a text, and real conversations are made
of them.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

_NAMES = (
    *("order", "batch", "ledger", "client", "retry", "window", "queue", "cursor", "payload"),
    *("session", "token", "record", "index", "worker", "result", "config", "shard", "offset"),
)
_TYPES = ("int", "str", "float", "bytes", "bool", "list[str]", "dict[str, int]", "Path")
_FILES = (
    *("src/ledger/reader.py", "app/queue.ts", "internal/store/rows.go"),
    *("lib/retry.py", "web/components/Table.tsx", "cmd/server/main.go"),
)
_LEVELS = ("INFO", "WARN", "ERROR", "DEBUG")
_PROSE = (
    "The second run reads every order twice, because the cursor isn't stored until the batch is done.",
    "Вторая проверка читает каждый заказ дважды, потому что курсор сохраняется только в конце партии.",
    "第二次运行会把每个订单读两遍，因为游标要到批次结束才保存。请比较两次运行的结果。",
    "दूसरी बार हर ऑर्डर दो बार पढ़ा जाता है, क्योंकि कर्सर बैच के अंत में ही सहेजा जाता है।",
)


def code(rng: random.Random) -> str:
    """Some functions, in Python or in TypeScript."""
    return "\n\n".join((_python if rng.random() < 0.6 else _typescript)(rng) for _ in range(rng.randint(2, 4))) + "\n"


def _python(rng: random.Random) -> str:
    name, item, kind = rng.choice(_NAMES), rng.choice(_NAMES), rng.choice(_TYPES)
    return (
        f"def {name}_{rng.choice(_NAMES)}(self, {item}: {kind}, *, limit: int = {rng.randint(1, 900)}) -> dict[str, Any]:\n"
        f'    """The {name} of one {item}; "none" where it has none."""\n'
        f'    found = {{"{item}": {item}, "path": r"C:\\data\\{name}", "at": [{rng.randint(0, 99)}, {rng.random():.4f}]}}\n'
        f"    for i, value in enumerate(self._{name}s[{item}]):\n"
        f"        if not value or value.{rng.choice(_NAMES)} > limit:\n"
        f'            log.warning("%s: no {name} at %d\\n", {item}, i)\n'
        f"            continue\n"
        f"        found[value.name] = {{**found, **value.as_dict()}}\n"
        f"    return found"
    )


def _typescript(rng: random.Random) -> str:
    name, item = rng.choice(_NAMES), rng.choice(_NAMES)
    return (
        f"export async function {name}({item}: {{ id: string; size?: number }}[]): Promise<Map<string, number>> {{\n"
        f"\tconst seen = new Map<string, number>();\n"
        f"\tfor (const {{ id, size }} of {item}) {{\n"
        f"\t\tif (seen.has(id) || (size ?? 0) > {rng.randint(10, 4000)}) throw new Error(`{name} ${{id}}: \\`twice\\``);\n"
        f'\t\tseen.set(id.replace(/\\s+/g, "_"), size ?? {rng.randint(0, 9)});\n'
        f"\t}}\n"
        f"\treturn seen;\n"
        f"}}"
    )


def diff(rng: random.Random) -> str:
    """A unified diff of one file."""
    file = rng.choice(_FILES)
    lines = [
        f"diff --git a/{file} b/{file}",
        f"index {rng.randrange(16**7):07x}..{rng.randrange(16**7):07x} 100644",
        f"--- a/{file}",
        f"+++ b/{file}",
    ]
    for _ in range(rng.randint(2, 4)):
        start = rng.randint(1, 600)
        lines.append(f"@@ -{start},{rng.randint(3, 9)} +{start},{rng.randint(3, 9)} @@ class {rng.choice(_NAMES).title()}:")
        for line in _python(rng).split("\n"):
            lines.append(rng.choice((" ", " ", "+", "-")) + line)
    return "\n".join(lines) + "\n"


def result(rng: random.Random) -> str:
    """What a tool returns: rows as JSON, within the text of the message."""
    rows = [
        {
            "id": f"{rng.choice(_NAMES)}-{rng.randrange(10**6):06d}",
            "path": f"/srv/{rng.choice(_FILES)}",
            "score": round(rng.random(), 6),
            "tags": rng.sample(_NAMES, 3),
            "ok": rng.random() < 0.8,
            "note": rng.choice((None, 'said "no room"', "line 1\nline 2", *_PROSE)),
        }
        for _ in range(rng.randint(5, 9))
    ]
    return json.dumps({"total": len(rows), "rows": rows, "next": None}, ensure_ascii=False, indent=rng.choice((None, None, 2)))


def logs(rng: random.Random) -> str:
    """Lines that a command printed, a traceback among them."""
    lines = []
    for _ in range(rng.randint(8, 14)):
        at = datetime.fromtimestamp(1_795_000_000 + rng.random() * 10**6, UTC).isoformat(timespec="milliseconds")
        took, place = f'{{"took_ms": {rng.randint(1, 900)}}}', f"{rng.choice(_FILES)}:{rng.randint(1, 400)}"
        lines.append(f"{at} {rng.choice(_LEVELS):<5} [{rng.choice(_NAMES)}] {took} {place}")
        if rng.random() < 0.15:
            lines.append("Traceback (most recent call last):")
            lines.append(f'  File "/srv/{rng.choice(_FILES)}", line {rng.randint(1, 400)}, in {rng.choice(_NAMES)}')
            lines.append(f"KeyError: '{rng.choice(_NAMES)}'\n")
    return "\x1b[32m$ make test\x1b[0m\n" + "\n".join(lines) + "\n"


def prose(rng: random.Random) -> str:
    """A turn in Markdown, in one of four scripts, with a list and a piece of code."""
    own = rng.choice(_PROSE)
    points = "\n".join(f"- `{rng.choice(_NAMES)}()`: {own}" for _ in range(rng.randint(2, 4)))
    return f"## {rng.choice(_NAMES).title()}\n\n{own} {own}\n\n{points}\n\n```python\n{_python(rng)}\n```\n"
