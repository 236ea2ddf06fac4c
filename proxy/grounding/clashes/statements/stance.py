"""What a sentence is for and what it is against: "I prefer trains, and never fly" is for "trains" and against "fly".

In: a sentence. Out: the words that follow (in German also those that go before) each cue of liking or of dislike. A proposal is then
compared with what somebody likes and dislikes, instead of with the sentence as a whole, which is about both alike: on the development
data whole sentences tell proposals that go against a preference from others no better than chance. English, German, Spanish, French.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from msgspec import Struct

_EN_VERBS = (
    "like|enjoy|want|need|eat|drink|use|wear|watch|play|read|listen to|consume|buy|purchase|stand|tolerate|support|care for|have|own|"
    "appreciate|believe in|accept|fly|drive|take|travel|visit|stay|do|go|book|order|recommend|suggest|include|prefer|work"
)
_AGAINST = (
    r"(?:dislik|hat(?=es?\b|ing\b|ed\b)|loath|detest|avoid|despis|abhor|refus)\w*(?: to \w+)?|"
    rf"(?:do(?:es)? ?n[o'’]t|do(?:es)? not|did ?n[o'’]t|cannot|can ?n?o?['’]?t|won['’]t|will not|would not|would ?n['’]t|never|not) "
    rf"(?:\w+ ){{0,2}}?(?:{_EN_VERBS})\w{{0,3}}\b(?: to (?:eat|have|see|go to|go|be|get|stay in|stay|travel|watch|use|buy)\b)?|"
    r"allerg(?:ic to|y to|ies to)|aversion to|phobia of|(?:afraid|scared|terrified|wary) of|fear of|refrain from|not interested in|"
    r"no interest in|opposed to|(?:am|is|are) against|uncomfortable (?:with|in)|(?:in)?tolerant (?:to|of)|sensitive to|rather than|"
    r"instead of|over|"
    r"without|free (?:of|from)|turned off by|object to|not (?:a |an? big )?fan of|bored by|sick of|tired of|fed up with|anything but|"
    r"find(?:s|ing)?(?=[^.;]{3,60}\b(?:boring|tedious|dull|unsettling|annoying|stressful|uncomfortable|off-putting|overwhelming|disturbing|"
    r"unappealing|disgusting)\b)|stay(?:ing)? away from|steer clear of|exclude|excluding|no (?=\w)|not (?:in |on |at |by )?(?=an? |the )|"
    r"hass(?:e|t|en)|verabscheu\w*|vermeid\w*|meide[nt]?|ungern|abneigung gegen|allergi\w+ (?:gegen|auf)|angst vor|statt|anstatt|"
    r"anstelle von|als(?= \w+$)|"
    r"ohne|kein\w{0,2}|(?:mag|möchte|will|esse|trinke|nutze|fahre|fliege|kaufe|trage|brauche|vertrage) (?:\w+ ){0,2}?nicht|"
    r"nichts mit|gegen|nie(?:mals)?|"
    r"odi[oa]\w?|detest[oa]\w?|evit[oae]\w*|no (?:me |nos |le )?(?:gustan?|encantan?|apetece|interesan?|quiero|queremos|como|bebo|"
    r"uso|tomo|compro|"
    r"viajo|soporto|aguanto|puedo (?:comer|beber|tomar))|alérgic[oa]s? (?:a|al)|alergia (?:a|al)|miedo (?:a|al)|en (?:vez|"
    r"lugar) de|nada de|sin|nunca|"
    r"aversión (?:a|al|por)|jamás|"
    r"déteste\w?|hais|évite\w?|(?:n['’]|ne )\w+ (?:pas|jamais|plus|aucune?)(?: (?:de |d['’]|du |des |les? |la ))?|allergique (?:à|au|aux)|"
    r"allergie (?:à|au|aux)|peur (?:de|des|du)|plutôt que|au lieu de|sans|aversion pour|jamais|pas de"
)
_FOR = (
    r"(?:prefer|lov(?=e|es|ed|ing)|enjoy|favou?r(?!ite)|ador)\w*(?: to)?|(?:i|we|user|they|she|he) (?:really |also |quite |"
    r"do )?likes?(?: to)?|"
    r"(?:i|we|she|he|they)['’]d (?:really )?(?:like|love|prefer|rather)(?: to)?|"
    r"would (?:really )?(?:like|love|prefer)(?: to)?|would rather|(?:i|we)(?:['’]ll| will) (?:have|take)|(?:i['’]m|"
    r"we['’]re) having|favou?rite \w+ (?:is|are)|"
    r"only|exclusively|"
    r"committed to|passionate about|(?<!not a )(?<!not )fan of|want(?:s|ed)?(?: to)?|need(?:s|ed)?(?: to)?|looking for|must (?:be|"
    r"have)?|value|priorit\w+|"
    r"interested in|drawn to|preference for|insist on|make it|choose|opt for|go (?:for|with)|book(?: me| us)?|give me|find (?:me|"
    r"us)|get me|"
    r"follow|practi[cs]e|always|"
    r"bevorzug\w*|lieb(?:e|en|er|t)|am liebsten|mag|mögen|möchten?|hätten? gern\w?|will|wollen|brauche?n?|nur|ausschließlich|immer|gern\w?|"
    r"buch\w{1,3}(?: mir| uns)?|fan von|lieblings\w+ (?:ist|sind)|"
    r"prefer(?:imos|ir(?:ía)?|encia por)|prefier[oae]\w?|me (?:gustan?|encantan?|gustaría)|nos (?:gustan?|encantan?|gustaría)|ador[oa]|"
    r"quier[oe]\w?|queremos|quisiera|necesit\w+|sol(?:o|amente)|sólo|siempre|mejor|resérvame|busco|"
    r"préf[èé]r\w*|aim\w{1,4}|adore\w?|veux|voulons|voudrais|voudrions|souhait\w+|besoin (?:de|d['’])|uniquement|seulement|"
    r"toujours|cherche\w?|plutôt(?! que)|"
    r"réserve[zr]?(?:-moi|-nous)?"
)
_CLAUSE_END = re.compile(
    r"[.;!?:(\n]|,?\s(?:but|because|since|due to|so that|even if|although|aber|sondern|weil|da|denn|obwohl|pero|sino|porque|aunque|"
    r"mais|car|"
    r"parce que|bien que)\b|,\s(?:and|und|y|et)\s|\b(?:and|und|y|et) (?=(?:i|we|ich|wir|yo|je|nous)\b)|\s[–—]\s",
    re.I,
)
_EDGES = re.compile(
    r"^(?:\s|,|of|the|any|a|an|to|all|some|at all|really|strongly|der|die|das|den|dem|eine?[nrms]?|el|la|los|las|una?|de|du|des|"
    r"les?|l['’]|d['’]|i|we|ich|wir|yo|je|nous|user|(?:meine?|my|mi|mon|ma) \w+)+(?=\s|$)"
    r"|(?:(?:^|[\s,]+)(?:any ?more|anymore|mehr|plus|más|and|or|i|we|that|which|to|who|please|instead|at all|und|oder|ich|bitte|"
    r"nicht|y|o|yo|que|por favor|et|ou|je|pas|"
    r"s['’]il (?:te|vous) plaît))+$",
    re.I,
)
_TURNED = re.compile(r"\bnot\s*$|\bn['’]t\s*$|\b(?:nicht|no|ne)\s*$", re.I)
_FREE_OF = re.compile(r"\b(\w{3,})-free\b", re.I)
_MAX_TARGET_CHARS = 120
_MAX_CUES = 24


class Stance(Struct, frozen=True):
    """What somebody is for and against, in their words."""

    liked: tuple[str, ...]
    disliked: tuple[str, ...]


@cache
def _cue() -> re.Pattern[str]:
    """Compiled at its first use: it takes milliseconds."""
    return re.compile(
        rf"(?:(?<![\w'’])|(?<=\b[jdln]['’]))(?:(?P<against>{_AGAINST})|(?P<for>{_FOR}))(?!\w)",
        re.I,
    )


@lru_cache(maxsize=512)
def read_stance(sentence: str) -> Stance:
    """The targets of a sentence's likes and dislikes, in order; of a bounded number of cues."""
    cues = list(_cue().finditer(sentence))[:_MAX_CUES]
    liked: list[str] = []
    disliked: list[str] = []
    clause_start = 0
    for i, cue in enumerate(cues):
        against = cue["for"] is None
        end = cues[i + 1].start() if i + 1 < len(cues) else len(sentence)
        target = _clause(sentence[cue.end() : end]) or _inside(cue[0]) or _before(sentence[clause_start : cue.start()]) or _verb(cue[0])
        clause_start = end
        if against is False and _TURNED.search(sentence[max(0, cue.start() - 8) : cue.start()]):
            against = True
        if target:
            (disliked if against else liked).append(target)
    disliked += _FREE_OF.findall(sentence)
    return Stance(tuple(dict.fromkeys(liked)), tuple(dict.fromkeys(disliked)))


def _clause(text: str) -> str:
    """What is left of `text` up to the end of the clause, without small words at its edges."""
    stop = _CLAUSE_END.search(text)
    target = text[: stop.start()] if stop is not None else text
    target = _EDGES.sub("", _EDGES.sub("", target.strip(" ,.\"'"))).strip(" ,.\"'")
    return target[:_MAX_TARGET_CHARS] if len(target) > 2 else ""


def _before(text: str) -> str:
    """The same of what goes before a cue: "Fisch mag ich nicht"."""
    starts = list(_CLAUSE_END.finditer(text))
    return _clause(text[starts[-1].end() :] if starts else text)


def _inside(cue: str) -> str:
    """What stands between a German verb and its "nicht": "mag Hunde nicht"."""
    words = cue.split()
    return _clause(" ".join(words[1:-1])) if len(words) > 2 and words[-1].lower() == "nicht" else ""


def _verb(cue: str) -> str:
    """The last word of a cue that has nothing else to be about: "I never fly"."""
    return cue.split()[-1] if " " in cue else ""


def has_stance(sentence: str) -> bool:
    """Whether it says that somebody likes or dislikes, wants or does not want."""
    return _cue().search(sentence) is not None
