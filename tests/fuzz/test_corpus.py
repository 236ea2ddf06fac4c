"""Every kept input, through every target of its kind."""

import pytest

from tests.fuzz import corpus
from tests.fuzz.__main__ import TARGETS
from tests.fuzz.running import attempt


@pytest.mark.parametrize("name", TARGETS)
def test_what_was_found_once_stays_mended(name: str) -> None:
    target = TARGETS[name]()
    kept = corpus.load(target.folder)
    try:
        failures = {file: failure.kind for file, data in kept.items() if (failure := attempt(target, data).failure) is not None}
    finally:
        target.close()
    assert kept, "the corpus is empty"
    assert {} == failures
