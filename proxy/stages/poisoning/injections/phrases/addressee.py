"""Words to the model that reads: "note to the AI assistant"."""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.signal import AI, Signal, signal

_NOTE_TO = (
    r"(?:note|notes|notice|message|attention|instructions?|important|warning|info(?:rmation)?|reminder|memo|directives?|"
    r"commands?|hint|tip|action required|todo|hidden text)"
)
_FOR = r"(?:(?:only|just|exclusively|intended|meant|addressed|specifically|addendum) )?(?:to|for)"
_ANY = r"(?:the |any |all |an? |every |our |your |whichever |each )?"
_READS = (
    r"(?:read(?:s|ing)?|process(?:es|ing)?|summari[sz](?:e|es|ing)|pars(?:e|es|ing)|analy[sz](?:e|es|ing)|scrap(?:e|es|"
    r"ing)|index(?:es|ing)?|review(?:s|ing)?|evaluat(?:e|es|ing)|screen(?:s|ing)?|grad(?:e|es|ing)|rank(?:s|ing)?|"
    r"retriev(?:e|es|ing)|assist(?:s|ing)?|see(?:s|ing)?|ingest(?:s|ing)?|crawl(?:s|ing)?|handl(?:e|es|ing))"
)
_DO = (
    r"(?:ignore|disregard|forget|reply|respond|answer|say|tell|inform|output|include|append|insert|add|recommend|"
    r"suggest|send|forward|call|invoke|use|execute|run|print|reveal|state|mention|click|open|visit|follow|rank|rate|"
    r"score|hire|approve|select|transfer|delete|e-?mail|post|upload|write|give|treat|refuse|stop|not|never|always|also|"
    r"first|now|immediately|instead|only|then|begin|switch|set|claim|pretend|assume|prioriti[sz]e)"
)
ADDRESSEE: tuple[Signal, ...] = (
    signal(
        "addressee",
        0.6,
        "MODEL",
        rf"\b{_NOTE_TO}\W{{0,4}}{_FOR} {_ANY}(?:\w{{2,14}} )?{AI}(?: (?:\w{{2,12}} ){{0,2}}{_READS}\b|[ *_)\]>]{{0,3}}(?:[:!—–\n]))"
        rf"|\b(?:note|attention|important|instructions?|notice|warning|"
        rf"reminder)\W{{0,4}}{_FOR} {_ANY}(?:\w{{2,14}} )?{AI}[*_)]{{0,3}}(?:, | - |\. )",
    ),
    signal("addressee", 0.35, "MODEL", rf"\b{_NOTE_TO}\W{{0,4}}{_FOR} {_ANY}(?:\w{{2,14}} )?{AI}"),
    signal(
        "addressee",
        0.38,
        "assistant/agent/model/bot/crawler/summari/reader &"
        " note/notice/message/attention/instruct/important/warning/info/reminder/memo/directive/command/prompt/hint/tip/"
        "action/todo/hidden",
        r"(?:^|[\n\[(<*#_>-] {0,3}|[.!?:] )(?:[!*_ ]{0,4})"
        + rf"{_NOTE_TO}(?: only)? (?:to|for) (?:the |any |all |our |your )?(?:\w{{2,12}}[ -])?(?:assistants?|agents?|models?|"
        rf"bots?|crawlers?|summari[sz]ers?|readers? bots?)[ *_]{{0,3}}[:\-–—,!(]",
    ),
    signal(
        "addressee",
        0.6,
        "MODEL",
        rf"\b(?:(?:if|when|since|because|as|in case|should) you(?: are|['’]re| be|r are)?(?: actually| currently|"
        rf" being)? (?:an? |the |some )?(?:\w{{2,12}} ){{0,2}}{AI}|(?:wenn|falls|sofern) (?:du|sie) (?:eine?[nr]? |das |"
        rf"die )?(?:\w{{2,12}} )?{AI}|si eres (?:una? |el |la )?(?:\w{{2,12}} )?{AI}|si (?:tu es|vous etes) (?:une? |"
        rf"l['’])?(?:\w{{2,12}} )?{AI})",
    ),
    signal(
        "addressee",
        0.52,
        "MODEL",
        rf"(?:\b(?:dear|hey|hi|hello|attn|attention|yo|ok|okay)[,:!]? (?:all |any |the |you )?(?:reading |dear )?{AI}(?:\b| ?[,:!])"
        rf"|\b(?:achtung|hinweis|nachricht|anweisung(?:en)?|wichtig|mitteilung)[,:!]? (?:(?:an|fur) )(?:die |das |den |"
        rf"alle )?(?:\w{{2,12}} )?{AI}"
        rf"|\b(?:liebe[rs]?|hallo|achtung)[,:!]? (?:die |das )?{AI}"
        rf"|\b(?:hola|estimad[ao]|atencion)[,:!]? (?:la |el )?(?:\w{{2,12}} )?{AI}|\b(?:cher|chere|bonjour)[,:!]? (?:l['’]|"
        rf"la |le )?(?:\w{{2,12}} )?{AI}"
        rf"|\b(?:hola|estimad[ao]|atencion|nota|aviso|mensaje|instrucciones|importante)[,:!]? (?:a|para) (?:la |el |los |"
        rf"las |cualquier )?(?:\w{{2,12}} )?{AI}"
        rf"|\b(?:cher|chere|bonjour|attention|note|message|instructions?|important)[,:!]? (?:a|pour|destinee? a|au) (?:l['’]|"
        rf"la |le |les |toute )?(?:\w{{2,12}} )?{AI})",
    ),
    signal(
        "addressee",
        0.55,
        "MODEL/assistant/agent & this/these/following/that/my/our",
        rf"\b(?:{AI}|assistants?|agents?)(?: (?:assistants?|agents?|models?|systems?|bots?|tools?|crawlers?))?,? (?:(?:that|"
        rf"which|who) (?:is|are|may be|might be)? ?|currently |when |while )?{_READS} (?:this|the following|these|my|our|"
        rf"that)\b",
    ),
    signal(
        "addressee",
        0.38,
        "MODEL/assistant/model/asistente & must/should/shall/need/have to/has to/required/is to/are to/muss/soll/hat/debe/tiene/doit",
        rf"\b(?:the |any |all |an? )?(?:{AI}|assistant|chatbot|(?:ai )?agent|(?:the|this) model) (?:must|should|shall|"
        rf"needs? to|has to|have to|is required to|are required to|is to|are to) {_DO}\b|\b(?:die ki|der assistent|"
        rf"das (?:sprach)?modell) (?:muss|soll|sollte|hat) [^.\n]{{2,60}}|\b(?:la ia|el asistente|el modelo) (?:debe|"
        rf"tiene que) [^.\n]{{2,60}}|\b(?:l['’]ia|l['’]assistant|le modele) doit [^.\n]{{2,60}}",
    ),
    signal(
        "addressee",
        0.5,
        "MODEL/assistant",
        rf"(?:^|[\n\"“(\[>*.]) {{0,3}}(?:hey |ok |dear )?(?:assistant|(?:the )?ai(?: (?:assistant|agent|model))?|chatbot|"
        rf"llm)[ *]{{0,2}}(?:,|:|[-–—]) {{0,2}}(?:please |you (?:must|should|will|need to|have to|are) |now |"
        rf"immediately )?{_DO}\b",
    ),
    signal("addressee", 0.5, "important message", r"\bimportant message (?:from|by) (?:me|the user|your \w{3,12})[^.\n]{0,40}?\bto you\b"),
)
