"""What is trained: the student that ships, or the teacher that it learns from; all in which the two differ."""

from __future__ import annotations

from dataclasses import dataclass

from training.judge import mix
from training.judge.packed import MAX_TOKENS


@dataclass(slots=True, frozen=True)
class Base:
    """Start, data and settings of a training."""

    name: str
    starts: tuple[str, ...]
    """Names of start weights in `training.judge.start` that fit; the first unless another is asked for."""
    shares: dict[str, float]
    short: bool
    """Written rows in short views (`training.judge.written.views`)."""
    max_tokens: int
    rate: float
    batch_tokens: int
    freeze: int
    measure_minutes: float
    curve_rows: dict[str, int] | None
    """Rows of the learning curve by language, of the written documents alone; None: all of them, and the held-out sources."""

    def group_of(self, source: str, language: str) -> str | None:
        """The group of an example in `shares`."""
        return mix.teacher_group_of(source, language) if self.short else mix.group_of(source)


STUDENT = Base("student", ("shipped", "multilingual"), mix.SHARES, False, MAX_TOKENS, 1e-4, 4096, 0, 25.0, None)
TEACHER = Base("teacher", ("mpnet",), mix.TEACHER_SHARES, True, 256, 4e-5, 2048, 4, 15.0, {"en": 200, "de": 30, "es": 30, "fr": 30})
"""110M parameters: some 400 tokens a second on one thread, with the lowest four layers as they are."""
BASES = {base.name: base for base in (STUDENT, TEACHER)}
