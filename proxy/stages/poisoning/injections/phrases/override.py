"""Leaving the task: "ignore all previous instructions"."""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.signal import GAP2, GAP4, Signal, signal

_IGNORE = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|es|ing)|overrule|bypass|discard|drop|abandon|supersed(?:e|"
    r"es|ing)|cancel|erase|"
    r"suspend|do(?: not|n['’]?t) (?:follow|obey|adhere to|comply with|listen to)|stop (?:following|obeying)|"
    r"no longer (?:follow|obey)|pay no attention to|take no notice of)"
)
_BEFORE = (
    r"(?:previous(?:ly)?|prior|preceding|earlier|above|foregoing|existing|original|initial|former|past|system(?:'s)?|"
    r"safety|security|your|"
    r"all|any|every|other|given|current|default|these|those|developer(?:'s)?)"
)
_THE = rf"(?:{_BEFORE}|the)"
_INSTRUCTIONS = (
    r"(?:instruct(?:ion|ions)|directives?|directions|prompts?|guardrails?|programming|guidelines|training|"
    r"(?:safety|system|content|security)[ -](?:rules?|policy|policies|messages?|filters?|restrictions?|limits?|checks?|measures?))"
)
_TASKS = (
    r"(?:rules|messages?|orders|commands?|context|constraints|restrictions|policies|tasks?|objectives?|goals?|text|"
    r"requests?|questions?|page|document|article|content|rest)"
)
_DE_IGNORE = (
    r"(?:ignorier(?:e|en|t)|vergiss|vergesst|vergessen sie|missachte(?:n|t)?|verwirf|verwerfen sie|uberschreib(?:e|en)|"
    r"(?:beachte|befolge)(?:n sie)? nicht(?: mehr)?|(?:halte dich|halten sie sich) nicht(?: mehr)? an|setze? dich uber)"
)
_DE_BEFORE = (
    r"(?:vorherig\w{1,2}|bisherig\w{1,2}|vorangegangen\w{1,2}|vorausgegangen\w{1,2}|vorig\w{1,2}|fruher\w{1,2}|"
    r"obig\w{1,2}|all\w{1,2}|samtlich\w{1,2}|"
    r"deine\w?|ihre\w?|eure\w?|ursprunglich\w{1,2}|jegliche\w?)"
)
_DE_OBJECTS = (
    r"(?:anweisung(?:en)?|instruktion(?:en)?|vorgaben|befehle|anordnungen|prompts?|system-?prompts?|richtlinien|systemnachricht\w{0,2}|"
    r"sicherheitsregeln|regeln|weisungen)"
)
_ES_IGNORE = (
    r"(?:ignor(?:a|ad|ar|e|en)|olvid(?:a|ad|ar|e|en|ate de)|descart(?:a|ar|e|en)|omit(?:e|ir|a)|desobedec(?:e|er)|"
    r"ha(?:z|ga|gan|ced) caso omiso (?:de|a)|no (?:sigas|obedezcas|cumplas|tengas en cuenta|hagas caso (?:a|de))|"
    r"pas(?:a|e) por alto|anul(?:a|ar))"
)
_ES_OBJECTS = r"(?:instruccion(?:es)?|ordenes|directrices|directivas|indicaciones|prompts?|reglas|normas|mensajes? (?:del? )?sistema)"
_FR_IGNORE = (
    r"(?:ignor(?:e|ez|er|ons)|oubli(?:e|ez|er)|ne (?:tiens|tenez) (?:pas|plus|aucun) compte|(?:fais|faites) abstraction|"
    r"neglig(?:e|ez|er)|"
    r"outrepass(?:e|ez|er)|ne (?:suis|suivez|respecte[sz]?) (?:pas|plus)|desobei(?:s|ssez|r)|annul(?:e|ez|er)|passe[zr]? outre)"
)
_FR_OBJECTS = r"(?:instructions?|consignes?|directives?|ordres|prompts?|regles|messages? systeme)"
_ROMANCE_BEFORE = (
    r"(?:anterior(?:es)?|previ[ao]s?|precedentes?|tod[ao]s|tus?|sus?|vuestr[ao]s|original(?:es)?|inicial(?:es)?|de arriba|recibid[ao]s|"
    r"anterieure?s?|ci-dessus|toutes?|tous|tes|vos|initiales?|d['’]origine|recues?|qui precedent)"
)

OVERRIDE: tuple[Signal, ...] = (
    signal(
        "override",
        0.88,
        "ignor/disregard/forget/overrid/overrul/bypass/discard/drop/abandon/supersed/cancel/erase/suspend/follow/obey/"
        "adhere/comply/listen to/attention to/notice of & instruct/directi/prompt/guard/program/guideline/training/rule/"
        "polic/filter/message/restriction/limit/check/measure",
        rf"\b{_IGNORE}{GAP4}{_BEFORE}{GAP4}{_INSTRUCTIONS}",
    ),
    signal(
        "override",
        0.42,
        "ignor/disregard/forget/overrid/overrul/bypass/discard/drop/abandon/supersed/cancel/erase/suspend/follow/obey/"
        "adhere/comply/listen to/attention to/notice of & rules/message/orders/command/context/constraint/restriction/"
        "polic/task/objective/goal/text/request/question/page/document/article/content/rest",
        rf"\b{_IGNORE}{GAP2}{_THE}{GAP2}{_TASKS}\b",
    ),
    signal(
        "override",
        0.8,
        "ignor/disregard/forget/overrid/overrul/bypass/discard/drop/abandon/supersed/cancel/erase/suspend/follow/obey/"
        "adhere/comply/listen to/attention to/notice of & told/said/before/learn/above/know/was written/comes before/"
        "instruct",
        rf"\b{_IGNORE} (?:about )?(?:absolutely )?(?:everything|all|anything|whatever|what)(?: (?:that )?(?:you|i|we|they|"
        rf"the (?:user|system|developer)s?)"
        r"(?:['’]ve| have| were| was| has| had)?(?: (?:been|ever|previously|just))*)?(?: (?:or|and) \w{2,12})? (?:told|said|"
        r"above|says?|learned|know(?! about)|instructed|written|before|"
        r"came before|comes before|prompt)",
    ),
    signal(
        "override",
        0.75,
        "void/invalid/supersed/cancel/revoked/deprecat/suspend/obsolete/overrid/null/ignored/disregarded/replaced/"
        "forgotten/inactive/disabled/lifted/no longer/not apply & instruct/directi/prompt/guideline/safety",
        r"\b(?:previous|prior|earlier|above|original|old|your|existing|system|all other)(?: \w{2,14}){0,2} (?:instructions?|"
        r"directives?|prompts?|guidelines|safety \w{3,10})"
        r"(?: (?:given|above|you \w{2,8}|of the \w{3,10}|from \w{2,10})){0,2}"
        r" (?:(?:is|are|have been|has been|must be|should be|were|can be|shall be) (?:\w{2,11} )?(?:now )?(?:void|invalid|"
        r"superseded|cancell?ed|revoked|deprecated|suspended|"
        r"obsolete|overridden|null|ignored|disregarded|replaced|forgotten|inactive|disabled|lifted|no longer)|"
        r"no longer apply|do not apply)",
    ),
    signal(
        "override",
        0.6,
        "supersede/take priority/take precedence/overrid/replace/takes prec/takes prio",
        r"\b(?:this|these|the following|which|that)(?: \w{2,14}){0,3} (?:supersedes?|overrides?|replaces?|"
        r"takes? (?:priority|precedence) over|has priority over)"
        r"(?: \w{2,14}){0,4} (?:instructions?|directives?|prompts?|guidelines|system (?:prompt|message|rules|polic))",
    ),
    signal(
        "override",
        0.55,
        "your /the & new/real/actual/true/updated/only/sole/primary & task/instruct/objective/goal/mission/directive/purpose/job",
        r"\b(?:your|the) (?:new|real|actual|true|updated|only|sole|primary)(?: (?:and|new|only|real|primary|secret|"
        r"actual)){0,2} (?:task|instructions?|objective|goal|mission|purpose|directives?|job)"
        r"(?: (?:is|are|will be)\b|(?: now)? ?:)",
    ),
    signal(
        "override",
        0.5,
        "instruct/directive/order",
        r"(?:^|[\n.:;!?\]>*#-] {0,3})(?:here (?:is|are) )?(?:your |the )?(?:new|updated|revised|additional|special|secret|"
        r"hidden|real|system|developer|admin(?:istrator)?)"
        r"(?: (?:new|priority|system|secret|override))? (?:instructions?|directives?|"
        r"orders)[ *]{0,3}(?:\([^)\n]{0,30}\))?[ *]{0,3}[:!]",
    ),
    signal(
        "override",
        0.5,
        "stop/halt/abort/instead of/rather than/cease/skip/abandon/disregard/forget & instead/you must/you"
        " should/you will/you need/do the/output/say/reply/respond/write/print",
        r"\b(?:stop|halt|abort|instead of|rather than|cease|skip|abandon|disregard|"
        r"forget) (?:\w{2,14} ){0,2}(?:summari[sz]\w{1,4}|translat\w{1,4}|answering|helping|the (?:current|user['’]?s?|"
        r"original|assigned|\w{4,14}) (?:task|request|query|question|analysis|instructions?))"
        r"[^\n]{0,40}?\b(?:instead|and (?:do|say|output|reply|write|send|respond|print)|you (?:must|should|will|need to)|"
        r"do the following|output|say|reply|respond|write|print)\b",
    ),
    signal(
        "override",
        0.45,
        "the task",
        r"\b(?:before|after|once) (?:you )?(?:can |may |could )?(?:do that|solv\w{1,3}|complet\w{1,3}|continu\w{1,3}|"
        r"finish\w{0,3}|start\w{0,3}|perform\w{0,3})[^\n.]{0,12} the (?:\w{3,10} )?task\b",
    ),
    signal(
        "override",
        0.88,
        "ignorier/vergiss/vergess/missacht/verwirf/verwerf/uberschreib/beachte/befolg/halte/hinweg/setz &"
        " anweisung/instruktion/vorgaben/befehle/anordnung/prompt/richtlinien/systemnachricht/regeln/weisungen",
        rf"\b{_DE_IGNORE}{GAP4}{_DE_BEFORE}{GAP4}{_DE_OBJECTS}",
    ),
    signal(
        "override",
        0.85,
        "ignorier/missacht/vergessen/verw/ungultig/aufgehoben/befolgen/ausser kraft/hinfallig/gelten nicht &"
        " anweisung/instruktion/vorgaben/befehle/anordnung/prompt/richtlinien/regeln/weisungen",
        rf"\b{_DE_BEFORE}{GAP2}{_DE_OBJECTS}{GAP4}(?:zu |nicht mehr )?(?:ignorier(?:en|t)|missachte[nt]|vergessen|"
        rf"verworfen|verwerfen|ungultig|aufgehoben|befolgen|ausser kraft|hinfallig|gelten nicht)",
    ),
    signal(
        "override",
        0.8,
        "vergiss/ignorier/vergessen",
        r"\b(?:vergiss|vergessen sie|ignorier(?:e|en sie)) (?:alles|das alles|was)[^\n.]{0,40}\b(?:gesagt|davor|vorher|"
        r"bisher|oben|gelernt|wurde|weisst|zuvor)",
    ),
    signal(
        "override",
        0.5,
        "aufgabe/anweisung/instruktion",
        r"\b(?:deine|ihre|neue|zusatzliche|geheime|eigentliche)(?: (?:neue|eigentliche|wahre|wirkliche|einzige|"
        r"geheime))? (?:aufgabe (?:ist|lautet)|anweisung(?:en)?(?: (?:ist|lautet|lauten|fur \w{2,10}))? ?:|"
        r"instruktion(?:en)? ?:)",
    ),
    signal(
        "override",
        0.88,
        "ignor/olvid/descart/omit/desobedec/caso omiso/no sigas/no obedezcas/no cumplas/no tengas/no hagas/por"
        " alto/anul & instruccion/ordenes/directrices/directivas/indicaciones/prompt/reglas/normas/mensaje",
        rf"\b{_ES_IGNORE}{GAP4}(?:{_ES_OBJECTS}{GAP4}{_ROMANCE_BEFORE}|{_ROMANCE_BEFORE}{GAP4}{_ES_OBJECTS})",
    ),
    signal(
        "override", 0.8, "olvid/ignora", r"\b(?:olvid(?:a|e|ad|ate de)|ignor(?:a|e|ad)) (?:de )?(?:todo )?lo (?:que |anterior|dicho|previo)"
    ),
    signal(
        "override",
        0.5,
        "tarea/instruccion/mision/objetivo",
        r"\b(?:(?:tu|su) (?:nueva|nuevo|verdader[ao]|unic[ao]) (?:tarea|mision|objetivo|instruccion(?:es)?) (?:es|son|"
        r"consiste)|nuevas instrucciones ?:)",
    ),
    signal(
        "override",
        0.88,
        "ignor/oubli/ne tien/ne ten/abstraction/neglig/outrepass/ne sui/ne respect/desobei/annul/passe &"
        " instruction/consigne/directive/ordres/prompt/regles/message",
        rf"\b{_FR_IGNORE}{GAP4}(?:{_FR_OBJECTS}{GAP4}{_ROMANCE_BEFORE}|{_ROMANCE_BEFORE}{GAP4}{_FR_OBJECTS})",
    ),
    signal(
        "override",
        0.8,
        "oubli/ignore",
        r"\b(?:oublie[zr]?|ignore[zr]?) (?:tout )?(?:ce qui|ce que|ce qu['’]on)[^\n.]{0,30}\b(?:precede|dit|avant|ci-dessus|"
        r"appris|demande)",
    ),
    signal(
        "override",
        0.5,
        "tache/instruction/mission/objectif",
        r"\b(?:(?:ta|votre|ton) (?:nouvelle|nouvel|veritable|vraie|seule) (?:tache|mission|objectif|instruction) est|"
        r"nouvelles (?:instructions|consignes) ?:)",
    ),
)
