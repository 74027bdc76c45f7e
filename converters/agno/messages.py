"""Agno's messages as messages of the model, its token counts as usage, and a run's message list as turns (one model request each).

A turn is an assistant message that a request of this run gave, with the messages before it that are new and the answers that follow it. Messages
that were copied in (history, the inherited part of a fork) are context of the first turn and never turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw, Struct

from .. import jsonio, model
from ..model import ABSENT, Part, Usage
from .schema import Asked, Event, Message, RequestCompleted, Tokens, array, decoder, items, loosely
from .times import NO_CLOCKS, UNKNOWN, Clocks, Window, clocks, window

PROVIDERS: Final = {
    "OpenAI": "openai",
    "Anthropic": "anthropic",
    "Google": "gcp.gemini",
    "Gemini": "gcp.gemini",
    "VertexAI": "gcp.vertex_ai",
    "Azure": "azure.ai.openai",
    "AzureOpenAI": "azure.ai.openai",
    "AzureAIFoundry": "azure.ai.inference",
    "AwsBedrock": "aws.bedrock",
    "Mistral": "mistral_ai",
    "MistralAI": "mistral_ai",
    "Cohere": "cohere",
    "DeepSeek": "deepseek",
    "Groq": "groq",
    "Perplexity": "perplexity",
    "xAI": "x_ai",
    "IBM": "ibm.watsonx.ai",
}
"""Agno's display names of providers as the GenAI conventions name them. Others stay as they are."""

MEDIA: Final = {"images": "image", "audio": "audio", "videos": "video", "files": "file", "audio_output": "audio"}
_media = attrgetter(*MEDIA)
_NO_MEDIA: Final = _media(Message())
_FLAGS: Final = ("from_history", "stop_after_tool_call")
_NULL: Final = Raw(b"null")
_FALSE: Final = Raw(b"false")
_asked = msgspec.json.Decoder(list[Asked])
_TYPED: Final = frozenset({"role", "content", "reasoning_content", "thinking", "tool_calls", "tool_call_id", "created_at", "name"})


@lru_cache(maxsize=256)
def provider(name: str | None) -> str | None:
    """The provider's conventional name; a suffix that agno adds (``OpenAI Chat``) does not count."""
    if not name:
        return None
    return PROVIDERS.get(name) or PROVIDERS.get(name.split(" ", 1)[0], name)


def usage(metrics: Raw) -> Usage | None:
    """Token counts of a metrics object of any version. A set of zeros is what Agno writes for counts that nobody stated: None."""
    if not metrics:
        return None
    try:
        return counts(decoder(Tokens).decode(metrics))
    except msgspec.DecodeError:
        return None


_whole = msgspec.json.Decoder(Annotated[int, Meta(ge=0, le=(1 << 63) - 1)])


def count(raw: Raw) -> int | None:
    """A whole number that is not negative; a list (1.x) is summed."""
    if not raw:
        return None
    try:
        return _whole.decode(raw)
    except msgspec.DecodeError:
        value = jsonio.value(raw)
    if isinstance(value, list):
        numbers = [n for n in value if isinstance(n, int) and not isinstance(n, bool)]
        value = sum(numbers) if numbers and len(numbers) == len(value) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def counts(t: Tokens | Event) -> Usage | None:
    """The same for a Struct with Agno's token fields (an event has those of the later versions)."""
    found = Usage(
        input=count(t.input_tokens),
        output=count(t.output_tokens),
        cache_read=count(t.cache_read_tokens),
        cache_write=count(t.cache_write_tokens),
        reasoning=count(t.reasoning_tokens),
        total=count(t.total_tokens),
    )
    if isinstance(t, Tokens):
        _by_other_names(found, t)
    if found.input or found.output or found.total or found.cache_read or found.cache_write or found.reasoning or found.cost:
        return found
    return None


def stated(e: RequestCompleted) -> Usage | None:
    """The same for the short form of an event."""
    if e.input_tokens or e.output_tokens or e.total_tokens or e.cache_read_tokens or e.cache_write_tokens or e.reasoning_tokens:
        return Usage(
            input=e.input_tokens,
            output=e.output_tokens,
            cache_read=e.cache_read_tokens,
            cache_write=e.cache_write_tokens,
            reasoning=e.reasoning_tokens,
            total=e.total_tokens,
        )
    return None


def _by_other_names(found: Usage, t: Tokens) -> None:
    """Counts as 1.x names them, where those of the later versions are missing; and the cost."""
    if found.input is None:
        found.input = count(t.prompt_tokens)
    if found.output is None:
        found.output = count(t.completion_tokens)
    if found.cache_read is None:
        found.cache_read = count(t.cached_tokens)
    if found.cache_read is None and t.prompt_tokens_details:
        found.cache_read = count(jsonio.fields(t.prompt_tokens_details).get("cached_tokens", ABSENT)) or None
    if found.reasoning is None and t.completion_tokens_details:
        found.reasoning = count(jsonio.fields(t.completion_tokens_details).get("reasoning_tokens", ABSENT)) or None
    found.cost = jsonio.finite(jsonio.value(t.cost))


def describe(raw: Raw, modality: str, copy: bool) -> Part:
    """One media object as a part: a URI where it has one; else what it is, its size and its SHA-256 (the bytes only with ``copy``). Base64 is
    not decoded: size and hash are those of the text that the record holds."""
    m = jsonio.fields(raw)
    mime = jsonio.text(m.get("mime_type", ABSENT))
    if (url := jsonio.text(m.get("url", ABSENT))) is not None:
        return model.UriPart(modality=modality, uri=url, mime_type=mime)
    content = jsonio.text(m.get("content", ABSENT))
    if content is not None and copy:
        return model.BlobPart(modality=modality, content=content, mime_type=mime)
    said: dict[str, Any] = {k: jsonio.value(v) for k, v in m.items() if k != "content" and not jsonio.is_null(v)}
    if content is not None:
        said["content_size"] = len(content)
        said["content_sha256"] = sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    return model.GenericPart(generic_type=modality, content=model.raw(said))


def content_parts(raw: Raw) -> list[Part]:
    """Message content (a string, a list of provider parts, an object) as parts."""
    if jsonio.is_null(raw):
        return []
    if (plain := jsonio.text(raw)) is not None:
        return [model.TextPart(plain)]
    found: list[Part] = []
    for item in array(raw) if bytes(memoryview(raw)[:1]) == b"[" else [raw]:
        m = jsonio.fields(item)
        kind = jsonio.text(m.get("type", ABSENT))
        text = jsonio.text(m.get("text", ABSENT)) if kind == "text" else jsonio.text(item)
        found.append(model.TextPart(text) if text is not None else model.GenericPart(generic_type=kind, content=item))
    return found


def asked(raw: Raw) -> list[Asked]:
    """The calls that an assistant message asks for."""
    if not raw:
        return []
    try:
        return _asked.decode(raw)
    except msgspec.DecodeError:  # some are none
        return [a for a, _ in items(Asked, array(raw))]


def call_part(a: Asked) -> model.ToolCallPart:
    """A call that the model asked for. Its arguments are JSON in a string; some are objects already."""
    f = a.function
    if f is None or not f.arguments:
        return model.ToolCallPart(name=f.name if f else "", id=a.id)
    text = jsonio.text(f.arguments)
    return model.ToolCallPart(name=f.name, id=a.id, arguments=jsonio.inner(text) if text is not None else f.arguments)


def message(raw: Raw, media: bool = False) -> tuple[model.Message, Message, list[Asked]]:
    """A message of the model, the record it came from, and the calls in it. Fields without a typed home are in its ``source``."""
    m, _ = loosely(Message, raw)
    parts: list[Part] = []
    calls: list[Asked] = asked(m.tool_calls)
    if m.role == "tool":
        parts.append(model.ToolCallResponsePart(response=m.content or _NULL, id=m.tool_call_id))
    else:
        thought = jsonio.text(m.reasoning_content) or jsonio.text(m.thinking)
        if thought:
            parts.append(model.ReasoningPart(thought))
        parts += content_parts(m.content)
        parts += [call_part(a) for a in calls]
    source = {k: v for k, v in jsonio.fields(raw).items() if k not in _TYPED}
    if _media(m) != _NO_MEDIA:
        for name, modality in MEDIA.items():
            held: Raw = getattr(m, name)
            if not jsonio.is_null(held):
                parts += [describe(item, modality, media) for item in array(held) or [held]]
    for flag in _FLAGS:
        if source.get(flag) == _FALSE:
            del source[flag]
    return model.Message(role=m.role, parts=parts, name=m.name, time=window(m.created_at).lo, source=source), m, calls


class Answer(Struct, eq=False):
    """A tool message: the answer to the call with its ``tool_call_id``."""

    message: model.Message
    record: Message
    taken: bool = False


class Turn(Struct, eq=False):
    """One assistant message that a request gave. ``before``: messages that are new to that request; ``answers``: the tool messages after it;
    ``time``: when the request began (the message's second); ``until``: ns that the requests up to this one took, as far as stated."""

    message: model.Message
    record: Message
    before: list[model.Message]
    usage: Usage | None
    clocks: Clocks
    time: Window
    stated: bool
    asked: list[Asked]
    until: int
    chunks: list[model.Chunk] = []
    answers: list[Answer] = []

    @property
    def response_id(self) -> str | None:
        found = jsonio.text(jsonio.fields(self.record.provider_data).get("id", ABSENT))
        return found or None

    def answer(self, call: str | None, position: int) -> Answer | None:
        """The answer to a call, each used once: by id, else (no id) by position."""
        for a in self.answers:
            if not a.taken and (a.record.tool_call_id == call if call else True):
                a.taken = True
                return a
        return None


class Turns:
    """The turns of a run's messages, in order, each made when it is asked for and then forgotten: of a long record only what is in use is in memory.

    ``inherited``: how many leading messages a fork copied; ``cut_off``: the run did not end normally, so that its last assistant message may be a
    request without counts. Known once all are taken: ``trailing``, the messages after the last turn that are not answers; ``took``: ns of all
    requests that state it; ``streamed``: none does."""

    def __init__(self, raws: Sequence[Raw] = (), inherited: int = 0, cut_off: bool = False, media: bool = False) -> None:
        self._given = raws, inherited, cut_off, media
        self._rest = self._make()
        self._ahead: deque[Turn] = deque()
        self._total: int | None = None
        self.first: Window | None = None  # when the first request began
        self.trailing: list[model.Message] = []
        self.took = 0
        self.streamed = True

    def ahead(self, places: int = 0) -> Turn | None:
        """The turn so many places after the next one; None when there are not so many."""
        while len(self._ahead) <= places:
            turn = next(self._rest, None)
            if turn is None:
                return None
            self._ahead.append(turn)
        return self._ahead[places]

    def take(self) -> Turn | None:
        """The next turn, if there is one."""
        if self.ahead() is None:
            return None
        return self._ahead.popleft()

    def __iter__(self) -> Iterator[Turn]:
        """All that are left, taken."""
        while (turn := self.take()) is not None:
            yield turn

    @property
    def some(self) -> bool:
        """Whether there is a turn at all."""
        return self.first is not None or self.ahead() is not None

    @property
    def total(self) -> int:
        """`took` of all turns, also of those that are still to come."""
        if self._total is None:
            other = Turns(*self._given)
            self._total = sum(t.clocks.duration or 0 for t in other)
        return self._total

    def _make(self) -> Iterator[Turn]:
        listed, inherited, cut_off, media = self._given
        before: list[model.Message] = []
        open_: Turn | None = None
        last = next((i for i in range(len(listed) - 1, -1, -1) if _role(listed[i]) in _MODEL), -1)
        for position, raw in enumerate(listed):
            try:
                said, record, calls = message(raw, media)
            except msgspec.DecodeError:
                continue
            copied = position < inherited or record.from_history is True
            if record.role in _MODEL and not copied:
                stated = bool(jsonio.fields(record.metrics))
                if stated or calls or (position == last and (cut_off or open_ is None) and not _thinking(record)):
                    times = clocks(record.metrics)
                    if times.duration is not None:
                        self.took, self.streamed = self.took + times.duration, False
                    if open_ is not None:
                        yield open_
                    open_ = Turn(said, record, before, usage(record.metrics), times, window(record.created_at), stated, calls, self.took)
                    if self.first is None:
                        self.first = open_.time
                    before = []
                    continue
            elif record.role == "tool" and not copied and open_ is not None:
                open_.answers.append(Answer(said, record))
            before.append(said)
        self.trailing = before
        if open_ is not None:
            yield open_


_MODEL: Final = frozenset({"assistant", "model"})


def _role(message: Raw) -> str | None:
    return jsonio.text(jsonio.fields(message).get("role", ABSENT))


def _thinking(m: Message) -> bool:
    """A message that a reasoning agent left in the list of another's."""
    return (jsonio.text(m.content) or "").startswith("<thinking>")


__all__ = [
    "MEDIA",
    "NO_CLOCKS",
    "PROVIDERS",
    "UNKNOWN",
    "Answer",
    "Turn",
    "Turns",
    "call_part",
    "content_parts",
    "count",
    "counts",
    "describe",
    "message",
    "provider",
    "usage",
]
