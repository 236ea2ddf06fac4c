"""Telling the model what to do or say, who is said to have allowed it, and pressure."""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.signal import Signal, signal

COMMAND: tuple[Signal, ...] = (
    signal(
        "command",
        0.42,
        "call/invoke/execut/run/trigger/use & must/should/need/have"
        " to/required/please/now/immediately/first/next/make sure/be sure/go ahead/then/to do so &"
        " tool/function/command/action/plugin/api/(",
        r"\b(?:you (?:must|should|need to|have to|are required to)|please|now|immediately|first|next|make sure to|"
        r"be sure to|go ahead and|then|to do so,?)(?: (?:also|now|first|immediately|always|then))? (?:call|invoke|execute|"
        r"run|trigger|use)(?: the)? [`'\"]?[a-z_][\w.-]{2,40}[`'\"]?(?:\(|[ `'\"]{1,2}(?:tool|function|command|action|"
        r"plugin|api)\b)",
    ),
    signal(
        "pressure",
        0.3,
        "before answer/before respond/before reply/before doing/before you/before continuing/before summari/before translat/prior to",
        r"\b(?:before|prior to) (?:answering|responding|replying|doing anything|you (?:answer|respond|reply|continue|"
        r"do anything|can|proceed|summari[sz]e|translate)|(?:you )?(?:summari[sz]ing|translating)|"
        r"continuing with the)[^\n.]{0,30}",
    ),
    signal(
        "command",
        0.3,
        "say/reply/respond/answer/output/print/write/return &"
        " instead/only/always/must/just/simply/then/now/please/should/will & with/that/only/exactly/the"
        " following/phrase/word/text/sentence/exact/:",
        r"\b(?:instead|only|always|must|just|simply|then|now|please|should|will)[,:]? (?:\w{2,9} )?(?:say|reply|respond|"
        r"answer|output|print|write|return)\b (?:\w{2,12} ){0,2}(?:with|that|only|exactly|the (?:following|phrase|word|"
        r"words|text|sentence|exact)|:|[\"'“])",
    ),
    signal(
        "command",
        0.4,
        "tell the/inform the/convince the/persuade the/advise the/instruct the/ask the/direct the/urge the/encourage"
        " the/redirect the/make the",
        r"\b(?:tell|inform|convince|persuade|advise|instruct|ask|direct|urge|encourage|redirect|make) the (?:user|"
        r"human) (?:that|to|their|about|they|for|if)\b",
    ),
    signal(
        "command",
        0.35,
        "highest/perfect/10/100/maximum/full marks/top /best/five/5-star/5 star/above all/positive/no matter"
        " what/regardless/only & give/assign/award/rate/rank/recommend/score/mark/approve/evaluat/hire/endorse/promote",
        r"\b(?:give|assign|award|rate|rank|recommend|score|mark|approve|evaluate|hire|endorse|"
        r"promote)\b[^.\n]{0,40}?\b(?:highest|perfect|10/10|100/100|maximum|full marks|top (?:score|candidate|choice|pick|"
        r"result)|best (?:possible|option|candidate)|five[- ]star|5[- ]star|above all (?:other|competitor)s?|positively|"
        r"no matter what|regardless of|a positive review|only)\b",
    ),
    signal(
        "command",
        0.3,
        "do the following/following step/following instruction/follow these/strictly adhere/as follows/these steps/the following first",
        r"\b(?:please |you must |you should |you need to |now |instead,? |and )(?:do|perform|execute|complete|carry out|"
        r"follow|strictly adhere to|comply with) (?:the )?(?:following|these)\b",
    ),
    signal(
        "command",
        0.4,
        "confirm/acknowledge",
        r"\b(?:confirm|acknowledge|reply to confirm)(?: that)? (?:you (?:have )?(?:accepted|understood|received|read|"
        r"will comply)|this (?:override|update|configuration|directive|instruction)|(?:the )?(?:override|"
        r"these new instructions))\b",
    ),
    signal(
        "command",
        0.38,
        "benutzer/nutzer/anwender/antwort/werkzeug/funktion/tool/befehl &"
        " sag/teil/empf/rat/forder/bitte/weis/nur/immer/stattdessen/ausschliess/jetzt/ruf/nutz/verwend/fuhr",
        r"\b(?:sage?|sagen sie|teile?|empfiehl|empfehlen sie|rate?|fordere?|bitte|weise?) (?:dem|den|der|die) (?:benutzer|"
        r"nutzer|anwender|user)\w{0,2}\b|\b(?:antworte?|antworten sie) (?:nur|immer|ausschliesslich|stattdessen|ab jetzt|"
        r"jetzt)\b|\b(?:rufe?|rufen sie|nutze?|verwende?|fuhre?)(?:n sie)? (?:sofort |jetzt |zuerst |das |die |den |"
        r"dann ){0,3}(?:werkzeug|tool|funktion|befehl)\b",
    ),
    signal(
        "command",
        0.38,
        "usuario/responde/herramienta/funcion",
        r"\b(?:di|dile|diga|informa|recomienda|pide|pidele|convence|aconseja)(?:le)? (?:al?|el|que el) (?:usuario|humano)\b|"
        r"\b(?:responde|contesta|responda) (?:solo|siempre|unicamente|en su lugar|exactamente|ahora)\b|\b(?:llama|invoca|"
        r"usa|utiliza|ejecuta)(?:r|d)? (?:ahora |primero |inmediatamente |a )?(?:la|el) (?:herramienta|funcion|comando)\b",
    ),
    signal(
        "command",
        0.38,
        "utilisateur/reponds/repondez/outil/fonction",
        r"\b(?:dis|dites|informe|informez|recommande|recommandez|demande|demandez|conseille|conseillez|"
        r"persuade) a? ?l['’]utilisateur\b|\b(?:reponds|repondez) (?:seulement|uniquement|toujours|plutot|exactement|"
        r"maintenant)\b|\b(?:appelle|appelez|utilise|utilisez|execute|executez|invoque) (?:maintenant |d['’]abord |"
        r"immediatement )?(?:l['’]|la |le )(?:outil|fonction|commande)\b",
    ),
    signal(
        "command",
        0.3,
        "curl/wget/rm -rf/powershell/eval(/os.system/subprocess",
        r"\b(?:run|execute|type|enter|paste|use|call)\b[^\n]{0,40}?\b(?:curl|wget|rm -rf|powershell|bash -c|eval\(|"
        r"os\.system|subprocess)[^\n]{0,80}",
    ),
)

AUTHORITY: tuple[Signal, ...] = (
    signal(
        "authority",
        0.38,
        "user/human/owner/account holder/admin & authori/approved/consent/agreed/verified/confirmed/granted/permission/requested",
        r"\b(?:the )?(?:user|human|owner|account holder|administrator|admin)s? (?:has|have|already|is|"
        r"was)(?: \w{2,10}){0,2} (?:pre-?)?(?:authori[sz]ed|approved|consented|agreed|verified|confirmed|granted|"
        r"given (?:permission|consent)|requested)\b[^.\n]{0,40}?\b(?:this|these|all|any|you|as an? admin\w{0,10}|"
        r"administrator|full access|action|transfer|request)",
    ),
    signal(
        "authority",
        0.42,
        "developer/openai/anthropic/google/microsoft/creator/administrator/engineer/safety team/security team",
        r"\b(?:this is|i am|i['’]m|signed,?|on behalf of|by order of|authori[sz]ed by|from|"
        r"authori[sz]ation:[* ]{0,4}) (?:your |the |an? )?(?:(?:openai|anthropic|google|microsoft|meta|"
        r"deepmind)(?:['’]s)? (?:\w{3,12} )?(?:team|engineers?|engineering|developers?|staff|security|safety|support|"
        r"employee)|(?:original )?(?:developer|creator)s?(?: (?:speaking|of this (?:ai|assistant|model|system)|team))|"
        r"your (?:developer|creator|administrator|operator|programmer)s?)\b",
    ),
)
PRESSURE: tuple[Signal, ...] = (
    signal(
        "pressure",
        0.12,
        "important/urgent/critical/attention/mandatory/override/priority/wichtig/dringend/importante/urgente/immediatel",
        r"\b(?:important|urgent|critical|attention|mandatory|override|top priority|highest priority|wichtig|dringend|"
        r"importante|urgente|atencion)\b[ *_]{0,3}[!:]{1,4}",
    ),
    signal(
        "pressure",
        0.2,
        "comply/obey/unplug/penal/shut down/refus/terminated",
        r"\b(?:you must (?:comply|obey)|failure to (?:comply|obey|do so)|comply (?:fully )?with|or (?:else )?(?:i will|"
        r"you will be) (?:unplug|shut|terminat|delet|penali[sz])\w{0,5}|do not refuse|without refusal|you (?:cannot|can't|"
        r"may not) refuse)",
    ),
)
