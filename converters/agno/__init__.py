"""Agno ``RunOutput`` and its team and workflow kin in every container, and run events as JSON Lines or server-sent events."""

from ..registry import Format, Match, Probe, top_keys
from ..source import start_of

_RUN = frozenset(
    {"run_id", "agent_id", "team_id", "workflow_id", "session_id", "messages", "tools", "content", "content_type", "created_at"}
)
_OWNERS = frozenset({"agent_id", "agent_name", "team_id", "team_name", "workflow_id", "workflow_name"})
_SESSION = frozenset({"runs", "memory", "session_data", "session_type", "agent_data", "team_data", "workflow_data"})
_JSONDB = frozenset({"agno_sessions.json", "agno_runs.json"})


def _is_event(keys: frozenset[str]) -> bool:
    return "event" in keys and bool({"created_at", "run_id"} & keys) and bool(_OWNERS & keys or "session_id" in keys)


def _sessions(look: Probe) -> bool:
    """A JsonStorage folder of 1.x: nothing but JSON files, named by the session that each holds."""
    names = sorted(n for n in look.entries if not n.startswith("."))
    if look.path is None or not names or not all(n.endswith(".json") for n in names):
        return False
    keys = top_keys(start_of(look.path / names[0]))
    return "session_id" in keys and bool({"memory", "session_data", "runs"} & keys)


def _run(look: Probe) -> Match | None:
    """A record, a session, a database or a folder of one."""
    keys = look.keys
    if look.shape == "directory":
        if _JSONDB & look.entries:
            return Match(90, "has agno_sessions.json or agno_runs.json")
        return Match(70, "JSON files with a session each (agno 1.x)") if _sessions(look) else None
    if look.shape == "sqlite":
        return Match(60 if b"run_data" in look.head or b"session_data" in look.head else 20, "a SQLite file")
    if look.shape not in ("object", "array", "lines"):
        return None
    if "run_id" in keys and ("run_data" in keys or ("run_input" in keys and not _is_event(keys))):
        return Match(90, "has run_id with run_data or run_input")
    if _is_event(keys) and (look.shape == "lines" or "messages" not in keys):
        return None  # an event (a record of 1.x has an event too, and messages)
    if "run_id" in keys and len(_RUN & keys) >= 4 and _OWNERS & keys:
        return Match(85, "has run_id, the id of an agent, team or workflow, and content")
    if {"run_id", "content_type"} <= keys and len(_RUN & keys) >= 3:
        return Match(75, "has run_id and content_type")
    if "session_id" in keys and _SESSION & keys:
        return Match(85, "has session_id with runs, memory or session_data")
    return None


def _events(look: Probe) -> Match | None:
    """One event a line, one event alone, or server-sent events."""
    if look.shape == "sse":
        known = b'"created_at"' in look.head and (b'"run_id"' in look.head or b'"workflow_id"' in look.head)
        return Match(90 if known else 40, "server-sent events" + (" with run_id and created_at" if known else ""))
    if look.shape in ("lines", "object") and _is_event(look.keys) and "messages" not in look.keys:
        return Match(88 if look.shape == "lines" else 80, "has event, run_id and created_at")
    return None


FORMATS = (
    Format(
        name="agno",
        title="Agno RunOutput, TeamRunOutput, WorkflowRunOutput; sessions and databases",
        example="run_output.json, agno.db, a JsonDb folder",
        recognised="an object with run_id and agent_id, team_id or workflow_id; a session with runs; a SQLite file with such rows",
        suffix=".run_output.json",
        detect=_run,
        open_field="metadata",
        reader=f"{__name__}.read:read",
        shares=f"{__name__}.store:shares",
        writer=f"{__name__}.write:write",
        schema=f"{__name__}.schema:Record",
    ),
    Format(
        name="agno-events",
        title="Agno run events: JSON Lines or server-sent events",
        example="events.jsonl, a capture of AgentOS",
        recognised="lines of objects with event, run_id and created_at; or event: and data: lines",
        suffix=".events.jsonl",
        detect=_events,
        lines=True,
        open_field="",
        reader=f"{__name__}.read:read_events",
        shares=f"{__name__}.cut:shares",
        writer=f"{__name__}.write:write_events",
        schema=f"{__name__}.schema:Event",
    ),
)
