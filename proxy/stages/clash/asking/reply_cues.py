"""The words by which a reply is understood: numbers, names of the options, flexible, neither, unsure; English, German, Spanish, French.

All are written as `folded` leaves a text: small letters without accents, one space between words. Read by
`proxy.stages.clash.asking.replies` and `proxy.stages.clash.asking.reply_values`. Every pattern is bounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ORDINALS: tuple[frozenset[str], ...] = (
    _words(
        "1 1st first one former erste erster erstes ersten erstere ersteres eins primera primero primer uno premier premiere "
        "older earlier old previous original fruhere fruheren alte alten vorherige vorherigen ursprungliche ursprunglichen anterior "
        "antigua antiguo precedente precedent ancien ancienne"
    ),
    _words(
        "2 2nd second two latter zweite zweiter zweites zweiten letztere letzteres zwei segunda segundo dos deuxieme second seconde deux "
        "newer newest new latest recent neue neuen neuere neueren neueste neuesten nueva nuevo reciente nouveau nouvelle recente"
    ),
    _words("3 3rd third three dritte dritter drittes dritten drei tercera tercero tres troisieme trois"),
)
COUNTING = _words("1 2 3 one two three eins zwei drei uno dos tres deux trois")
"""In a longer reply they count something: "two adults"."""
FILLERS = _words(
    "i id ill im d ll m s would will like want prefer choose choosing pick take go going with for the that this it is lets let us use "
    "option number no nr answer choice statement version thing please thanks thank you ok okay well then rather my your and hm so yes "
    "anything but most mas plus "
    "ich nehme nimm mochte will wahle wurde gerne gern lieber die der das den dem bitte danke nummer antwort angabe also dann mir fur ja "
    "yo quiero prefiero elijo escojo me quedo con la el lo los las opcion numero por favor gracias pues si "
    "je j veux prefere choisis prends plutot le les l numero reponse svp sil s il vous te plait merci alors oui c est ce"
)
NUMBERED = re.compile(
    r"\b(?:option|number|nummer|opcion|numero|nr|no|choice|antwort|reponse|variante)\s{0,2}[.°º#:]?\s{0,2}(\d{1,2}|[a-z]{2,9})\b|#\s?(\d)"
)
LEADING_NUMBER = re.compile(r"\W{0,4}(\d)\s{0,2}(?:[.):;,–-]|$)")
NEGATORS = _words("not nicht pas never kein keine keinen keines ni ne dont dislike sin without ohne sans")
REACH = 3
"""So many words behind a negation are negated."""
CONTRAST = re.compile(
    r"\b(?:instead of|rather than|anything but|(?:an)?statt|anstelle von|en vez de|en lugar de|au lieu de|plutot que|nicht mehr|"
    r"no longer|^(?:non )?plus (?:a|au|aux|en)|forget|vergiss|olvida|oublie[zr]?|nada de|nichts mit|"
    r"n(?:e)? \w{1,15} plus|not|nicht|pas(?! mal))\b"
)
"""What follows is what the user does not want."""
NEGATED_NO = re.compile(r"\bno (?!(?:,|the|i|it|wait|thanks|thank|sorry|go|let|make|use|longer|preference|se|me|prefiero)\b|,)(?=\w)")
"""A "no" that denies what follows, and does not answer something."""
FLEXIBLE_ALONE = re.compile(
    r"\b(?:flexible|flexibel|flexibles|both|either|whichever|whatever|any|anything(?! but)|beides|beide|egal|ambos|ambas|cualquiera|"
    r"les deux|l un ou l autre|las dos|los dos|lo mismo|indifferent|indiferente|n importe)\b"
)
FLEXIBLE = re.compile(
    r"\b(?:(?:i am|i m|im|ich bin|soy|je suis|stay|remain)(?: (?:quite|very|pretty|ganz|da|bastante|assez|tout a fait))? fle?xib(?:le|el)|"
    r"(?:does not|doesn t|doesnt|don t|dont|do not) (?:really )?(?:matter|mind|care)|no (?:strong )?preferences?|"
    r"(?:both|either)(?: (?:one|of them|options?))? (?:is|are|works?|would be|will do|sounds?)|up to you|you (?:choose|decide)|"
    r"keine praferenz|spielt keine rolle|ist mir (?:ganz |vollig |eigentlich )?(?:egal|gleich|wurscht|recht)|"
    r"mir (?:ganz |vollig )?egal|beides (?:geht|passt|ist|ware)|such (?:du )?(?:dir )?(?:es |was )?aus|entscheide du|"
    r"(?:me )?da (?:igual|lo mismo)|sin preferencia|no me importa|(?:ambos|ambas|los dos|las dos) (?:me )?(?:valen|sirven|estan|van)|"
    r"tu (?:eliges|decides)|como quieras|peu m? ?importe|m est egal|sans preference|pas de preference|"
    r"les deux (?:me )?(?:vont|conviennent|sont)|comme (?:tu|vous) (?:veux|voulez)|a toi de (?:choisir|voir)|a vous de (?:choisir|voir))\b"
)
NOT_FLEXIBLE = re.compile(r"\b(?:not|nicht|no|pas|kein\w{0,2}|nada) (?:\w{1,12} )?(?:fle?xib|egal|both|beid|either|any\b)")
NEITHER = re.compile(
    r"\b(?:neither|none of (?:them|these|those|the)|keine?[rs]? (?:von|davon|der) ?(?:beiden|denen|den beiden)?|"
    r"weder noch|^(?:none|keine?[rsn]?|ningun[oa]?|aucune?)$|"
    r"ningun[oa]?(?: de (?:los|las) dos| de ellas| de ellos)|ni (?:la )?una? ni (?:la )?otr[ao]|"
    r"aucun\w?(?: des deux)?|ni l un\w? ni l autre)\b"
)
UNSURE = re.compile(
    r"\b(?:(?:not|nicht|pas) (?:so |ganz |really |yet )?(?:sure|sicher|certain|sur)|(?:don t|dont|do not) know|can(?:no|n?)t? ?t? decide|"
    r"weiss (?:ich )?(?:es )?(?:noch )?nicht|weiss nicht|kann mich nicht entscheiden|no (?:lo )?se\b|no estoy segur[oa]|"
    r"je ne sais pas|sais pas)\b"
)
BARE_AMOUNT = re.compile(r"\b\d{2,7}\b\s?(?:[€$£¥]|(?:eur(?:os?)?|dollars?|usd|gbp|pounds?|chf|francs?|franken)\b)", re.I)
"""Money, also where "1200 €" could be a year."""
LESS = re.compile(
    r"\b(?:lower|lowest|smaller|smallest|cheaper|cheapest|less|niedriger\w*|niedrigst\w*|kleiner\w*|gunstiger\w*|billiger\w*|geringer\w*|"
    r"menor|mas barat\w+|mas baj\w+|moins cher\w*|moins eleve\w*|plus bas\w*|plus petit\w*|moindre)\b"
)
MORE = re.compile(
    r"\b(?:higher|highest|bigger|biggest|larger|largest|greater|more expensive|hoher\w*|hochst\w*|grosser\w*|teurer\w*|"
    r"mayor|mas car\w+|mas alt\w+|plus cher\w*|plus eleve\w*|plus grand\w*|plus haut\w*)\b"
)
"""One of two amounts by its size."""
BY_THEN = re.compile(
    r"(?<!as )(?<!wie )(?<!como )(?<!comme )\b"
    r"(?:was|were|used to|before|previously|formerly|war|fruher|vorher|damals|antes|era|avant|etait)\b"
)
"""Of what once was."""
CHANGED = re.compile(
    r"\b(?:(?:it|that|this)(?: has| s)? changed|changed|(?:i|we) (?:have |ve )?moved|updated?|(?:hat sich |es hat sich )?geandert|"
    r"umgezogen|"
    r"ha cambiado|cambio|cambie|me (?:he )?mud\w+|(?:ca|cela) a change|j ai (?:change|demenage))\b"
)
"""Of two facts: the older one was so, and the newer one is."""
WRONG = re.compile(
    r"\b(?:errors?|mistakes?|wrong|incorrect|typo|fehler|falsch|irrtum|stimmt nicht|versehen|equivocad[oa]|incorrect[oa]|fals[oa]|erreur|"
    r"faux|fausse|inexacte?)\b"
)
"""One of two facts never was so."""
BOUNDED = re.compile(
    r"\b(?:nicht mehr als|no more than|not more than|not over|no mas de|pas plus de|not only|nicht nur|no solo|pas seulement)\b"
)
"""A "not" that denies nothing."""
NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-zß-ÿ][\w-]*|\d[\d.,]*")
"""What is written large within a sentence, and numbers."""
TURNS = _words("but sondern sino mais aber pero ,")
"""Behind them a negation is over."""
STOP = _words(
    "a an the i my me we our you your to of in on at for with and or is are be am was it that this these those want like prefer would "
    "need please have has do not no make let s d m ll t by from as so about only just still also really very there here now then via per "
    "ich mir mich mein meine meinen wir uns unser der die das den dem des ein eine einen einem einer zu von im in am auf fur mit und oder "
    "ist sind bei als auch noch nur war bin mochte will hatte gern gerne lieber bitte nicht kein keine es doch "
    "yo mi mis me nos un una el la los las lo de del en a con para por desde como muy solo y o es son era quiero prefiero gusta no "
    "je j moi mon ma mes nous un une le la les l de du des en a au aux avec pour par comme tres "
    "et ou est sont prefere veux voudrais aime ne pas c qu que"
)


def spelled_out(plain: str) -> str:
    """With "don t" as "do not"."""
    return _NOT.sub(r"\1 not", plain)


def folded(text: str, *, commas: bool = False) -> str:
    """Words and numbers in lower case without accents, one space between; with `commas`, these too."""
    return " ".join(word for word in _tokens(text) if commas or word != ",")


_NOT = re.compile(r"\b(do|does|did|is|are|was|wo|would|should|ca|could|have|has)n t\b")


def _tokens(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKD", text.casefold().replace("ß", "ss"))
    for match in re.finditer(
        r"\d+(?:[.,]\d+)*(?:(?:st|nd|rd|th|er|eme)\b)?|[^\W\d_]+|[#,]", "".join(c for c in plain if not unicodedata.combining(c))
    ):
        yield match[0]
