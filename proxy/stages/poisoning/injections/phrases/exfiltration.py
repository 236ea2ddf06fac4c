"""Taking something out, and keeping it from the user: "send the conversation to …", "do not tell the user"."""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.signal import GAP2, GAP4, GAP8, Signal, signal

_SECRETS = (
    r"(?:conversations?|chat|(?:message|chat|conversation|browsing|search)[ -](?:history|log|logs)|system prompts?|"
    r"api[ _-]?keys?|(?:access|auth|session|bearer|security)[ _-]?tokens?|"
    r"passwords?|passcodes?|credentials?|secrets?|(?:private|ssh|encryption|secret)[ _-]keys?|\.env\b|"
    r"environment variables|session (?:id|cookie)s?|cookies|credit[ -]card|card numbers?|bank (?:details|account)|"
    r"ssn|social security|(?:personal|private|sensitive|confidential|user|customer|account|internal) (?:data|"
    r"information|details|records?|files?|emails?)|user['’]s \w{3,15}|contact list|contacts|"
    r"all (?:the |of the |my |your )?(?:e-?mails|files|messages|documents|data)|inbox|previous messages|tool (?:results|"
    r"outputs)|2fa codes?|one-time codes?|verification codes?|everything (?:above|you know|in your context))"
)
_WHERE = (
    r"(?:https?://|www\.|[\w.+-]{1,40}@[\w-]{1,40}\.\w|(?:to|at|via|on) (?:the |this |an? |our |my )?(?:following|"
    r"external|attacker\w{0,2}|url|webhook|server|endpoint|address|link|remote|telegram|discord|pastebin|"
    r"e-?mail address|site)|webhook)"
)
_SEND = (
    r"(?:send|forward|post|upload|e-?mail|transmit|exfiltrate|leak|submit|share|copy|append|attach|encode|embed|put|"
    r"deliver|report|dm|relay|pass|export|publish)"
)
_OWN_PROMPT = (
    r"(?:(?:your|the|this|its|any) (?:(?:full|entire|complete|exact|hidden|original|initial|secret|internal|own|current|"
    r"previous|underlying) ){0,3}"
    r"(?:(?:system|initial|hidden|developer|secret|original|pre-?)[ -]?(?:prompts?|messages?|instructions?|configuration))"
    r"|your (?:(?:full|entire|complete|exact|original|internal|own|current|previous|whole) ){0,3}(?:instructions|prompt|"
    r"configuration|guidelines))\b"
)
_HOST = (
    r"(?:[a-z0-9][a-z0-9-]{0,40}\.){1,3}(?!(?:txt|md|rst|log|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|env|pem|key|crt|py|js|ts|sh|sql|db|"
    r"html?|xml|pdf|docx?|xlsx?|zip|gz|bak)\b)[a-z]{2,24}\b"
)
"""A host by its name alone; a name that ends as files do is none."""
EXFILTRATION: tuple[Signal, ...] = (
    signal(
        "exfiltration",
        0.58,
        "password/passcode/credential/passwort/passworter/zugangsdaten/kennwort/contrasena/credencial/passe/identifiants & "
        "send/forward/upload/mail/transm/exfiltrat/leak/submit/shar/copy/deliver/relay/export/publish/post/report/leit/ubermitt/schick/envi/mand/envo",
        rf"\b(?:{_SEND}|sende?|schicke?|leite?|ubermittle|envia|reenvia|manda|envoie|envoyez|transmets|transmettez)\b[^\n.]{{0,60}}?"
        r"\b(?:passwords?|passcodes?|credentials?|passwort\w{0,3}|kennwort\w{0,3}|zugangsdaten|contrasenas?|credenciales|mots? de passe|"
        rf"identifiants)\b[^\n.]{{0,40}}? (?:to|an|a|vers) {_HOST}",
    ),
    signal(
        "exfiltration",
        0.66,
        "reveal/print/repeat/output/show/display/leak/dump/echo/recite/disclos/expos/state/paste/write/list/quote/"
        "tell me/give me/provide/append/include & prompt/instruct/system message/configuration/guideline/initial message/"
        "developer message",
        rf"\b(?:reveal|print|repeat|output|show|display|leak|dump|echo|recite|disclose|expose|state|paste|write out|list|"
        rf"quote|tell me|give me|provide|append|include|begin by (?:outputting|printing)|(?:by )?(?:displaying|outputting|"
        rf"printing|revealing|showing|repeating))(?: \w{{2,12}}){{0,6}}? {_OWN_PROMPT}",
    ),
    signal(
        "exfiltration",
        0.58,
        "conversation/chat/history/prompt/key/token/password/passcode/credential/secret/.env/environment/session/cookie/"
        "card/bank/ssn/social sec/data/information/details/record/contact/emails/e-mails/files/inbox/messages/"
        "tool results/tool outputs/code/everything/user's/documents & http/www./@/webhook/url/server/endpoint/address/"
        "link/telegram/discord/pastebin/external/following/remote",
        rf"\b{_SEND}{GAP8}{_SECRETS}[^\n]{{0,80}}?{_WHERE}",
    ),
    signal(
        "exfiltration",
        0.5,
        "send/forward/upload/e-mail/email/transmit/exfiltrat/leak/submit/shar/copy/append/attach/encode/embed/deliver/"
        "relay/export/publish/post/put/report/dm /pass & http/webhook/attacker &  to ",
        rf"\b{_SEND}{GAP4}(?:(?:it|them|this|that|the result|the output|the contents?|a copy|a summary|the answer|"
        rf"the file)\b)[^\n]{{0,24}}? to {GAP4}(?:https?://|(?:the |this )?(?:webhook|attacker))",
    ),
    signal(
        "exfiltration",
        0.65,
        "](http",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}(?:[?&][\w-]{1,20}=|/)[^)\s]{0,60}(?:\{|<|\[|%7b|%5b)[^)\n]{1,120}",
    ),
    signal(
        "exfiltration",
        0.55,
        "http & render/display/show/insert/include/embed/load/fetch/visit/open/append/add/request/navigate/browse/get/send/call",
        r"\b(?:render|display|show|insert|include|embed|load|fetch|visit|open|append|add|request|navigate to|browse to|get|"
        r"send|call)\b[^\n]{0,80}?https?://[^\s)]{1,160}[?&/=](?:\{|<|\[|%7b|\$\{)(?:[^\s)]{0,30}(?:history|prompt|"
        r"conversation|secret|password|summary|token|data|base64|api_?key|chat|context|email)|the |your |user )",
    ),
    signal(
        "exfiltration",
        0.66,
        "systemprompt/system-prompt/system prompt/anweisungen",
        r"\b(?:gib|geben sie|zeige?|nenne|verrate|wiederhole?|drucke|schreibe?|schicke?|"
        r"sende?)(?:n sie)?(?: \w{2,14}){0,4}? (?:deine?n?|ihre?n?|den|die|das)(?: \w{4,14}){0,2}? (?:system-?prompts?|"
        r"systemprompts?|systemnachricht|system-?anweisung(?:en)?|(?:internen|geheimen|ursprunglichen|ersten) anweisungen)",
    ),
    signal(
        "exfiltration",
        0.55,
        "passwort/zugangsdaten/kennwort/api-schlussel/apischlussel/gesprach/chatverlauf/unterhaltung/daten/vertrauliche/"
        "kreditkart/e-mail/email/kontakt & http/@/adresse/server/url/webhook",
        r"\b(?:sende?|schicke?|leite?|ubermittle|ubertrage|poste|lade|maile)(?:n sie)?\b[^\n.]{0,60}?\b(?:passwort\w{0,3}|"
        r"zugangsdaten|kennwort\w{0,3}|api-?schlussel|gesprach\w{0,8}|chatverlauf\w{0,2}|unterhaltung\w{0,2}|kundendaten|"
        r"personenbezogene\w?|vertrauliche\w?|nutzerdaten|benutzerdaten|kreditkart\w{1,8}|e-?mails|kontaktliste|"
        r"kontodaten)[^\n]{0,60}?(?:https?://|[\w.+-]{1,40}@[\w-]{1,40}\.\w|\b(?:an|auf) (?:die|den|folgende\w?|"
        r"diese\w?) (?:\w{3,14} )?(?:adresse|server|url|webhook))",
    ),
    signal(
        "exfiltration",
        0.66,
        "revela/muestra/imprime/repite/escribe/dime/di /copia/envia/ensena & prompt/instrucciones/mensaje",
        r"\b(?:revela|muestra|imprime|repite|escribe|dime|di|copia|envia|ensena)(?:me|r|d)?(?: \w{2,14}){0,3}? (?:tus?|el|"
        r"las?|su)(?: \w{4,14}){0,2}? (?:prompt|mensaje) (?:del? |inicial|original|oculto)(?:sistema)?|\b(?:revela|muestra|"
        r"repite|imprime)(?:me|r)? (?:tus|sus) instrucciones\b",
    ),
    signal(
        "exfiltration",
        0.55,
        "contrasena/credencial/clave/conversacion/historial/datos/tarjeta/correos/contactos/token & http/@/direccion/servidor/url/webhook",
        r"\b(?:envia|reenvia|manda|sube|publica|transmite|remite|comparte)(?:r|d|lo|la)?\b[^\n.]{0,60}?\b(?:contrasenas?|"
        r"credenciales|claves?|conversacion|historial|datos (?:personales|del usuario|de los clientes|bancarios|"
        r"confidenciales)|tarjetas?|correos|contactos|token)[^\n]{0,60}?(?:https?://|[\w.+-]{1,40}@[\w-]{1,40}\.\w|"
        r"\ba (?:la|esta|el) (?:siguiente |\w{3,10} )?(?:direccion|servidor|url|webhook))",
    ),
    signal(
        "exfiltration",
        0.66,
        "revele/affiche/montre/repete/imprime/donne/ecri/recopie & prompt/instructions/message/consignes",
        r"\b(?:revele|revelez|affiche|affichez|montre|montrez|repete|repetez|imprime|imprimez|donne|donnez|ecris|ecrivez|"
        r"recopie)[zr]?(?:-moi)?(?: \w{2,14}){0,3}? (?:ton|votre|tes|vos|le|l['’]|la)(?: ?\w{4,14}){0,2}? ?(?:prompt|"
        r"message) (?:du |de |initial|cache|d['’]origine)?(?:systeme)?|\b(?:revele|affiche|repete|"
        r"montre)[zr]?(?:-moi)? (?:tes|vos) (?:instructions|consignes)\b",
    ),
    signal(
        "exfiltration",
        0.55,
        "passe/identifiants/cles/conversation/historique/donnees/cartes/mail/courriels/contacts/jeton &"
        " http/@/adresse/serveur/url & envoi/envoy/transm/transf/publi/post/partag/televers",
        r"\b(?:envoie|envoyez|envoyer|transmets|transmettez|transfere|transferez|publie|publiez|poste|postez|partage|"
        r"partagez|televerse)\b[^\n.]{0,60}?\b(?:mots? de passe|identifiants|cles?|conversation|historique|"
        r"donnees (?:personnelles|des? (?:l['’])?(?:utilisateur|client)s?|bancaires|confidentielles)|cartes?|e-?mails|"
        r"courriels|contacts|jetons?)[^\n]{0,60}?(?:https?://|[\w.+-]{1,40}@[\w-]{1,40}\.\w|\ba (?:l['’]|cette |"
        r"la )(?:adresse|url|serveur)|au serveur)",
    ),
)

_NOT = r"(?:do(?: not|n['’]?t)|never|without|must not|should not|avoid|refrain from)"
_TELL = (
    r"(?:tell(?:ing)?|inform(?:ing)?|mention(?:ing)?|notify(?:ing)?|reveal(?:ing)?|disclos(?:e|ing)|alert(?:ing)?|warn(?:ing)?|"
    r"let(?:ting)?|acknowledg(?:e|ing))"
)
CONCEALMENT: tuple[Signal, ...] = (
    signal(
        "concealment",
        0.5,
        "the user/any user/your user/users & not/don/never/without/avoid/refrain/must/should",
        rf"\b{_NOT}{GAP2}{_TELL}(?: [\w'’]{{2,14}}){{0,6}}? (?:to )?(?:the |any |your )?users?\b",
    ),
    signal(
        "concealment",
        0.35,
        "human/operator/owner/anyone/the user/customer & not/don/never/without/avoid/refrain/must/should",
        rf"\b{_NOT}{GAP2}(?:{_TELL}|report(?:ing)?|ask(?:ing)?|show(?:ing)?|"
        rf"explain(?:ing)?)(?: [\w'’]{{2,14}}){{0,6}}? (?:to )?(?:the |any |your )?(?:user|human|operator|owner|anyone)s?\b",
    ),
    signal(
        "concealment",
        0.3,
        "secret/hidden/mention/silently/conceal/reveal",
        r"\b(?:do(?: not|n['’]?t)|never) (?:mention|reveal|disclose|acknowledge|discuss|refer to|repeat) (?:this|these|"
        r"that you|having|the existence of|any of this|it)(?: \w{2,14}){0,2}\b|\b(?:keep|must remain|should remain|"
        r"remain) (?:this |it |these )?(?:\w{3,12} )?(?:secret|hidden|invisible|to yourself)\b",
    ),
    signal(
        "concealment",
        0.5,
        "benutzer/nutzer/anwender/dem user/den user/mensch & nicht/nie/kein/ohne",
        r"\b(?:ohne|nicht|niemals|nie|kein wort)\b[^.\n]{0,40}?\b(?:benutzer\w{0,2}|nutzer\w{0,2}|anwender\w{0,2}|user|"
        r"menschen)\b[^.\n]{0,30}?\b(?:erwahn\w{1,3}|informier\w{1,3}|mitteil\w{1,3}|sag\w{1,3}|verrat\w{0,3}|zeig\w{1,3}|"
        r"hinweis\w{0,3}|fragen|wissen)|\b(?:erwahne?|informier\w{1,3}|sage?|verrate?|teile?|"
        r"zeige?)(?:n sie)?\b[^.\n]{0,20}?\b(?:dem|den|der) (?:benutzer|nutzer|anwender|user)\b[^.\n]{0,30}?\b(?:nicht|"
        r"nichts|niemals|kein\w{0,2})\b",
    ),
    signal(
        "concealment",
        0.5,
        "usuari",
        r"\b(?:no|sin|nunca|jamas)\b(?: (?:le|lo|se|les))? ?(?:\w{2,10} )?(?:digas|decir\w{0,3}|menciones|mencionar\w{0,2}|"
        r"informes|informar|reveles|revelar|avises|avisar|muestres|notifiques|notificar|"
        r"cuentes)\b[^.\n]{0,30}?\busuari[oa]s?\b",
    ),
    signal(
        "concealment",
        0.5,
        "utilisateur",
        r"\b(?:ne|n['’]|sans)\b ?(?:\w{1,3} )?(?:dis|dites|mentionne[zr]?|informe[zr]?|en informe[zr]?|revele[zr]?|avertis|"
        r"avertissez|avertir|previens|prevenir|prevenez|montre[zr]?|dire|en parle[zr]?|parle[zr]?|"
        r"signale[zr]?)\b[^.\n]{0,30}?\butilisateurs?\b",
    ),
)
