"""Do the tests notice a change of a module: mutants of it, and whether a test fails.

A mutant is one change inside a function: a condition negated, a comparison or an operator swapped, a constant changed, a statement left
out. The tests are collected once; each mutant is a fork of that process in which the functions have the mutant's code, so that it costs
what its tests take until the first fails. Code at a module's top level is not changed.

    python -m benchmarks.mutants proxy.pipeline tests/test_pipeline.py [--sample 40] [--seed 1]

Names the mutants that live. Not every one is a gap: some say the same in other words.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

LEFT_OUT = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Continue)
LIMIT_S = 120
"""A mutant whose tests take longer runs in circles: it is noticed."""
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn,
    ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


Site = tuple[int, int, int]
"""A function by its place in the walk of the module, a node by its place in the walk of that function's body, and a way to change it."""


def sites(tree: ast.Module) -> list[Site]:
    """Where a change can be made."""
    return [
        (number, at, way)
        for number, node in enumerate(ast.walk(tree))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for at, inner in enumerate(ast.walk(ast.Module(node.body, [])))
        for way in range(2)
        if _change(_loose(inner), way)
    ]


def _loose(node: ast.AST) -> ast.AST:
    """A copy whose own fields can be changed without the tree's."""
    made = copy.copy(node)
    for name, value in ast.iter_fields(made):
        if isinstance(value, list):
            setattr(made, name, list(value))
    return made


def mutant(tree: ast.Module, site: Site) -> tuple[str, ast.Module]:
    """The change in words, and the module with it."""
    number, at, way = site
    made = copy.deepcopy(tree)
    function: Any = list(ast.walk(made))[number]
    node = list(ast.walk(ast.Module(function.body, [])))[at]
    line = getattr(node, "lineno", function.lineno)
    return f"{line} in {function.name}: {_change(node, way)}", ast.fix_missing_locations(made)


def _change(node: ast.AST, way: int) -> str:
    """Make the change of this node that is the `way`-th, in words; empty where there is none."""
    before = ast.unparse(node)[:70] if isinstance(node, (ast.stmt, ast.expr)) else ""
    if way == 0 and isinstance(node, (ast.If, ast.IfExp, ast.While)):
        node.test = ast.UnaryOp(ast.Not(), node.test)
        return f"negated {before!r}"
    if way == 0 and isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        node.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[call-overload]
        return f"swapped {before!r}"
    if way == 0 and isinstance(node, (ast.BoolOp, ast.BinOp)) and type(node.op) in SWAPPED:
        node.op = SWAPPED[type(node.op)]()  # type: ignore[assignment]
        return f"swapped {before!r}"
    if way == 0 and isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1
        return f"changed {before!r}"
    body = getattr(node, "body", None)
    if (
        way == 1
        and isinstance(body, list)
        and body
        and isinstance(body[-1], (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.Continue))
    ):
        if isinstance(body[-1], ast.Expr) and isinstance(body[-1].value, ast.Constant):
            return ""
        said = f"left out {ast.unparse(body[-1])[:70]!r}"
        body[-1] = ast.Pass()
        return said
    return ""


def functions(module: ModuleType) -> dict[str, FunctionType]:
    """The module's own, by qualified name, methods too, without their decorators."""
    found: dict[str, FunctionType] = {}
    for holder in (module, *(value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)):
        for value in vars(holder).values():
            bare = getattr(value, "__func__", None) or getattr(value, "fget", None) or value
            while hasattr(bare, "__wrapped__"):
                bare = bare.__wrapped__
            if isinstance(bare, FunctionType) and bare.__module__ == module.__name__:
                found[bare.__qualname__] = bare
    return found


def codes(code: CodeType) -> Iterator[CodeType]:
    """Those of functions and methods, from a module's code down."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes(constant)


class Mutating:
    """A pytest plugin that runs the tests once as they are and once for each mutant."""

    def __init__(self, name: str, sample: int, seed: int) -> None:
        self._module = importlib.import_module(name)
        source = Path(self._module.__file__ or "").read_text("utf-8")
        tree = ast.parse(source)
        every = sites(tree)
        self._sample = [mutant(tree, site) for site in random.Random(seed).sample(every, min(sample, len(every)))]
        self.living: list[str] = []
        self.died = 0
        self.problem = ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if _forked(session, lambda: None):
            self.problem = "the tests fail without a mutant"
            return True
        for said, tree in self._sample:
            if _forked(session, lambda tree=tree: self._become(tree)):
                self.died += 1
            else:
                self.living.append(said)
        return True

    def _become(self, tree: ast.Module) -> None:
        new = {code.co_qualname: code for code in codes(compile(tree, self._module.__file__ or "", "exec"))}
        for name, function in functions(self._module).items():
            if name in new and new[name].co_freevars == function.__code__.co_freevars:
                function.__code__ = new[name]


def _forked(session: pytest.Session, change: Any) -> bool:
    """Whether a test fails in a fork that has made the change."""
    child = os.fork()
    if child == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        signal.alarm(LIMIT_S)
        status = 1
        try:
            change()
            for index, item in enumerate(session.items):
                following = session.items[index + 1] if index + 1 < len(session.items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            status = 1 if session.testsfailed else 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    plugin = Mutating(arguments.module, arguments.sample, arguments.seed)
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-m", "not slow and not process and not postgres and not cost", *arguments.tests], [plugin]
    )
    print("\n".join(f"lives: {said}" for said in plugin.living))
    print(plugin.problem or f"{arguments.module}: {plugin.died} of {plugin.died + len(plugin.living)} mutants noticed")
    return 1 if plugin.problem else 0


if __name__ == "__main__":
    sys.exit(main())
