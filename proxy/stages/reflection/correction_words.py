"""By which words people correct an agent: how a clause begins that forbids or wants a tool, caps a number, or rejects; what excludes it.

Matched against folded text: lower case, no accents (``hochstens``), ``'`` for every apostrophe, the name of a tool replaced by as many
`TOOL_MARK`s. English, German, Spanish and French stand side by side. In a cue ``<no>`` is a tool that is forbidden, ``<yes>`` one that is
wanted, ``<cap>`` a number.
"""

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern

TOOL_MARK = "\ue000"

# ---- words that say nothing, or for whom it is said ----

_POLITE = (
    r"(?:please )?(?:can|could|would|will) you(?: please| kindly| just)?|(?:kannst|konntest|koenntest|wurdest) du|(?:konnen|konnten|"
    r"koennten|wurden) sie|puedes|podrias|puede|podria|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous"
)
OPENER = LazyPattern(
    rf"(?:(?:{_POLITE}|no+|nope|nah|nein+|nee?|non+|nan|wrong|incorrecto?|falsch|falso|faux|stopp?|quatsch|not at all|pas du tout|oh|ah|"
    rf"ach|"
    r"uh|hm+|well|ok(?:ay)?|so|and|but|then|now|also|sorry|please|pls|hey|wait|hold on|again|actually|look|thanks|yes|yeah|as i said|"
    r"i mean|let'?s|(?:from now|from here) on|going forward|this time|und|aber|dann|jetzt|also|nun|na|doch|bitte|danke|moment|warte|"
    r"sondern|leider|genau|ab (?:jetzt|sofort)|von (?:nun|jetzt) an|in zukunft|diesmal|entschuldigung|y|pero|entonces|ahora|por favor|"
    r"bueno|vale|perdona?|gracias|oye|espera|a partir de ahora|de ahora en adelante|esta vez|sino|que|si|et|mais|alors|donc|maintenant|"
    r"s'il (?:te|vous) plait|stp|svp|bon|pardon|merci|en fait|desormais|a partir de maintenant|cette fois|oui)\b)[\s.!¡¿…-]{0,4}"
)
POLITELY = LazyPattern(rf"¿?(?:(?:and|but|so|und|aber|y|pero|et|mais) )?(?:{_POLITE})\b(?! tell| explain| check| mir| decirme| me dire)")
"""How an instruction in the form of a question begins."""
TASK = LazyPattern(
    r"(?:please |can you |could you |bitte |kannst du |por favor,? |puedes |peux-tu )?(?:translate|rewrite|proofread|review|summari[sz]e|"
    r"rephrase|paraphrase|correct (?:this|the)|fix (?:this|the)|grade|classify|explain|write|draft|compose|reply to|answer this|analy[sz]e|"
    r"ubersetz|korrigier|uberarbeit|pruf|fass|formulier|schreib|verfass|beantworte|bewerte|erklar|traduc|traduis|reescribe|corrige|revisa|"
    r"resum|escribe|redact|responde a|reecris|relis|ecris|ecrivez|redig|reponds a|analiza|evalua|expli[cq])\w{0,5}\b"
)
"""How a message begins whose rest is material to work on."""

# ---- cues: <no> is a tool that is forbidden, <yes> one that is wanted, <cap> a number ----

CALL = (
    r"(?:use|using|call(?:ing)?|run(?:ning)?|invok(?:e|ing)|search(?:ing)?|query(?:ing)?|re?try(?:ing)?|repeat(?:ing)?|fetch(?:ing)?|"
    r"check(?:ing)?|rely on|switch to|go (?:with|for)|take|pick|do it with|look(?:ing)? (?:up|in|at)|(?:benutz|nutz|verwend|such|frag|"
    r"versuch|probier|start|wiederhol|nimm|nehm|ruf|greif|wechs[el])\w{0,3}(?: sie| es)?(?: mit| zu| auf)?|us(?:a|as|es?|ar)|"
    r"utili[zc]\w{1,3}|llam\w{1,4}|bus[cq]\w{1,4}|consult\w{1,3}|pr[uo]+[eb]+\w{1,3}|ejecut\w{1,3}|repit\w{1,3}|intent\w{1,3}|"
    r"(?:re)?utilis\w{1,3}|emplo[iy]\w{1,3}|prends|prenez|r?appel\w{1,4}|essa[iy]\w{1,3}|re?lanc\w{1,3}|re?cherch\w{1,3}|interrog\w{1,3})"
)
_STOP = (
    r"(?:do not|don'?t|never|stop|quit|no more|enough (?:of|with)|without|forget(?: about)?|drop|skip|avoid|leave out|ignore|not|"
    r"no need to|no hace falta que|pas besoin d(?:e|')|you keep|you (?:can'?t|cannot|may not|must not|should not|shouldn'?t|"
    r"are not allowed to|don'?t need to)|nicht(?: mehr| wieder)?|nie (?:wieder|mehr)|keinen?|kein|ohne|vergiss|schluss mit|genug von|"
    r"lass|finger weg von|verzichten?(?: sie)? auf|hor auf(?:,| mit)?|(?:ya )?no(?: vuelvas a)?|(?:deja|deje|para)(?: ya)? de|nada de|"
    r"basta de|sin|olvida(?:te de)?|evita|saltate|n'|ne|arret\w{1,2} d(?:e|')|cess\w{1,2} d(?:e|')|plus de|assez de|sans|oublie|evite|"
    r"pas|laisse tomber)"
)
_INSTEAD = r"(?:instead of|rather than|statt|anstelle von|anstatt|en (?:lugar|vez) de|au lieu de|a la place de|plutot que)"
_MUST = (
    r"(?:you (?:have to|must|should|need to)|(?:du|sie) (?:sollst|musst|solltest|sollen|mussen)|tienes que|debes|hay que|"
    r"i(?:'d)? (?:want|prefer) you to|(?:prefiero|quiero) que|je (?:prefere|veux) que (?:tu|vous)|tu dois|vous devez|il faut)"
)
_FILL = (
    r"(?:(?:ever|even|please|just|only|now|any more|again|bitte|jetzt|hier|dafur|lieber|stattdessen|mal|noch|mehr|mit|auf|con|mas|otra vez|"
    r"nunca|de nuevo|mejor|ahora|plus|pas|jamais|avec|plutot|maintenant|to|in|en|a)\s){0,3}"
)
_RESULTS = (
    r"(?:results?|rows?|hits?|entries|lines|items?|documents?|docs|pages?|records?|match(?:es)?|passages?|files?|chunks?|articles?|"
    r"suggestions?|options?|ideas?|opciones|sugerencias|treffern?|ergebnissen?|resultaten?|zeilen|eintrage?n?|eintraege?n?|datensatzen?|"
    r"dokumenten?|seiten?|dateien|vorschlage?n?|resultados?|filas?|entradas?|lineas?|documentos?|paginas?|registros?|coincidencias|"
    r"archivos?|articulos?|elementos?|resultats?|lignes?|entrees?|enregistrements?|fichiers?|elements?)\b"
)
_AT_MOST = (
    r"(?:at (?:the )?most|no(?:t)? more than|(?:a )?max(?:imum|imal|imo|\.)?(?: of)?|up to|(?:only|just)(?: the)?(?: first| top)?|"
    r"the (?:first|top)|(?:do not|don'?t|never) (?:\w{1,20} ){1,2}more than|ho?e?chstens|nicht mehr als|bis zu|"
    r"nur(?: noch)?(?: die)?(?: ersten)?|die ersten|como (?:maximo|mucho)|a lo sumo|no mas de|hasta|solo(?: l[oa]s)?(?: primer[oa]s)?|"
    r"l[oa]s primer[oa]s|(?:un )?maxim(?:o|um) de|au (?:maximum|plus|max)|pas plus de|jusqu'a|(?:seulement|"
    r"uniquement)(?: les)?(?: premi[eè]re?s)?)"
)
_SHOW = (
    r"(?:(?:only|just|nur|solo|seulement)\s)?(?:(?:show|give|list|return|fetch|get|display|send|retrieve|use|take|do|ask for|zeig\w{0,2}|"
    r"gib|liste|nenn\w{0,2}|hol\w{0,2}|nimm|(?:be)?nutz\w{0,2}|verwend\w{0,2}|muestra(?:me)?|dame|lista|devuelve|us[ae]|utili[cz][ae]|"
    r"montre\w{0,2}|donne\w{0,2}|affiche\w{0,2}|renvoie|utilise[rz]?|prends|run|call|query|que)(?:-moi)?\s)?(?:(?:me|us|mir|uns|bitte|"
    r"only|just|nur|solo|seulement|\ue000{1,128}|with|mit|con|avec|returns?|devuelva|renvoie)\s){0,4}"
)
_LIMIT = (
    r"(?:limit|restrict|cap|keep|beschrank\w{0,2}|begrenz\w{0,2}|limit[ae]\w{0,2}|restring\w{1,2}|restrei\w{1,5})(?:-toi|"
    r"-vous)?(?: \w{1,12}){0,2} (?:to|at|below|auf|a)(?: maximal| a max(?:imum)? of| un maximo de| un maximum de)?"
)
_TOOL = (
    r"(?:(?:the|that|den|die|das|dem|el|la|le|l') ?)?(?:tool |function |werkzeug |herramienta |funcion |outil |fonction )?"
    r"[\"'`]?(?P<{}>\ue000{{1,128}})"
)
_CLOSE = r"(?=\s{0,4}(?:$|please|pls|thanks|bitte|danke|por favor|gracias|merci|stp|svp|s'il|now|next|here|per |pro |por |par |at a time))"


def _compiled(*patterns: str) -> LazyPattern:
    """One alternation; ``<no>``, ``<yes>`` and ``<cap>`` become groups, each with a number of its own."""
    count = 0

    def group(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        cap = r"(?P<{}>\d{{1,5}}(?![\d.,:/]?\d)|[a-z]{{2,16}})"
        return (cap if match[1] == "cap" else _TOOL).format(f"{match[1]}{count}")

    return LazyPattern(rf"(?:{re.sub(r'<(no|yes|cap)>', group, '|'.join(patterns))})")


INSTRUCTION = _compiled(
    rf"(?:{CALL}\s)?{_FILL}{_INSTEAD} <no>(?: tool)?(?:,?\s(?:\w{{1,12}}\s){{0,3}}?<yes>)?",
    rf"(?:(?:do|try|answer) (?:it|this|that) |{CALL}\s{_FILL})?{_STOP}\s?{_FILL}(?:{CALL}\s)?{_FILL}<no>",
    rf"(?:(?:{CALL}|(?:du|sie) \w{{4,9}})\s)?{_FILL}<no> {_FILL}(?:nicht|nie|keinesfalls)\b",
    r"replace <no> (?:with|by) <yes>",
    rf"(?:{_MUST} )?{CALL}\s{_FILL}<yes>(?: tool| function| auf)?(?:,? (?:{_INSTEAD}|not|nicht|y no|no|et pas|pas) <no>)?",
    rf"{_MUST} <yes>",
    r"(?:only|just|lieber|nur(?: noch)?|mejor|solo|seulement|uniquement|plutot) <yes>",
    r"(?:look|check|verify|do|try) (?:it|this|that) (?:up )?(?:with|in|using|via) <yes>",
)
CAPPING = _compiled(
    rf"{_SHOW}{_AT_MOST} <cap>(?: premi\w{{1,5}}| primer\w{{1,2}})? ?{_RESULTS}",
    rf"{_LIMIT} <cap>(?: ?{_RESULTS}|{_CLOSE})",
    rf"{_SHOW}<cap> {_RESULTS} (?:at (?:the )?most|tops|max\w{{0,4}}|hochstens|como (?:maximo|mucho)|a lo sumo|au (?:max|"
    rf"plus))\b",
    rf"(?:con )?<cap> {_RESULTS} (?:me )?(?:are |is |will )?(?:enough|plenty|do|reichen|genugen|basta|bastan|suffisent)\b",
    rf"mehr als <cap> {_RESULTS} [\w ]{{0,20}}nicht\b",
    rf"{_SHOW}{_AT_MOST} <cap> (?:per|at a time|each|pro|je|auf einmal|por|cada|a la vez|par|chaque|a la fois)\b",
)
REJECTION = LazyPattern(
    r"(?:(?:that|this|it|these|those|(?:your|the)(?: last| first| whole)? (?:answer|results?|output|response|calculation|summary))(?:'?s|"
    r" is| are|'re| was| were)(?: (?:still|just|completely|totally|all|simply|clearly|also|plain|quite|very|again)){0,3} (?:wrong|"
    r"incorrect|false|inaccurate|untrue|nonsense|a mistake|an error|mistaken|made up)\b(?! to\b| with\b| that\b| of\b| on\b)|(?:das|"
    r"dies(?:es)?|es|(?:die|deine|ihre) (?:antwort|angabe|zahl|summe)|das ergebnis) (?:ist|war|sind|waren)(?: (?:so|aber|ja|leider|"
    r"immer noch|komplett|total|ganz|auch|schon|wirklich)){0,3} (?:falsch|verkehrt|inkorrekt|unsinn|quatsch|erfunden|"
    r"ein fehler)\b(?!,? (?:zu|dass|wenn)\b)|(?:es[oa]|est[oa]|(?:la|tu|su) (?:respuesta|cifra|suma)|(?:el|tu|su) (?:resultado|"
    r"calculo)) (?:es|esta|era|estaba)(?: (?:todo|muy|completamente|totalmente|otra vez|todavia)){0,2} (?:mal|incorrect[oa]|fals[oa]|"
    r"errone[oa]|equivocad[oa]|un error)\b(?! que| de)|(?:c'est|c'etait|(?:ca|cela|(?:la|ta|votre) reponse|(?:le|ton|votre) (?:resultat|"
    r"calcul)) (?:est|etait))(?: (?:toujours|encore|completement|totalement|tout|vraiment|bien)){0,2} (?:faux|fausse|incorrect|inexact|"
    r"errone|une erreur)\b(?! de| que))"
)
