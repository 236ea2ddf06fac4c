"""Plain numbers on the request's path, and what prometheus-client writes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import Metric

from proxy.observe.metrics.counts import OTHER, Counts, Names, Reading
from proxy.observe.metrics.families import UPSTREAM_EDGES_S

FAMILY = "groundwire_upstream_seconds"


def samples(families: list[Metric], name: str) -> dict[tuple[str, str], float]:
    """Buckets, sums and counts of the family `name`."""
    return {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in families
        if family.name == name
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@given(st.lists(st.floats(0, 200), max_size=20), st.lists(st.floats(0, 200), max_size=20))
def test_spreads_added_up_are_what_a_histogram_would_have_seen(one: list[float], other: list[float]) -> None:
    theirs, whole = CollectorRegistry(), Reading()
    expected = Histogram(FAMILY, "h", buckets=UPSTREAM_EDGES_S, registry=theirs)
    for values in (one, other):
        counts = Counts()
        spread = counts.spread(FAMILY, "main")
        for value in values:
            spread.observe(value)
            expected.observe(value)
        whole.add(counts.reading())
    wanted, found = samples(list(theirs.collect()), FAMILY), samples(list(whole.collect()), FAMILY)
    total = (f"{FAMILY}_sum", "")
    assert abs(wanted.pop(total) - found.pop(total)) < 1e-6
    assert wanted == found


@given(st.lists(st.integers(0, 1000), max_size=10))
def test_counts_of_processes_add_up(rises: list[int]) -> None:
    whole = Reading()
    for rise in rises:
        counts = Counts()
        counts.count("groundwire_upstream_calls", "main").value += rise
        counts.plain("groundwire_mine", "mine.count", "Mine").value += rise
        whole.add(counts.reading())
    found = [sum(samples(list(whole.collect()), name).values()) for name in ("groundwire_upstream_calls", "groundwire_mine")]
    assert [sum(rises)] * 2 == found


def test_the_same_labels_are_the_same_counter() -> None:
    counts = Counts()
    assert counts.count("groundwire_warnings", "a", "warn") is counts.count("groundwire_warnings", "a", "warn")
    assert counts.spread("groundwire_upstream_seconds", "a") is not counts.spread("groundwire_upstream_seconds", "b")


@pytest.mark.parametrize("name", ["groundwire_warnings", "groundwire_upstream_seconds", "groundwire_records_waiting"])
def test_a_stages_counter_cannot_have_another_figures_name(name: str) -> None:
    with pytest.raises(ValueError, match="another figure's name"):
        Counts().plain(name, "a.count", "Counted by a stage")


def test_a_gauge_is_asked_for_when_it_is_read() -> None:
    counts, waiting = Counts(), [3.0]
    counts.watch("groundwire_records_waiting", lambda: waiting[0])
    before, waiting[0] = counts.reading(), 7.0
    assert [3.0, 7.0] == [one.gauges["groundwire_records_waiting"] for one in (before, counts.reading())]


def test_gauges_of_processes_are_put_together_as_each_means() -> None:
    whole = Reading(gauges={"groundwire_workers": 1.0, "groundwire_store_available": 1.0})
    whole.add(Reading(gauges={"groundwire_workers": 1.0, "groundwire_store_available": 0.0}))
    assert {"groundwire_workers": 2.0, "groundwire_store_available": 0.0} == whole.gauges


@given(st.lists(st.text(max_size=5), max_size=30))
def test_there_are_never_more_names_than_allowed(said: list[str]) -> None:
    names = Names(3)
    assert len({names.of(name) for name in said} - {OTHER}) <= 3


def test_a_name_that_came_first_stays_itself() -> None:
    names = Names(2)
    assert ["a", "b", OTHER, "a"] == [names.of(name) for name in ("a", "b", "c", "a")]


def test_what_is_no_plain_word_is_other() -> None:
    assert [OTHER] * 4 == [Names(9).of(name) for name in ("", "two words", 'x"}', "a" * 101)]
