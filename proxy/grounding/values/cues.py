"""The words that ask for a calculation, that give an amount for each of something, or that say an amount stays what it is; six languages.

For `proxy.grounding.values.arithmetic` and `proxy.grounding.records`.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern

SUM = re.compile(
    r"\b(?:total\w*|together|sum\w*|combined|altogether|overall|both|in all|all told|how (?:many|much)|add(?:s|ed|ing)? up"
    r"|insgesamt|zusammen|summe|gesamt\w*|beide\w*|wie ?viele?|macht zusammen|en total|sum\w+|junt[oa]s|ambos|ambas|cuánt[oa]s?"
    r"|au total|ensemble|somme|combien|les deux|en tout|in tutto|insieme|somma\w*|complessiv\w+|entramb\w|quant[ioae]|ao todo|no total|junt[oa]s|soma\w*|ambos|quant[oa]s)\b|\d ?[+=] ?\d",
    re.I,
)
DIFFERENCE = re.compile(
    r"\b(?:differ\w*|(?:more|less|fewer|\w+er) than|(?:years?|months?|days?|hours?|minutes?|points?|%|percent) (?:more|less|\w+er)"
    r"|increas\w*|decreas\w*|(?:rose|fell|grew|up|down|gained|lost|dropped) by|gain\w*|remain\w*|left|margin|between|save[sd]?|saving\w*"
    r"|exceed\w*|short of|short by|ahead|behind|change[sd]? by|minus|later|earlier|cheaper"
    r"|differenz|unterschied|mehr als|weniger als|später|früher|(?:gestiegen|gesunken|gewachsen) um|um|bleib\w*|übrig|verblieb\w*|teurer|billiger"
    r"|diferencia|más que|menos que|después|antes|aument\w*|disminu\w*|qued\w*|ahorr\w*|sobran?|faltan?|restan?"
    r"|différence|de plus|de moins|augment\w*|diminu\w*|il reste|reste|écart|économi\w*|manque\w?|differenza|più di|meno di|in più|in meno|aument\w+|rest\w+|rimang\w+|risparmi\w*|manca\w*|diferença|mais do? que|menos do? que|a mais|a menos|sobra\w*|falta\w*|poupa\w*|economiza\w*)\b|\d ?[-−–] ?\d",
    re.I,
)
MEAN = re.compile(
    r"\b(?:average\w*|mean|avg|durchschnitt\w*|mittel\w*|schnitt|promedio|media|medio|moyenne?s?|en moyenne|in media|mediamente|em média|média)\b|ø",
    re.I,
)
PRODUCT = re.compile(
    r"\b(?:total\w*|each|per|times|every|twice|double\w?|triple\w?|annual\w*|a (?:year|month|week|day)|insgesamt|je|jeweils|mal|pro|doppelt\w?"
    r"|jährlich\w*|cada|veces|por|doble|al (?:año|mes|día)|chacun\w?|chaque|fois|par|double|ogni|ciascun\w?|volte|doppio|al (?:giorno|mese)|all'anno|vezes|dobro|ao (?:dia|mês|ano))\b|\d ?[*×x] ?\d",
    re.I,
)
RATIO = re.compile(
    r"%|\b(?:percent\w*|per cent|share|ratio|times|half|third|quarter|fraction|of the|per|twice|double\w?|prozent\w*|anteil|verhältnis|hälfte"
    r"|drittel|viertel|mal|pro|doppelt|por ciento|porcentaje|proporción|mitad|tercio|veces|pour cent|pourcentage|part|moitié|tiers|fois|per cento|percentuale|metà|terzo|volte|por cento|percentagem|porcentagem|metade|terço|vezes)\b",
    re.I,
)
AGE = re.compile(r"\b(?:lasted|aged?|old|dauerte|alter|edad|âge|età|idade)\b", re.I)
"""Years that lie between two."""
FLAT = LazyPattern(
    r"\b(?:whatever|regardless|irrespective|no matter|independent(?:ly)? of|flat[- ](?:rate|fee|price|sum|charge)|flat|fixed|lump sum|(?:not|never) (?:reduced|prorated|pro-rated|cut|scaled|multiplied|divided|split|shared)"
    r"|(?:is|are|stays?|remains?) the same|in (?:any|every) case|(?:does|do) not (?:change|depend|vary)|once only|one-off"
    r"|unabhängig|egal|pauschal\w*|gleich(?:bleibend|viel)|fest(?:preis|betrag|er|e|es)?|einmalig\w*|in jedem fall|nicht (?:gekürzt|anteilig|geteilt|reduziert)|ungeachtet"
    r"|independiente\w*|sin importar|fij[oa]s?|tarifa plana|a tanto alzado|en todo caso|en cualquier caso|(?:única|una sola) vez|no se (?:reduce|prorratea|divide)"
    r"|quel(?:le)?s? que soi\w+|peu importe|forfait\w*|fixes?|indépendamment|en tout cas|dans tous les cas|unique|n(?:e |['’])(?:est|sont) pas (?:réduit|proratis)\w*"
    r"|indipendentemente|a prescindere|qualunque|fiss[oaie]|forfettari[oa]|in ogni caso|non (?:viene|è) (?:ridott|proporzion)\w*"
    r"|independentemente|qualquer que seja|não importa|fix[oa]s?|em qualquer caso|não é (?:reduzid|proporcional)\w*)\b",
    re.I,
)
"""The passage says that an amount does not go by anything."""
RATE = LazyPattern(
    r"\b(?:per|each|every|a (?:piece|head|person|day|night|week|month|year|hour|kilo|litre|liter)|an hour|hourly|daily|weekly|monthly|yearly|annual\w*|apiece|for (?:one|every|each)"
    r"|pro|je|jeweils|jede[rnsm]?|stündlich|täglich|wöchentlich|monatlich\w*|jährlich\w*|am tag|im (?:monat|jahr)|die (?:stunde|woche|nacht)"
    r"|por|cada|al (?:día|mes|año)|a la (?:hora|semana)|la (?:hora|noche)|mensual\w*|diari[oa]s?|anual\w*"
    r"|par|chaque|chacun\w?|l['’]heure|la (?:nuit|semaine|pièce)|le (?:kilo|mois|litre)|mensuel\w*|annuel\w*"
    r"|per|ogni|ciascun\w?|al (?:giorno|mese|chilo)|all['’](?:ora|anno)|a (?:persona|notte|settimana|testa)|mensil\w*|annu\w*|cada|ao (?:dia|mês|ano)|à (?:hora|noite)|por)\b|(?<=[\w€$£])/ ?(?:h|hr|day|d|kg|l|m|month|mo|year|y|unit|tag|monat|stk|mes|día|mois|jour|mese|giorno|dia|mês)\b",
    re.I,
)
"""The passage gives an amount for each of something."""
COUNTING = LazyPattern(
    r"\b(?:there (?:is|are|was|were)|in (?:total|all)|total\w*|count\w*|how many|contain\w*|has|have|list\w*|found|return\w*|shows?|of (?:them|these|those|the)|results?|items?|entr\w+|rows?|records?|match\w*|all"
    r"|es (?:gibt|sind|waren)|insgesamt|anzahl|wie ?viele?|enth\w+|hat|haben|gefunden|einträge?\w*|zeilen?|treffer|davon|sind"
    r"|hay|había|en total|cuánt\w+|contiene\w*|tiene\w*|encontr\w+|filas?|elementos?|resultados?|registros?|son|de ell[oa]s"
    r"|il y a|y avait|au total|combien|contien\w+|ont|a|trouv\w+|lignes?|éléments?|résultats?|sont|d['’]entre"
    r"|c['’](?:è|erano)|ci sono|in tutto|quant\w+|contien\w+|ha|hanno|trovat\w+|righe|elementi|risultati|há|existem|ao todo|no total|contém|tem|têm|encontrad\w+|linhas|itens)\b",
    re.I,
)
"""The claim counts something."""
