"""MLflow's own attributes, where its translation of ``gen_ai.*`` and OpenInference says less: span types (chat model, workflow, task, evaluator), the system
prompt in the chat view, roll-ups and verdicts as trace tags. Values are JSON, as MLflow stores them. (Versions 3.17 and 3.18.)

No usage on runs and attempts: a trace shows the root's own counts, when it has any, instead of the sum over the requests.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..jsonio import minify
from ..model import AnySpan, Attempt, Message, ModelRequest, Phase, Run, Task, ToolCall
from .flat import Attributes, Profile
from .gen_ai import messages_json

_encode = msgspec.json.Encoder().encode
SPAN_TYPE: Final = "mlflow.spanType"
INPUTS: Final = "mlflow.spanInputs"
OUTPUTS: Final = "mlflow.spanOutputs"
USAGE: Final = "mlflow.chat.tokenUsage"
TAG: Final = "mlflow.traceTag."
_PHASES: Final = {
    "verify": "EVALUATOR",
    "retrieval": "RETRIEVER",
    "memory": "MEMORY",
    "step": "CHAIN",
    "loop": "CHAIN",
}


def span_type(span: AnySpan) -> str:
    """MLflow's type of the span."""
    if isinstance(span, ModelRequest):
        return {"embeddings": "EMBEDDING", "chat": "CHAT_MODEL"}.get(span.operation, "LLM")
    if isinstance(span, ToolCall):
        return "TOOL"
    if isinstance(span, Run):
        return "AGENT" if span.type in ("agent", "team") else "WORKFLOW"
    if isinstance(span, Attempt):
        return "AGENT" if span.agent is not None else "TASK"
    return _PHASES.get(span.type or "", "TASK") if isinstance(span, Phase) else "TASK"


def attributes(span: AnySpan, out: Attributes, profile: Profile) -> None:
    """Add what the profile adds for ``span``."""
    out.append((SPAN_TYPE, _encode(span_type(span))))
    if isinstance(span, ModelRequest):
        if span.system_instructions and span.input_messages:
            system = Message(role="system", parts=span.system_instructions)
            out.append((INPUTS, messages_json([system, *span.input_messages], False)))
        if span.usage is not None:
            out.append((USAGE, _encode(_usage(span))))
    elif isinstance(span, ToolCall):
        if span.arguments:
            out.append((INPUTS, minify(span.arguments)))
        if span.result:
            out.append((OUTPUTS, minify(span.result)))
    else:
        if span.input:
            out.append((INPUTS, minify(span.input)))
        if span.output:
            out.append((OUTPUTS, minify(span.output)))
    if span.parent_id is None and isinstance(span, Run | Task | Attempt):
        for name in ("ending", "verdict"):
            if (value := getattr(span, name)) is not None:
                out.append((f"{TAG}{name}", value))
        if isinstance(span, Run):
            out.extend((f"{TAG}{tag}", "true") for tag in span.tags)


def _usage(span: ModelRequest) -> dict[str, Any]:
    usage = span.usage
    assert usage is not None
    found: dict[str, int] = {}
    for ours, theirs in (
        ("input", "input_tokens"),
        ("output", "output_tokens"),
        ("cache_read", "cache_read_input_tokens"),
        ("cache_write", "cache_creation_input_tokens"),
    ):
        if (count := getattr(usage, ours)) is not None:
            found[theirs] = count
    if usage.total is not None or (usage.input is not None and usage.output is not None):
        found["total_tokens"] = usage.total if usage.total is not None else (usage.input or 0) + (usage.output or 0)
    return found
