"""The usual way: ``json.loads``, the OpenTelemetry SDK, and its OTLP/HTTP exporter. What people write by hand today.

``python -m benchmarks.usual tracer|readable INPUT ENDPOINT [none|gzip]``. ``tracer`` makes spans with explicit times through a tracer and a batch processor
that is drained often enough to lose none; ``readable`` builds ReadableSpans and hands them to the exporter. Both make the same spans, with about the same attributes, as
spanport does from the same file; neither handles anything odd in it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

# (name, kind, start ns, end ns, attributes)
Plain = tuple[str, SpanKind, int, int, dict[str, Any]]


def progress(path: str) -> Iterator[Plain]:
    open_phases: dict[tuple[str, int | None], tuple[str, float]] = {}
    starts: dict[tuple[str, int | None], float] = {}
    first = last = 0.0
    kind = SpanKind.INTERNAL
    with open(path, encoding="utf-8") as file:
        for text in file:
            e = json.loads(text)
            last = e["timestamp"]
            first = first or last
            key = (e["task_id"], e["attempt"])

            def close(key: tuple[str, int | None], now: float) -> Iterator[Plain]:
                if key in open_phases:
                    name, start = open_phases.pop(key)
                    facts = {
                        "openinference.span.kind": "CHAIN",
                        "spanport.kind": "phase",
                        "spanport.key": name,
                        "spanport.clock": "derived",
                    }
                    yield name, kind, int(start * 1e9), int(now * 1e9), facts

            match e["event"]:
                case "phase_changed":
                    yield from close(key, last)
                    open_phases[key] = (e["phase"], last)
                case "task_started" | "attempt_started":
                    starts[key] = last
                case "task_finished" | "attempt_finished":
                    yield from close(key, last)
                    name = e["task_id"] if e["attempt"] is None else f"attempt {e['attempt']}"
                    facts = {
                        "openinference.span.kind": "CHAIN",
                        "spanport.kind": e["event"][:7],
                        "task": e["task_id"],
                        "status": e["status"],
                        "category": e["category"],
                    }
                    yield name, kind, int(starts.pop(key) * 1e9), int(last * 1e9), facts
    yield "run", kind, int(first * 1e9), int(last * 1e9), {"openinference.span.kind": "CHAIN"}


def _ns(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * 1e9)


def runartifacts(path: str) -> Iterator[Plain]:
    with open(path, encoding="utf-8") as file:
        d = json.load(file)
    results = iter(zip(d["tool_calls"], d["tool_results"], strict=True))
    before = d["created_at"]
    pending: list[dict[str, Any]] = []
    for m in d["messages"]:
        if m["role"] == "assistant":
            facts = {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": d["model"],
                "gen_ai.provider.name": d["provider"],
                "gen_ai.input.messages": json.dumps(pending),
                "gen_ai.output.messages": json.dumps([m["content"]]),
                "openinference.span.kind": "LLM",
            }
            pending = []
            yield f"chat {d['model']}", SpanKind.CLIENT, _ns(before), _ns(m["timestamp"]), facts
        elif m["role"] == "tool":
            call, result = next(results)
            facts = {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call["tool_name"],
                "gen_ai.tool.call.id": m["content"]["tool_call_id"],
                "gen_ai.tool.call.arguments": json.dumps(call["parameters"]),
                "gen_ai.tool.call.result": json.dumps(result["observation"]),
                "openinference.span.kind": "TOOL",
            }
            pending.append(m["content"])
            yield f"execute_tool {call['tool_name']}", SpanKind.INTERNAL, _ns(before), _ns(m["timestamp"]), facts
        else:
            pending.append(m["content"])
        before = m["timestamp"]
    for name in ("invoke_agent", "attempt 0", "setup", "agent"):
        yield name, SpanKind.INTERNAL, _ns(d["created_at"]), _ns(before), {"openinference.span.kind": "AGENT"}


def spans(path: str) -> Iterator[Plain]:
    return progress(path) if path.endswith(".jsonl") else runartifacts(path)


def main(route: str, path: str, endpoint: str, compression: str = "none") -> None:
    exporter = OTLPSpanExporter(endpoint=endpoint, compression=Compression.Gzip if compression == "gzip" else Compression.NoCompression)
    resource = Resource({"service.name": "bench"})
    trace = random.getrandbits(128)
    root = SpanContext(trace, random.getrandbits(64), False, TraceFlags(1))
    if route == "tracer":
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        processor = BatchSpanProcessor(exporter, max_queue_size=8192, max_export_batch_size=2048)
        provider.add_span_processor(processor)
        tracer = provider.get_tracer("usual")
        context = set_span_in_context(NonRecordingSpan(root))
        for n, (name, kind, start, end, facts) in enumerate(spans(path), 1):
            tracer.start_span(name, context, kind, facts, start_time=start).end(end_time=end)
            if n % 4096 == 0:
                processor.force_flush()
        processor.force_flush()
        provider.shutdown()
        return
    scope = InstrumentationScope("usual")
    held: list[ReadableSpan] = []
    for name, kind, start, end, facts in spans(path):
        own = SpanContext(trace, random.getrandbits(64), False, TraceFlags(1))
        held.append(ReadableSpan(name, own, root, resource, facts, kind=kind, start_time=start, end_time=end, instrumentation_scope=scope))
        if len(held) == 2048:
            exporter.export(held)
            held = []
    exporter.export(held)


if __name__ == "__main__":
    main(*sys.argv[1:])
