"""In one process, on one input: the floor (msgspec decode of the same bytes, plus SerializeToString of the prepared messages), and spanport's own path from
file to OTLP bytes. ``python -m benchmarks.floor INPUT [REPEATS]`` prints JSON: the best of the repeats, in seconds, taken in turn."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import spanport
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from spanport.converters import registry
from spanport.converters.source import Source, source_of


def decode(path: Path) -> None:
    """Every byte of the input through msgspec, untyped, kept no longer than a line or a document."""
    decoder = msgspec.json.Decoder()
    source = Source(path.name, path=path)
    if path.suffix == ".jsonl":
        for line in source.lines():
            decoder.decode(line.data)
    else:
        decoder.decode(source.data())


class _Null:
    """A file that counts and forgets."""

    size = 0

    def write(self, data: bytes) -> int:
        self.size += len(data)
        return len(data)

    def flush(self) -> None:
        pass


def ours(path: Path) -> int:
    """File → spans → OTLP bytes, as ``convert --to otlp-proto --no-carry`` does. → bytes written."""
    out = _Null()
    registry.get("otlp-proto").write(spanport.stream(source_of(path)), out, spanport.Report(), registry.WriteOptions(carry=False))  # type: ignore[arg-type]
    return out.size


def prepared(path: Path) -> list[TracesData]:
    """The messages that the input becomes, built, not yet serialised."""

    from spanport.converters.conventions import flatten
    from spanport.converters.otlp import wire
    from spanport.converters.otlp.encode import batched, resource_attributes, scope_version

    found = []
    for header, spans in batched(spanport.stream(source_of(path)), 512):
        head = wire.resource_spans_head(resource_attributes(header), "spanport", scope_version())
        found.append(TracesData.FromString(wire.request(head, [wire.span(flatten(s)) for s in spans])))
    return found


def best(action: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def main(name: str, repeats: int = 3) -> None:
    path = Path(name)
    messages = prepared(path)
    count = sum(len(scope.spans) for m in messages for rs in m.resource_spans for scope in rs.scope_spans)
    gc.freeze()
    times: dict[str, float] = {}
    for _ in range(repeats):
        for key, action in (
            ("decode", lambda: decode(path)),
            ("serialize", lambda: [m.SerializeToString() for m in messages]),
            ("spanport", lambda: ours(path)),
        ):
            times[key] = min(times.get(key, 1e9), best(action))
    print(
        json.dumps(
            {"spans": count, "bytes": path.stat().st_size, **times, "ratio": times["spanport"] / (times["decode"] + times["serialize"])}
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
