import pytest

from proxy.grounding.claims.checkable import has_verb, is_fragment, plain, reason_of


def reason(sentence: str) -> str:
    return reason_of(sentence, plain(sentence))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Sure!", "greeting"),
        ("I hope this helps!", "greeting"),
        ("Let me know if you have questions.", "greeting"),
        ("Gerne!", "greeting"),
        ("Fine, thanks.", "greeting"),
        ("I'm doing very well, thank you for asking!", "greeting"),
        ("Great, thanks.", "greeting"),
        ("Good evening!", "greeting"),
        ("Mir geht es gut, danke der Nachfrage.", "greeting"),
        ("Muy bien, gracias.", "greeting"),
        ("Ça va bien, merci.", "greeting"),
        ("Bene, grazie.", "greeting"),
        ("Tudo bem, obrigada!", "greeting"),
        ("Fine.", ""),
        ("The old tower is fine, thanks.", ""),
        ("Paris, thanks.", ""),
        ("Not at all.", ""),
        ("Tutto il ponte va bene, grazie.", ""),
        ("Ich hoffe, das hilft dir weiter.", "greeting"),
        ("¡Claro!", "greeting"),
        ("Espero que esto te ayude.", "greeting"),
        ("Bien sûr !", "greeting"),
        ("N'hésitez pas à me contacter.", "greeting"),
        ("Noted.", "greeting"),
        ("Okay, I'll keep that in mind.", "greeting"),
        ("Verstanden.", "greeting"),
        ("Anotado.", "greeting"),
        ("C'est noté.", "greeting"),
        ("Your order is done.", ""),
        ("What is it?", "question"),
        ("¿Qué es?", "question"),
        ("It depends.", "hedge"),
        ("Das kommt darauf an.", "hedge"),
        ("Depende de varios factores.", "hedge"),
        ("Cela dépend.", "hedge"),
        ("I don't know.", "refusal"),
        ("The context does not mention the price.", "refusal"),
        ("Das steht nicht im Kontext.", "refusal"),
        ("No se menciona en el contexto.", "refusal"),
        ("Je ne sais pas.", "refusal"),
        ("Please consult a doctor.", "instruction"),
        ("You should check the official website.", "instruction"),
        ("Based on the provided context, here is a summary:", "lead_in"),
        ("Here are the main points:", "lead_in"),
        ("Based on the context.", "lead_in"),
        ("Laut den Dokumenten.", "lead_in"),
        ("Según el contexto.", "lead_in"),
        ("Selon le contexte.", "lead_in"),
        ("Hier ist eine Zusammenfassung:", "lead_in"),
        ("Aquí tienes un resumen:", "lead_in"),
        ("Voici un résumé :", "lead_in"),
        ("Click Save to store the file.", "instruction"),
        ("Use pip to install it.", "instruction"),
        ("Klicken Sie auf Speichern.", "instruction"),
        ("Abre la aplicación.", "instruction"),
        ("Ouvrez le fichier.", "instruction"),
        ("Let me check the file.", "instruction"),
        ("I'll run the tests now.", "plan"),
        ("I’ve updated the function.", "plan"),
        ("Ich werde die Datei prüfen.", "plan"),
        ("Voy a revisar el archivo.", "plan"),
        ("Je vais vérifier le fichier.", "plan"),
        ("You could visit the museum.", "opinion"),
        ("Meiner Meinung nach ist das die bessere Wahl.", "opinion"),
        ("En mi opinión es mejor así.", "opinion"),
        ("À mon avis, c'est mieux.", "opinion"),
        ("I don't have enough information in the provided context.", "refusal"),
        ("I don’t have enough information in the provided context.", "refusal"),
        ("It isn't covered by the passages.", "refusal"),
        ("Ich habe nicht genug Informationen im Kontext.", "refusal"),
        ("No tengo suficiente información en el contexto.", "refusal"),
        ("Je n'ai pas assez d'informations dans le contexte.", "refusal"),
        ("Confidence: HIGH", "rating"),
        ("**MEDIUM.**", "rating"),
        ("https://example.com/a", "empty"),
        ("Source: https://example.com/a", "empty"),
        ("…", "empty"),
    ],
)
def test_what_cannot_be_checked(sentence: str, expected: str) -> None:
    assert expected == reason(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "It probably opened in 1889.",
        "Please pay 300 euros by Friday.",
        "Run times of some minutes are common.",
        "Use of the pool is free.",
        "I recommend the Basic plan, which costs 10 euros.",
        "I think the tower is in Paris.",
        '"Paris is large," said Ada.',
        'He asked "why?"',
        "Bake the cake for 30 minutes.",
        "There is no evidence that it was built in 1900.",
        "Breakfast is not provided by the hotel.",
        "If you need more than five users, the plan costs 20 dollars.",
        "There are three kinds of rock in the park:",
        "Der Turm ist wahrscheinlich 300 Meter hoch.",
        "Creo que la torre está en París.",
        "Le pont a peut-être été construit en 1900.",
        "Hello World is a program.",
        "Wind is an energy source that does not pollute the air.",
        "Here is a summary: the tower was built in 1889.",
    ],
)
def test_what_can_be_checked(sentence: str) -> None:
    assert "" == reason(sentence)


@pytest.mark.parametrize(
    "text", ["Paris.", "In 1889.", "Am 3. Mai 1900.", "La torre Eiffel.", "Le 14 juillet.", "About 3.5 million people."]
)
def test_fragments(text: str) -> None:
    assert is_fragment(text)


@pytest.mark.parametrize(
    "text", ["It stands there.", "Der Turm steht dort.", "La torre está allí.", "La tour est là.", "They moved there."]
)
def test_sentences_have_a_verb(text: str) -> None:
    assert has_verb(text)
