"""The shapes in which harnesses leave what was said: chat messages, stream-json events, session events and ACTF steps.

Dispatch is on the shape of each object, never on a harness name or a version. A reader here turns one shape into a list of `Said`; what is a
model request and when it ran follows the table in ``docs/formats/agentcompass.md``. Nothing here makes spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Raw

from ..jsonio import fields, is_null, text
from ..model import ABSENT, Clock, Message, Part, TextPart, Usage
from .said import Answer, Call, Said, call_of, message, parts_of, usage_of
from .schema import Zone, duration, flag, integer, items, kind, number, words

_MS = 1_000_000


@dataclass(slots=True)
class Window:
    """Start and end of a trajectory, as it states them."""

    start: int | None = None
    end: int | None = None


# ------------------------------------------------------------------------------------------------ chat messages
def chat(messages: list[Raw], zone: Zone, window: Window) -> list[Said]:
    """OpenAI chat messages whose ``extra`` holds times (fixtures: success-k3, mini-swe-agent).

    A response ends at ``timestamp`` and took ``llm_infer_ms``; a tool's result came at ``timestamp`` and took ``env_action_ms``. Where there is no
    duration, it began when what stands before it had ended."""
    found: list[Said] = []
    before = window.start
    open_calls: list[Call] = []
    for raw in messages:
        f = fields(raw)
        role = words(f.pop("role", ABSENT)) or "user"
        extra = fields(f.pop("extra", ABSENT))
        time = zone.moment(extra.pop("timestamp", f.pop("timestamp", ABSENT)))
        if role == "assistant":
            said = _response(f, extra, time, before)
            found.append(said)
            open_calls = list(said.calls)
            before = time if time is not None else before
        elif role in ("tool", "toolResult"):
            answer = _tool_message(f, extra, time, before)
            open_calls = [c for c in open_calls if c.id != answer.call_id]
            found.append(Said(answers=[answer]))
            before = time if time is not None else before
        elif role == "exit" and len(open_calls) == 1 and (extra.get("exit_status") or extra.get("submission")):
            # The command that submits did run; its output is in the exit message (fixture: mini-swe-agent).
            submission = extra.pop("submission", ABSENT)
            if text(submission) or (words(extra.get("exit_status", ABSENT)) or "").lower() == "submitted":
                answer = Answer(f.pop("content", ABSENT), open_calls[0].id, open_calls[0].name, start=before, end=window.end)
                answer.source = extra
                found.append(Said(answers=[answer]))
                open_calls = []
        else:
            source = {**f, **extra}
            content = source.pop("content", ABSENT)
            found.append(Said(message(role, parts_of(content), time, source)))
            before = time if time is not None else before
    return found


def _response(f: dict[str, Raw], extra: dict[str, Raw], time: int | None, before: int | None) -> Said:
    response = fields(extra.pop("response", ABSENT))
    took = duration(extra.pop("llm_infer_ms", ABSENT))
    choices = items(response.pop("choices", ABSENT))
    choice = fields(choices[0]) if choices else {}
    content, reasoning = f.pop("content", ABSENT), f.pop("reasoning_content", ABSENT)
    calls = [call_of(c) for c in items(f.pop("tool_calls", ABSENT))]
    calls += [call_of(b) for b in items(content) if text(fields(b).get("type", ABSENT)) in ("tool_use", "toolCall", "tool_call")]
    said = Said(Message(role="assistant", parts=parts_of(content, reasoning), name=words(f.pop("name", ABSENT))), request=True, calls=calls)
    said.end = time
    if time is not None:
        said.start = time - took if took is not None else before
        said.clock = "recorded" if took is not None else "derived"
    stated = extra.pop("usage", ABSENT) or response.pop("usage", ABSENT) or f.pop("usage", ABSENT)
    said.usage = usage_of(stated)
    said.finish = words(extra.pop("finish_reason", choice.get("finish_reason", ABSENT))) or words(f.pop("stopReason", ABSENT))
    said.response_id, said.response_model = words(response.pop("id", ABSENT)), words(response.pop("model", f.pop("model", ABSENT)))
    if (cost := extra.pop("cost", None)) is not None and said.usage is not None and said.usage.cost is None:
        amount = number(cost)
        said.usage.cost = None if amount is None else float(amount)
        if amount is None and not is_null(cost):
            extra["cost"] = cost
    if (phase := words(extra.pop("phase", ABSENT))) is not None:
        said.attributes["agentcompass.phase"] = phase
    said.source = {**{k: v for k, v in f.items() if not is_null(v)}, **extra, **{f"response.{k}": v for k, v in response.items()}}
    if not is_null(stated):
        said.source["usage"] = stated
    return said


def _tool_message(f: dict[str, Raw], extra: dict[str, Raw], time: int | None, before: int | None) -> Answer:
    took = duration(extra.pop("env_action_ms", ABSENT))
    answer = Answer(
        f.pop("content", ABSENT),
        words(f.pop("tool_call_id", f.pop("toolCallId", ABSENT))),
        words(f.pop("name", f.pop("toolName", ABSENT))),
        error=flag(f.pop("is_error", f.pop("isError", ABSENT))),
    )
    answer.end = time
    if time is not None:
        answer.start = time - took if took is not None else before
        answer.clock = "recorded" if took is not None else "derived"
    if (code := integer(extra.get("returncode", ABSENT))) is not None:
        answer.attributes["agentcompass.exit_code"] = code
    if exception := text(extra.get("exception_info", ABSENT)):
        answer.error, answer.message = True, exception
    if (status := text(extra.get("status", f.get("status", ABSENT)))) in ("error", "failed"):
        answer.error = True
        answer.attributes["agentcompass.status"] = status
    answer.source = {**f, **extra}
    return answer


# ------------------------------------------------------------------------------------------- session events (lists)
def session(events: list[Raw], zone: Zone, window: Window) -> list[Said]:
    """Session events of the form ``{type: "message", timestamp, message: {role, content, …}}``: chat messages, each with the time of its event.
    A response ends at its time and began when what stands before it had ended."""
    messages: list[Raw] = []
    for raw in events:
        f = fields(raw)
        inner = fields(f.get("message", ABSENT))
        if not inner:
            continue
        parts = [b'"%s":%s' % (k.encode(), bytes(v)) for k, v in inner.items() if k not in ("timestamp", "extra")]
        time = f.get("timestamp") or inner.get("timestamp")
        if time:
            parts.append(b'"extra":{"timestamp":' + bytes(time) + b"}")
        messages.append(Raw(b"{" + b",".join(parts) + b"}"))
    return chat(messages, zone, window)


# -------------------------------------------------------------------------------------------------- stream-json
@dataclass(slots=True)
class Stream:
    """What stream-json events hold: the conversation of the main agent and of each sub-agent (by the call that made it), and the closing totals."""

    said: list[Said] = field(default_factory=list)
    children: dict[str, list[Said]] = field(default_factory=dict)
    session: str | None = None
    model: str | None = None
    result: dict[str, Raw] = field(default_factory=dict)
    init: dict[str, Raw] = field(default_factory=dict)


def stream_json(events: list[Raw], zone: Zone, window: Window, prompt: str | None) -> Stream:
    """stream-json of a CLI agent: one event a content block, so assistant events are grouped by ``message.id`` (fixture: claude-code has 5 blocks and
    3 requests). Only the events that carry tool results have a time: a call ended by then and began after the one before, and of a request only the
    start is known."""
    found = Stream()
    groups: dict[str, dict[str, Said]] = {}
    before: dict[str, int | None] = {}
    for raw in events:
        f = fields(raw)
        type = words(f.get("type", ABSENT))
        parent = text(f.get("parent_tool_use_id", ABSENT)) or ""
        said = found.said if not parent else found.children.setdefault(parent, [])
        if not said and not parent and prompt and type in ("assistant", "user"):
            said.append(Said(message("user", prompt)))
        inner = fields(f.get("message", ABSENT))
        if type == "system" and not found.init:
            found.init = f
            found.session, found.model = text(f.get("session_id", ABSENT)), text(f.get("model", ABSENT))
        elif type == "result":
            found.result = f
        elif type == "assistant" and inner:
            start = before.setdefault(parent, window.start)
            key = words(inner.get("id", ABSENT)) or f"#{len(said)}"
            one = groups.setdefault(parent, {}).get(key)
            if one is None:
                one = Said(Message(role="assistant", parts=[]), request=True, start=start, response_id=words(inner.get("id", ABSENT)))
                one.response_model, one.model = words(inner.get("model", ABSENT)), found.model
                one.usage = usage_of(inner.get("usage", ABSENT))
                if one.usage is not None:
                    one.usage.output = None  # the count at message start, repeated on each block: not what was used
                if not is_null(usage := inner.get("usage", ABSENT)):
                    one.source["usage"] = usage
                groups[parent][key] = one
                said.append(one)
            content = inner.get("content", ABSENT)
            assert one.message is not None
            one.message.parts.extend(parts_of(content))
            one.calls.extend(call_of(b) for b in items(content) if text(fields(b).get("type", ABSENT)) == "tool_use")
            one.finish = words(inner.get("stop_reason", ABSENT)) or one.finish
        elif type == "user" and inner:
            time = zone.moment(f.get("timestamp", ABSENT))
            content = inner.get("content", ABSENT)
            rest: list[Part] = []
            for block in items(content):
                b = fields(block)
                if text(b.get("type", ABSENT)) == "tool_result":
                    answer = _tool_result(b, time, before.get(parent))
                    if (more := f.get("tool_use_result")) is not None and not is_null(more):
                        answer.source["tool_use_result"] = more
                    said.append(Said(answers=[answer]))
                    before[parent] = time if time is not None else before.get(parent)
                else:
                    rest.extend(parts_of(Raw(b"[" + bytes(block) + b"]")))
            if kind(content) == "string":
                rest = parts_of(content)
            if rest:
                said.append(Said(Message(role="user", parts=rest, time=time)))
    return found


def _tool_result(b: dict[str, Raw], time: int | None, before: int | None) -> Answer:
    answer = Answer(b.pop("content", ABSENT), words(b.pop("tool_use_id", ABSENT)), error=flag(b.pop("is_error", ABSENT)))
    b.pop("type", None)
    answer.source = b
    answer.start = answer.end = time
    if time is not None and before is not None:
        answer.uncertainty = max(time - before, 0)
    return answer


# ------------------------------------------------------------------------------------------------------- ACTF steps
def _definitions(tools: Raw) -> bool:
    """Whether ``tools`` holds definitions (openai_chat) and not the calls made (naive_search_agent)."""
    for raw in items(tools):
        f = fields(raw)
        f.update(fields(f.get("function", ABSENT)))
        if "arguments" in f or "input" in f:
            return False
        if {"parameters", "input_schema", "description"} & f.keys():
            return True
    return False


def _prompt(raw: Raw) -> list[Message]:
    """``user_content``: text, or a message list as JSON in a string (openai_chat), or any JSON."""
    said = text(raw)
    listed = items(raw) if said is None else items(Raw(said.encode("utf-8", "replace"))) if said[:1] == "[" else []
    found = [f for r in listed if "role" in (f := fields(r))]
    if found and len(found) == len(listed):
        messages = []
        for f in found:
            role, content = words(f.pop("role")) or "user", f.pop("content", ABSENT)
            messages.append(message(role, parts_of(content), None, f))
        return messages
    if said is not None:
        return [message("user", said)] if said else []
    return [] if is_null(raw) or bytes(raw) in (b"[]", b"{}") else [message("user", parts_of(raw))]


def _observations(raw: Raw) -> list[Raw]:
    """Observations as a flat list: an object, a string, a list, or lists in a list."""
    if kind(raw) != "array":
        return [] if is_null(raw) or bytes(raw) in (b"{}", b'""') else [raw]
    return [x for r in items(raw) for x in (_observations(r) if kind(r) == "array" else [r])]


def _observed(raw: Raw, start: int | None, end: int | None) -> Answer:
    f = fields(raw)
    if not f:
        return Answer(raw, start=start, end=end)
    answer = Answer(
        call_id=words(f.pop("tool_call_id", f.pop("tool_use_id", f.pop("toolCallId", ABSENT)))),
        name=words(f.pop("name", f.pop("toolName", ABSENT))),
        error=flag(f.pop("is_error", f.pop("isError", ABSENT))),
        start=start,
        end=end,
    )
    answer.content = f.pop("content", ABSENT) or f.pop("text", ABSENT)
    if not answer.content:
        answer.content = raw
        return answer
    if (failed := f.get("error", ABSENT)) and kind(failed) in ("string", "true", "object") and failed and bytes(failed) != b'""':
        answer.error, answer.message = True, text(failed)
    f.pop("type", None)
    answer.source = f
    return answer


@dataclass(slots=True)
class _Times:
    start: int | None = None
    end: int | None = None
    clock: Clock = "derived"
    uncertainty: int = 0
    tool_start: int | None = None
    tool_end: int | None = None


def _step_times(s: int | None, e: int | None, llm: int | None, env: int | None, answered: bool, before: int | None) -> _Times:
    """When the request and the calls of one step ran, as far as its window and durations say (fixtures: openai-chat, terminus2, harness-free)."""
    if s is None or e is None or e <= s or (llm is not None and e - s + _MS < llm // 2):
        return _Times()  # no window, a window of no length, or one that its own duration does not fit: not when it ran
    if llm is None and env is not None and abs((e - s) - env) <= 2 * _MS and before is not None and before <= s:
        return _Times(before, s, tool_start=s, tool_end=e)  # the step begins with the response (mini_swe_agent's first)
    if env is None:
        return _Times(s, e, "recorded", tool_start=e, tool_end=e)
    end = e if llm is None else min(e, s + llm)
    left = 0 if llm is None else max(e - s - llm - env, 0)
    return _Times(s, end, "derived" if answered else "recorded", left, tool_start=end, tool_end=e)


def steps(raws: list[Raw], zone: Zone, window: Window) -> list[Said]:
    """ACTF steps: mostly one request a step. A step without an assistant message, and a prefilled one, is none."""
    found: list[Said] = []
    read = [fields(r) for r in raws]
    spans = [(zone.moment(f.get("started_at", ABSENT)), zone.moment(f.get("finished_at", ABSENT))) for f in read]
    if len(spans) > 1 and len(set(spans)) == 1:
        spans = [(None, None)] * len(spans)  # every step carries the session's window (fixture: success-k3)
    before = window.start
    system: str | None = None
    previous: Said | None = None
    for f, (s, e) in zip(read, spans, strict=True):
        whole = f.pop("assistant_content", ABSENT)
        stated = kind(whole) in ("object", "string")
        assistant = fields(whole) if kind(whole) != "string" else {"content": whole}
        metric = fields(f.pop("metric", ABSENT))
        llm, env = duration(metric.pop("llm_infer_ms", ABSENT)), duration(metric.pop("env_action_ms", ABSENT))
        finish = words(metric.pop("stop_reason", ABSENT))
        tools = f.pop("tools", ABSENT)
        raw_calls = items(assistant.pop("tool_calls", ABSENT))
        defined = _definitions(tools)
        if not raw_calls and not defined:
            raw_calls = items(tools)
        observed = _observations(f.pop("observation", ABSENT))
        times = _step_times(s, e, llm, env, bool(observed), before)
        prompt = text(f.pop("system_prompt", ABSENT))
        instructions: list[Part] = [TextPart(prompt)] if prompt and prompt != system else []
        system = prompt or system
        found.extend(Said(m) for m in _prompt(f.pop("user_content", ABSENT)))
        group = words(assistant.pop("llm_response_id", f.pop("llm_response_id", ABSENT)))
        parts = parts_of(assistant.pop("content", ABSENT), assistant.pop("reasoning_content", ABSENT))
        calls = [call_of(c) for c in raw_calls]
        answers = [_observed(o, times.tool_start, times.tool_end) for o in observed]
        if finish == "prefilled" or not stated:
            if parts:
                found.append(Said(Message(role="assistant", parts=parts, finish_reason=finish)))
        elif group is not None and previous is not None and previous.response_id == group and previous.message is not None:
            previous.message.parts.extend(parts)  # several steps of one response (openhands)
            previous.calls.extend(calls)
        else:
            previous = Said(
                Message(role="assistant", parts=parts),
                True,
                calls,
                start=times.start,
                end=times.end,
                uncertainty=times.uncertainty,
                finish=finish,
            )
            previous.clock = times.clock
            previous.system, previous.response_id = instructions, group
            previous.tools = tools if defined else ABSENT
            previous.inferred = llm is None and times.start is None
            previous.usage = usage_of_metric(metric)
            previous.source = {
                **{k: v for k, v in assistant.items() if not is_null(v)},
                **{f"metric.{k}": v for k, v in metric.items() if not is_null(v)},
            }
            previous.source.update((k, v) for k, v in f.items() if k not in ("started_at", "finished_at"))
            found.append(previous)
        if len(answers) == 1 and len(calls) > 1 and answers[0].call_id is None:
            # One observation answers all commands of the step (fixture: terminus2).
            only = answers[0]
            answers = [Answer(start=only.start, end=only.end, shared=True) for _ in calls[1:]] + [only]
        if answers:
            found.append(Said(answers=answers))
        before = e if e is not None else before
    return found


def usage_of_metric(metric: dict[str, Raw]) -> Usage | None:
    """Tokens of a step's ``metric``."""
    found = Usage(input=integer(metric.pop("prompt_tokens_len", ABSENT)), output=integer(metric.pop("completion_tokens_len", ABSENT)))
    return found if found != Usage() else None
