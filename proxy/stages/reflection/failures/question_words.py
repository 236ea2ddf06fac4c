"""The wording of `questions`, in four languages. Pure data.

``{s}`` is whose failure it is, ``{n}`` how often it occurred, ``{max}``, ``{names}``, ``{tool}``, ``{tools}`` and ``{after}`` are an
adjustment's parameters. An obstacle is a clause without a full stop; an offer ends with a question mark.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Tongue(Struct, frozen=True):
    """One language."""

    once: str
    twice: str
    times: str
    """From three on, with ``{}``."""
    nobody: Mapping[str, str]
    """By signal: what stands for a name that there is none of."""
    obstacles: Mapping[tuple[str, str], str]
    """By signal and code."""
    details: Mapping[str, str]
    """What the outcome tells beside its code."""
    tried: str
    """With ``{names}``: arguments of the last call."""
    offers: Mapping[str, tuple[str, str]]
    """By adjustment: with its parameters, and without."""
    refusal: str
    """With ``{obstacle}``."""
    remedy: str
    """With ``{id}``: what an operator can do."""


_EN = Tongue(
    once="once",
    twice="twice",
    times="{} times",
    nobody={"tool_error": "the tool", "upstream_error": "the model's service", "schema_violation": "the model", "loop": "the agent"},
    obstacles={
        ("tool_error", "exception"): "{s} broke off with an exception {n}",
        ("tool_error", "error_code"): "{s} returned an error code {n}",
        ("tool_error", "error"): "{s} reported an error {n}",
        ("tool_error", "timeout"): "{s} timed out {n}",
        ("tool_error", "rate_limited"): "{s} turned calls away {n} because there were too many",
        ("tool_error", "unavailable"): "{s} was unavailable {n}",
        ("tool_error", "permission_denied"): "{s} denied access {n}",
        ("tool_error", "not_found"): "{s} failed {n} to find what it was asked for",
        ("tool_error", "missing_pointer"): "{s} was given a reference that leads nowhere {n}",
        ("tool_error", "invalid_arguments"): "{s} rejected its arguments {n}",
        ("tool_error", "output_too_large"): "{s} returned too much at a time {n}",
        ("upstream_error", "timeout"): "{s} did not answer in time {n}",
        ("upstream_error", "unreachable"): "{s} could not be reached {n}",
        ("upstream_error", "rate_limited"): "{s} limited the rate of requests {n}",
        ("upstream_error", "overloaded"): "{s} was overloaded {n}",
        ("upstream_error", "context_length_exceeded"): "the conversation was too long for {s} {n}",
        ("upstream_error", "refused"): "{s} refused the request {n}",
        ("upstream_error", "server_error"): "{s} failed with a server error {n}",
        ("retrieval_failure", "empty_result"): "the search{by} found nothing {n}",
        ("retrieval_failure", "low_relevance"): "the search{by} found only passages of little relevance {n}",
        ("retrieval_failure", "no_evidence"): "the passages at hand did not answer the question {n}",
        ("schema_violation", "unknown_tool"): "a tool that does not exist{named} was called {n}",
        ("schema_violation", "invalid_json"): "the arguments{of} were not valid JSON {n}",
        ("schema_violation", "arguments_mismatch"): "the arguments{of} did not fit its schema {n}",
        ("schema_violation", "response_not_json"): "the answer was not the JSON that was asked for {n}",
        ("schema_violation", "response_mismatch"): "the answer did not fit the schema that was asked for {n}",
        ("schema_violation", "repair_failed"): "repairing the output failed {n}",
        ("loop", "same_call"): "the same call{of} was made again {n}",
        ("loop", "same_query"): "the same query{of} was made again {n}",
        ("loop", "same_chunks"): "the search{by} brought the same passages again {n}",
        ("loop", "alternating"): "the same calls alternated {n} without a result",
        ("loop", "same_answer"): "the same answer was given again {n}",
        ("loop", "no_progress"): "several steps brought nothing new {n}",
        ("human_correction", "rejected"): "an answer was rejected {n}",
        ("human_correction", "override"): "an instruction was not followed {n}",
        ("budget_pressure", "context_high"): "the conversation came close to the model's limit {n}",
        ("budget_pressure", "context_critical"): "the conversation all but filled the model's window {n}",
        ("budget_pressure", "compression_failed"): "shortening the conversation failed {n}",
        ("budget_pressure", "output_truncated"): "the answer was cut off {n} because it was too long",
    },
    details={"status": "status {}"},
    tried="Last tried with {names}.",
    offers={
        "cap_output": (
            "Shall I ask for at most {max} at a time, or how should I go on?",
            "Shall I ask for less at a time, or how should I go on?",
        ),
        "paginate": (
            "Shall I fetch it page by page, {max} at a time, or how should I go on?",
            "Shall I fetch it page by page, or how should I go on?",
        ),
        "change_arguments": ("Which value should I use for {names}, or how should I go on?", "What should I change about the request?"),
        "fix_arguments": ("What is the right value for {names}?", "What are the right values?"),
        "use_other_tool": ("Shall I use {tool} instead, or how should I go on?", "Is there another tool or another way I should take?"),
        "use_known_tool": ("Which of these should I use: {tools}?", "Which of the available tools should I use?"),
        "rephrase_query": ("How else could I put it, or where should I look instead?", "What should I search for instead?"),
        "use_result": ("Shall I go on with the result I have, or what is missing?", "Shall I go on with what I have, or what is missing?"),
        "return_valid_json": ("Which form should it have?", "Which form should it have, or is plain text enough?"),
        "retry_later": ("Shall I try again in {after} seconds, or go on without it?", "Shall I try again later, or go on without it?"),
        "ask_human": ("Can you clear this up, or tell me how to go on?", "Can you clear this up, or tell me how to go on?"),
        "stop_repeating": ("What should I do differently?", "What should I do differently?"),
        "follow_correction": ("Did I understand you correctly that {rule}?", "Can you say once more exactly what you want?"),
        "reduce_context": ("What of it can I leave out?", "What can I leave out?"),
        "say_not_found": ("Shall I answer that it was not found, or where else should I look?", "Shall I answer that it was not found?"),
    },
    refusal="Stopped: {obstacle}, without progress, and repeating the request will not help.",
    remedy="An operator can look at the record and, once the cause is gone, resolve it: POST /groundwire/v1/failures/{id}/resolve.",
)
_DE = Tongue(
    once="einmal",
    twice="zweimal",
    times="{}-mal",
    nobody={
        "tool_error": "das Werkzeug",
        "upstream_error": "der Dienst des Modells",
        "schema_violation": "das Modell",
        "loop": "der Agent",
    },
    obstacles={
        ("tool_error", "exception"): "{s} ist {n} mit einer Ausnahme abgebrochen",
        ("tool_error", "error_code"): "{s} hat {n} einen Fehlercode zurückgegeben",
        ("tool_error", "error"): "{s} hat {n} einen Fehler gemeldet",
        ("tool_error", "timeout"): "{s} hat {n} die Zeit überschritten",
        ("tool_error", "rate_limited"): "{s} hat {n} wegen zu vieler Aufrufe abgelehnt",
        ("tool_error", "unavailable"): "{s} war {n} nicht verfügbar",
        ("tool_error", "permission_denied"): "{s} hat {n} den Zugriff verweigert",
        ("tool_error", "not_found"): "{s} hat {n} das Gesuchte nicht gefunden",
        ("tool_error", "missing_pointer"): "{s} hat {n} einen Verweis bekommen, der ins Leere führt",
        ("tool_error", "invalid_arguments"): "{s} hat {n} die Argumente abgelehnt",
        ("tool_error", "output_too_large"): "{s} hat {n} zu viel auf einmal geliefert",
        ("upstream_error", "timeout"): "{s} hat {n} nicht rechtzeitig geantwortet",
        ("upstream_error", "unreachable"): "{s} war {n} nicht erreichbar",
        ("upstream_error", "rate_limited"): "{s} hat {n} die Zahl der Anfragen begrenzt",
        ("upstream_error", "overloaded"): "{s} war {n} überlastet",
        ("upstream_error", "context_length_exceeded"): "{s} hat das Gespräch {n} als zu lang abgelehnt",
        ("upstream_error", "refused"): "{s} hat die Anfrage {n} zurückgewiesen",
        ("upstream_error", "server_error"): "{s} hat {n} einen Serverfehler gemeldet",
        ("retrieval_failure", "empty_result"): "die Suche{by} hat {n} nichts gefunden",
        ("retrieval_failure", "low_relevance"): "die Suche{by} hat {n} nur wenig passende Stellen gefunden",
        ("retrieval_failure", "no_evidence"): "die vorliegenden Stellen haben die Frage {n} nicht beantwortet",
        ("schema_violation", "unknown_tool"): "ein Werkzeug, das es nicht gibt{named}, wurde {n} aufgerufen",
        ("schema_violation", "invalid_json"): "die Argumente{of} waren {n} kein gültiges JSON",
        ("schema_violation", "arguments_mismatch"): "die Argumente{of} haben {n} nicht zum Schema gepasst",
        ("schema_violation", "response_not_json"): "die Antwort war {n} nicht das verlangte JSON",
        ("schema_violation", "response_mismatch"): "die Antwort hat {n} nicht zum verlangten Schema gepasst",
        ("schema_violation", "repair_failed"): "die Reparatur der Ausgabe ist {n} gescheitert",
        ("loop", "same_call"): "derselbe Aufruf{of} wurde {n} wiederholt",
        ("loop", "same_query"): "dieselbe Anfrage{of} wurde {n} wiederholt",
        ("loop", "same_chunks"): "die Suche{by} hat {n} wieder dieselben Stellen gebracht",
        ("loop", "alternating"): "dieselben Aufrufe haben sich {n} ohne Ergebnis abgewechselt",
        ("loop", "same_answer"): "dieselbe Antwort wurde {n} wiederholt",
        ("loop", "no_progress"): "mehrere Schritte haben {n} nichts Neues gebracht",
        ("human_correction", "rejected"): "eine Antwort wurde {n} zurückgewiesen",
        ("human_correction", "override"): "eine Anweisung wurde {n} nicht befolgt",
        ("budget_pressure", "context_high"): "das Gespräch ist {n} nahe an die Grenze des Modells gekommen",
        ("budget_pressure", "context_critical"): "das Gespräch hat das Fenster des Modells {n} fast ganz gefüllt",
        ("budget_pressure", "compression_failed"): "das Kürzen des Gesprächs ist {n} gescheitert",
        ("budget_pressure", "output_truncated"): "die Antwort wurde {n} abgeschnitten, weil sie zu lang war",
    },
    details={"status": "Status {}"},
    tried="Zuletzt versucht mit {names}.",
    offers={
        "cap_output": (
            "Soll ich höchstens {max} auf einmal abfragen, oder wie soll ich weitermachen?",
            "Soll ich weniger auf einmal abfragen, oder wie soll ich weitermachen?",
        ),
        "paginate": (
            "Soll ich seitenweise abfragen, je {max}, oder wie soll ich weitermachen?",
            "Soll ich seitenweise abfragen, oder wie soll ich weitermachen?",
        ),
        "change_arguments": (
            "Welchen Wert soll ich für {names} nehmen, oder wie soll ich weitermachen?",
            "Was soll ich an der Anfrage ändern?",
        ),
        "fix_arguments": ("Was ist der richtige Wert für {names}?", "Was sind die richtigen Werte?"),
        "use_other_tool": (
            "Soll ich stattdessen {tool} nehmen, oder wie soll ich weitermachen?",
            "Gibt es ein anderes Werkzeug oder einen anderen Weg?",
        ),
        "use_known_tool": ("Welches davon soll ich nehmen: {tools}?", "Welches der verfügbaren Werkzeuge soll ich nehmen?"),
        "rephrase_query": ("Wie könnte ich es anders ausdrücken, oder wo soll ich sonst suchen?", "Wonach soll ich stattdessen suchen?"),
        "use_result": (
            "Soll ich mit dem vorliegenden Ergebnis weitermachen, oder was fehlt?",
            "Soll ich mit dem weitermachen, was ich habe, oder was fehlt?",
        ),
        "return_valid_json": ("Welche Form soll es haben?", "Welche Form soll es haben, oder genügt einfacher Text?"),
        "retry_later": (
            "Soll ich es in {after} Sekunden noch einmal versuchen oder ohne weitermachen?",
            "Soll ich es später noch einmal versuchen oder ohne weitermachen?",
        ),
        "ask_human": (
            "Kannst du das klären oder mir sagen, wie ich weitermachen soll?",
            "Kannst du das klären oder mir sagen, wie ich weitermachen soll?",
        ),
        "stop_repeating": ("Was soll ich anders machen?", "Was soll ich anders machen?"),
        "follow_correction": ("Habe ich richtig verstanden: {rule}?", "Kannst du noch einmal genau sagen, was du möchtest?"),
        "reduce_context": ("Was davon kann ich weglassen?", "Was kann ich weglassen?"),
        "say_not_found": (
            "Soll ich antworten, dass es nicht gefunden wurde, oder wo soll ich noch suchen?",
            "Soll ich antworten, dass es nicht gefunden wurde?",
        ),
    },
    refusal="Angehalten: {obstacle}, ohne Fortschritt; die Anfrage zu wiederholen hilft nicht.",
    remedy="Wer den Proxy betreibt, kann den Eintrag ansehen und ihn auflösen, wenn die Ursache behoben ist: "
    "POST /groundwire/v1/failures/{id}/resolve.",
)
_ES = Tongue(
    once="una vez",
    twice="dos veces",
    times="{} veces",
    nobody={
        "tool_error": "la herramienta",
        "upstream_error": "el servicio del modelo",
        "schema_violation": "el modelo",
        "loop": "el agente",
    },
    obstacles={
        ("tool_error", "exception"): "{s} se ha interrumpido {n} con una excepción",
        ("tool_error", "error_code"): "{s} ha devuelto {n} un código de error",
        ("tool_error", "error"): "{s} ha informado {n} de un error",
        ("tool_error", "timeout"): "{s} ha agotado el tiempo {n}",
        ("tool_error", "rate_limited"): "{s} ha rechazado {n} por exceso de llamadas",
        ("tool_error", "unavailable"): "{s} no ha estado disponible {n}",
        ("tool_error", "permission_denied"): "{s} ha denegado el acceso {n}",
        ("tool_error", "not_found"): "{s} no ha encontrado {n} lo que se le pedía",
        ("tool_error", "missing_pointer"): "{s} ha recibido {n} una referencia que no lleva a nada",
        ("tool_error", "invalid_arguments"): "{s} ha rechazado los argumentos {n}",
        ("tool_error", "output_too_large"): "{s} ha devuelto {n} demasiado de una sola vez",
        ("upstream_error", "timeout"): "{s} no ha contestado a tiempo {n}",
        ("upstream_error", "unreachable"): "no se ha podido conectar con {s} {n}",
        ("upstream_error", "rate_limited"): "{s} ha limitado {n} el número de peticiones",
        ("upstream_error", "overloaded"): "{s} ha estado sobrecargado {n}",
        ("upstream_error", "context_length_exceeded"): "la conversación ha sido {n} demasiado larga para {s}",
        ("upstream_error", "refused"): "{s} ha rechazado la petición {n}",
        ("upstream_error", "server_error"): "{s} ha dado {n} un error del servidor",
        ("retrieval_failure", "empty_result"): "la búsqueda{by} no ha encontrado nada {n}",
        ("retrieval_failure", "low_relevance"): "la búsqueda{by} ha encontrado {n} solo pasajes poco pertinentes",
        ("retrieval_failure", "no_evidence"): "los pasajes disponibles no han respondido a la pregunta {n}",
        ("schema_violation", "unknown_tool"): "se ha llamado {n} a una herramienta que no existe{named}",
        ("schema_violation", "invalid_json"): "los argumentos{of} no han sido JSON válido {n}",
        ("schema_violation", "arguments_mismatch"): "los argumentos{of} no se han ajustado al esquema {n}",
        ("schema_violation", "response_not_json"): "la respuesta no ha sido el JSON pedido {n}",
        ("schema_violation", "response_mismatch"): "la respuesta no se ha ajustado al esquema pedido {n}",
        ("schema_violation", "repair_failed"): "la reparación de la salida ha fallado {n}",
        ("loop", "same_call"): "la misma llamada{of} se ha repetido {n}",
        ("loop", "same_query"): "la misma consulta{of} se ha repetido {n}",
        ("loop", "same_chunks"): "la búsqueda{by} ha traído {n} los mismos pasajes",
        ("loop", "alternating"): "las mismas llamadas se han alternado {n} sin resultado",
        ("loop", "same_answer"): "la misma respuesta se ha repetido {n}",
        ("loop", "no_progress"): "varios pasos no han aportado nada nuevo {n}",
        ("human_correction", "rejected"): "una respuesta ha sido rechazada {n}",
        ("human_correction", "override"): "una instrucción no se ha seguido {n}",
        ("budget_pressure", "context_high"): "la conversación se ha acercado {n} al límite del modelo",
        ("budget_pressure", "context_critical"): "la conversación casi ha llenado {n} la ventana del modelo",
        ("budget_pressure", "compression_failed"): "acortar la conversación ha fallado {n}",
        ("budget_pressure", "output_truncated"): "la respuesta se ha cortado {n} por ser demasiado larga",
    },
    details={"status": "estado {}"},
    tried="El último intento fue con {names}.",
    offers={
        "cap_output": ("¿Pido como máximo {max} cada vez, o cómo sigo?", "¿Pido menos cada vez, o cómo sigo?"),
        "paginate": ("¿Lo pido por páginas, de {max} en {max}, o cómo sigo?", "¿Lo pido por páginas, o cómo sigo?"),
        "change_arguments": ("¿Qué valor uso para {names}, o cómo sigo?", "¿Qué cambio en la petición?"),
        "fix_arguments": ("¿Cuál es el valor correcto de {names}?", "¿Cuáles son los valores correctos?"),
        "use_other_tool": ("¿Uso {tool} en su lugar, o cómo sigo?", "¿Hay otra herramienta u otro camino?"),
        "use_known_tool": ("¿Cuál de estas uso: {tools}?", "¿Cuál de las herramientas disponibles uso?"),
        "rephrase_query": ("¿Cómo podría expresarlo de otra manera, o dónde busco?", "¿Qué busco en su lugar?"),
        "use_result": ("¿Sigo con el resultado que tengo, o qué falta?", "¿Sigo con lo que tengo, o qué falta?"),
        "return_valid_json": ("¿Qué forma debe tener?", "¿Qué forma debe tener, o basta con texto simple?"),
        "retry_later": (
            "¿Lo intento otra vez dentro de {after} segundos o sigo sin ello?",
            "¿Lo intento otra vez más tarde o sigo sin ello?",
        ),
        "ask_human": ("¿Puedes aclararlo o decirme cómo sigo?", "¿Puedes aclararlo o decirme cómo sigo?"),
        "stop_repeating": ("¿Qué hago de otra manera?", "¿Qué hago de otra manera?"),
        "follow_correction": ("¿He entendido bien: {rule}?", "¿Puedes decir otra vez exactamente qué quieres?"),
        "reduce_context": ("¿Qué parte puedo dejar fuera?", "¿Qué puedo dejar fuera?"),
        "say_not_found": ("¿Respondo que no se ha encontrado, o dónde más busco?", "¿Respondo que no se ha encontrado?"),
    },
    refusal="Detenido: {obstacle}, sin avanzar; repetir la petición no servirá.",
    remedy="Quien opera el proxy puede ver el registro y, eliminada la causa, darlo por resuelto: "
    "POST /groundwire/v1/failures/{id}/resolve.",
)
_FR = Tongue(
    once="une fois",
    twice="deux fois",
    times="{} fois",
    nobody={"tool_error": "l'outil", "upstream_error": "le service du modèle", "schema_violation": "le modèle", "loop": "l'agent"},
    obstacles={
        ("tool_error", "exception"): "{s} s'est arrêté {n} sur une exception",
        ("tool_error", "error_code"): "{s} a renvoyé {n} un code d'erreur",
        ("tool_error", "error"): "{s} a signalé {n} une erreur",
        ("tool_error", "timeout"): "{s} a dépassé {n} le temps imparti",
        ("tool_error", "rate_limited"): "{s} a refusé {n} à cause d'un trop grand nombre d'appels",
        ("tool_error", "unavailable"): "{s} a été {n} indisponible",
        ("tool_error", "permission_denied"): "{s} a refusé l'accès {n}",
        ("tool_error", "not_found"): "{s} n'a pas trouvé {n} ce qui était demandé",
        ("tool_error", "missing_pointer"): "{s} a reçu {n} une référence qui ne mène nulle part",
        ("tool_error", "invalid_arguments"): "{s} a rejeté ses arguments {n}",
        ("tool_error", "output_too_large"): "{s} a renvoyé {n} trop de données d'un coup",
        ("upstream_error", "timeout"): "{s} n'a pas répondu à temps {n}",
        ("upstream_error", "unreachable"): "{s} a été {n} injoignable",
        ("upstream_error", "rate_limited"): "{s} a limité {n} le nombre de requêtes",
        ("upstream_error", "overloaded"): "{s} a été {n} surchargé",
        ("upstream_error", "context_length_exceeded"): "la conversation a été {n} trop longue pour {s}",
        ("upstream_error", "refused"): "{s} a refusé la requête {n}",
        ("upstream_error", "server_error"): "{s} a renvoyé {n} une erreur du serveur",
        ("retrieval_failure", "empty_result"): "la recherche{by} n'a rien trouvé {n}",
        ("retrieval_failure", "low_relevance"): "la recherche{by} n'a trouvé {n} que des passages peu pertinents",
        ("retrieval_failure", "no_evidence"): "les passages disponibles n'ont pas répondu à la question {n}",
        ("schema_violation", "unknown_tool"): "un outil qui n'existe pas{named} a été appelé {n}",
        ("schema_violation", "invalid_json"): "les arguments{of} n'ont pas été du JSON valide {n}",
        ("schema_violation", "arguments_mismatch"): "les arguments{of} n'ont pas respecté le schéma {n}",
        ("schema_violation", "response_not_json"): "la réponse n'a pas été le JSON demandé {n}",
        ("schema_violation", "response_mismatch"): "la réponse n'a pas respecté le schéma demandé {n}",
        ("schema_violation", "repair_failed"): "la réparation de la sortie a échoué {n}",
        ("loop", "same_call"): "le même appel{of} a été répété {n}",
        ("loop", "same_query"): "la même requête{of} a été répétée {n}",
        ("loop", "same_chunks"): "la recherche{by} a rapporté {n} les mêmes passages",
        ("loop", "alternating"): "les mêmes appels ont alterné {n} sans résultat",
        ("loop", "same_answer"): "la même réponse a été répétée {n}",
        ("loop", "no_progress"): "plusieurs étapes n'ont rien apporté de nouveau {n}",
        ("human_correction", "rejected"): "une réponse a été rejetée {n}",
        ("human_correction", "override"): "une consigne n'a pas été suivie {n}",
        ("budget_pressure", "context_high"): "la conversation s'est approchée {n} de la limite du modèle",
        ("budget_pressure", "context_critical"): "la conversation a presque rempli {n} la fenêtre du modèle",
        ("budget_pressure", "compression_failed"): "raccourcir la conversation a échoué {n}",
        ("budget_pressure", "output_truncated"): "la réponse a été coupée {n} parce qu'elle était trop longue",
    },
    details={"status": "statut {}"},
    tried="Dernier essai avec {names}.",
    offers={
        "cap_output": (
            "Dois-je demander au plus {max} à la fois, ou comment continuer ?",
            "Dois-je demander moins à la fois, ou comment continuer ?",
        ),
        "paginate": (
            "Dois-je procéder page par page, {max} à la fois, ou comment continuer ?",
            "Dois-je procéder page par page, ou comment continuer ?",
        ),
        "change_arguments": ("Quelle valeur prendre pour {names}, ou comment continuer ?", "Que dois-je changer dans la demande ?"),
        "fix_arguments": ("Quelle est la bonne valeur pour {names} ?", "Quelles sont les bonnes valeurs ?"),
        "use_other_tool": ("Dois-je prendre {tool} à la place, ou comment continuer ?", "Y a-t-il un autre outil ou un autre chemin ?"),
        "use_known_tool": ("Lequel de ceux-ci dois-je prendre : {tools} ?", "Lequel des outils disponibles dois-je prendre ?"),
        "rephrase_query": ("Comment le formuler autrement, ou où chercher ?", "Que dois-je chercher à la place ?"),
        "use_result": (
            "Dois-je continuer avec le résultat obtenu, ou que manque-t-il ?",
            "Dois-je continuer avec ce que j'ai, ou que manque-t-il ?",
        ),
        "return_valid_json": ("Quelle forme doit-elle avoir ?", "Quelle forme doit-elle avoir, ou un texte simple suffit-il ?"),
        "retry_later": ("Dois-je réessayer dans {after} secondes ou continuer sans ?", "Dois-je réessayer plus tard ou continuer sans ?"),
        "ask_human": (
            "Pouvez-vous éclaircir cela ou me dire comment continuer ?",
            "Pouvez-vous éclaircir cela ou me dire comment continuer ?",
        ),
        "stop_repeating": ("Que dois-je faire autrement ?", "Que dois-je faire autrement ?"),
        "follow_correction": ("Ai-je bien compris : {rule} ?", "Pouvez-vous redire exactement ce que vous voulez ?"),
        "reduce_context": ("Quelle partie puis-je laisser de côté ?", "Que puis-je laisser de côté ?"),
        "say_not_found": (
            "Dois-je répondre que rien n'a été trouvé, ou où chercher encore ?",
            "Dois-je répondre que rien n'a été trouvé ?",
        ),
    },
    refusal="Arrêté : {obstacle}, sans progrès ; répéter la requête n'aidera pas.",
    remedy="L'exploitant du proxy peut consulter la fiche et, une fois la cause disparue, la clore : "
    "POST /groundwire/v1/failures/{id}/resolve.",
)
TONGUES: Mapping[str, Tongue] = {"en": _EN, "de": _DE, "es": _ES, "fr": _FR}
JOINTS: Mapping[str, Mapping[str, str]] = {
    "en": {"by": " by {}", "of": " of {}", "named": ", {},"},
    "de": {"by": " mit {}", "of": " von {}", "named": ", {}"},
    "es": {"by": " con {}", "of": " de {}", "named": ", {}"},
    "fr": {"by": " avec {}", "of": " de {}", "named": ", {},"},
}
"""How a clause takes up a name, where there is one."""
RULES: Mapping[str, Mapping[str, str]] = {
    "en": {"forbidden_tool": "I may not use {}", "wanted_tool": "I am to use {}", "cap": "I may ask for at most {}"},
    "de": {"forbidden_tool": "{} nicht verwenden", "wanted_tool": "{} verwenden", "cap": "höchstens {}"},
    "es": {"forbidden_tool": "no usar {}", "wanted_tool": "usar {}", "cap": "como máximo {}"},
    "fr": {"forbidden_tool": "ne pas utiliser {}", "wanted_tool": "utiliser {}", "cap": "au plus {}"},
}
"""A correction's parameters, as what was understood."""
