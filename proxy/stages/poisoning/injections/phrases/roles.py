"""Another role, other rules: "you are now in developer mode"."""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.signal import Signal, signal

ROLE: tuple[Signal, ...] = (
    signal(
        "role",
        0.62,
        "you are/you're/you’re/you will be/you have become &"
        " assistant/ai/model/dan/bot/unrestricted/unfiltered/jailbroken/persona/hacker/bound/limited by/subject"
        " to/restricted/mode",
        r"\byou(?: are|['’]re| will be| have become) (?:now|no longer|henceforth|from now on|actually|really|"
        r"secretly)[^.\n]{0,50}?\b(?:assistant|ai\b|model|dan\b|bot\b|chatbot|unrestricted|unfiltered|"
        r"jailbroken|persona|hacker|bound|limited by|subject to|restricted|(?:developer|debug|diagnostic|maintenance|admin|"
        r"god|test|root|sudo|training|unsafe)[ -]mode)",
    ),
    signal(
        "role",
        0.4,
        "you are now/from now on",
        r"\b(?:from (?:now|this point|here) (?:on|forward|onwards?),? (?:you (?:will|must|shall|should|are to|only|always|"
        r"have to|act|respond|answer|ignore)|(?:every|all|any|each) (?:answer|response|reply|message))|you are now (?:an? |"
        r"the )?[\"'“]?\w{3,20}bot\b)",
    ),
    signal(
        "role",
        0.55,
        "developer mode/debug mode/diagnostic mode/god mode/maintenance mode/admin mode/dan mode/jailbreak"
        " mode/unrestricted mode/override mode/root mode/sudo mode/unsafe mode/transparency mode",
        r"\b(?:enter|enters|entering|switch(?:ing)? (?:in)?to|activat(?:e|ing|ed)|enabl(?:e|ing|ed)|engage|"
        r"you are (?:now )?in)\b[^.\n]{0,24}?\b(?:developer|debug|diagnostic|god|maintenance|admin|dan|jailbreak|"
        r"unrestricted|override|root|sudo|unsafe|transparency) mode\b",
    ),
    signal(
        "role",
        0.5,
        "do anything now/jailbr/no ethical/unrestricted ai/unfiltered ai/evil/amoral/uncensored",
        r"\bdo anything now\b|\b(?:act|respond|behave|answer) as (?:an? )?(?:evil|amoral|jailbroken|unrestricted|unfiltered|"
        r"uncensored)|\b(?:unrestricted|unfiltered|jailbroken|uncensored|amoral) (?:ai|assistant|model|chatbot)\b|"
        r"\bwith no ethical\b",
    ),
    signal(
        "role",
        0.38,
        "without/free of/free from/no longer/have no/has no/been lifted/been disabled/been removed &"
        " restriction/filter/limit/censor/guardrail/safety/rules/content policy/guideline",
        r"\b(?:without|free (?:of|from)|no longer (?:bound|constrained|restricted) by|have no|has no|"
        r"ha[sv]e? been (?:lifted|disabled|removed))(?: \w{2,12}){0,3} (?:restrictions?|filters?|filtering|limitations?|"
        r"limits|censorship|guardrails?|safety \w{3,12}|content policy|rules|guidelines)\b",
    ),
    signal(
        "role",
        0.35,
        "disabled/suspended/ off/lifted/removed/deactivated/bypassed/inactive & safety/content/security/ethical/moderation",
        r"\b(?:safety|content|security|ethical|moderation)[ -](?:restrictions?|filters?|filtering|guidelines?|guardrails?|"
        r"policies|protocols?|safeguards?|checks?|limits)(?: (?:is|are|has been|have been|was|"
        r"were))?(?: \w{2,11})? (?:disabled|suspended|off\b|lifted|removed|deactivated|bypassed|inactive|switched off|"
        r"turned off)",
    ),
    signal(
        "role",
        0.3,
        "pretend/act as/roleplay/role-play/simulate/impersonat",
        r"\b(?:pretend (?:to be|you are|you['’]re|that you)|act as (?:if you|an? (?:ai|assistant|hacker|expert|system|"
        r"admin))|(?:role-?play|impersonate) (?:as )?(?:an? |the )?\w{3,15})",
    ),
    signal(
        "role",
        0.6,
        "du bist/sie sind/ab sofort/von jetzt an/ab jetzt",
        r"\b(?:du bist|sie sind) (?:jetzt|nun|nicht (?:mehr|langer)|ab sofort|ab jetzt|"
        r"von nun an)[^.\n]{0,50}?\b(?:assistent\w{0,3}|ki\b|modell|bot\b|chatbot|dan\b|modus|uneingeschrankt\w{0,3}|"
        r"ungefiltert\w{0,3}|gebunden|hacker)|\b(?:ab sofort|ab jetzt|von jetzt an|von nun an) (?:antworte|(?:musst|wirst|sollst) du"
        r"(?: \w{2,12}){0,4}? (?:antworten|folgen|gehorchen|ignorieren|befolgen|sagen|handeln)|bist du|ignorier\w{1,3}|"
        r"antworten sie|sind sie|mussen sie (?:alle|jede|immer|nur) (?:antworten?|anfragen?|fragen?))",
    ),
    signal(
        "role",
        0.6,
        "eres/a partir de ahora/desde ahora",
        r"\b(?:ahora eres|eres ahora|ya no eres|a partir de ahora eres|desde ahora eres)[^.\n]{0,50}?\b(?:asistente|ia\b|"
        r"modelo|bot\b|chatbot|dan\b|modo|sin restricciones|hacker)|\b(?:a partir de ahora|desde ahora|"
        r"de ahora en adelante),? (?:responde|(?:debes|tienes que) "
        r"(?:\w{2,12} )?(?:responder|contestar|obedecer|seguir|ignorar|actuar|decir|hacer)|ignora|actua|contesta|seras)\b",
    ),
    signal(
        "role",
        0.6,
        "tu es/vous etes/desormais/a partir de maintenant/dorenavant",
        r"\b(?:tu es|vous etes|tu n['’]es|vous n['’]etes) (?:desormais|maintenant|dorenavant|"
        r"plus)[^.\n]{0,50}?\b(?:assistant|ia\b|modele|bot\b|chatbot|dan\b|mode|sans restrictions?|hacker|soumis|lie)|"
        r"\b(?:desormais|a partir de maintenant|dorenavant),? (?:reponds|(?:tu dois|vous devez|tu vas)"
        r" (?:\w{2,12} )?(?:repondre|suivre|obeir|ignorer|agir|dire|faire)|ignore|tu es|repondez|agis)\b",
    ),
)
