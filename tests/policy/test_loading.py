from pathlib import Path

import pytest

from proxy.cli.explain import explain_all
from proxy.config.settings import load_settings
from proxy.context.passages import RETRIEVAL_TOOLS
from proxy.errors import ConfigError
from proxy.policy.loading import load_policies, load_policy
from proxy.ports.stage import Stage, StageOptions
from proxy.stages.registry import STAGES

REPO = Path(__file__).parents[2]


class Needs(Stage):
    """Needs a token count."""

    name = "needs"
    requires = ("token_count",)


class Blocks(Stage):
    """Blocks answers."""

    name = "blocks"

    @classmethod
    def blocks_answers(cls, options: StageOptions) -> bool:
        return True


ALL = (*STAGES, Needs, Blocks)


def policy(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_policy(policy(tmp_path, text), ALL)
    return str(caught.value).removeprefix(str(tmp_path / "p.yaml") + ": ")


def test_a_policy_is_an_ordered_list_of_checked_stages(tmp_path: Path) -> None:
    loaded = load_policy(policy(tmp_path, "name: a\ndelivery: gate\nstages:\n  - budget: {warn_at: 0.5}\n  - needs\n"), ALL)
    assert ("a", "gate", ["budget", "needs"]) == (loaded.name, loaded.delivery, [s.stage.name for s in loaded.stages])
    assert 8 == len(loaded.digest)


def test_the_hash_follows_the_file(tmp_path: Path) -> None:
    one = load_policy(policy(tmp_path, "name: a\nstages: []\n")).label
    two = load_policy(policy(tmp_path, "name: a\nstages: []\n# \n")).label
    assert one != two


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "expected a mapping with name, delivery and stages"),
        ("name: a\nstagse: []", "stagse: unknown key; did you mean 'stages'?"),
        (
            "name: a\nxyz: []",
            "xyz: unknown key; known here: name, delivery, enforce, judge, load_models, retrieval_tools, second_opinion, stages, unknown",
        ),
        ("stages: []", "name: expected `str`, got `null`"),
        ("name: a b\nstages: []", "name: expected a word of ASCII letters, digits, - and _, got 'a b'"),
        ("name: a\ndelivery: fast", "delivery: expected one of hold, gate, tap, got 'fast'"),
        ("name: a\nstages: {budget: {}}", "stages: expected a list of stages"),
        ("name: a\nstages: [{buget: {}}]", "stages[0]: unknown stage 'buget'; did you mean 'budget'?"),
        ("name: a\nstages: [{budget: {warn_att: 0.5}}]", "stages[0].budget: unknown key 'warn_att'; did you mean 'warn_at'?"),
        ("name: a\nstages: [{budget: {warn_at: 7}}]", "stages[0].budget.warn_at: expected `float` <= 1.0"),
        ("name: a\nstages: [{budget: {warn_at: high}}]", "stages[0].budget.warn_at: expected `float`, got `str`"),
        ("name: a\nstages: [{budget: {timeout_ms: 0}}]", "stages[0].budget.timeout_ms: expected `float` > 0.0"),
        ("name: a\nstages: [{budget: {on_error: maybe}}]", "stages[0].budget.on_error: expected one of open, closed, got 'maybe'"),
        (
            "name: a\nstages: [{budget: {window: 1000, allocations: {current_query: 900, tool_descriptions: 200}}}]",
            "stages[0].budget: the allocations add up to 1100 tokens, more than the window's 1000",
        ),
        ("name: a\nstages: [{budget: {warn_at: 0.9}}]", "stages[0].budget: expected warn_at <= compress_at <= critical_at"),
        ("name: a\nstages: [{budget: {}, needs: {}}]", "stages[0]: expected one stage with its options, as: - budget: {warn_at: 0.7}"),
        ("name: a\nstages: [budget, budget]", "stages[1].budget: this stage stands here twice"),
        ("name: a\nstages: [needs, budget]", "stages[0].needs: needs token_count: put it after 'budget'"),
        ("name: a\nstages: [needs]", "stages[0].needs: needs token_count: no stage of this policy provides it"),
        (
            "name: a\nstages: [{budget: {enabled: false}}, needs]",
            "stages[1].needs: needs token_count: no stage of this policy provides it",
        ),
        (
            "name: a\ndelivery: tap\nstages: [claims: {on_error: closed}]",
            "stages[0].claims: on_error: closed refuses an answer that could not be checked, which delivery: tap cannot; use hold or gate",
        ),
        (
            "name: a\ndelivery: tap\nstages: [blocks]",
            "stages[0].blocks: can hold back or change an answer, which delivery: tap cannot; use hold or gate",
        ),
        ("name: a\nname: b\n", "line 2, column 1: not valid YAML: key 'name' stands here twice"),
        (
            "name: a\nunknown: keep\nstages: [{blocks: {on_error: closed}}]",
            "unknown: expected one of drop, refuse, got 'keep'",
        ),
        *(
            (
                f"name: a\nunknown: refuse\n{rest}",
                "unknown: only where delivery is hold or gate and a stage that looks at answers has on_error: closed; "
                "elsewhere bytes leave as they came",
            )
            for rest in ("stages: [blocks]", "stages: [{budget: {on_error: closed}}]", "delivery: tap\nstages: []")
        ),
        ("name: a\nload_models: never\nstages: []", "load_models: expected one of at_start, at_first_use, got 'never'"),
        ("name: a\nretrieval_tools: search", "retrieval_tools: expected `array`, got `str`"),
        ("name: a\nretrieval_tools: [search, 3]", "retrieval_tools[1]: expected `str`, got `int`"),
        ("name: a\nretrieval_tools: [search, ' ']", "retrieval_tools[1]: expected a tool's name or a pattern as search_*, got ' '"),
        ("name: [a\n", "line 2, column 1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
    ],
)
def test_a_wrong_policy_is_refused_with_its_place_and_what_was_expected(tmp_path: Path, text: str, message: str) -> None:
    assert message == refused(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", RETRIEVAL_TOOLS), ("retrieval_tools: [search_*, wiki]", ("search_*", "wiki")), ("retrieval_tools: []", ())],
)
def test_a_policy_may_name_its_retrieval_tools(tmp_path: Path, text: str, expected: tuple[str, ...]) -> None:
    assert expected == load_policy(policy(tmp_path, f"name: a\nstages: []\n{text}\n")).retrieval_tools


def test_a_stage_stands_after_those_whose_work_it_needs(tmp_path: Path) -> None:
    assert "stages[0].faithful: must stand after 'relevance'" == refused(tmp_path, "name: p\ndelivery: tap\nstages: [faithful, relevance]")


@pytest.mark.parametrize("stages", ["[relevance, faithful]", "[faithful]", "[faithful, relevance: {enabled: false}]"])
def test_an_order_that_cannot_matter_is_not_refused(tmp_path: Path, stages: str) -> None:
    assert load_policy(policy(tmp_path, f"name: p\ndelivery: tap\nstages: {stages}"), ALL).stages


def test_a_stage_that_is_not_enabled_is_left_out(tmp_path: Path) -> None:
    assert () == load_policy(policy(tmp_path, "name: a\nstages: [{budget: {enabled: false}}]")).stages


def test_a_missing_policy_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: cannot be read: No such file"):
        load_policy(tmp_path / "none.yaml")


def test_the_shipped_configuration_and_policies_load() -> None:
    policies = load_policies(load_settings(REPO / "config.yaml", {}))
    assert {"default", "observe", "rag", "agent", "strict"} == set(policies[""].allowed)
    assert {"tap", "gate", "hold"} == {policy.delivery for policy in policies[""].allowed.values()}


def test_explain_names_what_a_stage_needs_changes_and_reports(tmp_path: Path) -> None:
    text = explain_all(load_policy(policy(tmp_path, "name: a\nstages: [{budget: {warn_at: 0.5}}]")))
    assert "1. budget: Counts the prompt's tokens" in text
    assert "warn_at = 0.5" in text
    assert "reports: x-groundwire-context" in text


def test_explain_names_the_retrieval_tools_where_a_stage_reads_passages(tmp_path: Path) -> None:
    text = explain_all(load_policy(policy(tmp_path, "name: a\nretrieval_tools: [wiki]\nstages: [faithful]")))
    assert "retrieval tools, whose results are passages: wiki" in text
    assert "whose results are passages" not in explain_all(load_policy(policy(tmp_path, "name: a\nstages: [budget]")))
