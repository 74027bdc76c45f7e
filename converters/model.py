"""The common span model: every format is read into it, everything else is written from it.

The chain is run → attempt → phase → tool call / model request; a task stands between run and attempt in a
benchmark, and a run may stand inside a run (team member, workflow step, sub-agent). The kinds are msgspec
Structs with the tag ``kind``, so that the model itself is a format (`converters/spanjson`).

Rules that hold for every reader:

* Missing is missing: a field that the source does not state stays at its default. Nothing is filled from
  something else without saying so in ``clock``, ``inferred`` or an attribute.
* Times are integer nanoseconds since the Unix epoch, UTC. ``end`` is ``None`` for an unfinished span.
* Content that is only carried (tool arguments, results, payloads) is ``msgspec.Raw``: JSON text, never re-encoded on
  the way. ``ABSENT`` (an empty Raw, false in a boolean context) means that there is none. A Raw keeps the whole
  document it was cut from alive: take ``raw.copy()`` when a span outlives its document (streams).
* ``source`` holds every field of the source record that has no typed home, by its own name, untouched.
* Structs are not changed after a reader has yielded them; stages make new ones with ``msgspec.structs.replace``.

This module imports nothing of spanport and knows no format and no attribute names.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import Raw, Struct

ABSENT: Final[Raw] = Raw()
"""The Raw that stands for "no value". Test with truth: ``if span.result: …``."""

Clock = Literal["recorded", "derived", "synthetic"]
"""Where the times of a span come from: ``recorded``: the source states both ends, or one end and a duration;
``derived``: worked out from clocks that the source states; ``synthetic``: made up only to keep the order."""

Status = Literal["unset", "ok", "error"]
Outcome = Literal["ok", "error", "rejected", "aborted", "pending"]
"""What became of a tool call. ``rejected`` never ran (unknown tool, undecodable arguments, over a limit, refused by a
person); ``aborted`` started and did not complete, or was unanswered when the run broke off; ``pending`` waits in a
paused run."""

RunType = Literal["agent", "team", "workflow", "benchmark"]

Value = str | bool | int | float | list[Any] | dict[str, Any] | None
"""An attribute value: a JSON value. Never put a float that may be NaN here; use ``source`` for what is only carried."""


# --------------------------------------------------------------------------------------------- messages and parts
class TextPart(Struct, tag="text", tag_field="type", omit_defaults=True, gc=False):
    content: str


class ReasoningPart(Struct, tag="reasoning", tag_field="type", omit_defaults=True, gc=False):
    content: str


class ToolCallPart(Struct, tag="tool_call", tag_field="type", omit_defaults=True, gc=False):
    """A call that the model asked for. ``arguments``: JSON; text that is not JSON is kept as a JSON string."""

    name: str
    id: str | None = None
    arguments: Raw = ABSENT


class ToolCallResponsePart(Struct, tag="tool_call_response", tag_field="type", omit_defaults=True, gc=False):
    response: Raw
    id: str | None = None


class BlobPart(Struct, tag="blob", tag_field="type", omit_defaults=True, gc=False):
    """Binary content, base64."""

    modality: str
    content: str
    mime_type: str | None = None


class UriPart(Struct, tag="uri", tag_field="type", omit_defaults=True, gc=False):
    modality: str
    uri: str
    mime_type: str | None = None


class FilePart(Struct, tag="file", tag_field="type", omit_defaults=True, gc=False):
    modality: str
    file_id: str
    mime_type: str | None = None


class GenericPart(Struct, tag="generic", tag_field="type", omit_defaults=True, gc=False):
    """A part of a type that the GenAI schemas do not name; ``content`` is the source's own object."""

    generic_type: str | None = None
    content: Raw = ABSENT


Part = TextPart | ReasoningPart | ToolCallPart | ToolCallResponsePart | BlobPart | UriPart | FilePart | GenericPart


class Message(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One chat message with parts as the GenAI schemas have them. ``time``: ns, when the source states one.
    ``source``: the message's own untyped fields (left out of a backend's attributes unless carried)."""

    role: str
    parts: list[Part]
    name: str | None = None
    finish_reason: str | None = None
    time: int | None = None
    source: dict[str, Raw] = {}


class History(Struct, kw_only=True, omit_defaults=True, gc=False):
    """What of a request's input is not repeated on it: the first ``count`` messages equal the input and output of
    request ``base`` (its own history included). ``hash`` is `converters.history`'s digest of those messages."""

    base: str
    count: int
    hash: str


class Chunk(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One streamed delta of a request's output: ``length`` characters of ``part`` ("content" or "reasoning") that came
    at ``time`` (ns). The text itself is in the output message, in order, and is not kept twice."""

    time: int | None
    length: int
    part: str = "content"
    source: dict[str, Raw] = {}


# ------------------------------------------------------------------------------------------------- small records
class Usage(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Token counts, normalised as the GenAI conventions want them: ``input`` includes cached tokens and ``output``
    includes reasoning tokens. ``cost`` in US dollars, only when the source states it. What the source states in its
    own words stays in the span's ``source``."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    total: int | None = None
    cost: float | None = None


class Score(Struct, kw_only=True, omit_defaults=True, gc=False):
    """One verdict or measurement: `gen_ai.evaluation.result`. ``value`` is a finite number."""

    name: str
    value: float | None = None
    label: str | None = None
    explanation: str | None = None
    time: int | None = None
    source: dict[str, Raw] = {}


class Artifact(Struct, kw_only=True, omit_defaults=True, gc=False):
    """An artifact that a span made (or told of). ``payload`` JSON, whole; or ``ref``/``sha256`` when it lies elsewhere.
    ``thread`` is the conversation it belongs to. ``found_in``: ``channel`` (an explicit artifact record),
    ``tool_result``, ``listing``, ``manifest``."""

    id: str
    type: str | None = None
    title: str | None = None
    turn: int | str | None = None
    thread: str | None = None
    created: int | None = None
    operation: str = "create"
    version: str | None = None
    mime_type: str | None = None
    uri: str | None = None
    path: str | None = None
    status: str | None = None
    payload: Raw = ABSENT
    size: int | None = None
    sha256: str | None = None
    ref: str | None = None
    found_in: str = "channel"
    source: dict[str, Raw] = {}


class Error(Struct, kw_only=True, omit_defaults=True, gc=False):
    """``type``: low cardinality (an exception name, a provider's code, ``tool``, ``transport``, ``unknown_tool``,
    ``invalid_arguments``, ``limit``, ``refused``, ``aborted``, ``timeout``, ``cancelled``, …); ``message``: the source's text."""

    type: str | None = None
    message: str | None = None


class Event(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Something with its own time inside a span. ``time`` in ns, ``None`` when the source states none."""

    name: str
    time: int | None = None
    attributes: dict[str, Value] = {}
    source: dict[str, Raw] = {}


class Link(Struct, kw_only=True, omit_defaults=True, gc=False):
    """``type``: ``retry_of``, ``continuation_of``, ``read_from``, ``reused_from``, ``part_of``, ``follows``, ``nested_run`` …"""

    trace_id: str
    span_id: str
    type: str
    attributes: dict[str, Value] = {}


# ------------------------------------------------------------------------------------------------------ the spans
class Span(Struct, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """What every span has. Not made itself: use one of the kinds below.

    ``id`` 16 and ``trace_id`` 32 lower-case hex digits (`converters.ids`); ``key``: the last part of the stable path
    that the id was derived from (unique among its siblings); ``name``: the source's own name (tool, model, agent,
    phase), not the span name of the GenAI conventions, which `converters.conventions` builds. ``uncertainty``: ns by
    which start or end may be off when the source's clocks leave that much open. ``unfinished``: the source holds no
    end; ``end`` is then None, or the last known time with ``clock`` derived. ``reused``: work of an older run that this
    record repeats (its tokens are not this run's). ``attributes``: facts without a typed field, by OTLP attribute name.
    """

    id: str
    trace_id: str
    name: str
    key: str
    parent_id: str | None = None
    start: int | None = None
    end: int | None = None
    clock: Clock = "recorded"
    uncertainty: int = 0
    unfinished: bool = False
    reused: bool = False
    status: Status = "unset"
    error: Error | None = None
    events: list[Event] = []
    links: list[Link] = []
    scores: list[Score] = []
    artifacts: list[Artifact] = []
    attributes: dict[str, Value] = {}
    source: dict[str, Raw] = {}


class Run(Span, tag="run", kw_only=True, omit_defaults=True, gc=False):
    """One execution as the source names it. ``ending``: the source's own word (completed, failed, cancelled, paused,
    killed, max_steps …), lower case. ``usage`` is a roll-up and never becomes ``gen_ai.usage.*``."""

    type: RunType = "agent"
    native_id: str | None = None
    agent_id: str | None = None
    conversation_id: str | None = None
    user_id: str | None = None
    model: str | None = None
    provider: str | None = None
    input: Raw = ABSENT
    output: Raw = ABSENT
    usage: Usage | None = None
    ending: str | None = None
    verdict: Literal["pass", "fail", "unknown"] | None = None
    tags: list[str] = []


class Task(Span, tag="task", kw_only=True, omit_defaults=True, gc=False):
    """One item of a benchmark run."""

    native_id: str | None = None
    category: str | None = None
    index: int | None = None
    input: Raw = ABSENT
    output: Raw = ABSENT
    expected: Raw = ABSENT
    usage: Usage | None = None
    ending: str | None = None
    verdict: Literal["pass", "fail", "unknown"] | None = None


class Attempt(Span, tag="attempt", kw_only=True, omit_defaults=True, gc=False):
    """One try. ``number`` as the source counts (rollouts from 0, attempts from 1). ``agent`` is set only under a
    benchmark run (or a set of rollouts), where the attempt is the agent's invocation."""

    number: int
    agent: str | None = None
    conversation_id: str | None = None
    input: Raw = ABSENT
    output: Raw = ABSENT
    messages: list[Message] = []
    usage: Usage | None = None
    ending: str | None = None
    verdict: Literal["pass", "fail", "unknown"] | None = None


class Phase(Span, tag="phase", kw_only=True, omit_defaults=True, gc=False):
    """A named stretch. ``operation``: a GenAI operation name where one fits (``plan``, ``update_memory``, ``retrieval`` …).
    ``type``: what it is in our words (setup, agent, verify, hook, reasoning, memory, step, loop, wait, turn …). ``retry``: number of
    the physical run it belongs to, from 0."""

    type: str | None = None
    operation: str | None = None
    retry: int = 0
    conversation_id: str | None = None
    input: Raw = ABSENT
    output: Raw = ABSENT


class ModelRequest(Span, tag="model_request", kw_only=True, omit_defaults=True, gc=False):
    """One logical model call. ``name`` is the requested model, or "" when the source does not say.

    ``input_messages`` are only those that the request before it in the same conversation did not already hold (see
    ``history``); `converters.history` rebuilds the whole. ``inferred``: the source does not mark request boundaries
    and this one was concluded from messages. ``time_to_first_token``: ns.
    """

    provider: str | None = None
    model: str | None = None
    response_model: str | None = None
    response_id: str | None = None
    finish_reasons: list[str] = []
    system_instructions: list[Part] = []
    input_messages: list[Message] = []
    output_messages: list[Message] = []
    history: History | None = None
    chunks: list[Chunk] = []
    tool_definitions: Raw = ABSENT
    parameters: dict[str, Value] = {}
    conversation_id: str | None = None
    agent: str | None = None
    operation: str = "chat"
    usage: Usage | None = None
    time_to_first_token: int | None = None
    inferred: bool = False
    retry: int = 0


class ToolCall(Span, tag="tool_call", kw_only=True, omit_defaults=True, gc=False):
    """One execution of one tool; ``name`` is the bare tool name, ``server`` its toolkit or server.

    ``requested_by``: id of the ModelRequest that asked for it. ``arguments``: JSON (the decoded text when the source
    holds JSON in a string; a JSON string when that text is no JSON). ``reasoning``: the ``action_and_reasoning`` argument,
    which stays in ``arguments`` too. ``links`` of type ``read_from`` point from a reading call to the maker.
    """

    call_id: str | None = None
    server: str | None = None
    type: str | None = None
    description: str | None = None
    arguments: Raw = ABSENT
    result: Raw = ABSENT
    outcome: Outcome = "ok"
    requested_by: str | None = None
    reasoning: str | None = None
    conversation_id: str | None = None
    agent: str | None = None
    retry: int = 0


AnySpan = Run | Task | Attempt | Phase | ModelRequest | ToolCall
KINDS: Final = ("run", "task", "attempt", "phase", "model_request", "tool_call")


# ----------------------------------------------------------------------------------------------------- the trace
class Carry(Struct, kw_only=True, omit_defaults=True):
    """What the target of a conversion can't say, so that the way back gives the same record (DESIGN §4).
    ``patch`` turns the record rebuilt from the target (whose canonical JSON has SHA-256 ``base``) into the original;
    ``record`` is the whole original, compressed and base64, when the patch would be larger than half of it."""

    version: int
    format: str
    base: str
    family: str
    run_key: list[str]
    ids: dict[str, str] = {}
    patch: Raw = ABSENT
    record: str | None = None


class Repair(Struct, omit_defaults=True, gc=False):
    """A literal that strict JSON can't hold, replaced before decoding: ``original`` text at byte ``offset``."""

    offset: int
    original: str


class TraceHeader(Struct, kw_only=True, omit_defaults=True, tag="trace", tag_field="kind"):
    """What is known of a trace before its spans. ``family``: the producer (simlab, agno, agentcompass, …), never the
    format; ``format``: the name the record was read as; ``run_key``: what the ids were derived from."""

    id: str
    family: str
    format: str
    run_key: list[str]
    name: str | None = None
    resource: dict[str, Value] = {}
    source: dict[str, Raw] = {}
    repairs: list[Repair] = []
    carry: list[Carry] = []


class Trace(Struct, kw_only=True):
    """A trace that is held whole: its header and its spans, in the order in which they completed."""

    header: TraceHeader
    spans: list[AnySpan] = []


Item = TraceHeader | AnySpan
"""What a reader yields: each header before the first span of its trace, each span once, as soon as it is complete."""


def raw(value: Any) -> Raw:
    """A JSON-able value as Raw. Not for floats that may be NaN (they would silently become null)."""
    return Raw(msgspec.json.encode(value))


def kind_of(span: Span) -> str:
    """The kind's name: run, task, attempt, phase, model_request or tool_call."""
    return str(span.__struct_config__.tag)
