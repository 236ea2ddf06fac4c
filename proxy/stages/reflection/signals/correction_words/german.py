"""German: how people correct an agent (`proxy.stages.reflection.signals.correction_words.wording` says how to read it)."""

from proxy.stages.reflection.signals.correction_words.wording import CorrectionWords, compiled

_DAS = (
    r"(?:das|dies|dieses|es|die (?:antwort|angabe|zahl|summe|ausgabe)|das (?:ergebnis|resultat)|deine (?:antwort|angabe)|"
    r"ihre (?:antwort|angabe))"
)
_SEHR = (
    r"(?: (?:so|aber|doch|ja|leider|immer noch|noch immer|einfach|komplett|total|ganz|vollig|voellig|schlicht|wieder|auch|gar|"
    r"uberhaupt|ueberhaupt|schon|halt|eben|nun|wirklich)){0,4}"
)
_NIE = r"(?:nicht mehr|nie wieder|nie mehr|nicht noch ?(?:ein)?mal|nicht wieder|nicht nochmals?|keinesfalls|bitte nicht|nicht)"
_NUTZ = r"(?:benutz|nutz|verwend|ruf|such|frag|nimm|nehm|versuch|probier|start|wiederhol|greif|fuhr|fuehr|setz)(?:e|t|en|en sie|e sie)?"
_NUTZEN = r"(?:benutzen|nutzen|verwenden|aufrufen|anrufen|abfragen|nehmen|einsetzen|suchen|versuchen|wiederholen|starten|probieren)"
_VON = (
    r" ?(?:treffern?|ergebnissen?|resultaten?|zeilen|eintragen?|eintraegen?|datensatzen?|datensaetzen?|dokumenten?|seiten?|stuck|"
    r"stueck|dateien|passagen|artikeln?|vorschlagen?|vorschlaege?n?|optionen|ideen|suchen|abfragen|aufrufen?|versuchen?|mal|anfragen)\b"
)
_ZEIG = (
    r"(?:(?:zeig|gib|liste|nenn|hol|lade|liefer|gebe|zeigen|geben|listen|nutz|nutzen|benutz|benutzen|verwend|verwenden|nimm|nehmen)e?"
    r"(?: sie)?(?: mir| uns)?(?: bitte)?(?: nur)? )?"
)
_MAX = (
    r"(?:h(?:o|oe)chstens|maximal|max\.?|nicht mehr als|nicht uber|hochstens|bis zu|nur(?: noch)?(?: die| den)? (?:ersten?)|(?:die|"
    r"den) ersten|nur(?: noch)?)"
)

GERMAN = CorrectionWords(
    opener=compiled(
        r"(?:(?:oh|ah|ach|hah|ahm|hm+|moment mal|genau|nun|also|na|ok|okay|so|und|aber|dann|jetzt|doch|sorry|entschuldigung|"
        r"entschuldige|verzeihung|bitte|hey|halt|moment|warte|tut mir leid|eigentlich|danke|leider|ich (?:glaube|denke|fürchte|finde)|"
        r"ab (?:jetzt|sofort|nun)|von (?:nun|jetzt) an|kunftig|in zukunft|sondern|noch ?mal|ja|kannst du|konntest du|koennten sie|"
        r"konnten sie|konnen sie|wurdest du|diesmal|lieber)\b)[\s.!…-]{0,4}"
    ),
    denial=compiled(r"(?:nein+|ne|nee|noe|no|quatsch|falsch|stopp?|nicht doch|blodsinn|unsinn)\b[\s.!…-]{0,4}"),
    ask=compiled(
        r"(?:was|warum|wieso|weshalb|wie|wann|wo|wer|wen|wem|welche\w?|ist|sind|war|waren|hast|haben|hat|kann|kannst|konnen|konnte|"
        r"konntest|soll|sollte|darf|stimmt (?:das|es|denn)|gibt|findest|findet|meinst|glaubst|weißt|willst|mochtest)\b"
        r"(?! ich schon| ich bereits| gesagt)"
    ),
    polite=compiled(
        r"(?:und |aber |dann )?(?:bitte )?(?:kannst du|konntest du|koenntest du|konnen sie|konnten sie|wurdest du|"
        r"wurden sie)\b(?! mir sagen| mir erklaren)"
    ),
    aside=compiled(
        r".{0,200}?\b(?:ich dachte|ich hatte gedacht|(?:er|man|jemand|(?:mein|meine|unser|unsere|der|die|sein|seine|ihr|"
        r"ihre) [a-z]{2,20}(?: [a-z]{2,20})?) (?:hat |haben )?(?:auch |immer )?(?:sagt|sagte|gesagt|meint|meinte|meinen|denkt|dachte|"
        r"behauptet|behauptete|schreibt|schrieb|glaubt|findet)|"
        r"sie (?:sagt|sagte|meint|meinte|behauptet|hat gesagt|haben gesagt)|wenn|falls|ob|sofern|angenommen)\b"
    ),
    task=compiled(
        r"(?:bitte |kannst du |kannst du bitte )?(?:ubersetz|uebersetz|korrigier|uberarbeit|prufe? (?:diesen|den|folgenden)|fass|"
        r"formulier|schreib|verfass|beantworte|analysier|bewerte|erklar)\w{0,4}\b(?! mich\b)"
    ),
    rejected=compiled(
        rf"{_DAS} (?:ist|war|sind|waren|klingt|scheint|sieht){_SEHR} (?:falsch|verkehrt|inkorrekt|unsinn|quatsch|blodsinn|unwahr|"
        rf"gelogen|erfunden|ein fehler|die falsche|der falsche|das falsche)\b(?!,? (?:zu|dass|wenn)\b)",
    ),
    override=compiled(
        rf"(?:{_NUTZ} )?\ue000{{1,128}} (?:bitte )?(?:nur )?mit (?:h(?:o|oe)chstens|maximal|max\.?|nicht mehr als) <cap>",
        rf"{_NUTZ} (?:bitte )?<no> (?:bitte |jetzt |hier |dafur )?{_NIE}\b",
        rf"<no> (?:bitte |jetzt |hier )?{_NIE} (?:mehr )?(?:{_NUTZEN}|an)\b",
        rf"{_NUTZ} (?:\w{{1,12}} )?{_NIE} (?:mehr |wieder |noch (?:ein)?mal )?(?:mit |auf |in )?<no>",
        rf"{_NIE} (?:mit |in |auf )?<no>(?: {_NUTZEN})?",
        r"(?:kein|keine|keinen|schluss mit|genug von|ohne|vergiss|lass(?: das mit)?|finger weg von) <no>(?: mehr)?",
        r"hor(?:e|en sie)?(?: bitte| endlich| jetzt| sofort| mal){0,2} auf(?: damit|,)? ?(?:"
        r"<no>|damit|das|es|die|den|immer|mit|zu|staendig|standig|dauernd)?\b",
        r"(?:hor auf mit|aufhoren mit) <no>",
        rf"(?:{_NUTZ}|ruf|wechsle? (?:zu|auf)|versuch(?:e|s)? (?:es )?(?:mal )?mit|mach es mit)(?: bitte)?(?: lieber| stattdessen|"
        rf" dafur)? (?:statt|anstelle von|anstatt)(?: von)? <no>(?: \w{{1,12}}){{0,2}}? <yes>",
        rf"(?:{_NUTZ}|ruf|wechsle? (?:zu|auf)|versuch(?:e|s)? (?:es )?(?:mal )?mit)(?: bitte)?(?: lieber| stattdessen| dafur| hier|"
        rf" mal| jetzt)? <yes>(?: auf)?(?:,? (?:bitte )?(?:statt|anstelle von|anstatt|nicht)(?: von)? <no>)?",
        rf"(?:statt|anstelle von|anstatt)(?: von)? <no>(?:,? (?:bitte |lieber )?(?:{_NUTZ} )?(?:bitte |lieber )?<yes>)?",
        r"lieber <yes>",
        rf"nur(?: noch)? <yes>",  # noqa: F541
        r"(?:du|sie) (?:brauchst|musst|sollst|darfst|sollen|durfen|mussen|brauchen|sollt) <no> nicht\b",
        r"(?:probier|versuch)(?:'?s| es|e es)?(?: bitte| lieber| mal| doch)* mit <yes>",
        r"verzichte(?:n sie)?(?: bitte)? auf <no>",
        r"(?:du|sie) (?:sollst|musst|sollen|mussen|solltest|sollten) (?:dafur |hier )?<yes> (?:benutzen|nutzen|verwenden|nehmen|aufrufen)",
    ),
    cap=compiled(
        rf"{_ZEIG}{_MAX} <cap>{_VON}",
        rf"(?:beschrank|begrenz|beschraenk|limitier|kurz)\w{{0,3}}(?: dich| sie| sich| es| das|"
        rf" die \w{{1,20}})?(?: bitte)? auf (?:maximal |hochstens |die ersten )?<cap>(?:{_VON}|<.>)",
        rf"{_ZEIG}<cap>{_VON} (?:maximal|hochstens|max)\b",
        rf"{_MAX} <cap> (?:pro|auf einmal|je)\b",
        rf"mehr als <cap>{_VON} (?:brauche|will|mochte|sollen|sind) [\w ]{{0,20}}?nicht",
        rf"<cap>{_VON} (?:reichen|genugen)\b",
    ),
)
