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
