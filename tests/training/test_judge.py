"""What the judge is trained on and in which order: views of written rows, packing, rounds. Neither torch nor the data is needed."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from benchmarks.grounding_metrics import auroc
from training.grounding.data import CONTRADICTED, HELD_OUT, NOT_SUPPORTED, SUPPORTED, UNSUPPORTED, Example
from training.judge import chats, curve, described, mix, neutral, packed, soft, turns, written
from training.judge.bases import TEACHER

CONTEXT = (
    "The museum closed in March 2021. It reopened in September 2023. Tickets cost 9 euros for adults. Children pay nothing. "
    "Dogs stay outside. The café sells soup. A guide speaks French. The garden has old trees."
)
DECIDES = "It reopened in September 2023."


def row(**changed: object) -> written.Row:
    given = {
        "document": "1/1",
        "context": CONTEXT,
        "claim": "It was shut for over two years.",
        "language": "en",
        "target": SUPPORTED,
        "deciding": ("The museum closed in March 2021.", DECIDES),
        "held_out": False,
        "own": False,
        **changed,
    }
    return written.Row(**given)  # type: ignore[arg-type]


def views(given: written.Row, view: str) -> list[Example]:
    return [e for seed in range(20) for e in written.views(given, random.Random(seed)) if e.source == view]


@pytest.mark.parametrize("view", [written.FOUND, written.WHOLE, written.NEAR])
def test_what_decides_is_in_every_view_that_keeps_the_label(view: str) -> None:
    found = views(row(), view)
    assert found
    assert {(True, SUPPORTED)} == {(DECIDES in e.evidence, e.target) for e in found}


def test_without_what_decides_a_statement_is_unsupported() -> None:
    found = views(row(target=CONTRADICTED), written.WITHOUT)
    assert found
    assert {(False, UNSUPPORTED)} == {(DECIDES in e.evidence or "March 2021" in e.evidence, e.target) for e in found}


def test_an_unsupported_statement_stays_so_among_a_few_pieces() -> None:
    found = views(row(claim="The café sells cake.", target=UNSUPPORTED, deciding=()), written.NEAR)
    assert found
    assert all(e.target == UNSUPPORTED and e.evidence != CONTEXT for e in found)


def test_an_unsupported_statement_is_shown_beside_what_is_most_like_it() -> None:
    found = views(row(claim="The café sells cake.", target=UNSUPPORTED, deciding=()), written.NEAR)
    assert all("The café sells soup." in e.evidence for e in found)


def test_a_row_whose_deciding_text_is_not_in_the_context_has_no_view() -> None:
    assert [] == list(written.views(row(deciding=("It never closed.",)), random.Random(1)))


def test_documents_are_held_out_whole() -> None:
    found = [row(held_out=True), row(claim="It reopened in 2023.")]
    found += [row(document="1/2"), row(document="1/2", claim="It sold bicycles and old maps.", target=UNSUPPORTED, deciding=())]
    assert {"1/2"} == {e.group for e in written.training(found, random.Random(1))}
    assert {"1/1"} == {e.group for e in written.development(found)}


def kept(path: Path, documents: int, **fields: str) -> Path:
    """A file of two rows a document."""
    row = {"context": CONTEXT, "claim": "x", "label": "unsupported", "evidence": "", **fields}
    given = [{"doc": f"6/{i // 2}", **row} for i in range(2 * documents)]
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, given)).encode()))
    return path


def test_a_language_without_development_documents_gives_some(tmp_path: Path) -> None:
    path = kept(tmp_path / "split.jsonl.gz", 80, lang="es", split="train")
    held_out = sum(found.held_out for found in written.rows([path]))
    assert 0 < held_out < 60


def test_of_a_file_without_a_split_an_eighth_of_the_documents_are_held_out_whole(tmp_path: Path) -> None:
    found = written.rows([kept(tmp_path / "own.jsonl.gz", 500, lang="fr")])
    apart = {row.document for row in found if row.held_out}
    assert 40 < len(apart) < 80
    assert not apart & {row.document for row in found if not row.held_out}


def test_rows_of_every_file_are_read(tmp_path: Path) -> None:
    files = [kept(tmp_path / "a.gz", 3, lang="en", split="dev"), kept(tmp_path / "b.gz", 4, lang="de")]
    assert {"en": 6, "de": 8} == Counter(row.language for row in written.rows(files))


def test_missing_rows_are_named() -> None:
    with pytest.raises(SystemExit, match="missing"):
        written.rows([Path("nowhere.jsonl.gz")])


def test_the_rows_that_lie_in_the_tree_name_what_decides() -> None:
    found = written.rows([written.OWN])
    assert 3000 < len(found)
    assert [] == [row.document for row in found if bool(row.deciding) != (row.target != UNSUPPORTED)]
    assert [] == [text for row in found for text in row.deciding if text not in row.context]


@pytest.mark.slow
def test_the_card_of_the_rows_has_their_counts() -> None:
    assert described.tables(described.read()) in (written.OWN.parent / "README.md").read_text(encoding="utf-8")


def test_a_sentence_of_the_document_supports_itself() -> None:
    found = list(written.quoted(row(), random.Random(2)))
    assert found
    assert {(SUPPORTED, True)} == {(e.target, neutral.likeness(e.claim, e.evidence) > 0.5) for e in found}


def test_a_supported_statement_with_one_thing_changed_is_so_no_longer() -> None:
    found = views(row(claim="It was shut for 30 months before it opened again."), written.CHANGED)
    assert found
    assert {NOT_SUPPORTED} == {e.target for e in found}
    assert all(e.claim != "It was shut for 30 months before it opened again." and DECIDES in e.evidence for e in found)


def test_a_wrong_statement_is_not_changed() -> None:
    assert [] == views(row(target=CONTRADICTED, claim="It was shut for 3 months."), written.CHANGED)


@pytest.mark.slow
def test_likeness_of_words_does_not_tell_the_label() -> None:
    found = [each for each in written.rows([written.OWN]) if each.document.endswith("-03")]
    before = [e for each in found for e in written.views(each, random.Random(3)) if e.source == written.NEAR]
    shown = written.training(found, random.Random(3))
    assert ranked(before) < 0.38
    assert 0.4 < ranked(shown) < 0.55


def ranked(own: list[Example]) -> float:
    """AUROC of likeness for "supported"."""
    likeness = np.array([neutral.likeness(e.claim, e.evidence) for e in own])
    return float(auroc(np.ones((1, len(own))), likeness, np.array([e.target == SUPPORTED for e in own]))[0])


def test_as_many_are_kept_of_each_side_at_each_degree_of_likeness() -> None:
    alike, unlike = ("red apples fall", "red apples fall"), ("red apples fall", "something else")
    given = [Example(*alike, SUPPORTED, "x", "en")] * 5 + [Example(*alike, CONTRADICTED, "x", "en")] * 2
    given += [Example(*unlike, SUPPORTED, "x", "en")] * 3 + [Example(*unlike, UNSUPPORTED, "x", "de")] * 3
    assert [SUPPORTED] * 2 + [CONTRADICTED] * 2 == [e.target for e in neutral.even(given, random.Random(1))]


def test_what_can_be_spared_is_left_out_first() -> None:
    given = [Example("red", "red", target, source, "en") for target, source in ((0, "x"), (1, "made"), (1, "x"), (1, "made"), (1, "x"))]
    kept = neutral.even(given, random.Random(1), spare=frozenset(("made",)), most=2.0)
    assert [(0, "x"), (1, "x"), (1, "x")] == [(e.target, e.source) for e in kept]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The old mill was sold to a baker in May.", "The old mill was sold to a baker in May."),
        ("The old mill was sold to a baker; nobody minded.", "The old mill was sold to a baker."),
        ("Who was the old mill sold to in May?", None),
        ("mill | sold | 12 May | a baker in the town", None),
        ("Sold in May.", None),
    ],
)
def test_what_can_be_quoted_as_a_claim(sentence: str, expected: str | None) -> None:
    assert expected == neutral.claim_of(sentence)


def test_the_teacher_is_shown_english() -> None:
    asked = [(written.NEAR, "en"), (written.QUOTED, "de"), ("snli", "en"), ("pawsx_de", "de"), ("wice", "en")]
    expected = ["near", None, "inference", None, None]
    assert expected == [TEACHER.group_of(*each) for each in asked]


def test_a_curve_of_few_rows_has_as_many_as_are_asked_for_of_each_view_and_language(tokenizer: Tokenizer) -> None:
    own = [Example("w1", "w2", i % 2, written.NEAR if i % 3 else "wice", "en" if i % 2 else "de") for i in range(60)]
    found = curve.chosen(packed.pack(own, tokenizer), {(written.NEAR, "en"): 4, (written.NEAR, "de"): 3, (written.NEAR, "fr"): 5})
    assert {"en": 4, "de": 3} == Counter(found.languages.tolist())
    assert {written.NEAR} == set(found.sources.tolist())


def test_rows_of_the_tree_that_are_held_out_are_measured_evened() -> None:
    like, unlike = {"claim": "It reopened in September 2023."}, {"claim": "It was shut for over two years."}
    kinds = [(SUPPORTED, unlike)] * 3 + [(CONTRADICTED, unlike), (CONTRADICTED, like)]
    found = written.development([row(held_out=True, own=True, target=target, **said) for target, said in kinds])
    assert {(written.FOUND_EVEN, target): 1 for target in (SUPPORTED, CONTRADICTED)} == Counter(
        (e.source, e.target) for e in found if e.source == written.FOUND_EVEN
    )


def test_a_contradiction_between_turns_is_one_the_other_way_round_and_what_follows_is_not() -> None:
    rows = [
        turns.Row("g", "en", "fact", "I live in Rome.", newer, label)
        for newer, label in (("Oslo is my home.", "contradicted"), ("I live in Italy.", "supported"))
    ]
    found = [(e.evidence, e.claim, e.target) for e in turns.training(rows)]
    assert [
        ("I live in Rome.", "Oslo is my home.", CONTRADICTED),
        ("Oslo is my home.", "I live in Rome.", CONTRADICTED),
        ("I live in Rome.", "I live in Italy.", SUPPORTED),
    ] == found


def test_pairs_of_turns_with_one_earlier_turn_are_held_out_together() -> None:
    groups: dict[str, set[bool]] = {}
    for each in turns.rows():
        groups.setdefault(each.group, set()).add(each.held_out)
    assert {frozenset((True,)), frozenset((False,))} == set(map(frozenset, groups.values()))
    assert 0.08 < sum(True in found for found in groups.values()) / len(groups) < 0.16


CHAT = chats.Chat("en", ("I need a room in Oslo.", "For two nights.", "Three nights, that is."), (1, 2))


def test_in_a_chat_contradicts_what_is_marked_both_ways_round_and_nothing_else() -> None:
    found = list(chats.pairs(CHAT, random.Random(1)))
    assert {("Three nights, that is.", "For two nights."), ("For two nights.", "Three nights, that is.")} == {
        (e.claim, e.evidence) for e in found if e.target == CONTRADICTED
    }
    assert [UNSUPPORTED] * 2 == [e.target for e in found if e.target != CONTRADICTED]


def test_a_later_turn_beside_another_groups_earlier_one_is_not_supported() -> None:
    rows = [turns.Row(group, "en", "fact", f"older {group}", f"newer {group}", "supported") for group in ("a1", "a3", "a4", "a7", "b1")]
    shown = [row for row in rows if not row.held_out]
    found = list(chats.strangers(rows, random.Random(3)))
    assert found
    assert {UNSUPPORTED} == {e.target for e in found}
    assert all(e.claim.split()[1] != e.evidence.split()[1] for e in found)
    assert {e.evidence for e in found} <= {row.older for row in shown}


def test_the_chats_of_the_tree_have_two_marked_messages_or_none_and_a_quarter_is_held_out() -> None:
    found = chats.chats()
    assert {0, 2} == {len(chat.clash) for chat in found}
    assert 0.18 < sum(chat.held_out for chat in found) / len(found) < 0.32
    assert {chat.messages[0] for chat in found if chat.held_out}.isdisjoint(e.group for e in chats.training(found, (), random.Random(1)))


def test_chats_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="chats"):
        chats.chats(tmp_path / "nowhere.gz")


def test_held_out_sources_have_no_group() -> None:
    assert [] == [source for source in HELD_OUT if mix.group_of(source)]


def test_a_cap_halves_by_side() -> None:
    own = [Example("c", "e", i % 3, "snli", "en") for i in range(30)]
    kept = mix.capped(own, {"snli": 10})
    assert (5, 5) == (sum(e.target == SUPPORTED for e in kept), sum(e.target != SUPPORTED for e in kept))


@pytest.fixture
def tokenizer() -> Tokenizer:
    words = ["[UNK]", "[CLS]", "[SEP]", *(f"w{i}" for i in range(50))]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    return made


def examples(count: int) -> list[Example]:
    rng = random.Random(3)
    return [
        Example("w1 w2", " ".join(f"w{rng.randrange(50)}" for _ in range(rng.randint(1, 30))), i % 3, "snli" if i % 4 else "bump", "en")
        for i in range(count)
    ]


def test_a_pack_comes_back_as_it_was(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = packed.pack(examples(40), tokenizer, max_tokens=16)
    made.save(tmp_path / "train.npz")
    again = packed.Pack.load(tmp_path / "train.npz")
    assert len(again) == 40
    assert 16 == again.lengths().max()
    for i in range(40):
        assert made[i].ids.tolist() == again[i].ids.tolist()
        assert (4, i % 3) == (again[i].claim_tokens, again[i].target)  # [CLS] w1 w2 [SEP]


def test_a_part_of_a_pack_has_its_examples_only(tokenizer: Tokenizer) -> None:
    made = packed.pack(examples(12), tokenizer)
    part = made.where(np.arange(12) % 4 == 0)
    assert [made[i].ids.tolist() for i in (0, 4, 8)] == [part[i].ids.tolist() for i in range(len(part))]
    assert ["bump"] * 3 == part.sources.tolist()


def rounds(seed: int = 1, tokens: int = 300) -> packed.Rounds:
    lengths = np.array([10] * 40 + [20] * 20 + [30] * 5)
    groups = ["short"] * 40 + ["long"] * 20 + [None] * 5
    return packed.Rounds(lengths, groups, {"short": 1.0, "long": 2.0}, tokens, seed)


def test_a_round_has_every_group_s_share_of_tokens() -> None:
    chosen = rounds().round(7)
    assert (10, 10) == (sum(i < 40 for i in chosen), sum(40 <= i < 60 for i in chosen))  # 100 and 200 tokens


def test_every_example_comes_once_before_any_comes_again() -> None:
    first = [i for number in range(2) for i in rounds().round(number) if i >= 40]
    assert list(range(40, 60)) == sorted(first)


def test_any_round_is_the_same_without_those_before_it() -> None:
    straight, resumed = rounds(), rounds()
    for number in range(5):
        straight.round(number)
    assert list(straight.batches(5, 60)) == list(resumed.batches(5, 60))


def test_batches_hold_the_round_within_their_room() -> None:
    made = list(rounds().batches(2, 60))
    assert sorted(rounds().round(2)) == sorted(i for batch in made for i in batch)
    assert all(len(batch) * (20 if max(batch) >= 40 else 10) <= 60 for batch in made)


def in_sets() -> packed.Rounds:
    """Ten sets of four of about the same length, and twenty examples that stand alone."""
    lengths = np.array([10 + i % 4 for i in range(40)] + [12] * 20)
    sets = np.array([i // 4 for i in range(40)] + [-1] * 20, np.int32)
    return packed.Rounds(lengths, ["answers"] * 40 + ["others"] * 20, {"answers": 1.0, "others": 1.0}, 200, 1, sets)


def test_forms_of_one_sentence_are_in_one_batch() -> None:
    for number in range(6):
        for batch in in_sets().batches(number, 60):
            told = Counter(i // 4 for i in batch if i < 40)
            assert {4} >= set(told.values())
            assert len(batch) <= 6 or len(batch) * 10 <= 60


def test_sets_come_all_once_before_any_comes_again() -> None:
    first = [i for number in range(5) for i in in_sets().round(number) if i < 40]
    assert list(range(40)) == sorted(first[:40])


def test_seeds_differ() -> None:
    assert list(rounds(1).batches(0, 60)) != list(rounds(2).batches(0, 60))


class Teacher:
    """Says of every pair the same, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, pairs: list[tuple[str, str]]) -> np.ndarray:
        self.asked += pairs
        return np.tile([0.5, 0.25, 0.25], (len(pairs), 1))


GROUPS = ["inference", "near", "near", "made"]


def texts(folder: Path) -> None:
    languages = ["en", "en", "de", "en"]
    own = [Example(f"c{i}", f"e{i}", SUPPORTED, "x", language) for i, language in enumerate(languages)]
    soft.write_texts(own, GROUPS, folder)
    (folder / "pack").mkdir()


def test_a_teacher_is_asked_in_english_alone_and_about_written_pairs_first(tmp_path: Path) -> None:
    texts(tmp_path)
    teacher = Teacher()
    assert 0 == soft.opinions(tmp_path, teacher, 0)
    assert [("c1", "e1"), ("c0", "e0")] == teacher.asked
    found = soft.read(tmp_path / "pack", 4)
    assert found is not None
    assert [False, False, True, True] == np.isnan(found[:, 0]).tolist()


def test_a_teacher_is_asked_once(tmp_path: Path) -> None:
    texts(tmp_path)
    soft.opinions(tmp_path, Teacher(), 0)
    again = Teacher()
    soft.opinions(tmp_path, again, 0)
    assert [] == again.asked


def test_opinions_on_another_pack_are_refused(tmp_path: Path) -> None:
    texts(tmp_path)
    soft.opinions(tmp_path, Teacher(), 0)
    with pytest.raises(SystemExit, match="pack as before"):
        soft.read(tmp_path / "pack", 5)


def test_figures_of_a_judge_that_ranks_well_but_keeps_too_little() -> None:
    targets = np.array([SUPPORTED, SUPPORTED, UNSUPPORTED, CONTRADICTED])
    supported = np.array([0.9, 0.4, 0.2, 0.1])
    found = curve.figures(targets, np.stack([supported, 1 - supported, np.zeros(4)], 1))
    assert {"n": 4, "auroc": 1.0, "balanced": 0.75, "kept": 0.5, "caught": 1.0} == found


def test_a_point_of_the_curve_names_languages_and_sources(tokenizer: Tokenizer) -> None:
    own = [
        Example("w1", "w2", i % 2, source, language) for i in range(4) for source in (written.FOUND, "wice") for language in ("en", "de")
    ]
    made = packed.pack(own, tokenizer)
    found = curve.point(made, np.full((len(own), 3), 1 / 3))
    assert {"written", "written de", "written en", "wice", "held-out sources"} == set(found)
    assert 0.5 == found["held-out sources"]["auroc"]
