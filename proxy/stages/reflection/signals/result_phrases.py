"""Sentences with which tools say that they failed, in English, German, Spanish and French. Part of
`proxy.stages.reflection.signals.results`.

Each stands at the beginning of a short result. What merely mentions an error ("Failed logins: 3", "No errors found") is not among them.
"""

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern

_START = (
    r"(?:[^\w\s<\[({'\"/\-#>|*`.]{1,4}\s{0,2})?(?:(?:sorry|oops|leider|lo siento|désolé)[,:!.]?\s)?(?:the |your |this |der |die |das |"
    r"ihre? |el |la |su |le |l'|votre |cette? )?"
)
_END = (
    r"(?:\s{0,2}$|\s?[.:;,!(–-]|\s(?:for|to|by|after|on|because|due|at|while|from|in|with|bei|beim|nach|für|para|al|en|pour|lors|à|"
    r"sur)\b)"
)
_STOP = r"(?:\s{0,2}$|\s?[.:;,!–-](?:\s|$)|\s(?:after|because|due|for|to|by|while|nach|después|après)\b)"
_DOER = (
    r"(?:request|operation|query|call|connection|tool|command|execution|script|process|task|job|search|page|navigation|transaction|"
    r"payment|upload|download|action|import|export|booking|deployment|deploy|build|installation|login|authentication|update|delivery|"
    r"lookup|fetch|api)"
)
_VERB = (
    r"(?-i:access|add|allocate|apply|authenticate|book|cancel|change|charge|complete|compute|connect|convert|create|decode|delete|"
    r"deliver|determine|divide|download|execute|export|fetch|find|get|import|insert|install|launch|load|locate|make|mark|modify|move|"
    r"open|parse|perform|post|process|publish|query|read|remove|rename|reserve|resolve|retrieve|run|save|schedule|send|set|start|stat|"
    r"stop|submit|translate|update|upload|validate|verify|write|acquire|reach|render|build|compile|pull|push|merge|apply|import|click|"
    r"navigate|establish|generate)"
)
_DOING = (
    r"(?:executing|calling|reading|writing|fetching|opening|loading|parsing|processing|connecting|creating|deleting|updating|retrieving|"
    r"getting|running|invoking|sending|saving|searching|querying|accessing|downloading|uploading|decoding|validating|finding|listing|"
    r"performing|generating|importing|compiling|starting|initiali[sz]ing|resolving|converting|rendering|submitting|booking)"
)
_THING = (
    r"(?:file|directory|folder|path|table|column|key|user|customer|client|account|order|record|row|entry|item|product|document|page|"
    r"resource|url|endpoint|route|tool|function|command|module|package|flight|reservation|booking|ticket|issue|project|repository|repo|"
    r"branch|commit|channel|message|thread|contact|event|calendar|invoice|payment|id|host|device|city|location|airport|hotel|symbol|"
    r"currency|index|collection|database|container|image|node|element|selector|variable|field|attribute|method|object|patient|employee|"
    r"student|course|book|agent|model|session|job|cursor|transaction|snapshot|archive|token|datei|kunde|benutzer|nutzer|auftrag|"
    r"bestellung|rechnung|dokument|seite|ordner|datensatz|usuario|cliente|archivo|pedido|factura|reserva|documento|página|vuelo|fichier|"
    r"utilisateur|commande|facture|réservation|vol)"
)
_HANDLE = (
    r"(?:cursor|page token|continuation token|next token|session|snapshot|transaction|archive|scroll|handle|lease|upload|sandbox|job|"
    r"connection|sitzung|transaktion|archiv|sesión|transacción|jeton(?: de page)?|curseur|instantánea|instantané|enlace|token de página)"
)
_EN = (
    rf"(?:{_DOER}\b[^.\n]{{0,60}}\btimed[ -]?out{_END}|timed[ -]?out{_STOP}|timeout(?: of)? \d[\d.]{{0,8}} ?m?s? exceeded|(?:{_DOER} |"
    rf"read |connect(?:ion)? |gateway )?time-?out (?:exceeded|expired|reached|error|after \d|waiting|while){_END}?|"
    rf"(?:context )?deadline exceeded|rpc error: code = )",
    rf"(?:(?:api )?rate[ -]limit (?:exceeded|reached|hit)|too many requests|(?:api |daily |monthly )?quota exceeded|"
    rf"you have exceeded your){_END}",
    rf"(?:(?:permission|access)(?: (?:is|was))? denied|operation not permitted|unauthori[sz]ed|forbidden|not authori[sz]ed|"
    rf"authentication (?:failed|required)){_STOP}",
    r"(?:you|user|caller|client|account)\b[^.\n]{0,30}(?:do(?:es)? not|don't|doesn't) have (?:the )?(?:permission|access|rights|"
    r"required)",
    rf"(?:failed to {_VERB}|(?:was |were |i was |we were )?unable to {_VERB}|(?:could not|couldn't) (?:be |{_VERB})|(?:cannot|can't|"
    rf"can not) {_VERB})\b",
    rf"(?:[\w'\"#`\-./@]{{1,60}} ){{0,4}}?{_THING}s?\b[^.!?\n]{{0,60}}?(?:(?:was|is|were|could|can) not (?:be )?found|not found|"
    rf"(?:does not|doesn't|do not|no longer) exists?)"
    r"(?:[.!]?\s{0,2}$|: \S{1,80}$| (?:in|with|for|on|at) [^.!?\n]{1,60}[.!]?$)",
    rf"no such (?:{_THING}|option|service|remote|ref)\b",
    r"not found[.!]?$",
    rf"(?:invalid|unknown|unrecogni[sz]ed|unsupported|stale|malformed|illegal|bad) (?:[\w\-]{{1,20}} ){{0,2}}?(?:{_THING}|{_HANDLE}|"
    rf"parameter|argument|value|input|option|date|time|"
    r"format|request|json|type|api key|access token|query|syntax|enum|range|email|credentials|unit|language|reference)s?\b(?:[.!]?$|"
    r"\s?[:('\"`]|\s(?:for|in|format|id|value|key|\S{1,40}$))",
    r"missing (?:\d{1,2} )?(?:required|mandatory|parameter|argument|positional)\b",
    r"(?:required (?:parameter|argument|field|property)|(?:parameter|argument|field) [`'\"]\w{1,60}[`'\"])[^.\n]{0,80}(?:missing|"
    r"required|must|invalid|not)\b",
    r"[`'\"]\w{1,60}[`'\"] (?:is (?:a )?(?:required|missing)|must be|is not a valid)\b",
    rf"{_HANDLE}(?: id)?\b[^.\n]{{0,60}}(?:has expired|have expired|is expired|expired|no longer (?:valid|exists|available)|"
    rf"is not valid|was closed|is closed|is gone|has been (?:closed|deleted))",
    r"stale element reference|element is not attached",
    rf"(?:service|server|api|backend)(?: is)?(?: (?:temporarily|currently))? (?:unavailable|overloaded|unreachable|"
    rf"not responding){_STOP}",
    rf"(?:connection (?:was )?(?:refused|reset(?: by peer)?|aborted)|bad gateway|socket hang up|network (?:is )?unreachable|"
    rf"no route to host){_STOP}",
    r"(?:output|result|response|file|content|document|page|query)s?\b[^.\n]{0,40}(?:too (?:large|long|big)\b|exceeds? (?:the|maximum|"
    r"max|allowed))",
    r"(?:an? )?(?:unexpected |internal |unknown |server )*error (?:has )?(?:occurred|happened)",
    r"something went wrong|internal (?:server )?error(?:$|[.:])|validation failed(?:$|[.:])|syntax error(?:$|[.:]| at| near)",
    rf"{_DOER}(?: [\w'\"`.\-]{{1,60}}){{0,2}} (?:has )?failed(?:$|[.:!,]| with | because | due | after )",
    r"\d{1,4} validation errors? for \w",
    rf"error (?:while |when |during |in )?{_DOING}\b|error (?:while|when) \w{{3,20}}ing\b|time-?out[.!]?$",
    r"(?:[\w'\"`.\-]{1,40} ){0,2}returned an error(?:$|[.:])|request (?:was |has been )?(?:blocked|rejected|refused)(?:$|[.:]| by|"
    r" because)",
    r"(?:user|role|caller|principal|account)\b[^\n]{0,200}\bnot authori[sz]ed to\b|authentication credentials were not provided",
)
_DE = (
    r"fehler (?:beim|bei der|bei dem|in der anfrage|während)\b",
    r"(?:zeitüberschreitung|zeitlimit (?:überschritten|erreicht))(?:$|[.:!]|\s(?:bei|beim|nach|der)\b)",
    r"(?:zugriff|zugang) verweigert(?:$|[.:!])|keine (?:berechtigung|rechte)(?:$|[.:!]|\s(?:für|zum|zur)\b)|"
    r"sie (?:haben keine berechtigung|sind nicht berechtigt)",
    rf"(?:[\w\-#.\"']{{1,40}} ){{0,4}}?{_THING}\w{{0,3}}\b[^.!?\n]{{0,50}}?(?:(?:wurde |konnte )?nicht gefunden(?: werden)?|"
    rf"existiert nicht|ist (?:unbekannt|nicht vorhanden))(?:[.!]?$|: \S{{1,80}}$)",
    r"[^.!?\n:]{1,60} (?:konnten?) (?:leider )?nicht [^.!?\n]{0,40}werden[.!]?$",
    r"(?:ungültige[rsn]?|unbekannte[rsn]?|falsche[rsn]?) (?:[\wäöüß\-]{1,30})(?:[.!]?$|: |\s(?:für|in)\b)",
    r"(?:pflichtfeld|pflichtangabe|parameter|argument)\b[^.\n]{0,50}\bfehlt",
    rf"{_HANDLE}\b[^.\n]{{0,40}}(?:ist abgelaufen|nicht mehr gültig|ist ungültig|ist nicht mehr)",
    r"(?:dienst|server|service)\b[^.\n]{0,30}nicht (?:verfügbar|erreichbar)|verbindung (?:abgelehnt|verweigert|unterbrochen)(?:$|[.:!])",
    r"zu viele anfragen|anfragelimit (?:erreicht|überschritten)|(?:ein )?(?:unerwarteter |interner )?fehler ist aufgetreten|"
    r"etwas ist schiefgelaufen",
    r"(?:anfrage|vorgang|abfrage|buchung|zahlung|verbindung) (?:ist )?fehlgeschlagen",
)
_ES = (
    r"error (?:al|en la|en el|interno|durante|de (?:conexión|validación|autenticación|servidor))\b",
    r"(?:se (?:agotó|ha agotado) el tiempo|tiempo de espera (?:agotado|excedido|superado))",
    r"(?:acceso|permiso) denegado(?:$|[.:!])|(?:usted )?no tiene (?:permisos?|autorización)|no autorizado(?:$|[.:!])",
    rf"no se (?:encontró|ha encontrado|encuentra) (?:el|la|ningún|ninguna|un|una) {_THING}\b|"
    rf"{_THING}\b[^.!?\n]{{0,40}}?(?:no (?:fue )?(?:encontrad[oa]|existe))(?:[.!]?$|: \S{{1,80}}$)",
    r"no (?:se pudo|ha sido posible|fue posible|es posible)\b|imposible [a-z]{2,20}r\b",
    r"(?:valor|parámetro|argumento|formato|fecha|campo|cursor|token)\b[^.\n]{0,40}(?:no (?:es )?válid[oa]|inválid[oa])|faltan? (?:el|la|"
    r"los|un) (?:parámetro|campo|argumento)",
    rf"{_HANDLE}\b[^.\n]{{0,40}}(?:ha (?:caducado|expirado)|caducó|expiró|ya no (?:es válid[oa]|existe)|no es válid[oa])",
    r"(?:servicio|servidor)\b[^.\n]{0,30}no (?:está )?disponible|conexión (?:rechazada|denegada)|demasiadas (?:solicitudes|peticiones)|"
    r"límite de (?:solicitudes|peticiones)",
    r"(?:se (?:ha producido|produjo)|ocurrió|ha ocurrido) un error|algo salió mal|(?:la )?(?:solicitud|operación|consulta) (?:ha )?fall",
)
_FR = (
    r"erreur (?:lors|de (?:connexion|validation|serveur)|interne|pendant|inattendue)\b",
    r"(?:délai (?:d'attente )?(?:dépassé|expiré)|(?:requête|opération|connexion)\b[^.\n]{0,40}(?:délai|a expiré))",
    r"(?:accès|permission) (?:refusée?|interdite?)(?:$|[.:!])|vous n'(?:avez pas|êtes pas) (?:la permission|le droit|les droits|"
    r"autorisé)|non autorisé(?:$|[.:!])",
    rf"{_THING}\b[^.!?\n]{{0,40}}?(?:introuvable|(?:non|pas) trouvée?|n'existe pas|n'a pas été trouvée?)(?:[.!]?$|\s?: \S{{1,80}}$)",
    r"impossible (?:de |d')[a-zàâéèêç]{2,20}",
    r"(?:valeur|paramètre|argument|format|date|champ)\b[^.\n]{0,40}(?:invalide|non valide|manquant|obligatoire)",
    rf"{_HANDLE}\b[^.\n]{{0,40}}(?:a expiré|est expirée?|n'est plus (?:valide|valable)|n'existe plus|est invalide)",
    r"service (?:temporairement )?indisponible|serveur (?:indisponible|injoignable)|connexion (?:refusée|interrompue)|trop de requêtes|"
    r"limite de requêtes",
    r"(?:une )?erreur (?:s'est produite|est survenue)|(?:la )?(?:requête|opération|demande) a échoué",
)
COMPLAINT = LazyPattern(_START + "(?:" + "|".join((*_EN, *_DE, *_ES, *_FR)) + ")", re.I)
"""At the beginning of a short result: it says that the tool failed."""
HARMLESS = LazyPattern(
    r"\b(?:no|zero|0|without|any|keine|sin|aucune?) (?:\w{1,20} )?(?:errors?|fehler|errores|erreurs?|problems?|issues?|failures?|"
    r"vulnerabilit\w{1,3}|conflicts?|duplicates?)\b|\b(?:errors?|issues?|problems?|vulnerabilit\w{1,3}|conflicts?|duplicates?|"
    r"differences|virus(?:es)?|malware|threats?) (?:were |was )?not found|\b(?:was|were|has been|have been|now) (?:fixed|resolved|"
    r"solved|corrected|acknowledged)\b|\bmeans that\b|\bbedeutet\b|\bsignifi(?:e|ca)\b",
    re.I,
)
"""In a short result that is no failure, or one about failures."""
