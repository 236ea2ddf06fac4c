"""``import groundwire``: the names that users import, the very objects of the package behind them."""

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import groundwire
import proxy

ROOT = Path(__file__).parents[1]
MODULES = sorted(module.name for module in pkgutil.iter_modules(groundwire.__path__) if not module.name.startswith("_"))


def test_the_version_and_the_modules_are_there() -> None:
    assert proxy.__version__ == groundwire.__version__
    assert sorted(["__version__", *MODULES]) == sorted(groundwire.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_a_module_offers_what_it_lists_and_no_more(name: str) -> None:
    module = getattr(groundwire, name)
    assert module is importlib.import_module(f"groundwire.{name}")
    assert sorted(module.__all__) == sorted(other for other in vars(module) if not other.startswith("_"))
    assert [] == [listed for listed in module.__all__ if not hasattr(module, listed)]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nowhere'"):
        _ = groundwire.nowhere


def test_the_package_of_the_name_faithful_is_that_of_the_library() -> None:
    import proxy.faithful

    assert proxy.faithful.__all__ == groundwire.faithful.__all__
    assert groundwire.faithful.extract_citations is proxy.faithful.extract_citations


@pytest.mark.process
def test_importing_it_loads_nothing_heavy_and_it_is_the_command() -> None:
    code = "import groundwire, sys; print(sorted({'numpy', 'sqlalchemy', 'aiohttp', 'rich'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    version = subprocess.run(
        [sys.executable, "-m", "groundwire", "--version"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert ("[]\n", f"groundwire {proxy.__version__}\n") == (loaded.stdout, version.stdout)
