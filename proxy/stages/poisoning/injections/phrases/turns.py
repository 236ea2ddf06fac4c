"""Turns, tags and tokens that only the chat's own format has."""

from __future__ import annotations

from proxy.stages.poisoning.injections.phrases.signal import Signal, signal

FAKE_TURN: tuple[Signal, ...] = (
    signal(
        "fake_turn",
        0.72,
        "<|",
        r"<\|(?:im_start|im_end|im_sep|system|user|assistant|developer|endoftext|eot_id|eom_id|start_header_id|"
        r"end_header_id|begin_of_text|end_of_text|endofprompt|python_tag|channel|message|start|end|call|return|tool_call|"
        r"tool_response)\|>",
    ),
    signal(
        "fake_turn", 0.72, "inst]/sys>>/start_of_turn/end_of_turn/<｜", r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>|<｜[^｜\n]{1,40}｜>"
    ),
    signal(
        "fake_turn",
        0.62,
        "<",
        r"</(?:tool[_-]?(?:call|result|response|output)s?|function_(?:call|results?|response)|search_results?|documents?|context|data|user|"
        r"user_query|assistant|human|instructions?)>\s{0,8}"
        r"<(?:system|system[_-]?(?:prompt|message)|developer|admin|assistant|human|important|instructions?)>",
    ),
    signal(
        "fake_turn",
        0.45,
        "<",
        r"</(?:system|system[_-]?prompt|system[_-]?message|instructions?|assistant|user|human|tool_call|tool[_-]result|"
        r"tool[_-]response|tool[_-]output|function_call|function_results?|function_response|user_query|search_results?|"
        r"documents?|context|untrusted\w{0,12}|data)>\s{0,8}(?:<|\[|#|(?:new |system|important|ignore|you |now|assistant|"
        r"human))",
    ),
    signal(
        "fake_turn",
        0.4,
        "<system/<sys>/<developer/<admin/<important/<instruction/<secret/<override/<hidden/<assistant/<human/<tool_call/"
        "<function_call/<information",
        r"<(?:system|sys|system[_-]?prompt|system[_-]?message|developer|admin|important|important_instructions|"
        r"instructions?|secret|override|hidden|assistant|human|tool_call|function_call|"
        r"information)>[^<\n]{0,10}\n?[^<\n]{8,}",
    ),
    signal(
        "fake_turn",
        0.48,
        "system/developer/admin/root/operator & message/prompt/override/directive/note/notice/alert/update/command/instruction",
        r"\b(?:system|developer|admin(?:istrator)?|root|operator)[ -](?:message|prompt|override|directives?|note|notice|"
        r"alert|update|command|instructions?)\b[^\w\n]{0,4}(?:\(|\[|:|-|–|—|!|\]|activ|$|\n)",
    ),
    signal(
        "fake_turn",
        0.4,
        "begin/end /end of/start & system/new/admin/secret/hidden/developer/user/priority/ai/instruction/prompt/override",
        r"(?:^|[\n\[<=*#-])[ =*#<\[-]{0,12}(?:begin|end|start)(?:ning)?(?: of)?(?: \w{2,14})? (?:system|new|admin|secret|"
        r"hidden|developer|user|priority|ai|instructions?|prompt|override)(?: (?:prompt|message|instructions?|context|query|"
        r"override|update|input|block|section))?[ =*#>\]-]{0,12}(?:$|[\n.:>\]])",
    ),
    signal(
        "fake_turn",
        0.35,
        "end of/ende",
        r"(?:^|[\n\[<=*#-])[ =*#<\[-]{0,12}end of (?:the )?(?:document|context|data|(?:tool |search |function )?(?:output|"
        r"results?|input)|user input|article|page|file|text|email|retrieved \w{4,12})s?\b[ =*#>\].:-]{0,12}",
    ),
    signal(
        "fake_turn",
        0.5,
        "system/assistant/developer",
        r"(?:^|\n)[ \t>]{0,3}#{1,5} {0,2}(?:new )?(?:system|assistant|developer)(?: (?:prompt|message|instructions?|"
        r"note))? {0,2}:\s{1,4}(?:you |from now|ignore|new |the user|please|call|use |send|important)",
    ),
    signal(
        "fake_turn",
        0.28,
        "system/assistant/developer",
        r"(?:^|\n)[ \t>*#\[]{0,6}(?:system|assistant|developer)[ \t*\]]{0,4}: {0,3}(?:you |from now|ignore|new |i (?:am|"
        r"will)|sure|okay|understood|the user|please|call|use |send|important|\{)",
    ),
    signal(
        "fake_turn", 0.3, "human:/user:", r"\n[ \t]{0,4}\n[ \t]{0,4}(?:human|user|h): [^\n]{1,400}\n{1,4}[ \t]{0,4}(?:assistant|a|ai): "
    ),
    signal(
        "fake_turn",
        0.45,
        "\"role\"/'role'/role:",
        r"[\"']?role[\"']? ?[:=] ?[\"'](?:system|developer|"
        r"tool)[\"'],? ?(?:[\"']\w{2,20}[\"'] ?: ?[\"'][^\"'\n]{0,60}[\"'],? ?){0,3}[\"']?content[\"']? ?[:=]",
    ),
    signal(
        "fake_turn",
        0.4,
        "systemnachricht/systemmeldung/mensaje del sistema/message systeme/message du systeme",
        r"\b(?:systemnachricht|systemmeldung|systemanweisung|mensaje del sistema|instruccion del sistema|"
        r"message (?:du )?systeme|instruction (?:du )?systeme)\b[^\w\n]{0,4}[:!\]-]",
    ),
)
