"""Generated but realistic inputs, of a wanted size in bytes, for each format. Seeded: the same call writes the same file.

The shapes are those of real records (fields, nesting, lengths); the texts are made of a small vocabulary. Each generator returns how many spans
the file holds, counted while it is written, so that a converter that loses some is noticed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

WORDS = [
    "the",
    "account",
    "renewal",
    "of",
    "contoso",
    "moves",
    "to",
    "stage",
    "three",
    "after",
    "a",
    "call",
    "with",
    "finance",
    "about",
    "terms",
    "and",
    "the",
    "open",
    "ticket",
    "was",
    "closed",
]
START = 1796068847.0


def text(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words))


def progress(path: Path, size: int, seed: int = 7) -> int:
    """AgentCompass ``progress.jsonl``: tasks of one attempt, 24 at once, nine phases each, a resolved plan of a kilobyte."""
    rng = random.Random(seed)
    run = {"orchestration_id": "e25b6be80466421aae2875a5caec9742", "request_key": "e25b6be80466421aae2875a5caec9742/0"}
    now = START
    spans = 1
    policy = {"network_mode": "public", "allowed_hosts": [], "denied_hosts": []}
    plan = {
        "environment": {"id": "host_process", "baseline_network_policy": policy, "resources": {}, "setup": {}},
        "evaluation_environment": None,
        "evaluation_environment_mode": "none",
        "run_network_policy": policy,
        "evaluation_network_policy": policy,
        "applied_recipes": [],
        "run_timeout_seconds": 9000.0,
        "artifact_limits": {"max_mb": 16384, "max_files": 100000, "timeout_seconds": 600.0},
    }

    def line(
        event: str,
        task: str | None = None,
        attempt: int | None = None,
        phase: str | None = None,
        status: str | None = None,
        **payload: object,
    ) -> str:
        nonlocal now
        now += rng.random() / 50
        return json.dumps(
            {
                "run_id": "bench",
                "event": event,
                "timestamp": round(now, 7),
                "task_id": task,
                "category": None if task is None else "level1",
                "attempt": attempt,
                "phase": phase,
                "status": status,
                "payload": payload,
                **run,
                "request_name": "run",
                "request_index": 0,
            }
        )

    def task(name: str, index: int) -> Iterator[str]:
        yield line("task_started", name, index=index, total=10_000_000)
        yield line("attempt_started", name, 1)
        yield line("phase_changed", name, 1, "plan")
        yield line("execution_plan_resolved", name, 1, "plan", **plan)
        for phase in (
            "open_environment",
            "prepare_task",
            "start_harness",
            "run_harness",
            "collect_harness_result",
            "save_evaluation_checkpoint",
            "evaluate",
        ):
            yield line("phase_changed", name, 1, phase)
        yield line("attempt_finished", name, 1, status="completed")
        yield line("phase_changed", name, None, "save_partial")
        yield line("partial_saved", name)
        yield line("task_finished", name, status="completed", index=index, total=10_000_000, severity="")

    with path.open("w", encoding="utf-8") as out:
        written = out.write(
            line("run_started", model="m", benchmark="gaia", harness="naive_search_agent", environment="host_process") + "\n"
        )
        open_tasks: list[Iterator[str]] = []
        index = 0
        while written < size or open_tasks:
            while len(open_tasks) < 24 and written < size:
                open_tasks.append(task(f"q-{index:07}", index))
                index += 1
                spans += 11  # a task, an attempt, eight phases of the attempt, save_partial
            one = rng.randrange(len(open_tasks))
            try:
                written += out.write(next(open_tasks[one]) + "\n")
            except StopIteration:
                del open_tasks[one]
        out.write(line("summary_started") + "\n" + line("run_finished", status="completed") + "\n")
    return spans


def runartifacts(path: Path, size: int, seed: int = 7) -> int:
    """SimLab ``artifacts.json``: one run of the reference agent, two calls a turn, results of about a kilobyte (held three times, as SimLab does)."""
    rng = random.Random(seed)
    stamp = datetime(2026, 11, 30, 19, 59, 51, 993912, UTC)

    def tick() -> str:
        nonlocal stamp
        stamp += timedelta(microseconds=rng.randrange(500, 90_000))
        return stamp.isoformat()

    messages, calls, results = (path.with_suffix(f".{part}.part") for part in ("messages", "calls", "results"))
    total = turn = spans = 0
    with messages.open("w") as m, calls.open("w") as c, results.open("w") as r:
        m.write(json.dumps({"role": "user", "content": text(rng, 40), "timestamp": tick()}))
        while total < size:
            ids = [f"call_{turn:06}_{n}" for n in range(2)]
            arguments = [{"query": text(rng, 4), "limit": 10} for _ in ids]
            asked = [
                {"id": i, "type": "function", "function": {"name": "email-env__search_emails", "arguments": json.dumps(a)}}
                for i, a in zip(ids, arguments, strict=True)
            ]
            total += m.write(
                ",\n"
                + json.dumps(
                    {"role": "assistant", "content": {"content": text(rng, 30), "tool_calls": asked}, "timestamp": tick()}, indent=2
                )
            )
            for i, a in zip(ids, arguments, strict=True):
                body = text(rng, 160)
                tool = {"tool_call_id": i, "tool_server": "email-env", "tool_name": "search_emails", "is_error": False, "summary": body}
                total += m.write(",\n" + json.dumps({"role": "tool", "content": tool, "timestamp": tick()}, indent=2))
                comma = "" if turn == 0 and i == ids[0] else ",\n"
                total += c.write(comma + json.dumps({"tool_server": "email-env", "tool_name": "search_emails", "parameters": a}, indent=2))
                step = {"is_error": False, "text": body, "content": [{"type": "text", "text": body}], "structured_content": None}
                total += r.write(
                    comma + json.dumps({"observation": {"observation": step, "reward": None, "done": False}, "is_error": False}, indent=2)
                )
            turn += 1
            spans += 3
        m.write(",\n" + json.dumps({"role": "assistant", "content": "Done.", "timestamp": tick()}))
    head = {"version": "0.1", "task_id": "bench", "task": "Search the mail.", "model": "gpt-4o-mini", "provider": "openai"}
    tail = {
        "metadata": {"reference_agent": True, "litellm_model": "openai/gpt-4o-mini"},
        "final_observation": "Done.",
        "error": None,
        "steps_taken": turn * 2,
        "max_steps": 30,
        "created_at": "2026-11-30T19:59:51.980000+00:00",
    }
    with path.open("w") as out:
        out.write(json.dumps(head)[:-1])
        for name, part in (("messages", messages), ("tool_calls", calls), ("tool_results", results)):
            out.write(f', "{name}": [')
            with part.open() as given:
                while block := given.read(1 << 20):
                    out.write(block)
            out.write("]")
            part.unlink()
        out.write(", " + json.dumps(tail)[1:])
    return spans + 5  # the last request, run, attempt, setup and agent phase


_TOOL = dict.fromkeys(
    [
        "child_run_id",
        "requires_confirmation",
        "confirmed",
        "confirmation_note",
        "requires_user_input",
        "user_input_schema",
        "user_feedback_schema",
        "answered",
        "external_execution_required",
        "external_execution_silent",
        "approval_type",
        "approval_id",
        "parent_tool_call_id",
    ]
)


def _tool(call: str, arguments: dict[str, object], second: int, result: str | None = None, start: float = 0.0) -> dict[str, object]:
    times = None if result is None else {"start_time": round(start, 6), "end_time": round(start + 0.02, 6), "duration": 0.0201}
    return {
        "tool_call_id": call,
        "tool_name": "get_weather",
        "tool_args": arguments,
        "tool_call_error": None if result is None else False,
        "result": result,
        "metrics": times,
        "stop_after_tool_call": False,
        "created_at": second,
        **_TOOL,
    }


def agno_events(path: Path, size: int, seed: int = 7) -> int:
    """Agno run events, JSON Lines: runs of four turns with a call each and content deltas in the last turn."""
    rng = random.Random(seed)
    now = START
    written = number = spans = 0
    with path.open("w", encoding="utf-8") as out:
        while written < size:
            run = f"44377b8e-2d2c-4168-aa68-{number:012x}"
            base = {
                "agent_id": "helper",
                "agent_name": "helper",
                "run_id": run,
                "session_id": "2bbe8b37-cd8a-41eb-90f4-05cb7cc6c4b2",
                "nested_depth": 0,
            }
            model = {"model": "gpt-4o-mini", "model_provider": "OpenAI"}

            def line(event: str, **more: object) -> None:
                nonlocal now, written
                now += 0.01
                written += out.write(json.dumps({"created_at": int(now), "event": event, **base, **more}) + "\n")  # noqa: B023

            line("RunStarted", **model)
            spans += 2
            for turn in range(5):
                line("ModelRequestStarted", **model)
                spans += 1
                if turn == 4:
                    for _ in range(12):
                        line("RunContent", content=text(rng, 2) + " ", workflow_agent=False, content_type="str", reasoning_content="")
                line(
                    "ModelRequestCompleted",
                    **model,
                    input_tokens=900 + turn,
                    output_tokens=40,
                    total_tokens=940 + turn,
                    reasoning_tokens=0,
                    cache_read_tokens=0,
                    cache_write_tokens=0,
                )
                if turn < 4:
                    call, arguments = f"call_{number}_{turn}", {"city": text(rng, 1)}
                    line("ToolCallStarted", tool=_tool(call, arguments, int(now)))
                    line(
                        "ToolCallCompleted",
                        content="get_weather(city=x) completed in 0.0201s. ",
                        tool=_tool(call, arguments, int(now), text(rng, 40), now),
                    )
                    spans += 1
            line("RunContentCompleted")
            line(
                "RunCompleted",
                content=text(rng, 20),
                content_type="str",
                metrics={"input_tokens": 4510, "output_tokens": 200, "total_tokens": 4710, "duration": 0.4},
                session_state={},
            )
            number += 1
    return spans


def agno(path: Path, size: int, seed: int = 7) -> int:
    """Agno ``RunOutput`` with messages and tools, one run: ten calls a turn."""
    rng = random.Random(seed)
    now = START
    tools = path.with_suffix(".tools.part")
    total = turn = spans = 0
    head = {
        "run_id": "409664ab-30f1-4b16-bfaa-1121aa74922c",
        "agent_id": "large",
        "agent_name": "large",
        "session_id": "e0d05741-975f-4b76-a6a5-c28c12255d2c",
        "content": "Done.",
        "content_type": "str",
        "model": "gpt-4o-mini",
        "model_provider": "OpenAI",
        "created_at": int(now),
        "status": "COMPLETED",
    }
    number = 0

    def message(role: str, **more: object) -> str:
        nonlocal number
        number += 1
        return json.dumps(
            {
                "id": f"ab30f1-4b16-bfaa-{number:012x}",
                "from_history": False,
                "stop_after_tool_call": False,
                "role": role,
                "created_at": int(now),
                **more,
            }
        )

    with path.open("w") as out, tools.open("w") as t:
        out.write(json.dumps(head)[:-1] + ', "messages": [' + message("user", content=text(rng, 30)))
        while total < size:
            ids = [f"call_{turn:06}_{n}" for n in range(10)]
            arguments = [{"city": text(rng, 1), "days": 3} for _ in ids]
            asked = [
                {"id": i, "type": "function", "function": {"name": "get_weather", "arguments": json.dumps(a)}}
                for i, a in zip(ids, arguments, strict=True)
            ]
            now += 0.5
            total += out.write(
                ",\n"
                + message(
                    "assistant",
                    content=text(rng, 20),
                    tool_calls=asked,
                    metrics={"input_tokens": 900, "output_tokens": 90, "total_tokens": 990, "duration": 0.4},
                )
            )
            for i, a in zip(ids, arguments, strict=True):
                body = text(rng, 60)
                now += 0.03
                total += t.write(("" if turn == 0 and i == ids[0] else ",\n") + json.dumps(_tool(i, a, int(now), body, now)))
                total += out.write(
                    ",\n" + message("tool", content=body, tool_call_id=i, tool_name="get_weather", tool_args=a, tool_call_error=False)
                )
            turn += 1
            spans += 11
        out.write(
            ",\n"
            + message("assistant", content="Done.", metrics={"input_tokens": 900, "output_tokens": 9, "total_tokens": 909, "duration": 0.4})
            + '], "tools": ['
        )
        t.flush()
        with tools.open() as given:
            while block := given.read(1 << 20):
                out.write(block)
        out.write(
            '], "metrics": '
            + json.dumps({"input_tokens": 900 * (turn + 1), "output_tokens": 90 * turn + 9, "duration": now - START + 1})
            + "}"
        )
    tools.unlink()
    return spans + 3


def atif(path: Path, size: int, seed: int = 7) -> int:
    """An ATIF-v1.7 trajectory: one call and one observation a step. What the peers that read ATIF are given too."""
    rng = random.Random(seed)
    stamp = datetime(2026, 11, 30, 19, 59, 51, tzinfo=UTC)
    step = spans = total = 0
    head = {"schema_version": "ATIF-v1.7", "session_id": "bench", "agent": {"name": "bench", "version": "1", "model_name": "gpt-4o-mini"}}
    with path.open("w") as out:
        out.write(
            json.dumps(head)[:-1]
            + ', "steps": ['
            + json.dumps({"step_id": 1, "source": "user", "message": text(rng, 40), "timestamp": stamp.isoformat()})
        )
        step = 1
        while total < size:
            step += 1
            stamp += timedelta(milliseconds=rng.randrange(40, 900))
            call = f"call_{step:06}"
            one = {
                "step_id": step,
                "timestamp": stamp.isoformat(),
                "source": "agent",
                "model_name": "gpt-4o-mini",
                "message": text(rng, 30),
                "tool_calls": [{"tool_call_id": call, "function_name": "search", "arguments": {"query": text(rng, 5)}}],
                "observation": {"results": [{"source_call_id": call, "content": text(rng, 240)}]},
                "metrics": {"prompt_tokens": 900 + step, "completion_tokens": 40},
            }
            total += out.write(",\n" + json.dumps(one))
            spans += 2
        out.write('], "final_metrics": ' + json.dumps({"total_steps": step}) + "}")
    return spans + 2


def claude(path: Path, size: int, seed: int = 7) -> int:
    """A Claude Code session, for the peers that read only those: a request with one call, then its result, and so on."""
    rng = random.Random(seed)
    stamp = datetime(2026, 11, 30, 19, 59, 51, tzinfo=UTC)
    total = turn = spans = 0
    parent: str | None = None
    common = {
        "isSidechain": False,
        "userType": "external",
        "cwd": "/repo",
        "sessionId": "5b0f0f0e-0000-4000-8000-000000000001",
        "version": "2.0.0",
    }

    with path.open("w") as out:

        def line(kind: str, message: dict[str, object]) -> None:
            nonlocal stamp, total, parent
            stamp += timedelta(milliseconds=rng.randrange(40, 900))
            own = f"00000000-0000-4000-8000-{total:012x}"
            row = {
                "parentUuid": parent,
                **common,
                "type": kind,
                "message": message,
                "uuid": own,
                "timestamp": stamp.isoformat(timespec="milliseconds")[:23] + "Z",
            }
            total += out.write(json.dumps(row) + "\n")
            parent = own

        line("user", {"role": "user", "content": text(rng, 40)})
        while total < size:
            turn += 1
            call = f"toolu_{turn:08}"
            usage = {"input_tokens": 900 + turn, "output_tokens": 40, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
            asked = [
                {"type": "text", "text": text(rng, 30)},
                {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text(rng, 5)}},
            ]
            line(
                "assistant",
                {
                    "id": f"msg_{turn:08}",
                    "type": "message",
                    "role": "assistant",
                    "model": "claude",
                    "content": asked,
                    "stop_reason": "tool_use",
                    "usage": usage,
                },
            )
            line(
                "user",
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text(rng, 240), "is_error": False}]},
            )
            spans += 2
    return spans + 1


def run_directory(folder: Path, tasks: int, seed: int = 7) -> Path:
    """An AgentCompass run directory: the event stream of so many tasks, and each one's result with a trajectory of twenty steps."""
    root = folder / f"run-{tasks}"
    if (root / "run_info.json").exists():
        return root
    rng = random.Random(seed)
    root.mkdir(parents=True, exist_ok=True)
    progress(root / "progress.jsonl", tasks * 5950, seed)
    began: dict[str, float] = {}
    with (root / "progress.jsonl").open() as lines:
        for event in map(json.loads, lines):
            if event["event"] == "task_started":
                began[event["task_id"]] = event["timestamp"]
    for task, now in began.items():
        place = root / "details" / "normal" / f"{task}--{sha256(task.encode()).hexdigest()}"
        (place / "attempt-1").mkdir(parents=True)
        (place / "task.json").write_text(
            json.dumps({"schema_version": "agentcompass.task.v3", "task_id": task, "attempts": {"1": "attempt-1"}, "category": "level1"})
        )
        steps = [_step(rng, task, n, now + n / 100) for n in range(20)]
        trajectory = {"schema_version": "ACTF_v1.0", "steps": steps, "started_at": _local(now), "finished_at": _local(now + 0.2)}
        result = {"status": "completed", "metrics": {"correct": True}, "final_answer": "42", "trajectory": trajectory, "issues": []}
        (place / "attempt-1" / "result.json").write_text(json.dumps(result, indent=2))
    request = {"benchmark": {"id": "gaia"}, "harness": {"id": "naive_search_agent"}, "model": {"id": "m"}}
    ended = {"run_id": "bench", "status": "completed", "started_at": f"{_local(START)}+00:00", "finished_at": f"{_local(now + 1)}+00:00"}
    (root / "run_info.json").write_text(json.dumps({**ended, "request": request}))
    return root


def _local(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _step(rng: random.Random, task: str, n: int, now: float) -> dict[str, object]:
    call = {"id": f"call_{task}_{n}", "type": "function", "function": {"name": "search", "arguments": {"query": text(rng, 5)}}}
    metric = {
        "prompt_tokens_len": 900 + n,
        "completion_tokens_len": 40,
        "llm_infer_ms": 8.0,
        "env_action_ms": 1.5,
        "stop_reason": "tool_calls",
    }
    return {
        "step_id": n + 1,
        "system_prompt": "You are a helpful assistant.",
        "user_content": text(rng, 20) if n == 0 else "",
        "tools": [],
        "assistant_content": {"content": text(rng, 30), "reasoning_content": text(rng, 20), "tool_calls": [call]},
        "observation": [{"content": text(rng, 120)}],
        "metric": metric,
        "started_at": _local(now),
        "finished_at": _local(now + 0.0095),
    }


GENERATORS: dict[str, tuple[str, Callable[[Path, int], int]]] = {
    "progress": ("progress.jsonl", progress),
    "runartifacts": ("artifacts.json", runartifacts),
    "agno-events": ("events.jsonl", agno_events),
    "agno": ("run_output.json", agno),
    "atif": ("trajectory.json", atif),
    "claude": ("5b0f0f0e-0000-4000-8000-000000000001.jsonl", claude),
}


def make(folder: Path, kind: str, megabytes: int) -> tuple[Path, int]:
    """The input of ``kind`` and size under ``folder``, written when it is not there yet, and how many spans it holds."""
    name, generate = GENERATORS[kind]
    path = folder / f"{kind}-{megabytes}" / name
    count = path.with_name("spans.txt")
    if not count.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        count.write_text(str(generate(path, megabytes * 1_000_000)))
    return path, int(count.read_text())
