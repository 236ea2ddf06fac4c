"""Carries config.yaml and policies/ inside the wheel, as proxy/bundled/, for `groundwire serve` and `groundwire init`."""

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
            (target / "policies").mkdir(parents=True, exist_ok=True)
            shutil.copyfile("config.yaml", target / "config.yaml")
            for policy in Path("policies").glob("*.yaml"):
                shutil.copyfile(policy, target / "policies" / policy.name)


setup(cmdclass={"build_py": BuildWithDefaults})
