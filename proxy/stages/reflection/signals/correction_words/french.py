"""French: how people correct an agent (`proxy.stages.reflection.signals.correction_words.wording` says how to read it)."""

from proxy.stages.reflection.signals.correction_words.wording import CorrectionWords, compiled

_CA = r"(?:ca|cela|ceci|ce|(?:la|ta|votre) (?:reponse|somme)|(?:le|ton|votre) (?:resultat|calcul|resume|total))"
_EST = r"(?:c'est|c'etait|c est|(?:ca|cela|ceci|(?:la|ta|votre) reponse|(?:le|ton|votre) (?:resultat|calcul|resume)) (?:est|etait))"
_NEST = r"(?:ce n'est|c'est|ce n'etait|c'etait|(?:ca|cela) n'est|n'est|(?:la|ta|votre) reponse n'est|(?:le|ton|votre) resultat n'est)"
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
        rf"{_NEST} pas{_TRES} (?:correct|juste|exact|vrai|bon|ca|ce que|ma (?:question|commande)|mon (?:compte|vol|numero)|"
        rf"la (?:bonne|question)|le (?:bon|client|fichier)|celui|celle|comme ca)\b(?! que)",
        rf"{_CA} ne peut pas etre (?:juste|correct|vrai|ca)",
        r"(?:faux|incorrect|n'importe quoi|pas vrai|toujours faux|mauvaise reponse|pas ce que j'ai \w{1,20})\s*$",
        r"(?:tu te trompes|vous vous trompez|tu t'es trompee?|vous vous etes trompee?s?|vous faites erreur|tu fais erreur)\b",
        r"(?:tu as|t'as|vous avez) (?:tort|confondu|mal (?:compris|lu|interprete)|ignore|oublie|melange|fait une erreur|invente)\b",
        r"(?:comme )?je (?:l'ai |te l'ai |t'ai |vous ai |vous l'ai |viens de |l'avais |t'avais )(?:deja )?(?:dit|ecrit|donne|explique|"
        r"precise|indique|dire|deja)\b",
        r"relis\b|relisez\b",
    ),
    override=compiled(
        r"(?:que )?\ue000{1,128} (?:renvoie|donne|rende|avec) (?:au plus|au maximum|pas plus de) <cap>",
        rf"(?:n'|ne )?(?:{_UTILISE}|recherche[rz]?|relance[rz]?|rappelle[rz]?|interroge[rz]?)(?: plus| pas| jamais){{1,2}}"
        r"(?: dans| avec)? <no>",
        r"(?:n'|ne )(?:utilise[rz]?|appelle[rz]?|cherche[rz]?|recherche[rz]?|relance[rz]?|rappelle[rz]?|interroge[rz]?|fais|faites|"
        r"refais|refaites|reessaie|recommence[rz]?|repete[rz]?)(?: plus| jamais)\b",
        r"(?:n'|ne )?(?:devine|invente|suppose)[rz]? (?:pas|rien|plus)\b",
        rf"(?:arrete[rz]?|cesse[rz]?)(?: (?:tout de suite|stp|svp))? (?:de |d')(?:{_UTILISER}|calculer)(?: dans| avec)? <no>",
        rf"(?:arrete[rz]?|cesse[rz]?) (?:de |d')(?:{_UTILISER})\b",
        r"(?:arrete[rz]?|stop)(?: ca| cela| avec ca)?\s*$",
        r"plus (?:de |d'|aucune? )(?:recherches?|appels?|requetes?|tentatives?)\b",
        r"(?:plus de|assez de|sans|oublie|evite|ignore|pas|arrete avec) <no>",
        rf"{_UTILISE}(?: plutot| maintenant)? <yes>(?:,? (?:au lieu de|a la place de|plutot que|et pas|pas) <no>)?",
        rf"(?:au lieu de|a la place de|plutot que) <no>(?:,? {_UTILISE} <yes>)?",
        r"(?:seulement|uniquement) <yes>",
        rf"{_UTILISE}(?: plutot)? (?:l'autre|un autre|une autre) (?:outil|fonction|api|source|methode|recherche|requete)\b",
        r"(?:ignore[rz]?|oublie[rz]?|ecarte[rz]?|laisse tomber) (?:le |la |les |ce |cette |ces |ton |tous les )?(?:(?:dernier|"
        r"derniere|premier|premiere)s? )?(?:resultats?|recherche|sortie|documents?|outil|reponse de)\b",
        rf"(?:ne )?(?:{_UTILISE}|regarde[rz]?|consulte[rz]?|cherche[rz]?|lis|lisez)(?: dans)? (?:que|qu'|uniquement|seulement|"
        rf"rien que|exclusivement) ?[\w' ]{{0,30}}?(?:documents?|documentation|doc|sources?|fichiers?|manuel|outil|base)\b",
        r"(?:uniquement|seulement|juste) (?:utilise[rz]?|regarde[rz]?|consulte[rz]?|dans|avec|les|la|le) ?[\w' ]{0,30}?(?:documents?|"
        r"documentation|sources?|manuel|outil|base de donnees)\b",
        r"(?:c'est )?assez (?:cherche|recherche|essaye|devine)\b|(?:ca suffit|assez)(?: de)? (?:les |de |avec les )?recherches?\b",
        rf"(?:pas besoin|inutile) (?:de |d')(?:{_UTILISER}|rappeler|reutiliser)(?: encore)? <no>",
        r"(?:essaie|essaye|essayez)(?: plutot)? avec <yes>",
        r"(?:je prefere|je veux) que (?:tu|vous) (?:utilis(?:es|iez)|pren(?:nes|iez)|appel(?:les|iez)) <yes>(?:,? (?:et pas|pas|"
        r"au lieu de) <no>)?",
        r"(?:travaille[rz]?|reponds|repondez|base-toi|basez-vous) (?:uniquement|seulement|exclusivement) (?:avec|sur|"
        r"a partir) [\w' ]{0,40}?(?:pdf|pieces?|fichiers?|documents?|sources?|texte|contexte|documentation)\b",
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
    bare_cap=compiled(
        r"(?:au (?:maximum|plus|max)|maximum|max\.?|pas plus de) <cap><.>",
        rf"{_MONTRE}<cap> (?:au )?(?:maximum|max)\s*$",
        rf"<cap>(?:{_DE_FR})? (?:me )?suffi(?:sent|t|ront)\b",
    ),
)
