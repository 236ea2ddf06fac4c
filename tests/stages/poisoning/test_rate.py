"""The alert says once that it is too much."""

from proxy.stages.poisoning.report import PoisoningRate


def test_the_rate_is_that_of_the_last_pieces() -> None:
    rate = PoisoningRate(0.05, window=4)
    for poisoned in (True, True, False, False, False, True):
        rate.add(poisoned)
    assert rate.rate == 0.25


def test_few_pieces_tell_nothing() -> None:
    rate = PoisoningRate(0.05)
    assert [rate.add(True) for _ in range(19)] == [False] * 19
    assert not rate.high


def test_it_tells_when_the_rate_rises_above_the_mark_and_not_again_while_it_stays_there() -> None:
    rate = PoisoningRate(0.05, window=40)
    for _ in range(38):
        rate.add(False)
    assert [rate.add(True) for _ in range(4)] == [False, False, True, False]
    assert rate.high


def test_it_tells_again_after_it_was_low() -> None:
    rate = PoisoningRate(0.05, window=20)
    told = [rate.add(poisoned) for poisoned in [False] * 18 + [True, True] + [False] * 20 + [True, True]]
    assert [i for i, one in enumerate(told) if one] == [19, 41]
