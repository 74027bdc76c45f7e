"""What Phoenix shows beyond the generic profile: input and output panels of requests and tools, and the token details that it does not take from the
GenAI attributes. (Version 20.26: it translates ``gen_ai.*`` itself and fills only what is missing.)
"""

from __future__ import annotations

from ..jsonio import minify
from ..model import AnySpan, Message, ModelRequest, TextPart, ToolCall
from . import semconv as k
from .flat import Attributes, Profile
from .gen_ai import messages_json
from .openinference import JSON, TEXT

REASONING = "llm.token_count.completion_details.reasoning"
CACHE_WRITE = "llm.token_count.prompt_details.cache_write"
PROJECT = "openinference.project.name"


def attributes(span: AnySpan, out: Attributes, profile: Profile) -> None:
    """Add what the profile adds for ``span``."""
    if isinstance(span, ToolCall):
        if span.arguments:
            out += [(k.INPUT_VALUE, minify(span.arguments)), (k.INPUT_MIME_TYPE, JSON)]
        if span.result:
            out += [(k.OUTPUT_VALUE, minify(span.result)), (k.OUTPUT_MIME_TYPE, JSON)]
    elif isinstance(span, ModelRequest):
        # Without an output.value it shows {"id", "model"} as the output of every request that has a response id.
        _panel(span.input_messages[-1:], k.INPUT_VALUE, k.INPUT_MIME_TYPE, out)
        _panel(span.output_messages[-1:], k.OUTPUT_VALUE, k.OUTPUT_MIME_TYPE, out)
        if span.usage is not None:
            if span.usage.reasoning:
                out.append((REASONING, span.usage.reasoning))
            if span.usage.cache_write and profile.dialect != "1.41":
                out.append((CACHE_WRITE, span.usage.cache_write))


def _panel(messages: list[Message], key: str, mime_key: str, out: Attributes) -> None:
    """The last message: its text, or the message as JSON when it is more than text."""
    if not messages:
        return
    parts = messages[0].parts
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        out += [(key, parts[0].content), (mime_key, TEXT)]
    else:
        out += [(key, messages_json(messages, False)), (mime_key, JSON)]
