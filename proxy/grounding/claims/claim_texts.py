"""The phrases by which an answer's sentences are told apart, in English, German, Spanish and French: patterns, nothing else.

Read by `proxy.grounding.claims.checkable` and `proxy.grounding.claims.claims`. All are matched in lower case with straight apostrophes, and
every repetition is bounded.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

_GAP = r"[^.!?\n]{0,80}"

GREETINGS = (
    r"sure(?: thing)?|certainly|of course|absolutely|definitely|great|(?:that's an? )?(?:great|good|excellent) question|hello(?: there)?"
    r"|hi(?: there)?|hey|thanks?|thank you(?: (?:so|very) much)?|you're(?: very)? welcome|no problem|my pleasure|good luck|enjoy|cheers"
    r"|have an? (?:nice|great|good|wonderful) (?:day|time|trip)|ok|okay|alright|got it|understood|i see|i apologi[sz]e(?: for .{0,60})?"
    r"|sorry|best regards|take care",
    r"klar|gern|gerne|aber gerne|natürlich|selbstverständlich|hallo|guten (?:tag|morgen|abend)|danke(?: schön)?|vielen dank|bitte(?: schön"
    r"| sehr)?|gute frage|viel (?:erfolg|glück|spaß)|viele grüße|mit freundlichen grüßen|einen schönen tag(?: noch)?|kein problem|in ordnung",
    r"claro(?: que sí)?|por supuesto|hola|buen(?:os días|as tardes|as noches)|(?:muchas )?gracias|de nada|buena pregunta|con (?:mucho )?gusto"
    r"|saludos|desde luego|perfecto|entendido|buena suerte",
    r"bien sûr|bonjour|bonsoir|salut|merci(?: beaucoup)?|de rien|avec plaisir|(?:très )?bonne question|d'accord|certainement|cordialement"
    r"|bonne (?:chance|journée)",
)
"""The whole sentence."""

SMALL_TALK = (
    r"(?:i )?hope (?:this|that|it|you|these)\b|(?:please )?let (?:me|us) know\b|(?:please )?(?:feel free|don't hesitate|do not hesitate)\b"
    rf"|if (?:you|there)\b{_GAP}\b(?:let me know|feel free|(?:just|please) ask|happy to|glad to|hesitate|i can help|here to help|reach out)\b"
    r"|(?:i'm|i am|i'd be|i would be|i'll be) (?:always )?(?:happy|glad|here|ready) to\b|happy to help|glad (?:to|i could) help"
    r"|as an ai\b|thank(?:s| you) for\b|i'm (?:very |so )?sorry|i am (?:very |so )?sorry|sorry,? (?:but )?i\b"
    r"|please (?:ask|provide|share|specify|clarify|tell me|give me)\b|it was (?:a pleasure|nice) \w+ing",
    r"ich hoffe\b|(?:bitte )?lass(?:en sie|t)? (?:es )?mich (?:\w+ )?wissen|lass(?:en sie)? es mich\b|sag(?:en sie)? mir (?:bitte )?bescheid"
    rf"|(?:wenn|falls|sollten) (?:du|sie|ihr|es)\b{_GAP}\b(?:fragen|hilfe|informationen|bescheid|melde|wissen)\b"
    r"|gerne? (?:helfe|beantworte|erkläre|stehe)|ich (?:helfe|stehe)\b.{0,30}\bgerne?|bei (?:weiteren |rück)?fragen (?:steh|meld|wend|kontakt|können sie|kannst)|zögern sie nicht"
    r"|(?:es )?tut mir leid|vielen dank (?:für|dass)|danke (?:für|dass)|ich bin (?:gerne|hier)\b",
    rf"espero que (?:esto|le|te|la|les|haya|sea)\b|(?:por favor,? )?(?:no dud|avís|hazme saber|hágame saber|dime|dígame)|si (?:tienes?|necesitas?"
    rf"|quieres?|deseas?)\b{_GAP}\b(?:preguntas?|ayuda|información|duda|saber|dudes|avísame)\b|estoy aquí para|(?:lo siento|disculpe)"
    r"|gracias por|con gusto (?:le|te)",
    rf"j'espère (?:que|avoir)|n'hésite|si (?:vous|tu)\b{_GAP}\b(?:questions?|aide|besoin|n'hésite|informations?)\b|(?:faites|fais)-le[- ]moi"
    r"|dites-moi|dis-moi|je (?:suis|reste) (?:à (?:votre|ta) disposition|là pour|désolée?)|désolée?\b|merci (?:pour|de|d')",
)
"""The start of the sentence."""

ACKNOWLEDGEMENTS = (
    r"(?:(?:okay|ok|all right|alright|sure|great|perfect|thanks?|thank you),? )?(?:noted|got it|understood|done|will do|i see|makes sense|agreed)"
    r"(?:,? (?:thanks?|thank you|then))?|(?:okay,? |sure,? )?(?:i'll|i will|i have|i've) (?:keep|kept|bear|remember|note|noted|made a note of)"
    r" (?:that|this|it)(?: (?:in mind|down|for (?:later|you)))?|(?:that's|that is) noted",
    r"(?:okay,? |gut,? |alles klar,? )?(?:notiert|verstanden|erledigt|vermerkt|alles klar|ist notiert|habe ich (?:mir )?(?:notiert|vermerkt|gemerkt))"
    r"|(?:das )?(?:merke ich mir|ist (?:notiert|vermerkt|erledigt))|wird gemacht",
    r"(?:vale,? |de acuerdo,? )?(?:anotado|entendido|hecho|tomo nota|queda anotado|lo (?:tendré en cuenta|he anotado|recordaré))",
    r"(?:d'accord,? )?(?:c'est )?(?:noté|compris|fait|entendu|bien noté)|j'en (?:prends|ai pris) note|je m'en souviendrai",
)
"""The whole sentence: it says that something was heard or done, and nothing of what."""

HEDGES = (
    rf"(?:it|that|this)(?: really| all)? (?:depends|varies)(?: on (?:many|several|various|different|a (?:number|variety) of|the){_GAP})?"
    r"|i (?:think|guess|believe|suppose)(?: so| not)?|maybe|perhaps|possibly|probably(?: not)?|not necessarily|opinions (?:differ|vary)"
    r"|(?:it's|it is|that's|that is)? ?(?:hard|difficult) to (?:say|tell)|it (?:could|might) be|yes and no",
    rf"(?:das|es) (?:kommt|hängt)(?: ganz)? (?:darauf an|davon ab){_GAP}|je nachdem|vielleicht|möglicherweise|wahrscheinlich(?: nicht)?"
    r"|ich (?:glaube|denke)(?: schon| nicht)?|(?:das ist )?schwer zu sagen|nicht unbedingt|jein",
    rf"(?:eso |esto )?depende(?: (?:de|del){_GAP})?|quizás?|tal vez|posiblemente|probablemente|creo que (?:sí|no)|(?:es )?difícil (?:de )?decir(?:lo)?"
    r"|a lo mejor|no necesariamente",
    rf"(?:ça|cela) dépend(?: (?:de|du|des){_GAP})?|peut-être|probablement|sans doute|je (?:crois|pense)(?: que (?:oui|non))?"
    r"|(?:c'est )?difficile à dire|pas forcément",
)
"""The whole sentence."""

_ANSWER = r"(?:summary|list|overview|answer|breakdown|explanation|outline|steps?|details|points?|examples?|response|information|results?)"
LEAD_INS = (
    rf"(?:(?:sure|certainly|of course|okay|yes|absolutely),? )?here(?:'s| is| are)\b(?:{_GAP}:$|{_GAP}\b{_ANSWER}\b)"
    rf"|(?:the )?following (?:is|are)\b{_GAP}\b{_ANSWER}\b|below (?:is|are)\b"
    r"|(?:in (?:summary|conclusion|short|brief)|overall|to summari[sz]e|summary|in other words)$|the answer is(?: as follows)?$"
    r"|let(?:'s| me| us) (?:explain|break|summari|look|go|start|walk|clarif|take|begin|answer|see|think|dive|explore|provide)"
    r"|i(?:'ll| will| can|'d like to|'ve| have) (?:explain|summari|provide|help|try|answer|list|now|only|give|go|outline|compiled|found|looked)"
    rf"|to (?:answer|summari[sz]e|address) (?:your|the|this)\b.{{0,60}}$|(?:this|my|the above|the) (?:answer|response|summary|list) {_GAP}"
    r"\b(?:based on|taken from|drawn from|comes? from|covers|summari[sz]es)\b"
    r"|this (?:information )?(?:is|comes|was) (?:based on|taken|drawn|stated|mentioned|found|supported)\b.{0,40}\b(?:context|passages?|documents?|sources?)\b",
    rf"hier (?:ist|sind|findest|finden|eine?|kommt)\b{_GAP}(?::$|\b(?:zusammenfassung|liste|überblick|übersicht|antwort|schritte|informationen|punkte)\b)"
    rf"|(?:im folgenden|nachfolgend)\b{_GAP}\b(?:zusammenfassung|liste|überblick|übersicht|antwort|schritte|informationen|punkte)?:$"
    r"|(?:zusammenfassend|zusammengefasst|zusammenfassung|kurz gesagt|fazit)$|lass(?:en sie)? (?:mich|uns)\b|die antwort lautet$"
    r"|diese (?:antwort|zusammenfassung|angaben?) (?:basier|beruh|stütz)",
    rf"aquí (?:está|están|tienes?|te|le|hay|va|se)\b{_GAP}(?::$|\b(?:resumen|lista|respuesta|pasos|información|puntos)\b)|a continuación\b{_GAP}:$"
    r"|(?:en (?:resumen|conclusión|pocas palabras)|resumen|para resumir)$|la respuesta es(?: la siguiente)?$|(?:permíteme|permítame|déjame|vamos a)\b"
    r"|esta respuesta se basa",
    rf"voici\b{_GAP}(?::$|\b(?:résumé|liste|réponse|étapes|informations|points|aperçu)\b)|ci-dessous\b|(?:en (?:résumé|conclusion|bref)|résumé|pour résumer)$"
    r"|la réponse est(?: la suivante)?$|(?:permettez-moi|laissez-moi|laisse-moi)\b|cette réponse (?:est basée|repose|se fonde)",
)
"""The start of a sentence that speaks of the answer itself; the sentence without its end mark, but a colon."""

UNFINISHED = (
    r"(?:is|are|was|were|be|includes?|included|including|involves?|on|at|of|for|in|to|by|with|from|as|like|namely|follows|following|these|this|below"
    r"|(?:these|the following|some|several|key|main|few)(?: \w+){1,3}"
    r"|ist|sind|war|waren|umfasst|umfassen|gehören|an|am|um|bei|von|für|mit|aus|folgende[rsnm]?(?: \w+)?|folgt|dazu|darunter"
    r"|es|son|fue|eran|incluyen?|en|de|para|con|por|siguientes?(?: \w+)?|estos(?: \w+)?|estas(?: \w+)?"
    r"|est|sont|était|étaient|comprend|comprennent|incluent|inclut|à|pour|avec|par|suivante?s?|suivant(?: \w+)?)"
)
"""How a lead-in ends, before its colon, that says nothing without what follows."""

_ADVISED = (
    r"(?:doctors?|physician|professionals?|experts?|advis[eo]rs?|lawyers?|attorney|specialist|pharmacist|provider|authorit(?:y|ies)|websites?"
    r"|documentation|manual|guidelines|links?|pages?|sources?|articles?|support team|customer (?:service|support))"
)
ADVICE = (
    rf"(?:(?:for|to (?:get|find|learn)) [^,\n]{{1,80}}, )?(?:please |always |i (?:would )?(?:recommend|suggest|advise)(?: that)?(?: you)? |you (?:should|may|can|might)(?: want to| also)? "
    rf"|it(?:'s| is) (?:always )?(?:best|advisable|recommended|a good idea|important) to |be sure to |make sure to )+"
    rf"(?:consult|check|refer|see|visit|speak|talk|ask|verify|double-check|review|seek|contact)(?:ing)?\b{_GAP}\b{_ADVISED}\b",
    rf"(?:consult|refer|see|visit|speak|talk)\b (?:to |with )?(?:your|an?|the)\b.{{0,30}}\b{_ADVISED}\b{_GAP}",
    r"(?:(?:bitte|wende[nt]?|konsultiere[n]?|sprich|sprechen sie|frage?n? sie)\b)[^.!?\n]{0,60}\b(?:arzt|ärztin|fachmann|experten|anwalt|berater|webseite|website|dokumentation|apotheker)\b",
    r"(?:(?:por favor,? )?(?:consulte?s?|visite?|revise?|verifique|acuda)\b|(?:se recomienda|te recomiendo|le recomiendo|es recomendable) (?:consultar|visitar|verificar|revisar))"
    r"[^.!?\n]{0,60}\b(?:médico|profesional|experto|abogado|asesor|sitio web|página|documentación)\b",
    r"(?:(?:veuillez )?(?:consulte[rz]?|vérifie[rz]|visite[rz]|contacte[rz])\b|il est (?:recommandé|conseillé) de (?:consulter|vérifier))"
    r"[^.!?\n]{0,60}\b(?:médecin|professionnel|expert|avocat|conseiller|site|documentation)\b",
)
"""Advice to ask or read elsewhere; steps and recipes are none."""

PLANS = (
    r"(?:(?:first|next|now|then|okay|ok|so|great|alright),? )?(?:i'll|i will|i'm going to|i am going to|i would|i'd|i can|i could|i need to|i should"
    r"|i want to|i plan to|i have to|i am now|i'm now|i'm (?:\w+ing)|let me|let's|let us|we'll|we will|we need to|we should|we can|we could|we'd"
    r"|my (?:plan|approach|next step) (?:is|will be))\b"
    r"|(?:i(?:'ve| have)|we(?:'ve| have)) (?:now |just |also )?(?:added|updated|fixed|changed|created|removed|written|implemented|run|checked|looked"
    r"|read|reviewed|made|tested|refactored|moved|renamed|translated|rewritten|drafted|summari[sz]ed|kept|left|used|included|prepared|put together)\b"
    r"|i (?:added|updated|fixed|changed|created|removed|wrote|implemented|ran|checked|looked|read|reviewed|made|tested|refactored|moved|renamed"
    r"|translated|rewrote|drafted|kept|left|used|included|assumed|assume|prefer|recommend|suggest|hope|wonder|see|understand"
    r"|noticed|notice|found no|searched|thought|wanted)\b",
    r"(?:(?:zuerst|jetzt|nun|dann|als nächstes|gut|okay),? )?(?:(?:ich|wir) (?:werde|werden|möchte|möchten|will|wollen|kann|können|könnte|müssen|muss|sollte"
    r"|sollten|würde|prüfe|schaue|sehe|lese|suche|ändere|füge|erstelle|schreibe|empfehle|schlage)|lass(?:en sie)? (?:mich|uns)"
    r"|(?:werde|prüfe|schaue|sehe) ich)\b|ich habe (?:\w+ ){0,8}(?:hinzugefügt|geändert|erstellt|entfernt|geschrieben|geprüft|gelesen|getestet|übersetzt"
    r"|zusammengefasst|behoben|aktualisiert|verwendet|umbenannt)\b",
    r"(?:(?:primero|ahora|luego|después|bien),? )?(?:voy a|vamos a|déjame|permíteme|puedo|podría|podemos|necesito|quiero|debería|deberíamos|haré|revisaré|buscaré"
    r"|comprobaré|recomiendo|sugiero|he (?:añadido|actualizado|corregido|cambiado|creado|eliminado|escrito|revisado|leído|probado"
    r"|traducido|resumido|usado))\b",
    r"(?:(?:d'abord|maintenant|ensuite|puis|bien),? )?(?:je (?:vais|peux|pourrais|dois|veux|voudrais|vérifie|regarde|cherche|lis|recommande|suggère"
    r"|propose)|nous (?:allons|pouvons|devons|pourrions)|laissez-moi|laisse-moi|permettez-moi|j'ai (?:ajouté|mis à jour|corrigé|modifié|créé|supprimé|écrit"
    r"|vérifié|lu|testé|traduit|résumé|utilisé)|je ferai|je vérifierai)\b",
)
"""How a sentence begins that tells what the model does, did, will do or thinks: nothing that a context could support."""

OPINIONS = (
    r"(?:in my opinion|in my view|personally|to me|my (?:favou?rite|recommendation|suggestion|advice|take|guess)|(?:it|that|this) (?:sounds|looks|seems) (?:like )?"
    r"(?:a |an )?(?:great|good|nice|lovely|wonderful|fun|reasonable|sensible|perfect|fine|right|wise|solid|interesting|exciting)|(?:that's|that is|this is|it's|it is|what) "
    r"an? (?:great|good|nice|lovely|wonderful|fun|reasonable|sensible|solid|interesting|exciting|tough|tricky|excellent|fantastic|common|classic)"
    r"|you(?:'d| would| could| can| may| might| should| will|'ll) (?:want|need|like|love|consider|try|also|enjoy|be able|find|get|see|use|start|add|do|go|have|ask|book|choose"
    r"|pick|take|call|write|run|make|keep|check|set|bring|visit|combine)|consider\b|i'd go (?:with|for)|happy (?:coding|travels|cooking)|enjoy\b|good (?:luck|idea|choice))\b",
    r"(?:meiner meinung nach|aus meiner sicht|persönlich|mein (?:tipp|rat|vorschlag)|meine empfehlung|das (?:klingt|hört sich|ist eine? (?:gute|tolle|schöne|interessante|spannende))"
    r"|(?:du|sie|ihr) (?:könntest|könnten|könntet|solltest|sollten|solltet|kannst|können|könnt))\b",
    r"(?:en mi opinión|personalmente|a mi juicio|mi (?:recomendación|sugerencia|consejo)|(?:eso )?suena (?:bien|genial|muy)|(?:puedes|podrías|puede|podría|deberías|debería|te sugiero"
    r"|le sugiero|te recomiendo|le recomiendo|considera)\b)",
    r"(?:à mon avis|selon moi|personnellement|mon (?:conseil|avis)|ma (?:recommandation|suggestion)|(?:ça|cela) (?:semble|a l'air)|(?:tu|vous) (?:peux|pouvez|pourrais|pourriez|devrais"
    r"|devriez)|je (?:te|vous) (?:conseille|recommande|suggère|propose))\b",
)
"""How an opinion, a recommendation or a suggestion begins."""

IMPERATIVES = (
    r"(?:please |just |then |now |next,? |first,? |finally,? |also,? |always |never |don't |do not |make sure|be sure|remember to |try to |feel free)?"
    r"(?:add|apply|ask|avoid|bake|bring|build|call|change|check|choose|click|close|combine|compare|configure|connect|consider|contact|cook|copy|create|cut|define|delete"
    r"|deploy|describe|disable|divide|download|drain|edit|enable|ensure|enter|explain|fill|find|fix|follow|give|go|heat|import|include|increase|insert|install|keep|launch"
    r"|let|list|look|make|mix|modify|move|multiply|note|open|pack|pass|paste|pay|pick|place|plan|pour|practice|preheat|press|provide|put|read|reduce|remember|remove|rename"
    r"|repeat|replace|replace|reply|restart|return|review|rinse|run|save|scroll|see|select|send|serve|set|share|show|simmer|sleep|solve|start|stir|stop|submit|subtract|swap"
    r"|take|tell|test|think|toggle|treat|try|turn|type|update|upload|use|verify|view|visit|wait|walk|watch|wrap|write)\b(?! (?:is|are|was|were|has|have|of)\b)(?=[ :,.]|$)",
    r"(?:bitte |dann |nun |zuerst |danach )?(?:[a-zäöüß]{3,}(?:en|n)) sie\b|(?:gib|nimm|öffne|klicke?|wähle|gehe?|füge|prüfe?|starte|installiere|führe|stelle?|achte|vermeide|verwende"
    r"|nutze|schreibe?|lies|rühre|schneide|gieße|lasse?|setze?|drücke?|speichere|denke? daran|vergiss nicht|probiere?|frage?|rufe?|suche?)\b",
    r"(?:por favor,? |luego |primero |después |ahora )?(?:añade|añada|abre|abra|haz|haga|usa|use|utiliza|utilice|escribe|escriba|selecciona|seleccione|pulsa|pulse|elige|elija|instala|instale"
    r"|ejecuta|ejecute|comprueba|compruebe|recuerda|recuerde|evita|evite|prueba|pruebe|ve a|vaya a|pon|ponga|mezcla|corta|deja|deje|lee|lea|revisa|revise|asegúrate|asegúrese|guarda|guarde)\b",
    r"(?:veuillez |ensuite,? |puis |d'abord,? |enfin,? )?(?:ajoute[rz]?|ouvre[rz]?|utilise[rz]?|clique[rz]?|choisi(?:s|ssez)|installe[rz]?|exécute[rz]?|vérifie[rz]?|évite[rz]?|essaye?z?"
    r"|mets|mettez|mélange[rz]?|coupe[rz]?|laisse[rz]?|lis|lisez|saisissez|appuie|appuyez|sélectionne[rz]?|rappelle[rz]?|assure-toi|assurez-vous|enregistre[rz]?|pense[rz]? à|n'oublie[rz]? pas"
    r"|faites|fais|prends|prenez|allez|va)\b(?! (?:est|sont)\b)",
)
"""How a request or a step begins: a verb in the imperative, with no subject before it."""

OWN_WORDS = (r"(?:high|medium|low|hoch|mittel|niedrig|alta|media|baja|élevée?|moyenne|faible)",)
"""A rating that stands by itself."""

YES_OR_NO = r"yes|no|ja|nein|sí|oui|non|true|false|correct|incorrect|richtig|falsch|verdadero|falso|vrai|faux"

_BRACKET = r"[\[【(][^\[\]【】()\n]{1,200}[\]】)]"
_NUMBERS = r"(?:[ #]{1,2}(?:nr\. ?|no\. ?)?\d{1,3}(?:(?: ?[,&–-] ?| (?:and|und|y|et) )(?:passages? |pasajes? )?\d{1,3}){0,6})?"
_EN_PLACE = (
    rf"(?:{_BRACKET}|(?:the |these |this |your )?(?:provided |given |retrieved |above |available |supplied |following |context |search |source ){{0,2}}"
    rf"(?:context|passages?|documents?|sources?|text|information|excerpts?|results?|article|knowledge base|material){_NUMBERS}(?: {_BRACKET})?"
    r"(?: (?:provided|above|given|you (?:provided|gave|shared)))?)"
)
_DE_PLACE = (
    rf"(?:{_BRACKET}|(?:(?:dem|der|den|diesem|dieser) )?(?:(?:bereitgestellten|vorliegenden|obigen|gegebenen|angegebenen|genannten) )?"
    rf"(?:kontext|passagen?|texte?s?|dokument(?:en)?|quellen?|informationen|angaben|artikel){_NUMBERS}(?: {_BRACKET})?)"
)
_ES_PLACE = (
    rf"(?:{_BRACKET}|(?:(?:el|la|los|las) )?(?:contexto|pasajes?|textos?|documentos?|fuentes?|información|artículo){_NUMBERS}"
    rf"(?: (?:proporcionad[oa]s?|dad[oa]s?|anterior(?:es)?|disponibles?))?(?: {_BRACKET})?)"
)
_FR_PLACE = (
    rf"(?:{_BRACKET}|(?:le |la |les |l')?(?:contexte|passages?|textes?|documents?|sources?|informations|article){_NUMBERS}"
    rf"(?: (?:fournie?s?|donnée?s?|ci-dessus|disponibles?))?(?: {_BRACKET})?)"
)
PREFIXES = (
    rf"(?:according to|as (?:stated|mentioned|described|noted|shown|explained|reported|indicated|outlined) (?:in|by)|as per|per|based on|from|in) {_EN_PLACE}, ",
    rf"{_EN_PLACE} (?:clearly |explicitly |also )?(?:states?|says?|mentions?|notes?|indicates?|explains?|reports?|confirms?|describes?|tells us) that ",
    r"(?:in (?:summary|conclusion|short|brief)|to (?:summari[sz]e|sum up)|overall|to answer your question), ",
    r"(?:please |also )?note that |it(?:'s| is)(?: also)? (?:important|worth) (?:to note|noting|mentioning|to mention|to remember) that "
    r"|keep in mind that |remember that |i'm sorry, but |unfortunately, ",
    r"(?:final |short |the )?answer ?: ?|(?:die )?(?:kurze )?antwort ?: ?|(?:la )?respuesta ?: ?|(?:la )?réponse ?: ?",
    r"(?:yes|no|nope|yep|sure|certainly|of course|absolutely|correct|exactly|indeed|right|ja|nein|doch|genau|richtig|sí|no|oui|non|si|claro|bien sûr|por supuesto"
    r"|exactamente|exactement|correcto|en effet)[,:!.;–—-]{1,2} ?(?=\w+ \w+ \w+)",
    rf"(?:según|de acuerdo con|conforme a|con base en|basado en|en) {_ES_PLACE}, |según {_ES_PLACE} |{_ES_PLACE} (?:también )?"
    r"(?:dicen?|indican?|mencionan?|señalan?|afirman?|explican?) que |en (?:resumen|conclusión), |cabe (?:señalar|destacar|mencionar) que "
    r"|es importante (?:señalar|destacar|tener en cuenta) que ",
    rf"(?:selon|d'après|conformément à|dans) {_FR_PLACE}, |(?:selon|d'après) {_FR_PLACE} |{_FR_PLACE} (?:indiquent?|disent?|dit|mentionnent?|précisent?"
    r"|affirment?|expliquent?) que |en (?:résumé|conclusion|bref), |il (?:est important de|convient de) noter que |notez que ",
)
"""What stands before a statement and is none of it."""
GERMAN_PREFIX = (
    rf"(?:(?:laut|gemäß|nach|entsprechend|basierend auf|ausgehend von) {_DE_PLACE}|{_DE_PLACE} (?:zufolge|nach)|auf (?:grundlage|basis) {_DE_PLACE}"
    rf"|auf der (?:grundlage|basis) (?:des kontexts|der passagen|von {_DE_PLACE})|wie in {_DE_PLACE} (?:beschrieben|erwähnt|angegeben)),? "
)
"""The verb follows: it stands for "Demnach"."""

SUBORDINATORS = frozenset(
    """
    if when while because although though since unless until once whether as before after whereas even
    wenn falls weil obwohl während da sobald bevor nachdem ob dass sofern
    si cuando mientras porque aunque como antes después donde
    lorsque quand tandis parce bien comme puisque avant après même
    either neither both not nicht weder entweder sowohl tanto soit
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
"""A sentence that begins so is not cut at an "and": the second half would lose its condition."""
REPORTED = r"\b(?:that|whether|dass|daß|ob|que|qu'\w+)\b"
"""After it, both halves hang on the same verb."""
PRONOUNS = (
    "it he she they this these those we you i there er sie es dies diese dieser dieses wir man ich il elle ils elles on nous vous je "
    "ce cela él ella ellos ellas esto eso"
)
DETERMINERS = (
    "the a an its his her their this these that those some many most all der die das ein eine den dem sein seine ihr ihre el la los las un una "
    "unos unas su sus le les une des son sa ses leur leurs"
)
FINITE_VERBS = frozenset(
    """
    is are was were isn't aren't wasn't weren't has have had hasn't haven't hadn't does do did don't doesn't didn't can can't cannot could will won't
    would shall should may might must became becomes become began begins came comes went goes took takes made makes gave gives got gets said says won wins
    wrote writes stands stood lies lay lives means meant includes contains opens closes starts ends works costs needs uses shows provides refers consists
    covers runs ran allows helps requires remains offers holds held leads led left produces serves belongs depends causes reduces increases
    increased plays played appears grew grows fell falls rose rises kept keeps knew sold sells lost loses received receives
    extends features occurs happens happen happened exists exist measures weighs follows applies supports creates describes represents involves affects
    enables ensures prevents protects
    it's he's she's they're there's that's we're you're they've it'll
    ist sind war waren bin bist hat haben hatte hatten wird werden wurde wurden kann können konnte konnten muss müssen musste mussten soll sollen sollte darf
    dürfen mag will wollen liegt liegen lag lagen steht stehen stand standen gibt gab gilt gelten heißt hieß kommt kam kamen geht ging macht machte bleibt blieb
    besteht bestand befindet befinden gehört gehören zählt kostet beträgt betrug öffnet schließt beginnt begann endet endete dauert dauerte umfasst enthält
    starb lebt lebte wohnt arbeitet arbeitete erhielt erhält bietet zeigt führt führte bildet entstand nutzt verwendet gewann verlor schrieb baute gründete
    está están estaba estaban era eran fue fueron será serán hay había hubo tiene tienen tenía tuvo ha han puede pueden podía debe deben hace
    hizo dice dijo va van abre cierra abrió cerró empieza empezó comienza comenzó termina terminó cuesta vive vivió nació murió ganó recibió contiene incluye
    ofrece permite llega llegó mide pesa ocurre ocurrió consta pertenece perdió escribió construyó fundó
    est sont était étaient fut furent sera seront ont avait avaient peut peuvent pouvait doit doivent fait font dit va vont vient viennent trouve trouvent
    ouvre ferme commence finit coûte vit naquit mourut reçut contient comprend offre permet compte mesure pèse devient devint reste existe abrite
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
"""Forms that are hardly ever anything but a main verb; English past forms in -ed come on top."""
