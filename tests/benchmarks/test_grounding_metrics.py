"""The grounding benchmark's figures are what their definitions say, and its intervals resample whole groups."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import grounding_metrics as metrics

ONE = np.ones((1, 4))
ROWS = st.lists(st.tuples(st.sampled_from((0.1, 0.3, 0.5, 0.9)), st.booleans(), st.integers(1, 3)), min_size=2, max_size=12)


def columns(rows):
    risk, positive, times = zip(*rows, strict=True)
    return np.array(risk), np.array(positive), np.array([times], np.float64)


def test_precision_recall_and_f1_are_those_of_what_is_not_supported():
    positive, called = np.array([True, True, True, False]), np.array([True, False, False, True])
    found = metrics.detection(ONE, positive, called)
    assert {"precision": 0.5, "recall": 1 / 3, "f1": 0.4, "passed": 0.0, "balanced": 1 / 6} == pytest.approx(
        {k: v[0] for k, v in found.items()}
    )


def test_a_system_that_calls_everything_supported_finds_nothing():
    positive = np.array([True, False, False, False])
    found = metrics.figures(ONE, np.ones(4), positive, np.zeros(4, bool))
    assert (0.0, 0.0, 1.0, 0.5, 0.5, 0.25, 0.25) == tuple(
        found[name][0] for name in ("recall", "f1", "passed", "balanced", "auroc", "precision@90", "ece")
    )
    assert np.isnan(found["precision"][0])


def test_without_positive_rows_only_what_passes_is_told():
    found = metrics.figures(ONE, np.array([0.9, 0.8, 0.2, 0.7]), np.zeros(4, bool), np.array([False, False, True, False]))
    assert 0.75 == found["passed"][0]
    assert all(np.isnan(found[name][0]) for name in ("recall", "f1", "balanced", "auroc", "precision@90"))


@given(ROWS)
def test_auroc_is_the_share_of_pairs_in_the_right_order(rows):
    risk, positive, weights = columns(rows)
    pairs = [
        (weights[0, i] * weights[0, j], 1.0 if risk[i] > risk[j] else 0.5 if risk[i] == risk[j] else 0.0)
        for i, j in product(np.flatnonzero(positive), np.flatnonzero(~positive))
    ]
    found = metrics.auroc(weights, risk, positive)[0]
    assert np.isnan(found) if not pairs else found == pytest.approx(sum(w * v for w, v in pairs) / sum(w for w, _ in pairs))


@given(ROWS)
def test_precision_at_recall_is_that_of_the_best_threshold_that_finds_enough(rows):
    risk, positive, weights = columns(rows)
    w = weights[0]
    tried = []
    for threshold in set(risk):
        called = risk >= threshold
        if (w * (called & positive)).sum() >= 0.9 * (w * positive).sum() > 0:
            tried.append((w * (called & positive)).sum() / (w * called).sum())
    found = metrics.precision_at_recall(weights, risk, positive)[0]
    assert np.isnan(found) if not tried else found == pytest.approx(max(tried))


@given(ROWS)
def test_a_row_that_weighs_twice_counts_as_two_rows(rows):
    risk, positive, weights = columns(rows)
    times = weights[0].astype(int)
    called = risk > 0.4
    once = metrics.figures(weights, 1 - risk, positive, called)
    again = metrics.figures(np.ones((1, times.sum())), 1 - np.repeat(risk, times), np.repeat(positive, times), np.repeat(called, times))
    assert {k: v[0] for k, v in again.items()} == pytest.approx({k: v[0] for k, v in once.items()}, nan_ok=True)


def test_calibration_error_compares_said_and_true_in_each_tenth():
    said, true = np.array([0.95, 0.95, 0.05, 1.0]), np.array([True, False, False, True])
    # the last tenth says 2.9 and has 2 of 3; the first says 0.05 and has none
    assert (0.9 + 0.05) / 4 == pytest.approx(metrics.calibration_error(ONE, said, true)[0])


def test_rows_of_a_group_are_drawn_together_and_the_first_draw_is_the_data():
    groups = ["a", "b", "a", "c"]
    weights = metrics.row_weights(groups, seed=3, resamples=50)
    assert (51, 4) == weights.shape
    assert [1, 1, 1, 1] == weights[0].tolist()
    assert weights[:, 0].tolist() == weights[:, 2].tolist()
    assert {3.0} == set((weights[1:, 0] + weights[1:, 1] + weights[1:, 3]).tolist())


def test_the_same_seed_gives_the_same_interval_and_another_seed_another():
    rng = np.random.default_rng(0)
    supported, positive = rng.random(60), rng.random(60) < 0.4
    groups = [str(i // 3) for i in range(60)]

    def interval(seed):
        weights = metrics.row_weights(groups, seed)
        return metrics.estimate(metrics.auroc(weights, 1 - supported, positive))

    assert interval(1) == interval(1)
    assert interval(1) != interval(2)
    assert interval(1).low < interval(1).value < interval(1).high


def test_fewer_groups_give_a_wider_interval():
    positive = np.array([True, False] * 30)
    called = np.array(([True, False] * 15) + ([False, True] * 15))

    def width(groups):
        found = metrics.estimate(metrics.detection(metrics.row_weights(groups, 1), positive, called)["balanced"])
        return found.high - found.low

    assert width([str(i) for i in range(60)]) < width([str(i // 15) for i in range(60)])


def test_the_mean_over_sources_gives_each_the_same_weight_and_leaves_out_what_is_not_defined():
    first, second = np.array([0.8, 0.7, 0.9]), np.array([0.4, 0.5, 0.3])
    assert 0.6 == pytest.approx(metrics.macro([first, second, np.full(3, np.nan)]).value)


def test_an_undefined_figure_is_shown_as_a_dash():
    assert "-" == str(metrics.estimate(np.full(3, np.nan)))


def test_characters_in_two_predicted_spans_count_once():
    assert (3, 6, 5) == metrics.characters([(0, 4), (2, 6)], [(3, 8)], 10)


def test_span_figures_sum_over_answers_before_they_divide():
    found = metrics.span_figures(np.ones((1, 2)), [(10, 20, 10), (0, 0, 30)])
    assert {"precision": 0.5, "recall": 0.25, "f1": 1 / 3} == pytest.approx({k: v[0] for k, v in found.items()})


def test_the_interval_of_the_calibration_error_lies_around_it():
    rng = np.random.default_rng(1)
    supported = rng.random(80)
    positive = rng.random(80) >= supported
    weights = metrics.row_weights([str(i) for i in range(80)], 1)
    found = metrics.estimates(metrics.figures(weights, supported, positive, supported < 0.5))["ece"]
    assert found.low <= found.value <= found.high
