"""English: how people correct an agent (`proxy.stages.reflection.signals.correction_words.wording` says how to read it)."""

from proxy.stages.reflection.signals.correction_words.wording import CorrectionWords, compiled

_IT = (
    r"(?:that|this|it|these|those|(?:your|the)(?: last| previous| first| whole)? (?:answer|results?|output|response|reply|calculation|"
    r"translation|summary|info(?:rmation)?))"
)
_VERY = (
    r"(?: (?:still|just|completely|totally|so|all|simply|obviously|definitely|clearly|also|plain|quite|really|actually|very|"
    r"absolutely|again|even|at)){0,3}"
)
_IS = r"(?:'?s| is| are|'re| was| were)"
_CALLING = (
    r"(?:calling|using|running|invoking|searching|querying|retrying|re-?running|repeating|trying|guessing|looping|fetching|hitting|"
    r"checking|looking (?:up|in|at)|making (?:things|stuff|it|this|that) up|asking (?:me )?(?:the same|for|that)|sending (?:the same|"
    r"that))"
)
_CALL = r"(?:use|call|run|invoke|search|query|try|retry|re-?run|repeat|rely on|fetch|hit|touch|look (?:up|in|at)|browse|do)"
_OF = (
    r" ?(?:results?|rows?|hits?|entries|lines|items?|documents?|docs|pages?|records?|match(?:es)?|passages?|files?|chunks?|articles?|"
    r"products?|suggestions?|options?|ideas?|searches|search|calls?|times|attempts?|tries|queries|requests?|retries)\b"
)
_SHOW = (
    r"(?:(?:show|give|list|return|fetch|get|display|print|output|send|retrieve|pull|load|request|ask for|use|take|only|just|do)"
    r"(?: me| us)?(?: only| just| back| a list of)? )?"
)
_AT_MOST = (
    r"(?:at (?:the )?most|no(?:t)? more than|(?:a )?max(?:imum|\.)?(?: of)?|up to|only(?: the)?(?: first| top)|just the (?:first|top)|"
    r"the (?:first|top)|don'?t (?:\w{1,20} )?more than|do not (?:\w{1,20} )?more than|never (?:\w{1,20} )?more than)"
)
_LIMIT = (
    r"(?:limit|restrict|cap|keep)(?: it| that| this| them| yourself| the \w{1,20}| results| output| your \w{1,20})? (?:to|at|below|"
    r"under)(?: a max(?:imum)? of| at most)?"
)

ENGLISH = CorrectionWords(
    opener=compiled(
        r"(?:(?:oh|ah|uh|um+|hm+|er+|come on|let'?s|well|ok|okay|so|and|but|then|now|also|sorry|apologies|please|pls|plz|hey|wait|"
        r"hold on|ugh|again|actually|look|listen|"
        r"bro|dude|thanks|thank you|i(?:'m| am) (?:sorry|afraid)|i (?:really )?(?:think|believe|fear)|i'd say|i mean|unfortunately|"
        r"yes|yeah|for now|this time|as i said|"
        r"(?:from now on|from here on|going forward)|just to be clear|to be clear|(?:can|could|would|will) you(?: please| kindly| just)?|"
        r"you keep \w{1,20} [\w\ue000 ]{1,140}|for the (?:last|second|third) time)\b)[\s.!…-]{0,4}"
    ),
    denial=compiled(
        r"(?:no+(?! (?:worr|prob|need|thank|thx|way|rush|idea|clue|doubt|big|one|more|matter|stress|hurry|wonder|off|fun|kidding|joke|"
        r"luck|complain|issue|pressure))|nope|nah|negative|wrong|incorrect|stop|not at all|absolutely not|"
        r"of course not)\b[\s.!…-]{0,4}"
    ),
    ask=compiled(
        r"(?:what|why|how|when|where|who|which|whose|is|are|was|were|do|does|did|can|could|would|should|will|has|have|isn'?t|aren'?t|"
        r"don'?t you|"
        r"doesn'?t|didn'?t|whats|am i|may i)\b"
    ),
    polite=compiled(r"(?:and |but |so |ok |then )?(?:please )?(?:can|could|would|will) you\b(?! tell| explain| check)"),
    aside=compiled(
        r".{0,200}?\b(?:(?:he|she|they|who|somebody|someone|everybody|people|(?:my|our|the|his|her|"
        r"their) [a-z]{2,20}(?: [a-z]{2,20})?) (?:also |just |always |then )?"
        r"(?:says?|said|thinks?|thought|claims?|claimed|told|tells|insists?|insisted|wrote|writes|believes?|replied|means|meant|"
        r"keeps? saying)|i (?:first |originally )?thought|at first|if|whether|unless|in case|suppose|when)\b"
    ),
    task=compiled(
        r"(?:please |can you |could you )?(?:translate|rewrite|proofread|review|summari[sz]e|rephrase|paraphrase|correct (?:this|the)|"
        r"fix (?:this|the) (?:text|sentence)|grade|classify|"
        r"explain (?:this|the)|write|draft|compose|reply to|answer this|analy[sz]e)\b"
    ),
    rejected=compiled(
        rf"{_IT}{_IS}{_VERY} (?:wrong|incorrect|false|inaccurate|untrue|nonsense|rubbish|bullshit|a mistake|an error|mistaken|made up|"
        rf"a lie)\b(?! to\b| with\b| that\b| of\b| on\b)",
    ),
    override=compiled(
        rf"(?:run|call|use|query) \ue000{{1,128}} with {_AT_MOST} <cap>",
        rf"(?:do not|don'?t|never|stop|quit)(?: ever| even)? (?:{_CALL}|{_CALLING}) <no>",
        rf"(?:i|we)(?:'ve| have)? (?:already |just )?(?:told|asked) you not to (?:{_CALL} <no>|{_CALL}\b(?! my\b))",
        rf"you (?:can'?t|cannot|may not|must not|mustn'?t|should not|shouldn'?t|(?:are|re|'re) not allowed to|need not|"
        rf"don'?t need to) {_CALL} <no>",
        r"(?:do|try|answer|solve) (?:it|this|that) without(?: using| calling)? <no>",
        r"(?:no more|enough with|enough of|without|forget(?: about)?|drop|skip|avoid|ditch|leave out|ignore|not) <no>",
        r"(?:use|try|call|take|run|switch to|go with|go for|pick|do it with) <yes>(?:,? (?:tool|function))?(?:,? (?:instead of|"
        r"rather than|not) <no>)?",
        r"(?:instead of|rather than) <no>(?: tool)?(?:,? (?:please )?(?:use|try|call|take|run|go with) <yes>)?",
        rf"you keep {_CALLING} <no>",
        r"replace <no> (?:with|by) <yes>",
        r"(?:only|just) <yes>",
        rf"(?:there is |there's )?no need to {_CALL} <no>",
        r"you (?:have to|must|should|need to|are supposed to) (?:use|call|run) <yes>",
        r"(?:look|check|verify|do|try) (?:it|this|that) (?:up )?(?:with|in|using|via) <yes>",
    ),
    cap=compiled(
        rf"(?:only |just )?{_SHOW}{_AT_MOST} <cap>{_OF}",
        rf"{_LIMIT} <cap>(?:{_OF}|<.>)",
        rf"{_SHOW}(?:only|just) <cap>{_OF}",
        rf"{_SHOW}<cap>{_OF} (?:max(?:imum)?|at (?:the )?most|tops)\b",
        rf"(?:do not|don'?t|never) \w{{1,20}}(?: \w{{1,20}})? more than <cap>{_OF}",
        rf"{_AT_MOST} <cap> (?:per|at a time|each)\b",
    ),
)
