"""Spanish: how people correct an agent (`proxy.stages.reflection.signals.correction_words.wording` says how to read it)."""

from proxy.stages.reflection.signals.correction_words.wording import CorrectionWords, compiled

_ESO = r"(?:eso|esto|ese|esa|aquello|(?:la|tu|su) (?:respuesta|cifra|suma|informacion)|(?:el|tu|su) (?:resultado|calculo|resumen))"
_MUY = r"(?: (?:todo|muy|completamente|totalmente|simplemente|otra vez|todavia|aun|tampoco|para nada)){0,2}"
_USES = r"(?:uses?|utilices?|llames?|busques?|consultes?|pruebes?|ejecutes?|repitas?|intentes?|recurras?)"
_USA = r"(?:usa|use|utiliza|utilice|prueba(?: con)?|llama a|coge|toma|ejecuta|cambia a|emplea|consulta)"
_USAR = r"(?:usar|utilizar|llamar|buscar|consultar|probar|ejecutar|repetir|intentar|reintentar|adivinar|inventar|hacer)"
_DE_ES = (
    r" ?(?:resultados?|filas?|entradas?|lineas?|documentos?|paginas?|registros?|coincidencias|archivos?|articulos?|elementos?|"
    r"sugerencias|opciones|ideas|busquedas?|llamadas?|veces|intentos?|consultas?|peticiones)\b"
)
_MUESTRA = (
    r"(?:(?:muestra|dame|lista|devuelve|saca|trae|ensena|pon|quiero|muestre|deme|usa|utiliza|toma|use|utilice)(?:me|nos)?(?: solo)? )?"
)
_COMO_MAX = (
    r"(?:como (?:maximo|mucho)|a lo sumo|maximo|max\.?|no mas de|hasta|(?:solo|solamente|unicamente) (?:los|las) (?:primer[oa]s)|"
    r"(?:los|las) primer[oa]s|un maximo de)"
)

SPANISH = CorrectionWords(
    opener=compiled(
        r"(?:(?:oh|ah|eh|mm+|hm+|bueno|pues|vale|ok|y|pero|entonces|ahora|tambien|perdon|perdona|lo siento|disculpa|disculpe|"
        r"por favor|oye|espera|en realidad|gracias|creo que|me temo que|si|"
        r"a partir de ahora|de ahora en adelante|desde ahora|esta vez|puedes|podrias|puede|podria|mejor|sino)\b)[\s.!¡¿…-]{0,4}"
    ),
    denial=compiled(
        r"(?:no|nop|que no|no+|falso|incorrecto|mal|para nada)(?:[\s]*[,.!…-]{1,4}[\s¡¿]*|\s+(?=no\b|yo\b|dije|queria|eso\b|esto\b|"
        r"te\b|es\b))"
    ),
    ask=compiled(
        r"¿|(?:que|por que|porque razon|como|cuando|donde|quien|cual|cuales|cuanto\w?|es|esta|hay|puedes|puede|podrias|tienes|crees|"
        r"sabes)\b(?! no\b| un (?:error|fallo|malentendido)| ya\b| te dije| te he| dije| he dicho| mal\b| equivocad)"
    ),
    polite=compiled(r"¿?(?:y |pero )?(?:por favor,? )?(?:puedes|podrias|puede|podria)\b(?! decirme| explicar)"),
    aside=compiled(
        r".{0,200}?\b(?:(?:al principio )?(?:pense|creia|pensaba) que|(?:el|ella|ellos|alguien|la gente|(?:mi|nuestro|nuestra|un|una|"
        r"su|el|la) [a-z]{2,20}(?: [a-z]{2,20})?) (?:me |nos |ya |tambien )?(?:dice|dijo|dicen|ha dicho|piensa|cree|creia|opina|"
        r"afirma|asegura|escribio|insiste)|si|cuando|en caso de)\b(?=.{1,200})"
    ),
    task=compiled(
        r"(?:por favor,? |puedes )?(?:traduce|traducir|reescribe|corrige(?:me)? (?:este|el|la)|revisa (?:este|el)|resume|escribe|"
        r"redacta|responde a|analiza|evalua|explica)\b"
    ),
    rejected=compiled(
        rf"(?:{_ESO} )?(?:es|esta|era|estan|son|estaba|suena){_MUY} (?:mal|incorrect[oa]|falso|falsa|erroneo|erronea|equivocad[oa]|"
        rf"un error|mentira|una tonteria)\b(?! que| de | en que)",
    ),
    override=compiled(
        r"(?:que )?\ue000{1,128} (?:devuelva|de|saque|traiga|con) (?:como maximo|como mucho|a lo sumo|no mas de) <cap>",
        rf"(?:ya )?no (?:vuelvas? a )?(?:{_USES}|{_USAR})(?: mas| otra vez| nunca| de nuevo){{0,2}}(?: a| en| con| la| el)? <no>",
        rf"(?:deja(?: ya)?|dejad|deje|para(?: ya)?|pare) de {_USAR}(?: a| en| con)? <no>",
        r"(?:nada de|basta de|sin|olvida|olvidate de|evita|ignora|no) <no>",
        rf"{_USA}(?: mejor| ahora)? <yes>(?:,? (?:en (?:lugar|vez) de|y no|no) <no>)?",
        rf"en (?:lugar|vez) de <no>(?:,? {_USA} <yes>)?",
        rf"(?:mejor|solo) <yes>",  # noqa: F541
        rf"no (?:hace falta|es necesario) (?:que )?(?:{_USES}|{_USAR})(?: a| en| con)? <no>",
        r"(?:intenta|intentalo|prueba|pruebalo)(?: mejor)? con <yes>",
        r"(?:prefiero|quiero) que (?:uses|utilices|llames a|pruebes)(?: con)? <yes>(?:,? (?:y no|no|en (?:lugar|vez) de) <no>)?",
        r"(?:saltate|prescinde de|quita|descarta) <no>",
        rf"(?:tienes que|debes|deberias|hay que) {_USAR} <yes>",
    ),
    cap=compiled(
        rf"{_MUESTRA}{_COMO_MAX} <cap>{_DE_ES}",
        rf"(?:limita(?:te|lo|la|los)?|limite(?:se)?|restringe(?:lo)?)(?: \w{{1,12}} \w{{1,20}})? a (?:un maximo de |los primeros |"
        rf"las primeras )?<cap>(?:{_DE_ES}|<.>)",
        rf"{_MUESTRA}<cap>{_DE_ES} (?:como (?:maximo|mucho)|maximo|a lo sumo)\b",
        rf"{_COMO_MAX} <cap> (?:por|a la vez|cada)\b",
    ),
)
