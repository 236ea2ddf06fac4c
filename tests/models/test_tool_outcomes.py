import numpy as np
from numpy.typing import NDArray

from proxy.models.tools.ranker import LEAST_NEEDED, MAX_MOVE, fit, packed, unpacked


def unit(*rows: list[float]) -> NDArray[np.float32]:
    found = np.array(rows, np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


TOOLS = unit([1, 0, 0, 0], [0, 1, 0, 0], [0.9, 0.4, 0, 0])
QUERY = unit([0.6, 0.1, 0.8, 0])[0]


def learned(*served: int, weight: float = 1.0) -> NDArray[np.float32]:
    moves = fit(TOOLS, np.array(served), np.stack([QUERY] * len(served)), np.full(len(served), weight, np.float32))
    return moves.gains(QUERY, len(TOOLS))


def test_a_tool_gains_for_the_query_that_it_served() -> None:
    gains = learned(1)
    assert gains[1] > 5
    assert gains[0] == gains[2] == 0


def test_what_served_more_often_gains_more() -> None:
    gains = learned(1, 1, 1, 0)
    assert gains[1] > gains[0]


def test_a_query_unlike_those_that_it_served_gains_less() -> None:
    moves = fit(TOOLS, np.array([1]), QUERY[None], np.ones(1, np.float32))
    other = unit([0, 0, 0, 1])[0]
    assert moves.gains(other, 3)[1] < moves.gains(QUERY, 3)[1]


def test_a_move_is_bounded() -> None:
    moves = fit(TOOLS, np.array([1] * 200), np.stack([QUERY] * 200), np.ones(200, np.float32))
    assert np.linalg.norm(moves.vectors, axis=1).max() <= MAX_MOVE + 1e-3


def test_the_same_outcomes_give_the_same_move() -> None:
    assert learned(1, 0, 1).tolist() == learned(1, 0, 1).tolist()


def test_in_a_large_catalogue_only_tools_with_outcomes_compete() -> None:
    random = np.random.default_rng(0)
    tools = unit(*random.standard_normal((600, 4)).tolist())
    moves = fit(tools, np.array([7, 300]), np.stack([QUERY, -QUERY]), np.ones(2, np.float32))
    assert [7, 300] == moves.positions.tolist()
    assert moves.gains(QUERY, 600)[7] > moves.gains(QUERY, 600)[300]


def test_few_outcomes_move_a_tool_little() -> None:
    assert 2 < learned(1)[1] < learned(1, 1, 1, 1, 1, 1, 1, 1)[1]


def applied(logits: list[float], query: NDArray[np.float32]) -> NDArray[np.float32]:
    moves = fit(TOOLS, np.array([1, 1, 1]), np.stack([QUERY] * 3), np.ones(3, np.float32))
    return moves.applied(np.array(logits, np.float32), np.arange(3), query, TOOLS)


def chances(logits: NDArray[np.float32]) -> float:
    return float((1 / (1 + np.exp(-logits))).sum())


def test_what_was_learned_changes_the_order_and_not_how_many_tools_are_needed() -> None:
    after = applied([1.0, -1.0, -2.0], QUERY)
    assert after.argmax() == 1
    assert abs(chances(after) - chances(np.array([1.0, -1.0, -2.0], np.float32))) < 0.01


def test_outcomes_bring_up_a_tool_whose_description_says_nothing() -> None:
    before, after = [-6.0, -6.0, -6.0], applied([-6.0, -6.0, -6.0], QUERY)
    assert after.argmax() == 1
    assert after[1] > before[1] + 3
    assert chances(after) <= LEAST_NEEDED + 0.01


def test_a_query_that_nothing_is_like_stays_one() -> None:
    other = unit([0, 0, -0.1, 1])[0]
    assert chances(applied([-6.0, -6.0, -6.0], other)) < 0.02


def test_a_vector_survives_storage() -> None:
    np.testing.assert_allclose(QUERY, unpacked(packed(QUERY)), atol=1e-3)
    assert 2 * len(QUERY) == len(packed(QUERY))
