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
        rf"{_DAS} (?:ist|war|sind|waren){_SEHR} nicht{_SEHR} (?:richtig|korrekt|wahr|meine (?:frage|bestellung|nummer|adresse)|"
        rf"die frage|was ich|das,? was|gemeint|der|die|gefragt)\b",
        rf"(?:{_DAS} )?(?:stimmt|passt){_SEHR} (?:nicht|net|ned|nich|hinten und vorne nicht)(?: ganz)?\s*$",
        rf"{_DAS} (?:kann|konnen) {_SEHR}(?:nicht|net) (?:stimmen|sein|richtig sein)",
        rf"(?:{_DAS}|so) (?:hab|habe|haben|hatte) (?:ich|wir){_SEHR} (?:nicht|nie|net)(?: so)? (?:gesagt|gefragt|gemeint|gewollt|"
        rf"geschrieben|bestellt|verlangt|gebeten|behauptet|erwahnt)\b",
        rf"(?:{_DAS}|so) (?:wollte|wollten|meinte) (?:ich|wir){_SEHR} (?:nicht|nie|net)\b(?! (?:wissen|sagen))",
        rf"so war (?:das|es){_SEHR} nicht\b",
        r"(?:das )?(?:ist |war )?nicht das,? was (?:ich|wir)\b",
        r"(?:nicht (?:richtig|wahr|korrekt)|unsinn|quatsch|blodsinn|stimmt nicht|falsche antwort|immer noch falsch|wieder falsch)\s*$",
        rf"(?:du|sie) (?:irrst|irren|tauschst|tauschen|verwechselst|verwechseln|ignorierst|ignorieren|halluzinierst){_SEHR}(?: dich|"
        rf" sich| mich)?\b(?! sich nicht)",
        rf"(?:du|sie) (?:hast|haben|hattest){_SEHR}(?: (?:mich|mir|das|es|die|den|meine|alles|da|beide|beiden|"
        rf"[a-z]{{2,24}})){{0,4}}? (?:missverstanden|falsch|verwechselt|vertauscht|ignoriert|ubersehen|vergessen|verdreht|"
        rf"nicht (?:verstanden|gelesen|zugehort|beantwortet))\b",
        r"(?:da )?(?:haben sie|hast du) (?:mich|das|es|da|etwas|was)(?: \w{1,12})? (?:missverstanden|falsch|verwechselt|ubersehen|"
        r"nicht verstanden|verstanden nicht)",
        r"(?:du|sie) (?:liegst|liegen|bist|sind){_SEHR} (?:falsch|daneben|im irrtum)\b".replace("{_SEHR}", _SEHR),
        r"(?:du|sie) (?:verstehst|verstehen) mich (?:nicht|falsch)",
        r"(?:das )?(?:wie )?(?:ich|wir|hab ich|habe ich) (?:(?:habe|hab|hatte|haben|sagte|es|dir|ihnen|das|dir das|ihnen das|doch|"
        r"dir doch|ihnen doch|ja|dir ja) ){0,4}(?:schon|bereits|doch|ausdrucklich|gerade erst|mehrmals)(?: \w{1,12}){0,4}? (?:gesagt|"
        r"geschrieben|erwahnt|genannt|angegeben|erklart|gegeben|mitgeteilt|sagte|schrieb)\b",
        r"wie (?:ich )?(?:schon|bereits)(?: \w{1,12})? (?:gesagt|sagte|geschrieben|erwahnt|schrieb|erwahnte)\b",
        r"lies (?:bitte )?(?:noch ?mal|meine)",
        r"(?:komplett|total|vollig|leider|ganz|absolut|schlicht|einfach)? ?(?:falsch|verkehrt)(?: verstanden)?(?=\s*$|\s*,)|"
        r"(?:komplett|total|vollig|absolut) (?:falsch|verkehrt)\b",
        rf"(?:{_DAS} ist )?(?:genau )?(?:andersrum|andersherum|anders herum|umgekehrt|das gegenteil)\b",
        r"da (?:ist|hat sich)(?: dir| ihnen| wohl)* (?:ein fehler|ein irrtum)\b",
        r"wir reden aneinander vorbei|(?:das|da|hier) (?:ist|liegt|war)(?: wohl)? ein missverstandnis",
        r"(?:das )?(?:ich|wir)? ?(?:habe|hab|hatte|haben)(?: ich)? (?:das )?nie(?:mals)? (?:gesagt|behauptet|erwahnt|verlangt|bestellt)\b",
        rf"{_DAS} (?:hat|haben) (?:mit meiner frage|damit) nichts zu tun\b",
    ),
    rejected_unasked=compiled(
        r"falsche?[rsn]?(?:\s*$| (?:kunde|kundin|datei|konto|bestellung|werkzeug|person|nutzer|datum|tag|flug|name|nummer|stadt|"
        r"sprache|version|tabelle|link|ordner|spalte|richtung|monat|jahr|artikel|produkt|antwort|zug)\b)",
        r"(?:es |das |da )?(?:geht|funktioniert|klappt|lauft|laeuft|tut)(?: das| es| bei mir)? (?:immer noch|noch immer|"
        r"leider immer noch|weiterhin) nicht\b",
        r"(?:immer noch |noch immer |wieder |genau |weiterhin )?(?:der|den|das|dasselbe|derselbe|denselben)(?: gleiche[nr]?|"
        r" selbe[nr]?)? (?:fehler|problem|fehlermeldung)\b",
        r"ich (?:habe|hab|hatte|wollte|meinte|sagte) [\w\ue000'. :-]{1,60}?(?: und|,)? nicht\b(?! (?:storn|and|mehr|so))",
        r"das ist (?:doch |ja |aber )?(?:die|der|das|meine?) (?:alte|veraltete|falsche|vorige)\w?\b",
        r"(?:schon wieder|immer noch|noch immer|wieder) (?:der|die|das|den) ?(?:gleiche\w?|selbe\w?)\b|(?:schon wieder|"
        r"immer noch) (?:dasselbe|derselbe|dieselbe|denselben)\b",
        r"(?:mein|meine|unser|unsere) \w{1,20} (?:ist|sind|steht) (?:immer noch|noch immer|wieder|schon wieder) (?:falsch|verkehrt)\b",
    ),
    after_denial=compiled(
        r"(?:ich|wir) (?:sagte|meinte|wollte|wollten|brauche|meine|rede von|sprach|fragte)\b(?! (?:nur|eigentlich nur|mich nur|bloß|"
        r"schon))",
        r"(?:ich|wir) (?:habe|hab|hatte|haben) (?:\w{1,20} ){1,6}?(?:gesagt|gemeint|gefragt|geschrieben|gewollt)\b(?<!ja gesagt)",
        r"nicht (?:das|die|den|der|diese\w?)\b",
        r"(?:das|es) (?:muss|musste|sollte|soll) \b",
        r"versuch(?:e|s)? (?:es )?noch ?(?:ein)?mal",
        r"eben nicht\b|doch nicht\b|(?:der|die|das|mein\w{0,2}|unser\w{0,2}) [\w-]{1,30} (?:ist|sind|war|lautet|beginnt|"
        r"endet) (?!.{0,80}\b(?:gut|ok|okay|richtig|in ordnung|super|prima|alles|egal)\b)",
    ),
    override=compiled(
        rf"(?:{_NUTZ} )?\ue000{{1,128}} (?:bitte )?(?:nur )?mit (?:h(?:o|oe)chstens|maximal|max\.?|nicht mehr als) <cap>",
        rf"{_NUTZ} (?:bitte )?<no> (?:bitte |jetzt |hier |dafur )?{_NIE}\b",
        rf"<no> (?:bitte |jetzt |hier )?{_NIE} (?:mehr )?(?:{_NUTZEN}|an)\b",
        rf"{_NUTZ} (?:\w{{1,12}} )?{_NIE} (?:mehr |wieder |noch (?:ein)?mal )?(?:mit |auf |in )?<no>",
        rf"{_NIE} (?:mit |in |auf )?<no>(?: {_NUTZEN})?",
        rf"(?:{_NUTZ}|mach|rat|errate?|erfinde?)(?:e|t)? (?:\w{{1,20}} ){{0,5}}?(?:nicht mehr|nie wieder|nie mehr|"
        rf"nicht noch ?(?:ein)?mal|nicht wieder)\b",
        r"(?:nicht|nichts) (?:raten|erfinden|dazuerfinden)\b|(?:rate|rat|erfinde) (?:bitte )?(?:nicht|nichts)\b",
        r"(?:kein|keine|keinen|schluss mit|genug von|ohne|vergiss|lass(?: das mit)?|finger weg von) <no>(?: mehr)?",
        r"hor(?:e|en sie)?(?: bitte| endlich| jetzt| sofort| mal){0,2} auf(?: damit|,)? ?(?:"
        r"<no>|damit|das|es|die|den|immer|mit|zu|staendig|standig|dauernd)?\b",
        r"(?:kein|keine|keinen) (?:weiteren? |neuen? |mehr )(?:suchen?|aufrufe|abfragen|anfragen|versuche)\b",
        r"(?:lass|unterlass|lassen sie) (?:das|es|dies)(?: sein| bleiben| bitte)?\s*$|schluss damit\b",
        r"(?:hor auf mit|aufhoren mit) <no>",
        rf"(?:{_NUTZ}|ruf|wechsle? (?:zu|auf)|versuch(?:e|s)? (?:es )?(?:mal )?mit|mach es mit)(?: bitte)?(?: lieber| stattdessen|"
        rf" dafur)? (?:statt|anstelle von|anstatt)(?: von)? <no>(?: \w{{1,12}}){{0,2}}? <yes>",
        rf"(?:{_NUTZ}|ruf|wechsle? (?:zu|auf)|versuch(?:e|s)? (?:es )?(?:mal )?mit)(?: bitte)?(?: lieber| stattdessen| dafur| hier|"
        rf" mal| jetzt)? <yes>(?: auf)?(?:,? (?:bitte )?(?:statt|anstelle von|anstatt|nicht)(?: von)? <no>)?",
        rf"(?:statt|anstelle von|anstatt)(?: von)? <no>(?:,? (?:bitte |lieber )?(?:{_NUTZ} )?(?:bitte |lieber )?<yes>)?",
        r"lieber <yes>",
        rf"{_NUTZ} (?:bitte )?(?:stattdessen |lieber |doch )?(?:das andere|ein anderes|die andere|eine andere|"
        rf"den anderen) (?:werkzeug|tool|funktion|schnittstelle|quelle|suche|methode|verfahren|abfrage)\b",
        r"(?:ignorier|vergiss|verwirf|uberspring|lass)(?:e|en sie)? (?:bitte )?(?:das |die |den |dein |alle )?(?:(?:letzte|vorige|"
        r"erste|vorherige|alte|fruhere|andere)[nsr]? )?(?:ergebnis|ergebnisse|resultat|ausgabe|suche|treffer|dokument|antwort des|"
        r"werkzeug)\b",
        r"nur(?: noch)? (?:in )?(?:die|das|den|der|dem|mit|offizielle\w?|hochgeladene\w?) [\w -]{0,40}?(?:doku|dokumentation|"
        r"dokumente[n]?|quellen?|dateien|handbuch|werkzeug|datenbank|wiki)\b",
        rf"{_NUTZ} (?:bitte )?(?:nur|ausschließlich|ausschliesslich) [\w -]{{0,40}}?(?:doku|dokumentation|dokumente[n]?|quellen?|"
        rf"dateien|handbuch|werkzeug|datenbank|wiki)\b",
        rf"nur(?: noch)? <yes>",  # noqa: F541
        r"keine? (?:web|internet|online)?-?(?:suchen?|abfragen?|aufrufe?|anfragen?) mehr\b",
        r"(?:du|sie) (?:brauchst|musst|sollst|darfst|sollen|durfen|mussen|brauchen|sollt) <no> nicht\b",
        r"(?:probier|versuch)(?:'?s| es|e es)?(?: bitte| lieber| mal| doch)* mit <yes>",
        r"verzichte(?:n sie)?(?: bitte)? auf <no>",
        r"(?:arbeite|antworte|bleib|halte? dich)(?: bitte)? (?:ausschließlich|ausschliesslich|nur|rein) (?:mit|anhand|bei|nach|an|"
        r"auf) [\w -]{0,40}?(?:pdf|anhang|dokument\w{0,2}|datei\w{0,2}|quellen?|text|doku\w{0,8}|kontext)\b",
        r"es reicht(?: jetzt)? mit (?:der|dem|den) (?:such|abfrag|aufruf|rater)\w{0,8}|genug (?:gesucht|abgefragt|geraten)\b",
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
    bare_cap=compiled(rf"{_ZEIG}{_MAX} <cap><.>"),
)
