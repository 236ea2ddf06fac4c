"""The words by which `proxy.grounding.evidence.asserted` tells statements from questions and requests: alternatives of patterns.

English, German, Spanish, French, Italian and Portuguese, in this order. The lists are this project's own.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

AUXILIARIES = (
    r"is|are|was|were|do|does|did|has|have|had|can|could|will|would|should|isn't|aren't|wasn't|weren't|don't (?:i|we|you|they)|doesn't|didn't"
    r"|ist|sind|war|waren|hat|haben|hatte|kann|können|wird|werden|est-ce|est-il|est-elle|a-t-il|a-t-elle"
)
"""Before the subject: a question says what is asked, not what is so."""
WONDERING = (
    r"who|whom|whose|what|when|where|why|how|which|wer|wen|wem|was|wann|wo|warum|wieso|wie|welche[rsnm]?"
    r"|qué|quién|cuándo|cuál|cuánto|cuántos|dónde|cómo|qui|que|quand|où|pourquoi|comment|combien|quel(?:le)?s?"
    r"|chi|cosa|che cosa|quando|dove|perché|come|qual[ei]|quant[oiae]|quem|o que|onde|por que|como|qual|quais|quant[oa]s?"
)
POLITE = (
    r"please|kindly|ok|okay|so|now|then|also|just|next|first|finally|and|but|or|well|hi|hello|hey|hi there|thanks|thank you|good (?:morning|evening|afternoon)"
    r"|(?:can|could|would|will) you(?: please)?"
    r"|bitte|hallo|hi|danke|guten (?:tag|morgen|abend)|und|aber|oder|also|nun|jetzt|dann|mal|kannst du(?: bitte)?|können sie(?: bitte)?"
    r"|por favor|hola|gracias|buenos días|buenas tardes|y|pero|o|ahora|luego|puedes|podrías"
    r"|s'il (?:te|vous) pla[iî]t|bonjour|salut|merci|et|mais|ou|maintenant|puis|peux-tu|pouvez-vous|pourrais-tu|pourriez-vous"
    r"|per favore|per piacere|ciao|buongiorno|grazie|e|ma|o|ora|poi|puoi|potresti|può"
    r"|se faz favor|olá|oi|bom dia|boa tarde|obrigad[oa]|e|mas|ou|agora|depois|você pode|pode|poderia"
)
"""What stands before the first word that counts."""
CAN_YOU = (
    r"(?:can|could|would|will) (?:you|we|someone)|(?:kannst|könntest|würdest|magst) du|(?:können|könnten|würden) sie|(?:puedes|podrías|puede|podría|me puedes|me puede)|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous"
    r"|tu (?:peux|pourrais)|vous (?:pouvez|pourriez)|(?:puoi|potresti|può|potrebbe|mi puoi)|(?:você )?(?:pode|poderia)|podes|podias"
)
IN_DOUBT = (
    r"\b(?:where|what|which|whether|if) (?:am i|i(?:['’]m| am)|(?:\w+ ){0,3}(?:is|are)) (?:wrong|right|correct|incorrect|mistaken|false)|\b(?:mistakes?|errors?|typos?)\b|\b(?:proofread|fact-?check|double-?check|grade)\b|\bcheck (?:my|this|these|the following|whether|if)\b|\bcorrect (?:my|this|these|it|the)\b"
    r"|\b(?:is|are) (?:this|that|it|these|my \w+) (?:right|correct|true|ok|okay|accurate)\b|,? (?:right|correct)\?|\btrue or false\b"
    r"|\b(?:fehler|korrigier\w*|korrektur)\b|\b(?:stimmt|richtig|falsch|korrekt)\b[^.!\n]{0,40}\?|\bprüfe? (?:meine?\w?|das|diese?n?|ob)\b"
    r"|\b(?:errores?|corrige|corregir|revisa (?:mi|este|esta|si))\b|\b(?:es|está|son|están) (?:correct[oa]s?|bien|verdad|cierto)\b[^.!\n]{0,20}\?"
    r"|\b(?:erreurs?|fautes?|corrige[rz]?|où j['’]ai faux|ai-je (?:raison|tort|juste|bon))\b|\best-ce (?:correct|juste|exact|vrai|bon)\b|\bvérifie[rz]? (?:mon|ma|mes|si|ce)\b"
    r"|\b(?:errori|errore|correggi|correggere|è (?:giusto|corretto|vero))\b|\bcontrolla (?:se|il mio|la mia)\b|\b(?:erros?|corrija|corrigir|está (?:certo|correto)|é verdade)\b|\bverifique se\b"
)
"""How a user asks whether their own text is right: an answer that says otherwise is no contradiction."""
_CHECKING = (
    r"tell me|check|verify|confirm|find out|say|explain|sage? mir|prüfe|bestätige|erkläre|dime|comprueba|confirma|explica"
    r"|dis-moi|vérifie|confirme|explique|dimmi|controlla|verifica|conferma|spiega(?:mi)?|diz-me|me dig[ao]|verifique|confirme"
)
_CONJUNCTION = (
    r"whether|if|that|why|how|when|where|who|what|ob|dass|warum|wie|wann|wo|wer|was|si|que|por qué|cómo|cuándo|dónde|quién"
    r"|pourquoi|comment|quand|où|qui|se|che|quando|come|perché|dove|chi|por que|como|onde|quem"
)
CHECKED = rf"(?:{_CHECKING})\b[^.]{{0,60}}?\b(?:{_CONJUNCTION})\b"
"""Asks to check: "Confirm that it opens at 9"."""
ENGLISH_VERBS = (
    r"add|adopt|advise|analy[sz]e|annotate|answer|apply|arrange|ask|assess|assist|avoid|base|be|become|begin|book|brainstorm|break|bring|build|calculate|call|cancel|change"
    r"|check|choose|cite|claim|classify|clean|come|compare|complete|compose|compute|confirm|consider|continue|convert|correct|count|cover|create|cut|debug|decide|define|delete|describe"
    r"|design|determine|develop|discuss|do|draft|draw|edit|elaborate|emphasi[sz]e|end|enhance|ensure|estimate|evaluate|exclude|expand|explain|explore|extract|fill|finali[sz]e|find|finish"
    r"|fix|focus|follow|forget|format|formulate|generate|get|give|go|greet|guess|guide|handle|help|highlight|identify|ignore|imagine|implement|improve|include|inform|insert|insist"
    r"|interpret|introduce|invent|keep|leave|let|limit|list|locate|look|lookup|make|maintain|mention|merge|modify|move|name|offer|open|optimi[sz]e|order|organi[sz]e|outline|output|paraphrase|pay"
    r"|perform|pick|plan|play|point|polish|postpone|predict|prepare|present|pretend|print|prioriti[sz]e|proceed|produce|promise|proofread|propose|provide|put|quote|rank|rate|read|reason|recommend"
    r"|redo|refactor|refer|reformat|refuse|reject|remind|remove|rename|reorder|repeat|rephrase|replace|reply|report|request|research|reserve|resolve|respond|restate|return|review|revise"
    r"|reword|rewrite|role-?play|run|save|say|schedule|search|select|send|set|share|shorten|show|simplify|sing|skip|solve|sort|speak|specify|split|start|state|stay|stick|stop|structure"
    r"|study|suggest|summari[sz]e|switch|take|talk|tell|think|transcribe|transform|translate|treat|try|turn|update|use|utili[sz]e|verify|visit|wait|walk|watch|work|wrap|write"
    r"|let['’]s|make sure|see"
)
"""First words of a request; many are nouns, too."""
ENGLISH_FINITE = (
    r"is|are|was|were|has|had|will|can|cannot|must|may|starts?|started|begins?|began|ends?|ended|opens?|opened|closes?|closed|costs?|takes? place|took|needs?|contains?|includes?|comes?|came"
    r"|goes|went|runs|ran|works|shipped|arrived|arrives|failed|fails|passed|completed|finished|happens|happened|requires?|covers|lasts|expires|expired|received|sent|moved|changed|confirmed|cancell?ed"
)
NO_SUBJECT = (
    r"the|an?|this|that|these|those|my|our|your|his|her|their|its|me|us|it|them|him|what|how|whether|which|who|when|where|why|if|in|into|for|to|with|from|as|on|at|about|by|of|all|any|every|each|no|not"
    r"|only|and|or|because|so|until|unless"
)
"""What stands between an English imperative and what it wants, and never between a noun and its verb."""
OTHER_VERBS = (
    # German
    r"analysier\w*|behaupte|benenne|betone|bleib|brich|erwähne|führe|ignorier\w*|lasse|rate|schlage|vermeide|übertreibe|antwort(?:e|et)|beantworte\w*|bedenke|begründe|berechne|berücksichtige|beschreib\w*|bestätige|bestell[et]?|bewerte|buche?|denk(?:e|t)? (?:dir|an|daran)|empfiehl|entwirf|entwickle|erfinde|ergänze"
    r"|erklär(?:e|t|s|mir)?|erläuter[en]?|erstell(?:e|t)?|erzähl(?:e|t)?|fass(?:e|t)?|finde?|formatier\w*|formulier\w*|frag(?:e|t)?|füge?|gib|geh(?:e|t)?|gliedere|halte?|hilf|ignorier\w*|kürze|korrigier\w*|lass|lies|liste"
    r"|mach(?:e|t)?|merk(?:e)? dir nicht|nenn(?:e|t)?|nimm|nutze|ordne|plane?|prüfe?|rechne|sag(?:e|t|s)?(?: mir)?|schätze|schau|schick(?:e)?|schlag(?:e)? (?:mir|uns|vor)|schreib(?:e|t|s)?|sei|setze|sprich|spiel(?:e)?|stell(?:e)?"
    r"|suche?|teste|tu|übersetz(?:e|t)?|überprüfe|übernimm|vereinfache|verfasse|vergiss|vergleiche?|vermeide|versuch(?:e)?|verwende|wähle|wiederhole|zähle|zeig(?:e|t)?|zitiere"
    # Spanish
    r"|actúa|analiza|añade|asegúrate|ayúda(?:me|nos)|borra|busca|calcula|cambia|cítalo|compara|compon|comprueba|confirma|considera|continúa|convierte|corrige|crea|cuénta(?:me|nos)|cuenta|da(?:me|nos)|describe|di(?:me|nos)?"
    r"|dibuja|diseña|elige|elimina|encuentra|enumera|envía|escrib[ea](?:me|nos)?|estima|evita|explica(?:me|nos)?|extrae|finge|formatea|genera|haz(?:me|nos)?|ignora|imagina|incluye|inventa|lee|lista|menciona|mejora|mira|mu[eé]stra(?:me)?"
    r"|nombra|ordena|organiza|piensa|planifica|prepara|propón|recomienda|recomiénda(?:me)?|redacta|reescribe|repite|reserva|responde|resume|revisa|sé|sugier[ea](?:me)?|traduce|traduzca|usa|utiliza|verifica"
    # French
    r"|agis|aide[rz]?(?:-moi)?|ajoute[rz]?|analyse[rz]?|assure-toi|assurez-vous|calcule[rz]?|change[rz]?|cherche[rz]?|choisi(?:s|ssez)|cite[rz]?|compare[rz]?|compose[rz]?|confirme[rz]?|considère|continue[rz]?|convertis|corrige[rz]?|crée[rz]?"
    r"|décri(?:s|vez)|dis(?:-moi)?|dites(?:-moi)?|donne[rz]?(?:-moi)?|écri(?:s|vez)(?:-moi)?|énumère|envoie|estime[rz]?|évite[rz]?|explique[rz]?(?:-moi)?|extrais|fais|faites|génère|ignore[rz]?|imagine[rz]?|inclus|invente[rz]?|joue[rz]?|lis"
    r"|liste[rz]?|mentionne[rz]?|mets|mettez|montre[rz]?(?:-moi)?|n'oublie[rz]?|nomme[rz]?|organise[rz]?|planifie[rz]?|pense[rz]? à|prépare[rz]?|propose[rz]?(?:-moi)?|raconte[rz]?(?:-moi)?|recommande[rz]?|rédige[rz]?|reformule[rz]?|répète[rz]?"
    r"|répond(?:s|ez)|réserve[rz]?|résume[rz]?|sois|soyez|suggère[rz]?|tradui(?:s|sez)|trouve[rz]?|utilise[rz]?|vérifie[rz]?|veuillez"
    # Italian
    r"|agisci|aggiungi|aiuta(?:mi|ci)|analizza|assicurati|calcola|cambia|cerca|chiedi|cita|completa|componi|confronta|conferma|considera|continua|controlla|converti|correggi|crea|da(?:mmi|cci)|descrivi|di(?:mmi|cci)?|elenca|estrai|evita"
    r"|fa(?:mmi|i|cci)?|fingi|formula|genera|ignora|immagina|includi|inventa|leggi|menziona|metti|mostra(?:mi)?|nomina|ordina|organizza|parla(?:mi)?|pensa a|pianifica|prenota|prepara|proponi(?:mi)?|racconta(?:mi)?|rendi|riassumi|ripeti|riscrivi"
    r"|rispondi|scrivi(?:mi)?|scegli|sii|spiega(?:mi)?|stima|suggerisci(?:mi)?|traduci|trova(?:mi)?|usa|utilizza|verifica|scriva|traduca|riassuma|risponda"
    # Portuguese
    r"|aja|adicione|ajud(?:e|a)-?(?:me)?|analis[ea]|assegure-se|busque|calcul[ea]|cit[ea]|compare|complete|componha|confirme|considere|continu[ea]|convert[ae]|corrija|cri[ae]|cont[ea]-?(?:me)?|descrev[ae]|dig[ao]|diz|d[eê](?:-me)?|escolha"
    r"|escrev[ae](?:-me)?|estime|evite|expliqu[ea]|explica|extraia|faç[ao]|faz|finja|formule|ger[ea]|ignore|imagine|inclua|invente|leia|list[ea]|mencione|mostr[ea](?:-me)?|nomeie|organize|pense em|planeje|prepare|proponha|recomende|redija|reescreva"
    r"|repit[ae]|reserve|respond[ae]|resum[ae]|revise|seja|sugira|traduz(?:a)?|troque|use|utilize|verifique|me (?:diga|dê|conte|mostre|explique|ajude|escreva|recomende)"
)
"""Imperatives that begin a request."""
TOLD = (
    r"remember|note|please note|keep in mind|bear in mind|fyi|for your information|be aware|mind you|let me (?:tell you|share)|just so you know|merk(?:e)? dir|beachte|wisse|zur info|denk daran|notier(?:e)? dir"
    r"|recuerda|ten en cuenta|toma nota|que sepas|rappelle-toi|souviens-toi|note[rz]?|sache[rz]?|pour info|ricorda(?:ti)?|tieni presente|nota|sappi|lembre-se|lembra|note|anote|saiba"
)
"""With these the user tells the model what is so."""
THAT = r"that|dass|que|qu['’]|che"
WANTED = (
    r"i(?:['’]d| would)? (?:want|need|like|love|expect|ask|beg|wish)(?:ed)? (?:you|for you|your|u|help|to (?:know|understand|see|read|hear|learn|find out|ask)|an? (?:\w+ ){0,2}(?:answer|list|summary|text|poem|story|e-?mail|letter|table"
    r"|plan|recipe|idea|script|function|draft|explanation|overview|speech|caption|title|name))|i['’]m (?:looking for|asking)|i am (?:looking for|asking)|let['’]s|help me|it would be (?:great|nice|good) if|would be (?:great|nice)|your turn"
    r"|ich (?:möchte|will|brauche|hätte gern\w?|bitte|suche) (?:\w+ ){0,2}(?:dass|wissen|verstehen|hilfe|dich|sie|deine|ihre|liste|zusammenfassung|text|gedicht|geschichte|e-?mail|brief|tabelle|plan|rezept|ideen?)|hilf mir"
    r"|(?:quiero|necesito|quisiera|me gustaría) (?:que|saber|entender|ayuda|tu|su|un[ao]? (?:lista|resumen|texto|poema|historia|correo|carta|tabla|plan|receta|idea))"
    r"|(?:je (?:veux|voudrais|souhaite|aimerais)|j['’]aimerais|j['’]ai besoin) (?:que|savoir|comprendre|d['’]aide|de ton|de votre|une? (?:liste|résumé|texte|poème|histoire|e-?mail|lettre|tableau|plan|recette|idée))"
    r"|(?:voglio|vorrei|ho bisogno) (?:che|sapere|capire|di (?:aiuto|sapere|un)|un[ao]? (?:lista|riassunto|testo|poesia|storia|e-?mail|lettera|tabella|piano|ricetta|idea))"
    r"|(?:quero|preciso|gostaria|queria) (?:que|saber|entender|de (?:ajuda|saber|um)|um[a]? (?:lista|resumo|texto|poema|história|e-?mail|carta|tabela|plano|receita|ideia))"
)
"""Requests in the user's own person."""
ROLES = (
    r"you(?:['’]re| are| will be| must| should| shall| will| always| never| only| do not| don['’]t| may only| can only| need to| have to| have access| act| serve| help| assist| speak| answer| respond)|your (?:task|job|role|goal|mission|name|purpose"
    r"|answers?|responses?|repl(?:y|ies)|output|tone|audience|instructions|persona)|(?:as|act as) (?:an? |the )?(?:\w+ ){0,2}(?:assistant|expert|bot|agent|writer|teacher)|the (?:assistant|model|ai|bot|chatbot)\b|when(?:ever)? (?:you|the user|asked|a user|answering|responding)"
    r"|if (?:you|the user|asked|a user|users|the question|the context|the answer|someone asks|unsure|in doubt)|do not|don['’]t|never|always|under no circumstances|no (?:markdown|emojis?|preamble|explanations?|other text)|only (?:answer|use|respond|reply|output)"
    r"|du (?:bist|sollst|musst|darfst|wirst|antwortest|hilfst|sprichst|hast zugriff)|sie (?:sind ein|sollen|müssen|dürfen|helfen|antworten)|deine (?:aufgabe|rolle|antwort\w*)|ihre (?:aufgabe|rolle)|wenn (?:du|der (?:nutzer|benutzer|user)|man dich)|niemals|keine (?:emojis?|erklärung\w*)|nur (?:auf|die antwort)"
    r"|(?:tú )?eres un|debes|deberás|tienes que|tu (?:tarea|función|papel|trabajo|rol|objetivo)|si (?:el usuario|te preguntan|no sabes)|nunca|siempre|no (?:uses|respondas|inventes|incluyas|menciones|des|digas|hagas|escribas)"
    r"|(?:tu es|vous êtes) (?:un|une|l['’])|tu (?:dois|devras|réponds|parles|aides)|vous devez|(?:ta|votre|ton) (?:tâche|mission|rôle|objectif)|si (?:l['’]utilisateur|on te|tu ne|vous ne)|jamais|toujours|ne (?:réponds|répondez|fais|faites|mentionne|donne|dis|inventez?|utilise)\b"
    r"|(?:tu )?sei un['ao]?|devi|dovrai|il tuo (?:compito|ruolo|obiettivo)|se (?:l['’]utente|ti chiedono|non sai)|non (?:usare|rispondere|inventare|includere|menzionare|dire|fare|scrivere)|mai|sempre"
    r"|(?:você|tu) (?:é|és) um|(?:você )?(?:deve|deverá|precisa)|(?:sua|a sua|tua) (?:tarefa|função|missão)|se (?:o usuário|o utilizador|perguntarem|não souber)|nunca|sempre|não (?:use|responda|invente|inclua|mencione|diga|faça|escreva)"
)
"""What the model is, and what it must and must not do."""
ANSWERS = r"answers?|responses?|repl(?:y|ies)|outputs?|summary|sentences?|bullet(?: point)?s?|word(?:s| limit)|paragraphs?|antwort(?:en)?|sätze?n?|ausgabe|stichpunkte?n?|respuestas?|frases|salida|réponses?|phrases|sortie|risposte|risposta|frasi|respostas?"
MUST = r"must|should|shall|may not|has to|have to|needs? to|at most|no more than|no longer than|muss|müssen|soll(?:en|te)?|darf|dürfen|höchstens|maximal|debe[ns]?|deben|tiene que|como máximo|doit|doivent|au maximum|au plus|deve|devono|devem|al massimo|no máximo"
"""Beside a word of `ANSWERS`: how the answer has to be."""
SUPPOSITIONS = (
    r"(?:i|we)(?:['’]m| am|['’]ve|['’]d| are| would| have)? (?:think|believe|guess|suppose|assume|assuming|heard|hear|bet|imagine|wonder\w*|doubt|not (?:entirely |quite |really )?sure|vaguely remember|thought|presume|feel like|suspect)"
    r"|my guess|in my opinion|maybe|perhaps|probably|possibly|apparently|supposedly|allegedly|(?:they|people|some|someone|everyone|my \w+) (?:say|says|said|claims?|thinks?|told)|rumou?r has it|it seems|suppose|assume|assuming|imagine|let['’]?s (?:say|assume|pretend)"
    r"|pretend|say,|if|what if|hypothetically|in theory|unless"
    r"|ich (?:glaube|denke|meine|vermute|nehme an|schätze|habe (?:mal )?gehört|dachte|bin (?:mir )?nicht sicher|frage mich)|vielleicht|angeblich|wahrscheinlich|vermutlich|möglicherweise|angenommen|stell(?:en sie sich|t euch| dir) vor|nehmen wir an|wenn|falls|man sagt"
    r"|(?:yo )?(?:creo|pienso|supongo|imagino|sospecho) que|he (?:oído|leído) que|no estoy segur[oa]|quizás?|tal vez|a lo mejor|probablemente|posiblemente|supuestamente|al parecer|imagina|supón|supongamos|digamos|si|dicen que|me parece que"
    r"|je (?:crois|pense|suppose|me demande|doute|ne suis pas sûre?|ne sais pas)|j['’]ai (?:entendu|lu) (?:dire )?que|peut-être|probablement|apparemment|soi-disant|imagine\w*|supposons|disons que|si|s['’](?:il|ils|elle)|on dit que|il paraît que|il me semble"
    r"|(?:credo|penso|suppongo|immagino|sospetto) (?:che|di)|ho (?:sentito|letto) che|non sono sicur[oa]|forse|probabilmente|a quanto pare|presumibilmente|immagina|supponi|supponiamo|mettiamo che|se|dicono che|mi sembra che"
    r"|(?:eu )?(?:acho|creio|penso|suponho|imagino|desconfio) que|ouvi (?:dizer )?que|li que|não tenho (?:a )?certeza|talvez|provavelmente|aparentemente|supostamente|imagine|suponha\w*|digamos|se|dizem que|parece-me que"
)
"""What may be, what is thought or to be imagined."""
READING_VERBS = (
    r"summari[sz]e|summary|translate|proofread|correct|review|rewrite|rephrase|reword|shorten|analy[sz]e|explain|extract|simplify|convert|classify|format|edit|improve|compare|read|check|based on|use|using|consider|look at|answer"
    r"|fasse?|zusammenfass\w*|übersetz\w*|korrigier\w*|prüfe?|analysier\w*|erklär\w*|extrahier\w*|kürze|verbesser\w*|lies|vergleich\w*|basierend auf|nutze|verwende"
    r"|resum\w+|traduce|traduzca|corrige|revisa|analiza|explica|extrae|acorta|mejora|lee|compara|basándote en|usa"
    r"|résum\w+|tradui\w+|corrige\w*|relis|analyse\w*|explique\w*|extrais|raccourcis|améliore\w*|lis|compare\w*|utilise\w*"
    r"|riassum\w+|traduc\w+|correggi|controlla|analizza|spiega|estrai|accorcia|migliora|leggi|confronta|usa"
    r"|resum\w+|traduz\w*|corrij\w+|revise|analis\w+|expliqu\w+|extraia|encurte|melhore|leia|compare|use"
)
"""Requests that have a text to work on behind their colon."""
HERE_IS = r"here(?:['’]s| is| are)|below (?:is|are)|(?:the|this|these) following|following|as follows|hier (?:ist|sind|kommt)|folgende\w?|nachstehend|aquí (?:está|están|tienes|va)|a continuación|siguientes?|voici|ci-dessous|suivante?s?|ecco|di seguito|seguenti?|aqui (?:está|estão|vai)|a seguir|seguintes?"
DIRECTIONS = (
    r"(?:general |important |strict |key |core |additional |output |response |answer |your |the |writing |style |these |follow(?:ing)? |hard |safety |formatting )*(?:rules?|instructions?|guidelines?|requirements?|constraints?|directives?|format|formatting|output|tone|style|role|persona|task|tasks|goals?|objectives?|steps|length"
    r"|language|audience|examples?|question|questions|query|behaviou?r|do|don['’]ts?|dos and don['’]ts|please|make sure(?: to| that| you)?|you (?:must|should|will|can|may|are to)|template|schema|structure|title|subject line|topic|prompt|request|tool use|tools|capabilities|limitations|policy for answers)"
    r"|(?:allgemeine |wichtige |deine |ihre )*(?:regeln|anweisung(?:en)?|vorgaben|anforderungen|aufgaben?|rolle|ton|tonfall|stil|format|ausgabe|ausgabeformat|beispiele?|frage|fragen|länge|sprache|zielgruppe|thema|bitte|achte darauf|du sollst)"
    r"|(?:tus |las )*(?:reglas|instrucciones|requisitos|tareas?|rol|tono|estilo|formato|salida|ejemplos?|preguntas?|longitud|idioma|público|tema|debes)"
    r"|(?:tes |les |vos )*(?:règles|instructions|consignes|exigences|tâches?|rôle|ton|style|format|sortie|exemples?|questions?|longueur|langue|public|sujet|tu dois)"
    r"|(?:le )?(?:regole|istruzioni|requisiti|compit[oi]|ruolo|tono|stile|formato|esempi[o]?|domand[ae]|lunghezza|lingua|argomento|devi)"
    r"|(?:as )?(?:regras|instruções|requisitos|tarefas?|papel|tom|estilo|formato|saída|exemplos?|perguntas?|tamanho|idioma|língua|assunto|deve)"
)
"""Headings, labels and keys under which stands what is to be done, not what is so."""
SAYING = r"say|says|saying|tell (?:them|him|her|me)|state|stating|claim|claiming|that|mention|write|announce|schreib\w*|sag\w*|dass|steht|di(?:ga|ciendo)?|escrib\w+|que|dis|disant|écri\w+|dici|dicendo|che|scrivi|diga|dizendo|escreva"
"""Before a colon: what stands behind it is to be said, whether it is so or not."""
FIRST_PERSON = (
    r"i|i['’](?:m|ve|d|ll)|me|my|mine|myself|we|we['’](?:re|ve|d|ll)|us|our|ours|ich|mir|mich|meine?\w{0,2}|wir|uns|unsere?\w{0,2}|yo|mí|mi|mis|nos|nosotr[oa]s|nuestr\w+|soy|estoy|tengo|vivo|trabajo|somos|tenemos|je|moi|mon|ma|mes|nous|notre|nos"
    r"|io|mio|mia|miei|mie|noi|nostr[oaie]|sono|ho|abbiamo|siamo|eu|meu|minha|meus|minhas|nós|nosso|nossa|nossos|nossas|sou|tenho|estou|temos|moro"
)
"""A user knows what is so of themselves."""
