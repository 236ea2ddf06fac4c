"""Words that say nothing of what a question is about, in English, German, Spanish and French; folded as `lexical.fold` does.

`FUNCTION_WORDS` are skipped when a question's words are looked for in a passage. The others tell thanks and instructions ("translate
that to German") from questions. The lists are this project's own.
"""

from __future__ import annotations

FUNCTION_WORDS = frozenset(
    """
    a about after all also am an and any are as at be been being but by can could did do does doing for from get got had has have having
    he her hers him his how i if in into is it its just me more most my no nor not of off on one or other our out over own s same she
    should so some such t than that the their them then there these they this those through to too under until up us very was we were
    what when where which while who whom whose why will with would you your many much name called
    tell give show know find want need like let say says said mean means please exactly may might must shall

    ab aber als am an andere anderen auch auf aus bei beim bin bis bist da damit dann das dass dein dem den denen der deren des dessen
    die dies diese dieser diesem diesen dieses dich dir doch dort du durch ein eine einem einen einer eines er es etwa euch fur gab gegen
    gibt habe haben hat hatte hatten hier ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja jede jeder jedes jetzt kann kein
    keine konnen konnte man mehr mein mich mir mit nach nicht noch nur ob oder ohne sehr sein seine seinem seinen seiner seit sich sie
    sind so solche sowie uber um und uns unser unter viel viele vom von vor wann war waren warum was weil welche welchem welchen welcher
    welches wem wen wenn wer werde werden wessen wie wieso wieviel wieviele wird wo wofur woher wohin womit worden wurde wurden zu zum
    zur zwischen sag sage sagen gib gebe zeig zeige zeigen nenne nennen weiss wissen mochte mochten will bitte heisst bedeutet eigentlich
    genau mal kannst konnt konnten konntest soll sollen sollte muss mussen darf durfen

    al algo ante antes aquel aquella asi aun aunque cada como con contra cual cuales cuando cuanta cuantas cuanto cuantos cuyo de del
    desde donde durante e el ella ellas ellos en entre era eran es esa ese eso esta estan estas este esto estos fue fueron ha habia han
    hasta hay la las le les lo los mas mi mientras muy ni nos nosotros o otra otras otro otros para pero por porque que quien quienes se
    sea segun ser si sido sin sobre son su sus tambien tan tanto te tenia tiene tienen todo todos tras tu tus u un una unas uno unos y
    ya yo dime dame muestra muestrame quiero saber puedes puede pueden podria necesito debe deben significa exactamente

    ai alors au aucun aussi autre autres aux avait avec avoir ayant bien c car ce ceci cela celle celles celui ces cet cette ceux chaque
    chez comme comment d dans depuis donc dont elle elles encore est et etait etaient ete etre eu fait faire fois font furent fut il ils
    j je l leur leurs lors lorsque lui ma mais meme memes moi moins mon n ne notre nous on ont ou par parce pas pendant peu peut plus
    pour pourquoi qu quand quel quelle quelles quels qui quoi sa sans sera ses sont sous sur ta tes toi ton tous tout toute toutes tres
    une va vers vos votre vous dis dites donne donnez montre montrez veux voudrais savoir peux pouvez peuvent doit dois signifie
    exactement combien
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
CJK_FUNCTION_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊哪里些什么谁多少几为何怎样如把被从到对也都而着过这那有个請请")
"""Chinese characters that mostly carry grammar; a pair of characters with one of them is not looked for."""

THANKS = frozenset(
    """
    thanks thank thx cheers hi hello hey bye goodbye great good perfect nice cool ok okay yes yeah yep please sorry welcome morning
    evening afternoon understood awesome wonderful sure help assist assistant bot
    danke vielen hallo tschuss servus moin super prima gut guten tag morgen abend bitte ja nein okay alles klar verstanden toll
    herzlichen hilf helfen hilfe assistent
    gracias hola adios buenos buenas dias tardes noches perfecto bueno genial vale favor si claro entendido muchas mucho ayuda ayudar
    ayudame asistente
    merci bonjour bonsoir salut revoir parfait super bon bonne beaucoup oui non accord compris daccord aide aider aidez
    谢谢 你好 您好 再见 好的
    """.split()  # noqa: SIM905
)
"""A message of these and function words alone asks nothing of the passages; with a question mark, in mid-conversation, it may go on."""

INSTRUCTIONS = frozenset(
    """
    translate summarize summarise summary rewrite rephrase paraphrase shorten shorter longer expand simplify explain continue repeat
    format reformat list bullet proofread correct tldr elaborate again
    ubersetze ubersetzen ubersetz ubersetzung zusammenfassen zusammenfassung fasse fass umformulieren formuliere kurze kurzen kurzer
    langer vereinfache erklare erklaren weiter wiederhole nochmal auflisten liste korrigiere
    traduce traducir traduzca traduccion resume resumir resumen resuma reescribe reescribir acorta acortar simplifica explica explicar
    continua repite corrige lista enumera
    traduis traduire traduisez traduction resumer resumez reecris reecrire reecrivez raccourcis raccourcir simplifie explique
    expliquez continuez repete corrige liste enumere
    翻译 总结 概括 继续 解释
    """.split()  # noqa: SIM905
)
"""A message that holds one of these, and beside it only `INSTRUCTION_OBJECTS`, is about the text at hand, not about its subject."""

INSTRUCTION_OBJECTS = frozenset(
    """
    text texts document documents passage passages context article page pages paragraph paragraphs content answer answers response reply
    message above below following previous last first part points point bullets table sentence sentences word words line lines short
    brief briefly simple simpler terms detail details key main english german french spanish chinese italian markdown json file files it
    one two three four five ten half
    dokument dokumente absatz abschnitt artikel seite seiten inhalt antwort nachricht obigen oben folgenden folgende vorherige letzte
    punkte stichpunkte stichpunkten satz satze satzen worte worten kurz knapp einfach einfachen zusammen wichtigsten deutsch deutsche
    deutschen englisch englische franzosisch franzosische spanisch spanische tabelle mal zwei drei vier funf zehn
    texto textos documento documentos pasaje pasajes contexto articulo pagina parrafo contenido respuesta mensaje anterior siguiente
    ultimo puntos frases frase palabras breve brevemente sencillo ingles aleman frances espanol tabla principales dos tres cuatro cinco
    diez
    texte textes passages contexte paragraphe contenu reponse precedent suivant dernier phrases mots bref brievement anglais allemand
    francais espagnol tableau principaux deux trois quatre cinq dix
    这段 文本 文章 文字 上文 下文 以上 英文 中文 德文
    """.split()  # noqa: SIM905
)

POINTERS = frozenset(
    """
    it its they them their he him his she her this that these those there then one ones former latter same
    er ihn ihm sein seine ihr ihre ihnen dessen deren dies diese dieser dieses davon dazu dafur damit darin daran dort
    el ella ellos ellas ello lo le les su sus este esta esto ese esa eso aquel alli
    il elle ils elles lui leur leurs ce cet cette ces cela ca celui celle y en
    它 他 她 这 那 其
    """.split()  # noqa: SIM905
)
"""Words by which a question points back at what was said before."""

OPENERS = frozenset("and but also so or und aber auch y pero tambien et mais aussi 那".split())  # noqa: SIM905
"""A question that starts with one of these goes on from the one before."""
