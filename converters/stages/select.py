"""Choosing spans (``--select``): those that fit, and the spans above them, so that a tree stays a tree.

A selection is ``key=value`` or ``key!=value``, several joined by commas (all must hold); of several selections one must hold. Keys: ``status``,
``kind`` (also ``request`` and ``tool`` for short, as `show` has them), ``task``, ``attempt``, ``tool``, ``model``, ``outcome``; values may hold ``*`` and ``?``. ``task`` and ``attempt`` mean everything under the task or
attempt; the others mean the span itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from ..errors import UsageError
from ..model import KINDS, AnySpan, Attempt, Item, ModelRequest, Task, ToolCall, TraceHeader, kind_of

Above = list[AnySpan]
"""The span itself and those above it, innermost first."""
Test = Callable[[Above], bool]


def _task(chain: Above) -> list[str]:
    return [t for s in chain if isinstance(s, Task) for t in (s.name, s.key, s.native_id or "") if t]


def _attempt(chain: Above) -> list[str]:
    return [t for s in chain if isinstance(s, Attempt) for t in (str(s.number), s.key)]


_SHORT: Final = {"model_request": ("request",), "tool_call": ("tool",)}
_KEYS: Final[dict[str, Callable[[Above], list[str]]]] = {
    "status": lambda chain: [chain[0].status],
    "kind": lambda chain: [kind_of(chain[0]), *_SHORT.get(kind_of(chain[0]), ())],
    "task": _task,
    "attempt": _attempt,
    "tool": lambda chain: [chain[0].name] if isinstance(chain[0], ToolCall) else [],
    "model": lambda chain: [m for m in (chain[0].model, chain[0].response_model) if m] if isinstance(chain[0], ModelRequest) else [],
    "outcome": lambda chain: [chain[0].outcome] if isinstance(chain[0], ToolCall) else [],
}
_VALUES: Final = {
    "status": ("unset", "ok", "error"),
    "kind": (*KINDS, "request", "tool"),
    "outcome": ("ok", "error", "rejected", "aborted", "pending"),
}


def parse(text: str) -> Test:
    """A selection as a test. UsageError says what is wrong with it."""
    tests = [_condition(part.strip()) for part in text.split(",") if part.strip()]
    if not tests:
        raise UsageError(f"--select {text!r} chooses nothing; write status=error")
    return lambda chain: all(test(chain) for test in tests)


def _condition(text: str) -> Test:
    key, eq, value = text.partition("=")
    negated = key.endswith("!")
    key, value = key.rstrip("!").strip(), value.strip()
    if not eq or key not in _KEYS:
        raise UsageError(f"--select {text!r}: write KEY=VALUE, where KEY is one of {', '.join(_KEYS)}")
    known = _VALUES.get(key)
    if known and not any(fnmatchcase(k, value) for k in known):
        raise UsageError(f"--select {text!r}: {key} is one of {', '.join(known)}")
    found = _KEYS[key]
    if negated:
        return lambda chain: not any(fnmatchcase(v, value) for v in found(chain))
    return lambda chain: any(fnmatchcase(v, value) for v in found(chain))


def select(items: Iterable[Item], tests: list[Test], left_out: Callable[[AnySpan], None] | None = None) -> Iterator[Item]:
    """The spans for which one of ``tests`` holds, and those above them. The input is held whole: what a span stands under may come after it.
    ``left_out`` is told of every other span."""
    held = list(items)
    spans = {s.id: s for s in held if not isinstance(s, TraceHeader)}
    kept: set[str] = set()
    for span in spans.values():
        chain = above(span, spans)
        if any(test(chain) for test in tests):
            kept.update(s.id for s in chain)
    for item in held:
        if isinstance(item, TraceHeader) or item.id in kept:
            yield item
        elif left_out is not None:
            left_out(item)


def above(span: AnySpan, spans: dict[str, AnySpan]) -> Above:
    """``span`` and the spans above it."""
    chain: Above = [span]
    seen = {span.id}
    while (parent := chain[-1].parent_id) is not None and parent not in seen and (up := spans.get(parent)) is not None:
        chain.append(up)
        seen.add(parent)
    return chain
