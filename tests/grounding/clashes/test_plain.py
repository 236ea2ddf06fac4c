"""Sentences that plainly say what one person has one of, in four languages, and values that exclude each other."""

from __future__ import annotations

import pytest

from proxy.grounding.clashes.plain import declared, may_declare
from proxy.grounding.clashes.values import contradict


def said(sentence: str, language: str = "en", *, of_memory: bool = False) -> list[tuple[str, str, bool, bool]]:
    return [(one.attribute, one.value, one.negated, one.change) for one in declared(sentence, language, of_memory=of_memory)]


@pytest.mark.parametrize(
    ("sentence", "language", "expected"),
    [
        ("Hello, I live in Berlin.", "en", ("location", "berlin", False, False)),
        ("I don't live in Berlin any more.", "en", ("location", "berlin", True, True)),
        ("We've just moved from Rome to Milan.", "en", ("location", "milan", False, True)),
        ("Inzwischen wohne ich in Wien.", "de", ("location", "vienna", False, True)),
        ("Ya no vivo en Sevilla.", "es", ("location", "seville", True, True)),
        ("Je n'habite plus à Lyon.", "fr", ("location", "lyon", True, True)),
        ("Please call me Liz.", "en", ("nickname", "liz", False, False)),
        ("My budget is 1,500 euros.", "en", ("budget", "1500 EUR", False, False)),
        ("Raise my budget to 2,000 €.", "en", ("budget", "2000 EUR", False, True)),
        ("Actually, my birthday is on May 3rd.", "en", ("birthday", "05-03", False, True)),
        ("Ich habe keine Nussallergie.", "de", ("allergy", "nuss", True, False)),
        ("Soy alérgica a las nueces.", "es", ("allergy", "nuece", False, False)),
        ("Je ne mange plus de viande.", "fr", ("diet", "meat", True, True)),
        ("Wir sind zu viert.", "de", ("people", "4", False, False)),
        ("I'm a non-smoker.", "en", ("smoking habit", "smokes", True, False)),
        ("No wait, make it 8 pm please.", "en", ("it", "1200", False, True)),
        ("Mejor a las 21:00.", "es", ("it", "1260", False, True)),
        ("I work out of our Lisbon office.", "en", ("workplace", "lisbon", False, False)),
        ("Ich arbeite jetzt in unserem Münchner Büro.", "de", ("workplace", "munich", False, True)),
        ("Trabajo desde la oficina de Sevilla.", "es", ("workplace", "seville", False, False)),
        ("I'm the mother of three.", "en", ("number of children", "3", False, False)),
        ("Wir haben keine Haustiere.", "de", ("number of pets", "0", False, False)),
        ("Tengo una hermana.", "es", ("number of sisters", "1", False, False)),
        ("Nous n'avons pas de voiture.", "fr", ("number of cars", "0", False, False)),
        ("The backend runs on Postgres v14.2.", "en", ("database", "postgresql 14.2", False, False)),
        ("Wir setzen MariaDB 11 ein.", "de", ("database", "mariadb 11", False, False)),
        ("Nuestro servidor corre en Debian 12.", "es", ("operating system", "debian 12", False, False)),
        ("I always book five-star hotels.", "en", ("price level", "high", False, False)),
        ("Je préfère les hôtels bon marché, à moins de 70 € la nuit.", "fr", ("price level", "low", False, False)),
    ],
)
def test_what_a_plain_sentence_says(sentence: str, language: str, expected: tuple[str, str, bool, bool]) -> None:
    assert [expected] == said(sentence, language)


@pytest.mark.parametrize(
    "sentence",
    [
        "In summer I live in Munich.",
        "I live in Munich in summer.",
        "I live in Munich and Rome.",
        "I live in Berlin and I am allergic to nuts.",
        "I grew up in Munich and now I live in Hamburg.",
        "I will live in Munich.",
        "I'd like to live in Munich.",
        "My sister lives in Munich.",
        "She lives in Munich.",
        "Do I live in Munich?",
        "I live in a small house.",
        "I work at night.",
        "Call me a taxi.",
        "Call me tomorrow.",
        "My budget for the laptop is 900 €.",
        "My budget is between 500 and 900 €.",
        "I am allergic to nuts and milk, as my doctor says.",
        "The user lives in Munich.",
        "Make it longer.",
        "We are 2 adults and 3 kids.",
        "Am Wochenende arbeite ich bei Bosch.",
        "Sie wohnt in Graz.",
        "A veces como carne.",
        "Mon frère habite à Nantes.",
        "My office is in a new building.",
        "On Tuesdays I work from our Lisbon office.",
        "Our other office is in Lisbon.",
        "I work in Marketing.",
        "I have two questions.",
        "I have two children at home and one abroad.",
        "I used to have a dog.",
        "Früher hatten wir zwei Autos.",
        "We plan to use MySQL 8.",
        "We moved from MySQL to PostgreSQL 15.",
        "PostgreSQL 15 supports MERGE.",
        "My boss prefers luxury hotels.",
    ],
)
def test_what_says_more_or_less_is_not_plain(sentence: str) -> None:
    assert [] == said(sentence)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The user lives in Munich.", ("location", "munich")),
        ("Allergic to nuts", ("allergy", "nut")),
        ("Name: Anna", ("name", "anna")),
        ("User location: New York", ("location", "new york")),
        ("Der Nutzer ist Vegetarier.", ("diet", "vegetarian")),
    ],
)
def test_a_memory_speaks_of_the_user(sentence: str, expected: tuple[str, str]) -> None:
    assert [expected] == [one[:2] for one in said(sentence, of_memory=True)]


@pytest.mark.parametrize(
    ("older", "newer", "expected"),
    [
        ("I live in Berlin.", "I live in Munich.", True),
        ("I live in Germany.", "I live in Munich.", False),
        ("I live in Bavaria.", "I live in Munich.", False),
        ("I live in London.", "I live in Ealing.", False),
        ("I live in Washington.", "I live in Seattle.", False),
        ("I eat meat.", "I don't eat pork.", False),
        ("I live in London.", "I moved to Ealing.", True),
        ("I live in London.", "I moved from Paris to Oslo.", False),
        ("I live in London.", "I no longer live in London.", True),
        ("I live in London.", "I no longer live in Paris.", False),
        ("My name is Thomas.", "My name is Tom.", False),
        ("My name is Anna.", "My name is Anna Schmidt.", False),
        ("My name is Anna.", "My name is Carla.", True),
        ("My name is Anna.", "Call me Liz.", False),
        ("I'm allergic to nuts.", "I'm allergic to milk.", False),
        ("I'm allergic to nuts.", "I'm not allergic to nuts.", True),
        ("I'm vegan.", "I eat cheese.", True),
        ("I'm vegetarian.", "I'm vegan.", False),
        ("I'm vegetarian.", "I eat cheese.", False),
        ("My budget is 1000 €.", "My budget is 990 €.", False),
        ("My budget is 1000 €.", "My budget is 1200 dollars.", False),
        ("My hotel budget is 1000 €.", "My budget is 2000 €.", False),
        ("My birthday is 5 May 1980.", "My birthday is May 5.", False),
        ("My phone number is +49 170 1234567.", "My number is 0170 1234567.", False),
        ("Anna's birthday is on 5 May.", "My birthday is on 9 June.", False),
        ("Anna lives in Rome.", "Anna lives in Oslo.", True),
        ("My office is in Berlin.", "I work from our Madrid office.", True),
        ("My office is in Berlin.", "I live in Madrid.", False),
        ("I have two children.", "I have no kids.", True),
        ("I have two children.", "I'm a father of two.", False),
        ("I have two sons.", "I have three children.", False),
        ("I don't have kids.", "I have a son.", True),
        ("Ich habe keine Haustiere.", "Ich habe zwei Katzen.", True),
        ("I have no brothers.", "I have a sister.", False),
        ("I want a budget hotel under 50 € a night.", "I'm looking for a luxury hotel.", True),
        ("We use PostgreSQL 15.", "Our production database is MySQL 8.", True),
        ("We use PostgreSQL 15.", "Our staging database is MySQL 8.", False),
        ("We use PostgreSQL 15.", "We run PostgreSQL 15.4.", False),
        ("We use PostgreSQL 15.", "We run PostgreSQL 16.", True),
        ("We use PostgreSQL 15.", "We use Kafka.", False),
        ("I prefer budget hotels (under 50 € a night).", "I prefer luxury 5-star hotels.", True),
        ("I prefer budget hotels.", "I prefer luxury restaurants.", False),
    ],
)
def test_whether_two_values_exclude_each_other(older: str, newer: str, expected: bool) -> None:
    (one,), (other,) = declared(older), declared(newer)
    assert expected == contradict(one, other)


@pytest.mark.parametrize(
    "sentence", ["Fumo.", "Fumo; y vivo en Roma.", "Hi there, I live in Rome!", "No, wait: I moved to Milan.", "Anna lives in Rome."]
)
def test_a_first_look_sees_all_that_may_declare_something(sentence: str) -> None:
    assert may_declare(sentence)


def test_a_first_look_leaves_out_what_speaks_of_the_world() -> None:
    assert not may_declare("The tower was built in 1889.")
