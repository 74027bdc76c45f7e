"""ATIF, the Agent Trajectory Interchange Format, versions 1.0 to 1.8, as msgspec Structs.

The names of all versions, all optional: real files leave out what the specification asks for. Fields that are not named here
are kept by the reader as they stand; large contents stay `Raw`.
"""

from __future__ import annotations

from msgspec import Raw, Struct

from ..model import ABSENT


class Agent(Struct, kw_only=True, forbid_unknown_fields=True):
    """The agent system. ``tool_definitions`` since 1.5."""

    name: str | None = None
    version: str | None = None
    model_name: str | None = None
    tool_definitions: Raw = ABSENT
    extra: Raw = ABSENT


class Metrics(Struct, kw_only=True, forbid_unknown_fields=True):
    """Of one step. ``prompt_tokens`` includes the cached ones."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: Raw = ABSENT
    completion_token_ids: Raw = ABSENT
    logprobs: Raw = ABSENT
    extra: Raw = ABSENT


class Call(Struct, kw_only=True, forbid_unknown_fields=True):
    """One tool call of a step."""

    tool_call_id: str | None = None
    function_name: str | None = None
    arguments: Raw = ABSENT
    extra: Raw = ABSENT


class Result(Struct, kw_only=True, forbid_unknown_fields=True):
    """One result of a step's observation. Without ``source_call_id`` it comes from no tool call."""

    source_call_id: str | None = None
    content: Raw = ABSENT
    subagent_trajectory_ref: Raw = ABSENT
    extra: Raw = ABSENT


class Observation(Struct, kw_only=True, forbid_unknown_fields=True):
    results: list[Raw] = []


class Step(Struct, kw_only=True, forbid_unknown_fields=True):
    """One turn. ``source``: system, user or agent. ``llm_call_count`` 0: nothing was asked of a model."""

    step_id: int | None = None
    timestamp: str | None = None
    source: str | None = None
    model_name: str | None = None
    reasoning_effort: Raw = ABSENT
    message: Raw = ABSENT
    reasoning_content: str | None = None
    tool_calls: list[Raw] | None = None
    observation: Observation | None = None
    metrics: Raw = ABSENT
    extra: Raw = ABSENT
    llm_call_count: int | None = None
    is_copied_context: bool | None = None


class Reference(Struct, kw_only=True):
    """To the trajectory of a sub-agent: inside this document by ``trajectory_id``, or in a file (which is never opened)."""

    trajectory_id: str | None = None
    trajectory_path: str | None = None
    session_id: str | None = None


class FinalMetrics(Struct, kw_only=True, forbid_unknown_fields=True):
    """Totals of a trajectory."""

    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None
    extra: Raw = ABSENT


class Trajectory(Struct, kw_only=True):
    """A document, for its JSON Schema; the reader takes the members one by one."""

    schema_version: str
    agent: Agent
    steps: list[Step]
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    subagent_trajectories: list[Trajectory] | None = None
    extra: Raw = ABSENT
