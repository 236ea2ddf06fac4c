"""Carries config.yaml, policies/ and schemas/ inside the wheel, as proxy/bundled/, for `groundwire serve` and `groundwire init`."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithDefaults(build_py):
    """build_py, and the default configuration beside the code."""

    def run(self) -> None:
        """Copy into the build folder; an editable install reads the files where they are."""
        super().run()
        if not getattr(self, "editable_mode", False):
            target = Path(self.build_lib) / "proxy" / "bundled"
            for source in (Path("config.yaml"), *Path("policies").glob("*.yaml"), *Path("schemas").glob("*.json")):
                (target / source.parent).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target / source)


setup(cmdclass={"build_py": BuildWithDefaults})
