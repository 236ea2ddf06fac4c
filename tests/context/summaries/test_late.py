from proxy.context.summaries.late import Late


def test_each_client_has_its_own_and_the_oldest_goes():
    late: Late[int] = Late(per_client=2, clients=2)
    for i, key in enumerate("abc"):
        late.put("ann", key, i)
    late.put("bob", "a", 9)
    assert [None, 1, 2] == [late.get("ann", key) for key in "abc"]
    assert (9, None) == (late.get("bob", "a"), late.get("bob", "c"))


def test_the_longest_unused_client_goes():
    late: Late[int] = Late(per_client=2, clients=2)
    late.put("ann", "a", 1)
    late.put("bob", "a", 2)
    late.get("ann", "a")
    late.put("eve", "a", 3)
    assert [1, None, 3] == [late.get(client, "a") for client in ("ann", "bob", "eve")]
