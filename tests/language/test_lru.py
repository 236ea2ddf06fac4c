import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from proxy.language.lru import LRU


def test_the_entry_unused_for_longest_makes_room() -> None:
    memory: LRU[int] = LRU(2)
    memory.put(b"a", 1)
    memory.put(b"b", 2)
    assert 1 == memory.get(b"a")
    memory.put(b"c", 3)
    assert [1, None, 3] == [memory.get(key) for key in (b"a", b"b", b"c")]
    assert 2 == len(memory)


def test_a_value_put_again_is_replaced_and_counts_as_used() -> None:
    memory: LRU[int] = LRU(2)
    for key, value in ((b"a", 1), (b"b", 2), (b"a", 3), (b"c", 4)):
        memory.put(key, value)
    assert [3, None, 4] == [memory.get(key) for key in (b"a", b"b", b"c")]


def test_none_can_be_kept() -> None:
    memory: LRU[int | None] = LRU(1)
    memory.put(b"a", None)
    assert b"a" in memory
    assert b"b" not in memory


def test_a_memory_of_no_size_keeps_nothing() -> None:
    memory: LRU[int] = LRU(0)
    memory.put(b"a", 1)
    assert memory.get(b"a") is None


def test_what_something_takes_can_be_measured_and_what_is_larger_than_all_is_not_kept() -> None:
    memory: LRU[str] = LRU(5, len)
    for key, value in ((b"a", "12"), (b"b", "34"), (b"c", "567"), (b"d", "123456"), (b"b", "1")):
        memory.put(key, value)
    assert [None, "1", "567", None] == [memory.get(key) for key in (b"a", b"b", b"c", b"d")]


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that are interrupted often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_threads_may_share_one() -> None:
    memory: LRU[int] = LRU(4)

    def use(seed: int) -> bool:
        draw = random.Random(seed)
        for _ in range(5000):
            key = draw.randrange(8)
            if memory.get(key) not in (None, key):
                return False
            memory.put(key, key)
        return True

    with ThreadPoolExecutor(4) as threads:
        assert [True] * 4 == list(threads.map(use, range(4)))
    assert 4 == len(memory)
