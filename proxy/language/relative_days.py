"""Days that a text tells by another one ("the Thursday before", "am Vortag", "la veille"): which date is meant, nobody can look up.

English, German, Spanish, French, Italian and Portuguese at once.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

from proxy.language.patterns import LazyPattern

_EN = r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|(?:working |business |week|calendar |school |market )?days?|weeks?|months?|mornings?|evenings?|weekends?"
_DE = r"(?:mon|diens|donners|frei|sams|sonn)tags?|sonnabends?|mittwochs?|(?:werk|arbeits|kalender|wochen)?tage?[ns]?|wochen?|monate?[ns]?|wochenende"
_ES = r"lunes|martes|miércoles|jueves|viernes|sábado|domingo|días?(?: (?:hábil|laborable)(?:es)?)?|semanas?|mes(?:es)?|fin de semana"
_FR = r"lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|jours?(?: (?:ouvr(?:é|able)s?))?|semaines?|mois|week-end"
_IT = r"lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica|giorn[oi](?: (?:lavorativ|feriale?)\w?)?|settiman[ae]|mes[ei]"
_PT = r"(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?|sábado|domingo|dias?(?: út(?:il|eis))?|semanas?|mês|meses"
_RELATIVE = LazyPattern(
    rf"\b(?:(?:next|following|previous|preceding|prior|last|first|second|third|closest|nearest)\s(?:{_EN})|(?:{_EN})\s(?:before|after|prior|earlier|later|following|thereafter|beforehand|ago)"
    r"|(?:to|the\sday\safter\sto)morrow|yesterday|eve\sof"
    rf"|(?:nächste|folgende|vorige|vorherige|vorangehende|letzte|erste|zweite|dritte|kommende|übernächste|darauffolgende|vergangene)[nrsm]?\s(?:{_DE})|(?:{_DE})\s(?:davor|danach|zuvor|vorher|darauf|später|nach|vor)|(?:vor|folge|nachfolge)tage?[ns]?|vorabend|übermorgen|(?:vor)?gestern|tags\s(?:darauf|zuvor)"
    rf"|(?:próximo|pasado|siguiente|anterior|primer|segundo|tercer|último)s?a?\s(?:{_ES})|(?:{_ES})\s(?:anterior(?:es)?|siguientes?|previo|próximo|pasad[oa]|antes|después|posterior)|víspera|ayer|anteayer"
    rf"|(?:prochain|dernier|premier|deuxième|troisième)e?\s(?:{_FR})|(?:{_FR})\s(?:précédente?|suivante?|prochaine?|dernière?|passée?|avant|après|d['’]avant|d['’]après|plus\st(?:ôt|ard))|veille|lendemain|demain|hier"
    rf"|(?:prossim|scors|successiv|precedent|prim|second|terz|ultim)[oaei]\s(?:{_IT})|(?:{_IT})\s(?:precedent[ei]|successiv[oai]|seguent[ei]|prossim[oai]|scors[oai]|prima|dopo)|vigilia|indomani|domani|ieri"
    rf"|(?:próxim|últim|primeir|segund|terceir)[oa]s?\s(?:{_PT})|(?:{_PT})\s(?:anterior(?:es)?|seguintes?|próxim[oa]|passad[oa]|antes|depois)|véspera|amanhã|ontem)\b",
    0,
)


def tells_days_by_others(text: str) -> bool:
    """Whether `text` names a day by its distance from another."""
    return _RELATIVE.search(text.casefold()) is not None
