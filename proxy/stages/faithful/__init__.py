"""The stage `faithful`: rules and numbered passages into the prompt (`stage`), and the marks they ask for out of the answer (`marks`)."""

from proxy.stages.faithful.stage import Faithful

__all__ = ["Faithful"]
