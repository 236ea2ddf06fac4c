"""Context-faithful prompting: rules at the end of the system message, and the retrieved passages, numbered, with the question.

After `relevance`, which may leave passages out of `exchange.passages`. The rules are the same in every turn of a conversation that has
context: they depend on its first user message's language and on the answer's format, never on the passages, so that the prompt's
prefix stays stable. The wordings and their rendering are `proxy.context.faithful`'s. What the rules ask for, citations and a rating, the
proxy checks; where end users should not see it, it is taken out of the answer behind every check (`proxy.stages.faithful.marks`), unless
the client asks for it itself. JSON answers are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta

from proxy.context.conversation import last_user, named_calls, unread_size
from proxy.context.faithful import LANGUAGES, build_context_block, readable, texts, wrap_with_context_faithful_prompt
from proxy.context.passages import absent_passages, is_retrieval_tool
from proxy.exchange import Evidence, Exchange, Message, Sentence, Verdict, tool_name
from proxy.language.detection import language
from proxy.language.json.strings import looks_json
from proxy.language.text import InOrder, text_of, without
from proxy.offloop import SENTENCES, run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.stage import Positive, SentenceStage, StageOptions
from proxy.stages.faithful.marks import MarkRemover, asks_for_citations, asks_for_rating, without_own_marks

READING_TOOLS = (
    "read_file",
    "read_document*",
    "read_page*",
    "read_url",
    "web_extract",
    "web_fetch",
    "fetch_url",
    "fetch_page",
    "fetch_webpage",
    "open_url",
    "browser",
    "browser_navigate",
    "browser_snapshot",
)
"""Tools that read one thing by its name. Their results are no passages that somebody promised to answer from, so that the relevance of
none is judged; but an answer that speaks of them has to keep to them.
"""
Template = Literal["rag", "prefix", "none"]
AskedMark = Literal["citations", "confidence"]
_RULES = tuple(texts(code).rules.strip() for code in LANGUAGES)
"""Which every suffix begins with."""


class FaithfulOptions(StageOptions, frozen=True, kw_only=True):
    """``faithful:``"""

    removed = {"reading_tools": "name tools that bring context in the policy's retrieval_tools, or when: passages counts no tool at all"}
    template: Annotated[
        Template,
        Meta(
            description="how passages from groundwire.context join the last user message: rag (passages, then the question), prefix (one "
            "line, passages, the message) or none (passages, the message)"
        ),
    ] = "rag"
    max_passages: Annotated[Positive, Meta(description="most passages from groundwire.context to put into the prompt")] = 10
    language: Annotated[
        Literal["auto", "en", "de", "es", "fr"], Meta(description="wording of the rules; auto takes the language of the first user message")
    ] = "auto"
    show_citations: Annotated[
        bool,
        Meta(
            description="false takes the citations that the rules ask for out of the answer, once they are checked; a client's own request "
            "for citations, or passages that it has numbered itself, leaves them in; needs delivery: gate or hold"
        ),
    ] = True
    show_confidence: Annotated[
        bool, Meta(description="false takes the rating that the rules ask for out of the answer, likewise; header and record have it")
    ] = True
    ask_for: Annotated[
        tuple[AskedMark, ...],
        Meta(
            description="what the rules ask an answer for beside faithfulness: citations of its passages, confidence (a rating at its end)"
        ),
    ] = ("citations", "confidence")
    when: Annotated[
        Literal["passages", "retrieval", "always"],
        Meta(
            description="requests that get the rules: those with passages; those that offer or used a retrieval tool or a reading tool, "
            "too; or always, for a prefix that never changes"
        ),
    ] = "retrieval"


class _HiddenMarks:
    """What is taken out of the answers of one exchange."""

    def __init__(self, *, citations: bool, rating: bool) -> None:
        self.citations, self.rating = citations, rating
        self.removers: dict[int, MarkRemover] = {}
        """By choice."""

    def remover(self, choice: int) -> MarkRemover:
        """Of `choice`, which has read its earlier sentences."""
        if choice not in self.removers:
            self.removers[choice] = MarkRemover(citations=self.citations, rating=self.rating)
        return self.removers[choice]


class Faithful(SentenceStage[FaithfulOptions]):
    """Asks for an answer from the context, with citations and rating; numbers the passages that come as hints."""

    name = "faithful"
    checks = False
    Options = FaithfulOptions
    changes = ("messages", "answer")
    follows = ("relevance",)
    reads_passages = True
    answers_after = ("schema", "claims", "citations", "confidence", "poisoning")

    def __init__(self, options: FaithfulOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._marks_of_exchange: dict[str, _HiddenMarks] = {}
        """By exchange id, while it lasts."""

    @classmethod
    def blocks_answers(cls, options: FaithfulOptions) -> bool:
        """Where marks are taken out."""
        return not (options.show_citations and options.show_confidence)

    @property
    def judges_sentences(self) -> bool:
        """Only to take marks out."""
        return self.blocks_answers(self.options)

    @property
    def judges_answers(self) -> bool:
        """Likewise."""
        return self.blocks_answers(self.options)

    def by_sentence(self, exchange: Exchange) -> bool:
        """Only free text."""
        return exchange.wants.free_text

    def release(self, exchange: Exchange) -> None:
        """Forget it."""
        self._marks_of_exchange.pop(exchange.id, None)

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        """Take the marks out of it; the beginning of one waits for the next."""
        hidden = self._marks_of_exchange.get(exchange.id)
        if hidden is None:
            return None
        said = exchange.marked.pop(sentence.choice, "")
        said += sentence.text  # of a local name, CPython makes this text longer instead of copying it
        exchange.marked[sentence.choice] = said
        if looks_json(said):
            return None
        left = hidden.remover(sentence.choice).read(sentence.text, final=sentence.final)
        if left == sentence.text:
            return None
        whole = left if not left.strip() else left.strip()
        return Verdict(self.name, "unchecked", detail={"choice": sentence.choice, "sentence": sentence.index}, replacement=whole)

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Take the marks out of an answer that came whole."""
        hidden = self._marks_of_exchange.get(exchange.id)
        if hidden is None or exchange.answer is None or exchange.gated or exchange.retry is not None:
            return None
        for choice in exchange.answer.choices:
            if looks_json(choice.text):
                continue
            hide = partial(without_own_marks, citations=hidden.citations, rating=hidden.rating)
            text = await run_in_thread_if_large(len(choice.text) * SENTENCES, hide, choice.text)
            if text != choice.text:
                exchange.marked[choice.index] = choice.text
                exchange.answer = exchange.answer.with_text(choice.index, text)
                exchange.changes.append({"stage": self.name, "what": "marks taken out", "choice": choice.index})
        return None

    def _suffix(self, wording: str) -> str:
        return texts(wording).suffix(cite="citations" in self.options.ask_for, rate="confidence" in self.options.ask_for)

    async def _hide(self, exchange: Exchange) -> None:
        """Note what is to be taken out of the answer: what these rules ask for, and the client does not."""
        citations, rating = await run_in_thread_if_large(unread_size(exchange), self._own_marks, exchange)
        if citations or rating:
            self._marks_of_exchange[exchange.id] = _HiddenMarks(citations=citations, rating=rating)

    def _own_marks(self, exchange: Exchange) -> tuple[bool, bool]:
        """Whether citations, and the rating, are in the answer for these rules' sake alone."""
        said = [text_of(m.get("content")) for m in exchange.original.messages if m.get("role") in ("system", "developer", "user")]
        citations = "citations" in self.options.ask_for and not self.options.show_citations and not asks_for_citations(said)
        rating = "confidence" in self.options.ask_for and not self.options.show_confidence and not asks_for_rating(said)
        return citations, rating

    async def _wording(self, exchange: Exchange) -> str:
        """The language of rules and block."""
        if self.options.language != "auto":
            return self.options.language
        return await run_in_thread_if_large(unread_size(exchange), conversation_language, exchange)

    async def _shown(self, exchange: Exchange, passages: Sequence[Evidence]) -> list[Evidence]:
        """Those of the `passages` to put into the prompt."""
        absent = await run_in_thread_if_large(unread_size(exchange), absent_passages, passages, exchange.conversation)
        return absent[: self.options.max_passages]

    async def hand_over(self, exchange: Exchange) -> None:
        """The passages, numbered, before the last user message: no rules, and no template."""
        if shown := await self._shown(exchange, exchange.original.passages):
            wording, size = await self._wording(exchange), unread_size(exchange)
            exchange.messages = await run_in_thread_if_large(size, with_passages, exchange.messages, shown, "none", wording)

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Add the rules and the passages, each once."""
        options, size, before = self.options, unread_size(exchange), exchange.messages
        grounds = await run_in_thread_if_large(size, grounds_of, exchange)
        wanted = {"passages": ("passages",), "retrieval": ("passages", "retrieval_tool"), "always": ()}[options.when]
        if wanted and not any(ground in wanted for ground in grounds):
            return Verdict(self.name, "unchecked", detail={"reason": "no context"})
        wording = await self._wording(exchange)
        plain = not exchange.wants.free_text  # citations or a rating would break the answer
        with_rules = with_suffix(before, texts(wording).system_suffix_plain if plain else self._suffix(wording))
        shown = await self._shown(exchange, exchange.passages)
        template: Template = "none" if plain else options.template
        wrap = partial(wrap_with_context_faithful_prompt, cite="citations" in options.ask_for, rate="confidence" in options.ask_for)
        exchange.messages = await run_in_thread_if_large(size, with_passages, with_rules, shown, template, wording, wrap)
        detail = {"grounds": grounds, "language": wording, "variant": "plain" if plain else "full", "passages": len(shown)}
        if with_rules is not before and not plain:
            await self._hide(exchange)
        if with_rules is not before:
            exchange.changes.append({"stage": self.name, "what": "rules", "language": wording, "variant": detail["variant"]})
        if exchange.messages is not with_rules:
            exchange.changes.append({"stage": self.name, "what": "passages", "passages": len(shown)})
        if exchange.messages is before:
            detail["reason"] = "already there"
        return Verdict(self.name, "unchecked", detail=detail)


def grounds_of(exchange: Exchange) -> list[str]:
    """Why the rules apply: ``passages`` (also when an earlier stage left all of them out), ``retrieval_tool`` offered or used, which may
    be one that reads.
    """
    patterns = (*exchange.retrieval_tools, *READING_TOOLS)
    names = [tool_name(tool) for tool in exchange.catalogue]
    names += [name for message in exchange.conversation for _, name, _ in named_calls(message)]
    retrieved = bool(exchange.passages) or any(evidence.kind == "passage" for evidence in exchange.evidence)
    found = (("passages", retrieved), ("retrieval_tool", any(is_retrieval_tool(name, patterns) for name in names)))
    return [name for name, holds in found if holds]


def conversation_language(exchange: Exchange) -> str:
    """The language of the first user message without its passages, or else of the system message; one that the rules are worded in."""
    for roles in (("user",), ("system", "developer")):
        for i, message in enumerate(exchange.conversation):
            if message.get("role") in roles:
                text = text_of(message.get("content"))
                text = without(text, InOrder(text).spans(e.content for e in exchange.evidence if e.message_index == i))
                if found := language(text, default=""):
                    return found if found in LANGUAGES else "en"
                break
    return "en"


def with_suffix(messages: Sequence[Message], suffix: str) -> Sequence[Message]:
    """`messages` with `suffix` at the end of the first system message, or in a new one; themselves when they have such rules already."""
    systems = [i for i, message in enumerate(messages) if message.get("role") in ("system", "developer")]
    if any(rules in text_of(messages[i].get("content")) for i in systems for rules in _RULES):
        return messages
    if not systems:
        return [{"role": "system", "content": suffix.strip()}, *messages]
    at = systems[0]
    return [*messages[:at], _with_text(messages[at], lambda text: text + suffix if text.strip() else suffix.strip()), *messages[at + 1 :]]


def with_passages(
    messages: Sequence[Message],
    passages: Sequence[Evidence],
    template: Template,
    wording: str,
    wrap: Callable[..., tuple[str, str]] = wrap_with_context_faithful_prompt,
) -> Sequence[Message]:
    """`messages` with `passages` in the last user message; themselves when there are none, no user message, or they are there already."""
    at = last_user(messages)
    if at is None or not readable(passages):
        return messages
    block = build_context_block(passages, len(passages), language=wording)
    if block in text_of(messages[at].get("content")):
        return messages

    def wrapped(text: str) -> str:
        if template == "none" or not text.strip():
            return f"{block}\n\n{text}".rstrip()
        return wrap(text, passages, use_rag_template=template == "rag", max_passages=len(passages), language=wording)[1]

    return [*messages[:at], _with_text(messages[at], wrapped), *messages[at + 1 :]]


def _with_text(message: Message, change: Callable[[str], str]) -> Message:
    """A copy of `message` whose text, or last text part, went through `change`; its other parts stay the same objects."""
    content = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": change(content if isinstance(content, str) else "")}
    texts_at = [
        i for i, part in enumerate(content) if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    if not texts_at:
        return {**message, "content": [{"type": "text", "text": change("")}, *content]}
    at = texts_at[-1]
    return {**message, "content": [*content[:at], {**content[at], "text": change(content[at]["text"])}, *content[at + 1 :]]}
