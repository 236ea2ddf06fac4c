"""Makes ``mcp_tools.jsonl.gz``: the tools of real MCP servers, read out of their packages without running any of them.

    pip download --no-deps --only-binary=:all: --python-version 3.13 -d PACKAGES PACKAGE ...    (what mcp_servers.tsv names)
    npm pack --pack-destination PACKAGES PACKAGE ...
    python -m benchmarks.mcp_catalogue PACKAGES [--data training/tool_data]

``mcp_servers.tsv`` lists the packages with version and licence (MIT, Apache-2.0 or BSD by their own metadata, readme or licence file):
those that rankings are measured on in ``benchmarks/data``, other ones to train on in ``training/tool_data``. Python is read by its syntax
tree (decorators called ``tool`` and calls of ``Tool(name=…)``), JavaScript by the forms ``server.tool("name", "description"``,
``registerTool("name", {…})`` and ``{name: …, description: …, inputSchema: …}``. What is put together at run time is not found.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import inspect
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
TOOLS, SERVERS = "mcp_tools.jsonl.gz", "mcp_servers.tsv"
MAX_DESCRIPTION_CHARS = 1200
_NOT_ARGUMENTS = {"self", "cls", "ctx", "context", "service", "user_google_email"}
"""What a server fills in by itself."""

Tool = dict[str, Any]


# ---- Python ----


def python_tools(source: str) -> Iterator[Tool]:
    """Of one file; nothing where it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    texts = dict(_constants(tree))
    for root in [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]:
        own = next((_text(c.args[0], texts) for c in ast.walk(root) if isinstance(c, ast.Call) and _is_super_init(c)), "")
        yield from _written_out(root, texts | {"self.name": own})
    yield from _written_out(tree, texts)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                if _called(decorator).rpartition(".")[2] in ("tool", "register_tool"):
                    yield _decorated(node, decorator, texts)


def _written_out(root: ast.AST, texts: dict[str, str]) -> Iterator[Tool]:
    """Calls of ``Tool(name=…, description=…)``."""
    for node in ast.walk(root):
        if isinstance(node, ast.Call) and _called(node).rpartition(".")[2] == "Tool":
            given = {word.arg: word.value for word in node.keywords}
            name, description = _text(given.get("name"), texts), _text(given.get("description"), texts)
            if name and description:
                yield tool(name, description, _json_properties(given.get("inputSchema"), texts))


def _is_super_init(call: ast.Call) -> bool:
    return ast.unparse(call.func) == "super().__init__" and bool(call.args)


def _constants(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Strings that a name stands for, members of enumerations as ``Class.MEMBER``."""
    for node in ast.walk(tree):
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for item in getattr(node, "body", []) if isinstance(node, ast.ClassDef | ast.Module) else []:
            if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name) and (text := _text(item.value, {})):
                yield prefix + item.targets[0].id, text


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, decorator: ast.expr, texts: dict[str, str]) -> Tool:
    given = {word.arg: word.value for word in decorator.keywords} if isinstance(decorator, ast.Call) else {}
    first = decorator.args[0] if isinstance(decorator, ast.Call) and decorator.args else None
    name = _text(given.get("name"), texts) or _text(first, texts) or node.name
    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
    defaults: dict[str, ast.expr | None] = dict(zip([a.arg for a in reversed(node.args.args)], reversed(node.args.defaults), strict=False))
    properties = {a.arg: _described(a.annotation, defaults.get(a.arg), texts) for a in arguments if a.arg not in _NOT_ARGUMENTS}
    return tool(name, _text(given.get("description"), texts) or ast.get_docstring(node) or "", properties)


def _described(annotation: ast.expr | None, default: ast.expr | None, texts: dict[str, str]) -> str:
    """The description in ``Annotated[…, Field(description=…)]``, ``Annotated[…, "…"]`` or a default of ``Field(description=…)``."""
    for node in [n for root in (annotation, default) if root is not None for n in ast.walk(root)]:
        if isinstance(node, ast.Call) and _called(node).rpartition(".")[2] == "Field":
            return next((_text(word.value, texts) for word in node.keywords if word.arg == "description"), "")
    return ""


def _json_properties(schema: ast.expr | None, texts: dict[str, str]) -> dict[str, str]:
    if not isinstance(schema, ast.Dict):
        return {}
    parts = {_text(key, {}): value for key, value in zip(schema.keys, schema.values, strict=True)}
    properties = parts.get("properties")
    if not isinstance(properties, ast.Dict):
        return {}
    found = {}
    for key, value in zip(properties.keys, properties.values, strict=True):
        inner = {_text(k, {}): v for k, v in zip(value.keys, value.values, strict=True)} if isinstance(value, ast.Dict) else {}
        found[_text(key, texts)] = _text(inner.get("description"), texts)
    return found


def _called(node: ast.expr) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _text(node: ast.expr | None, texts: dict[str, str]) -> str:
    """A string constant, joined ones, or a name of one; "" for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, texts) + _text(node.right, texts)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, texts) for part in node.values)
    if isinstance(node, ast.Name | ast.Attribute):
        return texts.get(ast.unparse(node).removesuffix(".value"), "")
    return ""


# ---- JavaScript ----

_STRING = r"(?:\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)"
_JOINED = rf"{_STRING}(?:\s*\+\s*{_STRING})*"
_CALL = re.compile(rf"(?:\.(?:tool|registerTool|addTool)|Create\w*Tool)\(\s*({_STRING})\s*,\s*(?:({_JOINED})\s*,)?")
_FIELDS = re.compile(
    rf"\bname:\s*({_STRING})\s*,\s*(?:(?:title|category|method|annotations):\s*(?:{_STRING}|\{{[^{{}}]*\}})\s*,\s*)*description:\s*({_JOINED})"
)
_DESCRIPTION = re.compile(rf"\bdescription:\s*({_JOINED})")
_ZOD = re.compile(r"([A-Za-z_$][\w$]*):\s*(?:z|zod|[a-z])\s*\.\s*\w+\(")
_ZOD_TEXT = re.compile(rf"\.describe\(\s*({_JOINED})")
_PROPERTY = re.compile(r"[\"']?([A-Za-z_][\w-]*)[\"']?:\s*\{\s*(?:type|description|anyOf|oneOf|enum|\.\.\.)")


def javascript_tools(source: str) -> Iterator[Tool]:
    """Of one file."""
    for found in _CALL.finditer(source):
        block = _block(source, found.end())
        described = _DESCRIPTION.search(block)
        text = found[2] or (described[1] if described else "")
        yield tool(_unquoted(found[1]), _unquoted(text), _javascript_properties(block))
    for found in _FIELDS.finditer(source):
        rest = source[found.end() : found.end() + 400]
        if re.match(r"\s*,\s*(?:annotations:\s*\{[^{}]*\}\s*,\s*)?(?:inputSchema|parameters|schema|paramsSchema|operationType)\b", rest):
            yield tool(_unquoted(found[1]), _unquoted(found[2]), _javascript_properties(_block(source, found.end())))


def _block(source: str, start: int) -> str:
    """The text within the next braces, those in strings not counted; at most 20,000 characters."""
    depth, found = 0, []
    for part in re.compile(rf"{_STRING}|[{{}}]|[^{{}}\"'`]+|.", re.DOTALL).finditer(source, start, start + 20_000):
        found.append(part[0])
        depth += (part[0] == "{") - (part[0] == "}")
        if part[0] == "}" and depth <= 0:
            break
    return "".join(found)


def _javascript_properties(block: str) -> dict[str, str]:
    found = {}
    starts = [(m.start(), m[1]) for m in _ZOD.finditer(block)]
    for (start, name), (end, _) in zip(starts, [*starts[1:], (len(block), "")], strict=False):
        described = _ZOD_TEXT.search(block[start:end])
        found[name] = _unquoted(described[1]) if described else ""
    for match in () if found else _PROPERTY.finditer(block):
        if match[1] not in ("properties", "inputSchema", "items", "parameters", "schema", "annotations"):
            described = _DESCRIPTION.search(_block(block, match.start()))
            found[match[1]] = _unquoted(described[1]) if described else ""
    return found


def _unquoted(text: str) -> str:
    """String literals joined, their escapes resolved."""
    parts = [part[1:-1] for part in re.findall(_STRING, text)]
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": " "}.get(m[1], m[1]), re.sub(r"\\\n", "", "".join(parts)))


# ---- packages ----


def tool(name: str, description: str, properties: dict[str, str]) -> Tool:
    """One row; parameters as a JSON schema of names and descriptions."""
    schema = {key: {"description": _cleaned(text, 300)} if text else {} for key, text in properties.items()}
    return {
        "name": name,
        "description": _cleaned(description, MAX_DESCRIPTION_CHARS),
        "parameters": {"type": "object", "properties": schema},
    }


def _cleaned(text: str, most: int) -> str:
    return inspect.cleandoc(text).strip()[:most]


def files_of(archive: Path) -> Iterator[tuple[str, str]]:
    """Path and text of every source file of a wheel or an npm package, without what it bundles."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                if name.endswith(".py") and "test" not in name:
                    yield name, wheel.read(name).decode("utf-8", "replace")
        return
    with tarfile.open(archive) as packed:
        for member in sorted(packed.getmembers(), key=lambda m: m.name):
            if (
                member.isfile()
                and member.name.endswith((".js", ".mjs", ".cjs"))
                and not re.search(r"node_modules|test|third_party", member.name)
            ):
                file = packed.extractfile(member)
                yield member.name, file.read().decode("utf-8", "replace") if file else ""


def tools_of(archive: Path) -> list[Tool]:
    """Of one package: each name once, with the longest description found, only those described."""
    found: dict[str, Tool] = {}
    for path, source in files_of(archive):
        for row in python_tools(source) if path.endswith(".py") else javascript_tools(source):
            known = found.get(row["name"])
            if re.fullmatch(r"[A-Za-z][\w.-]{1,63}", row["name"]) and len(row["description"]) > 10 and "${" not in row["description"]:
                found[row["name"]] = max(known or row, row, key=lambda r: (len(r["description"]), len(r["parameters"]["properties"])))
    return [found[name] for name in sorted(found)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path)
    parser.add_argument("--data", type=Path, default=DATA, help="folder with mcp_servers.tsv, into which mcp_tools.jsonl.gz is written")
    options = parser.parse_args()
    rows = []
    for line in (options.data / SERVERS).read_text(encoding="utf-8").splitlines()[1:]:
        server, file = line.split("\t")[0], line.split("\t")[-1]
        tools = tools_of(options.packages / file)
        print(f"{server}: {len(tools)}")
        rows += [{"server": server, **row} for row in tools]
    written = options.data / TOOLS
    written.write_bytes(gzip.compress("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode(), mtime=0))
    print(f"{len(rows)} tools, {written.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
