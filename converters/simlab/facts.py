"""What a record says of its run as a whole: ids, agent, model, tokens, how it ended. SimLab has no field for some of these; nothing is guessed."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw, Struct

from .. import jsonio
from ..clock import from_seconds
from ..model import ABSENT, Error, Usage
from .document import PLACEHOLDER, Document, head, metadata, time_of
from .endings import ending

FAMILY: Final = "simlab"


class Facts(Struct, kw_only=True):
    """What a record says of its run as a whole. ``end``: from the record's own duration, for records without message times."""

    task_id: str
    key: str
    created: int | None
    end: int | None
    agent: str
    model: str | None
    request_model: str | None
    provider: str | None
    conversation: str | None
    ending: str | None
    error: Error | None
    usage: Usage | None


def number_of(value: Any) -> int | None:
    """An integer, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _duration(meta: dict[str, Any]) -> int | None:
    timing = _part(_part(meta, "rollout_metrics"), "timing")
    for name in ("duration_seconds", "elapsed_seconds_total", "agent_turn_seconds_total"):
        value = timing.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            return from_seconds(value)
    return None


def _part(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def usage_of(meta: dict[str, Any]) -> Usage | None:
    """The roll-up of tokens and cost. SimLab leaves out what is zero or unknown; so does this."""
    metrics = _part(meta, "rollout_metrics")
    tokens = _part(metrics, "token_usage")

    def count(*names: str) -> int | None:
        return next((n for name in names for place in (tokens, meta) if (n := number_of(place.get(name))) is not None), None)

    cost = _part(metrics, "cost").get("estimated_cost_usd", meta.get("estimated_cost_usd"))
    found = Usage(
        input=count("prompt_tokens_total", "prompt_tokens"),
        output=count("completion_tokens_total", "completion_tokens"),
        total=count("total_tokens_total"),
        cache_read=count("cached_tokens_total"),
        cost=jsonio.finite(cost),
    )
    return found if any(getattr(found, f) is not None for f in Usage.__struct_fields__) else None


def _agent(doc: Document, meta: dict[str, Any]) -> str:
    """The agent's name where the record tells it: it has no field for it."""
    if doc.agent:
        return doc.agent
    if meta.get("reference_agent") is True:
        return "simlab-reference-agent"
    if isinstance(name := _part(meta, "cookbook_agent").get("name"), str) and name:
        return name
    path = _part(meta, "cli_runtime").get("agent_import_path")
    return path.replace(":", ".").rsplit(".", 1)[-1] if isinstance(path, str) else ""


def facts(doc: Document) -> Facts:
    """See `Facts`."""
    meta = metadata(doc)
    stamp = doc.text("created_at")
    created = time_of(stamp)
    provider = doc.text("provider")
    model = doc.text("model")
    routed = meta.get("litellm_model")
    provider = provider if provider != PLACEHOLDER else None
    request_model = model = model if model != PLACEHOLDER else None
    if isinstance(routed, str) and routed:
        prefix, slash, name = routed.partition("/")
        request_model = name if slash and name else routed
        provider = provider or (prefix if slash else None)
    word, error = ending(doc.text("error") or None, doc.text("final_observation"), meta.get("timeout") is True)
    if doc.text("error") is None and not jsonio.is_null(problem := doc.fields.get("error", ABSENT)):
        word, error = "failed", Error(type="agent_error", message=jsonio.minify(problem).decode("utf-8", "replace"))
    duration = _duration(meta)
    thread = meta.get("thread_id")
    return Facts(
        task_id=doc.text("task_id") or "",
        key=str(created) if created is not None else stamp or "",
        created=created,
        end=created + duration if created is not None and duration is not None else None,
        agent=_agent(doc, meta),
        model=model or None,
        request_model=request_model or None,
        provider=provider or None,
        conversation=thread if isinstance(thread, str) and thread else None,
        ending="cut off" if doc.cut and word is None else word,
        error=error,
        usage=usage_of(meta),
    )


def run_key(doc: Document, known: Facts) -> list[str]:
    """(task id, created_at in ns). A record that breaks off before ``created_at`` has the time of its first message instead."""
    if known.key:
        return [known.task_id, known.key]
    first = head(doc.messages[0]).time if doc.messages else None
    return [known.task_id, str(first) if first is not None else ""]


def final_of(doc: Document) -> Raw:
    """The final observation, ABSENT when it is null."""
    found = doc.fields.get("final_observation", ABSENT)
    return ABSENT if jsonio.is_null(found) else found
