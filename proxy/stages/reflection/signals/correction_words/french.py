"""French: how people correct an agent (`proxy.stages.reflection.signals.correction_words.wording` says how to read it)."""

from proxy.stages.reflection.signals.correction_words.wording import CorrectionWords, compiled

_EST = r"(?:c'est|c'etait|c est|(?:ca|cela|ceci|(?:la|ta|votre) reponse|(?:le|ton|votre) (?:resultat|calcul|resume)) (?:est|etait))"
_TRES = r"(?: (?:toujours|encore|completement|totalement|tout|tout a fait|vraiment|tres|simplement|du tout|bien)){0,3}"
_UTILISE = (
    r"(?:utilise[rsz]?|emploie|employez|prends|prenez|appelle[rsz]?|appelez|essaie|essayez|passe a|passez a|lance[rz]?|sers-toi de|choisis)"
)
_UTILISER = r"(?:utiliser|appeler|chercher|rechercher|relancer|lancer|essayer|reessayer|repeter|faire|deviner|inventer|interroger|demander)"
_DE_FR = (
    r" ?(?:resultats?|lignes?|entrees?|documents?|pages?|enregistrements?|fichiers?|articles?|elements?|suggestions|options?|idees|"
    r"passages?|"
    r"recherches?|appels?|fois|tentatives?|essais|requetes?)\b"
)
_MONTRE = (
    r"(?:(?:montre|donne|liste|affiche|renvoie|sors|montrez|donnez|affichez|renvoyez|utilise|utilisez|prends|prenez)(?:-moi|-nous)?"
    r"(?: seulement)? )?"
)

FRENCH = CorrectionWords(
    opener=compiled(
        r"(?:(?:oh|ah|euh|hm+|ben|bah|bon|ok|d'accord|et|mais|alors|donc|maintenant|aussi|pardon|desolee?|excuse[- ]moi|"
        r"excusez[- ]moi|s'il (?:te|vous) plait|stp|svp|attends?|attendez|en fait|merci|je (?:crois|pense) (?:que|qu')|je crains que|"
        r"moi|"
        r"desormais|dorenavant|a partir de maintenant|cette fois|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|plutot|oui|"
        r"si)\b)[\s.!…-]{0,4}"
    ),
    denial=compiled(r"(?:non+|nan|faux|incorrect|pas du tout|mais non)\b[\s.!…-]{0,4}"),
    ask=compiled(
        r"(?:qu'est-ce|que|quoi|quel(?:le)?s?|pourquoi|comment|quand|ou est|qui|combien|est-ce|est-il|c'est quoi|peux-tu|pouvez-vous|"
        r"pourriez|as-tu|avez-vous|es-tu|etes-vous|y a-t-il|dois-je)\b"
    ),
    polite=compiled(r"(?:et |mais )?(?:(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous|tu peux|vous pouvez)\b(?! me dire| m'expliquer)"),
    aside=compiled(
        r".{0,200}?\b(?:je (?:pensais|croyais) que|(?:il|elle|ils|elles|on|quelqu'un|(?:mon|ma|notre|un|une|son|sa|le|"
        r"la) [a-z]{2,20}(?: [a-z]{2,20})?) (?:m'|nous |me |a |m'a )?(?:dit|disait|a dit|disent|pense|pensait|croit|affirme|pretend|"
        r"ecrit|trouve)|si|quand|au cas ou)\b(?=.{1,200})"
    ),
    task=compiled(
        r"(?:peux-tu |pouvez-vous )?(?:traduis|traduisez|reecris|corrige (?:ce|le|la)|corrigez (?:ce|le|la)|relis ce|resume|resumez|"
        r"ecris|ecrivez|redige|redigez|reponds a|analyse|explique)\b"
    ),
    rejected=compiled(
        rf"{_EST}{_TRES} (?:faux|fausse|incorrect|inexact|errone|une erreur|n'importe quoi|le mauvais|la mauvaise|mensonger)\b(?! de| que)",
    ),
    override=compiled(
        r"(?:que )?\ue000{1,128} (?:renvoie|donne|rende|avec) (?:au plus|au maximum|pas plus de) <cap>",
        rf"(?:n'|ne )?(?:{_UTILISE}|recherche[rz]?|relance[rz]?|rappelle[rz]?|interroge[rz]?)(?: plus| pas| jamais){{1,2}}"
        r"(?: dans| avec)? <no>",
        rf"(?:arrete[rz]?|cesse[rz]?)(?: (?:tout de suite|stp|svp))? (?:de |d')(?:{_UTILISER}|calculer)(?: dans| avec)? <no>",
        r"(?:plus de|assez de|sans|oublie|evite|ignore|pas|arrete avec) <no>",
        rf"{_UTILISE}(?: plutot| maintenant)? <yes>(?:,? (?:au lieu de|a la place de|plutot que|et pas|pas) <no>)?",
        rf"(?:au lieu de|a la place de|plutot que) <no>(?:,? {_UTILISE} <yes>)?",
        r"(?:seulement|uniquement) <yes>",
        rf"(?:pas besoin|inutile) (?:de |d')(?:{_UTILISER}|rappeler|reutiliser)(?: encore)? <no>",
        r"(?:essaie|essaye|essayez)(?: plutot)? avec <yes>",
        r"(?:je prefere|je veux) que (?:tu|vous) (?:utilis(?:es|iez)|pren(?:nes|iez)|appel(?:les|iez)) <yes>(?:,? (?:et pas|pas|"
        r"au lieu de) <no>)?",
        r"(?:laisse tomber|laissez tomber|saute|passe-toi de) <no>",
        r"(?:tu dois|vous devez|il faut|tu devrais) (?:utiliser|prendre|appeler) <yes>",
    ),
    cap=compiled(
        rf"{_MONTRE}(?:au (?:maximum|plus|max)|maximum|max\.?|pas plus de|jusqu'a|un maximum de|(?:seulement|uniquement|"
        rf"juste)(?: les(?: premiers| premieres)?)?) <cap>(?: premieres?| premiers?)?{_DE_FR}",
        rf"(?:limite[rz]?|restreins|restreignez)(?:-toi|-vous|-le|-la|-les)?(?: \w{{1,12}} \w{{1,20}})? a (?:un maximum de |"
        rf"au plus )?<cap>(?:{_DE_FR}|<.>)",
        rf"{_MONTRE}<cap>{_DE_FR} (?:au )?(?:maximum|max|plus)\b",
        r"(?:au (?:maximum|plus|max)|maximum|pas plus de) <cap> (?:par|a la fois|chaque)\b",
    ),
)
