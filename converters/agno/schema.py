"""What Agno writes, as msgspec Structs, for every version from 1.1 to 3.1 at once: nothing here interprets.

Each Struct knows the fields of its kind in all versions and forbids others, so that the common case is one fast decode. `loosely` reads an
item that fails field by field: what has an unknown name, or a known name and an odd value, comes back apart and goes to ``source``.
Payloads stay ``Raw``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import astuple

from ..jsonio import fields as members
from ..model import ABSENT

Stamp = int | float | str | None
"""A time as some version writes it: Unix seconds (int or float), or ISO text."""


class Tool(Struct, forbid_unknown_fields=True, gc=False):
    """``ToolExecution``, in the order in which Agno writes it. In 1.1 a plain object with ``role`` and ``content`` in place of ``result``."""

    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_args: Raw = ABSENT
    tool_call_error: bool | None = None
    result: Raw = ABSENT
    metrics: Raw = ABSENT
    child_run_id: str | None = None
    stop_after_tool_call: bool | None = None
    created_at: Raw = ABSENT
    requires_confirmation: bool | None = None
    confirmed: bool | None = None
    confirmation_note: str | None = None
    requires_user_input: bool | None = None
    user_input_schema: Raw = ABSENT
    user_feedback_schema: Raw = ABSENT
    answered: bool | None = None
    external_execution_required: bool | None = None
    external_execution_silent: bool | None = None
    approval_type: str | None = None
    approval_id: str | None = None
    parent_tool_call_id: str | None = None
    content: Raw = ABSENT
    role: str | None = None


class OddTool(Tool, gc=False):
    """One whose text says more, or something else, than fits in here."""


Execution = tuple[Tool, Raw]
"""A tool and the text it was read from."""


class Timing(Struct, gc=False):
    """``ToolCallMetrics``, ``MessageMetrics`` and ``RunMetrics`` as far as clocks go; ``time`` is the duration of 1.x."""

    start_time: Raw = ABSENT
    end_time: Raw = ABSENT
    duration: Raw = ABSENT
    time: Raw = ABSENT
    time_to_first_token: Raw = ABSENT


class Tokens(Struct, gc=False):
    """Token counts of one request, one run, or (1.x) lists with one entry a request. Names of all versions."""

    input_tokens: Raw = ABSENT
    output_tokens: Raw = ABSENT
    total_tokens: Raw = ABSENT
    prompt_tokens: Raw = ABSENT
    completion_tokens: Raw = ABSENT
    cache_read_tokens: Raw = ABSENT
    cached_tokens: Raw = ABSENT
    cache_write_tokens: Raw = ABSENT
    reasoning_tokens: Raw = ABSENT
    prompt_tokens_details: Raw = ABSENT
    completion_tokens_details: Raw = ABSENT
    cost: Raw = ABSENT


class Message(Struct, forbid_unknown_fields=True, gc=False):
    """One entry of ``messages``."""

    role: str = ""
    id: str | None = None
    content: Raw = ABSENT
    reasoning_content: Raw = ABSENT
    redacted_reasoning_content: Raw = ABSENT
    thinking: Raw = ABSENT
    redacted_thinking: Raw = ABSENT
    compressed_content: Raw = ABSENT
    from_history: bool | None = None
    stop_after_tool_call: bool | None = None
    name: str | None = None
    tool_calls: Raw = ABSENT
    tool_call_id: str | None = None
    tool_name: str | None = None
    tool_args: Raw = ABSENT
    tool_call_error: bool | None = None
    provider_data: Raw = ABSENT
    checkpoint_status: Raw = ABSENT
    checkpoint_created_at: Raw = ABSENT
    images: Raw = ABSENT
    audio: Raw = ABSENT
    videos: Raw = ABSENT
    files: Raw = ABSENT
    audio_output: Raw = ABSENT
    references: Raw = ABSENT
    citations: Raw = ABSENT
    metrics: Raw = ABSENT
    created_at: Stamp = None


class Function(Struct, gc=False):
    name: str = ""
    arguments: Raw = ABSENT


class Asked(Struct, gc=False):
    """One entry of an assistant message's ``tool_calls``; ``arguments`` is JSON in a string, which may be broken."""

    id: str | None = None
    type: str | None = None
    function: Function | None = None


class Requirement(Struct, gc=False):
    """``RunRequirement``, as far as it is understood; the whole stays in ``source``."""

    id: str | None = None
    created_at: Stamp = None
    tool_execution: Raw = ABSENT
    confirmation: bool | None = None
    user_input_schema: Raw = ABSENT
    external_execution_result: Raw = ABSENT
    member_run_id: str | None = None


class StepOutput(Struct, gc=False):
    """One entry of ``step_results`` (in 1.8 ``step_responses``)."""

    step_name: str | None = None
    step_id: str | None = None
    step_type: str | None = None
    executor_type: str | None = None
    executor_name: str | None = None
    step_run_id: str | None = None
    content: Raw = ABSENT
    success: bool | None = None
    error: Raw = ABSENT
    stop: bool | None = None
    is_paused: bool | None = None
    steps: list[Raw] | None = None
    parallel_step_outputs: dict[str, Raw] | None = None


class Record(Struct, forbid_unknown_fields=True, gc=False):
    """``RunOutput``, ``TeamRunOutput`` or ``WorkflowRunOutput`` (1.x: ``RunResponse`` and kin), or a run in an AgentOS REST answer."""

    run_id: str | None = None
    agent_id: str | None = None
    agent_name: str | None = None
    team_id: str | None = None
    team_name: str | None = None
    workflow_id: str | None = None
    workflow_name: str | None = None
    session_id: str | None = None
    team_session_id: str | None = None
    parent_run_id: str | None = None
    workflow_step_id: str | None = None
    user_id: str | None = None
    event: str | None = None
    content: Raw = ABSENT
    content_type: str | None = None
    reasoning_content: Raw = ABSENT
    reasoning_steps: Raw = ABSENT
    reasoning_messages: Raw = ABSENT
    thinking: Raw = ABSENT
    model: str | None = None
    model_provider: str | None = None
    model_provider_data: Raw = ABSENT
    messages: list[Raw] | None = None
    metrics: Raw = ABSENT
    additional_input: Raw = ABSENT
    tools: list[Raw] | None = None
    formatted_tool_calls: Raw = ABSENT
    images: Raw = ABSENT
    videos: Raw = ABSENT
    audio: Raw = ABSENT
    files: Raw = ABSENT
    response_audio: Raw = ABSENT
    input: Raw = ABSENT
    citations: Raw = ABSENT
    references: Raw = ABSENT
    followups: Raw = ABSENT
    metadata: Raw = ABSENT
    session_state: Raw = ABSENT
    extra_data: Raw = ABSENT
    created_at: Stamp = None
    events: list[Raw] | None = None
    status: str | None = None
    requirements: list[Raw] | None = None
    last_checkpoint_at_message_index: Raw = ABSENT
    forked_from_run_id: str | None = None
    forked_from_message_index: int | None = None
    forked_from_session_id: str | None = None
    regenerated_from: str | None = None
    compaction: Raw = ABSENT
    queue_attempt: Raw = ABSENT
    cancellation_stage: Raw = ABSENT
    member_responses: list[Raw] | None = None
    step_results: list[Raw] | None = None
    step_responses: list[Raw] | None = None
    step_executor_runs: list[Raw] | None = None
    workflow_agent_run: Raw = ABSENT
    workflow_metrics: Raw = ABSENT
    step_requirements: list[Raw] | None = None
    error_requirements: Raw = ABSENT
    paused_step_index: Raw = ABSENT
    paused_step_name: Raw = ABSENT
    pause_kind: Raw = ABSENT
    run_input: Raw = ABSENT
    run_response_format: Raw = ABSENT
    input_media: Raw = ABSENT


class Event(Struct, forbid_unknown_fields=True, gc=False):
    """Any event of any version: the base fields of the three kinds (in the order in which they are written, which is the quickest to read), and
    every payload field, by subject."""

    created_at: Stamp = None
    event: str = ""
    agent_id: str | None = None
    agent_name: str | None = None
    team_id: str | None = None
    team_name: str | None = None
    workflow_id: str | None = None
    workflow_name: str | None = None
    run_id: str | None = None
    parent_run_id: str | None = None
    session_id: str | None = None
    team_session_id: str | None = None
    user_id: str | None = None
    workflow_run_id: str | None = None
    step_id: str | None = None
    parent_step_id: str | None = None
    step_name: str | None = None
    step_index: Raw = ABSENT
    nested_depth: int | None = None
    event_index: int | None = None
    # content and requests
    content: Raw = ABSENT
    content_type: str | None = None
    workflow_agent: bool | None = None
    reasoning_content: Raw = ABSENT
    thinking: Raw = ABSENT
    model_provider_data: Raw = ABSENT
    model: str | None = None
    model_provider: str | None = None
    input_tokens: Raw = ABSENT
    output_tokens: Raw = ABSENT
    total_tokens: Raw = ABSENT
    reasoning_tokens: Raw = ABSENT
    cache_read_tokens: Raw = ABSENT
    cache_write_tokens: Raw = ABSENT
    time_to_first_token: Raw = ABSENT
    # tools
    tool: Raw = ABSENT
    tools: list[Raw] | None = None
    error: Raw = ABSENT
    images: Raw = ABSENT
    videos: Raw = ABSENT
    audio: Raw = ABSENT
    files: Raw = ABSENT
    image: Raw = ABSENT
    response_audio: Raw = ABSENT
    # ends
    metrics: Raw = ABSENT
    metadata: Raw = ABSENT
    session_state: Raw = ABSENT
    citations: Raw = ABSENT
    references: Raw = ABSENT
    additional_input: Raw = ABSENT
    reasoning_steps: Raw = ABSENT
    reasoning_messages: Raw = ABSENT
    member_responses: list[Raw] | None = None
    messages: list[Raw] | None = None
    formatted_tool_calls: Raw = ABSENT
    extra_data: Raw = ABSENT
    status: str | None = None
    error_type: str | None = None
    error_id: Raw = ABSENT
    additional_data: Raw = ABSENT
    reason: Raw = ABSENT
    requirements: list[Raw] | None = None
    # phases
    pre_hook_name: str | None = None
    post_hook_name: str | None = None
    run_input: Raw = ABSENT
    memories: Raw = ABSENT
    session_summary: Raw = ABSENT
    tool_results_compressed: Raw = ABSENT
    original_size: Raw = ABSENT
    compressed_size: Raw = ABSENT
    messages_compacted: Raw = ABSENT
    tokens_before: Raw = ABSENT
    tokens_after: Raw = ABSENT
    archived: Raw = ABSENT
    followups: Raw = ABSENT
    iteration: int | None = None
    max_iterations: int | None = None
    task_summary: Raw = ABSENT
    # workflows
    step_response: Raw = ABSENT
    step_output: Raw = ABSENT
    step_results: list[Raw] | None = None
    step_responses: list[Raw] | None = None
    step_executor_runs: list[Raw] | None = None
    condition_result: Raw = ABSENT
    branch: str | None = None
    executed_steps: Raw = ABSENT
    selected_steps: Raw = ABSENT
    steps_count: Raw = ABSENT
    parallel_step_count: Raw = ABSENT
    total_iterations: Raw = ABSENT
    should_continue: bool | None = None
    iteration_results: Raw = ABSENT
    all_results: Raw = ABSENT
    tool_call_id: str | None = None


class Place(Struct, forbid_unknown_fields=True, gc=False):
    """Of the events that most of a stream consists of: what they all say. Each has a Struct of its own below, found by its name, with the few fields that
    such an event has, of their usual types; one that has others is an `Event`."""

    created_at: int
    run_id: str
    agent_id: str | None = None
    agent_name: str | None = None
    team_id: str | None = None
    team_name: str | None = None
    workflow_id: str | None = None
    workflow_name: str | None = None
    parent_run_id: str | None = None
    session_id: str | None = None
    team_session_id: str | None = None
    user_id: str | None = None
    workflow_run_id: str | None = None
    step_id: str | None = None
    parent_step_id: str | None = None
    step_name: str | None = None
    step_index: Raw = ABSENT
    nested_depth: int | None = None
    event_index: int | None = None


class Delta(Place, tag_field="event", tag="RunContent", gc=False):
    content: str | None = None
    workflow_agent: bool | None = None
    content_type: str | None = None
    reasoning_content: str | None = None
    model_provider_data: Raw = ABSENT


class RequestStarted(Place, tag_field="event", tag="ModelRequestStarted", gc=False):
    model: str | None = None
    model_provider: str | None = None


Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class RequestCompleted(Place, tag_field="event", tag="ModelRequestCompleted", gc=False):
    model: str | None = None
    model_provider: str | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    time_to_first_token: Raw = ABSENT
    reasoning_tokens: Count | None = None
    cache_read_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class CallStarted(Place, tag_field="event", tag="ToolCallStarted", gc=False):
    tool: Raw = ABSENT


class CallCompleted(Place, tag_field="event", tag="ToolCallCompleted", gc=False):
    tool: Raw = ABSENT
    content: Raw = ABSENT


class ContentCompleted(Place, tag_field="event", tag="RunContentCompleted", gc=False): ...


class TeamDelta(Delta, tag="TeamRunContent", gc=False): ...


class TeamRequestStarted(RequestStarted, tag="TeamModelRequestStarted", gc=False): ...


class TeamRequestCompleted(RequestCompleted, tag="TeamModelRequestCompleted", gc=False): ...


class TeamCallStarted(CallStarted, tag="TeamToolCallStarted", gc=False): ...


class TeamCallCompleted(CallCompleted, tag="TeamToolCallCompleted", gc=False): ...


class TeamContentCompleted(ContentCompleted, tag="TeamRunContentCompleted", gc=False): ...


Frequent = (
    Delta
    | RequestStarted
    | RequestCompleted
    | CallStarted
    | CallCompleted
    | ContentCompleted
    | TeamDelta
    | TeamRequestStarted
    | TeamRequestCompleted
    | TeamCallStarted
    | TeamCallCompleted
    | TeamContentCompleted
)

BASE = (
    "created_at", "event", "agent_id", "agent_name", "team_id", "team_name", "workflow_id", "workflow_name", "run_id", "parent_run_id",
    "session_id", "team_session_id", "user_id", "workflow_run_id", "step_id", "parent_step_id", "step_name", "step_index", "nested_depth",
    "event_index",
)  # fmt: skip
"""Fields that say which run and step an event belongs to, and when; all others are its payload. They stand first in `Event`."""

HELD: Final[dict[type[Struct], dict[str, Any]]] = {
    Record: {
        "messages": list[Message] | None,
        "additional_input": list[Message] | None,
        "reasoning_messages": list[Message] | None,
        "tools": list[Tool] | None,
        "events": list[Event] | None,
        "requirements": list[Requirement] | None,
        "member_responses": list[Record] | None,
        "step_results": list[StepOutput | list[StepOutput]] | None,
        "step_responses": list[StepOutput | list[StepOutput]] | None,
        "step_executor_runs": list[Record] | None,
    },
    Message: {"tool_calls": list[Asked] | None},
    Tool: {"created_at": Stamp},
    StepOutput: {"steps": list["StepOutput"] | None},
    Event: {"tool": Tool | None, "tools": list[Tool] | None, "requirements": list[Requirement] | None},
}
"""What Raw fields hold, each item of which is decoded by itself, so that an odd one costs no other: for the JSON Schema."""

T = TypeVar("T", bound=Struct)


@cache
def decoder(kind: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(kind)


@cache
def _fields(kind: type[Struct]) -> dict[str, msgspec.json.Decoder[Any]]:
    return {name: msgspec.json.Decoder(hint) for name, hint in get_type_hints(kind).items() if name in kind.__struct_fields__}


def loosely(kind: type[T], data: Raw | bytes | memoryview) -> tuple[T, dict[str, Raw]]:
    """``data`` as ``kind``, and the members that have no place in it (unknown names, odd values). msgspec.DecodeError when it is no JSON object."""
    try:
        return decoder(kind).decode(data), {}
    except msgspec.ValidationError:
        pass
    known, odd = _fields(kind), dict[str, Raw]()
    good: dict[str, Any] = {}
    for name, value in msgspec.json.decode(data, type=dict[str, Raw]).items():
        if name in known:
            try:
                good[name] = known[name].decode(value)
                continue
            except msgspec.ValidationError:
                pass
        odd[name] = value
    return kind(**good), odd


def each(kind: type[T], data: list[Raw] | None) -> Iterator[tuple[T, dict[str, Raw]]]:
    """Each object of a list, read `loosely` when its turn comes; what is no object is left out."""
    for raw in data or ():
        try:
            found = loosely(kind, raw)
        except msgspec.DecodeError:
            continue
        yield found


def items(kind: type[T], data: list[Raw] | None) -> list[tuple[T, dict[str, Raw]]]:
    """`each`, as a list."""
    return list(each(kind, data))


_tool = msgspec.json.Decoder(Tool).decode


def execution(raw: Raw) -> Execution:
    """A tool, read `loosely`. msgspec.DecodeError for what is no object."""
    try:
        return _tool(raw), raw
    except msgspec.ValidationError:
        return OddTool(*astuple(loosely(Tool, raw)[0])), raw


def executions(data: list[Raw] | None) -> list[Execution]:
    """Each tool of a list and its own text; what is no object is left out."""
    found = []
    for raw in data or ():
        try:
            found.append(execution(raw))
        except msgspec.DecodeError:
            continue
    return found


def array(raw: Raw) -> list[Raw]:
    """The elements of a JSON array; [] for anything else."""
    try:
        return msgspec.json.decode(raw, type=list[Raw]) if raw else []
    except msgspec.DecodeError:
        return []


__all__ = [
    "BASE",
    "Asked",
    "CallCompleted",
    "CallStarted",
    "ContentCompleted",
    "Delta",
    "Event",
    "Execution",
    "Frequent",
    "Message",
    "OddTool",
    "Place",
    "Record",
    "RequestCompleted",
    "RequestStarted",
    "Requirement",
    "StepOutput",
    "Timing",
    "Tokens",
    "Tool",
    "array",
    "decoder",
    "each",
    "execution",
    "executions",
    "items",
    "loosely",
    "members",
]
