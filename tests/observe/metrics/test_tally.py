"""Plain numbers on the request's path, handed on to prometheus-client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from proxy.observe.metrics.tally import OTHER, CounterTally, HistogramTally, Names, Tallies

EDGES = (0.1, 0.5, 1.0)


def samples(registry: CollectorRegistry, name: str) -> dict[tuple[str, str], float]:
    """Buckets, sums and counts of the family `name`."""
    return {
        (sample.name, sample.labels.get("le", "")): sample.value
        for family in registry.collect()
        if family.name == name
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


@given(st.lists(st.lists(st.floats(0, 5), max_size=8), max_size=4))
def test_a_spread_handed_on_in_parts_is_what_a_histogram_would_have_seen(parts: list[list[float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    spread = HistogramTally(Histogram("h", "h", buckets=EDGES, registry=ours), EDGES)
    expected = Histogram("h", "h", buckets=EDGES, registry=theirs)
    for values in parts:
        for value in values:
            spread.observe(value)
            expected.observe(value)
        spread.publish()
        spread.publish()  # a second time adds nothing
    wanted, found = samples(theirs, "h"), samples(ours, "h")
    total = ("h_sum", "")
    assert abs(wanted.pop(total) - found.pop(total)) < 1e-9
    assert wanted == found


def test_a_value_on_an_edge_is_in_the_bucket_below() -> None:
    registry = CollectorRegistry()
    spread = HistogramTally(Histogram("h", "h", buckets=EDGES, registry=registry), EDGES)
    spread.observe(0.5)
    spread.publish()
    assert (0.0, 1.0) == (samples(registry, "h")["h_bucket", "0.1"], samples(registry, "h")["h_bucket", "0.5"])


@given(st.lists(st.integers(0, 1000), max_size=10))
def test_a_count_handed_on_in_parts_adds_up(rises: list[int]) -> None:
    registry = CollectorRegistry()
    tallies = Tallies(registry)
    count: CounterTally = tallies.count("groundwire_upstream_calls", "main")
    for rise in rises:
        count.value += rise
        tallies.publish()
    tallies.publish()
    assert sum(rises) == samples(registry, "groundwire_upstream_calls")["groundwire_upstream_calls_total", ""]


def test_the_same_labels_are_the_same_counter() -> None:
    tallies = Tallies(CollectorRegistry())
    assert tallies.count("groundwire_warnings", "a", "warn") is tallies.count("groundwire_warnings", "a", "warn")
    assert tallies.spread("groundwire_upstream_seconds", "a") is not tallies.spread("groundwire_upstream_seconds", "b")


@pytest.mark.parametrize("name", ["groundwire_warnings", "groundwire_upstream_seconds", "groundwire_records_waiting"])
def test_a_stages_counter_cannot_have_another_figures_name(name: str) -> None:
    with pytest.raises(ValueError, match="another figure's name"):
        Tallies(CollectorRegistry()).plain(name, "Counted by a stage")


def test_a_gauge_is_asked_for_when_it_is_read() -> None:
    registry = CollectorRegistry()
    tallies, waiting = Tallies(registry), [3.0]
    tallies.watch("groundwire_records_waiting", lambda: waiting[0])
    tallies.publish()
    waiting[0] = 7.0
    assert 3.0 == samples(registry, "groundwire_records_waiting")["groundwire_records_waiting", ""]
    tallies.publish()
    assert 7.0 == samples(registry, "groundwire_records_waiting")["groundwire_records_waiting", ""]


@given(st.lists(st.text(max_size=5), max_size=30))
def test_there_are_never_more_names_than_allowed(said: list[str]) -> None:
    names = Names(3)
    assert len({names.of(name) for name in said} - {OTHER}) <= 3


def test_a_name_that_came_first_stays_itself() -> None:
    names = Names(2)
    assert ["a", "b", OTHER, "a"] == [names.of(name) for name in ("a", "b", "c", "a")]


def test_what_is_no_plain_word_is_other() -> None:
    assert [OTHER] * 4 == [Names(9).of(name) for name in ("", "two words", 'x"}', "a" * 101)]
