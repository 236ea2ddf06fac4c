"""Every benchmark still finds what it takes from the product and from the tests."""

import importlib
import pkgutil

import pytest

import benchmarks

MODULES = [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.") if not module.name.endswith("__main__")]


@pytest.mark.parametrize("name", [name for name in MODULES if ".results" not in name])
def test_it_can_be_imported(name: str) -> None:
    importlib.import_module(name)
