"""The difference between two JSON values as a small JSON value, and its application: `diff` and `apply` (DESIGN §4, the residue).

Items of lists are aligned by a stable key (an id, with the item's type), never by position. Numbers are equal by value and type (1 is not 1.0), NaN equals NaN,
the order of keys does not count. What the other value repeats from the base (a message under another name) is copied, not written again.

A patch is a list with its operation first:

* ``[0, value]`` the value itself · ``[6, text]`` the value as JSON text, where strict JSON can't hold it (NaN, a lone surrogate, a great integer)
* ``[1, changed, added, removed]`` an object: patches by key, new values by key (each again a patch without a base), keys that go
* ``[2, steps]`` a list: an integer n copies n items, -n skips n; ``[patch]`` changes the next item; ``[0, patch…]`` inserts
* ``[3, n]`` the n-th node of the base, counted by `_Index`
* ``[4, {key: patch}]`` and ``[5, [patch…]]`` an object and a list built from parts, where parts of them are copied
* ``[7, head, tail, text]`` a string that keeps ``head`` characters at its start and ``tail`` at its end of the string it replaces

Pure functions over plain Python values as `json.loads` makes them. Nothing here knows a format.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b, sha256
from typing import Any, Final

VALUE, OBJECT, LIST, COPY, BUILD_OBJECT, BUILD_LIST, TEXT, SPLICE = range(8)

COPY_FROM: Final = 24
"""Characters of JSON from which a repeated value is copied from the base instead of written again."""

# Fields that tell the items of a list apart, strongest first; and those that say what sort of item it is.
_IDS: Final = (
    "event_id", "id", "call_id", "tool_call_id", "toolCallId", "spanId", "message_id", "step_id", "tool_use_id", "run_id", "task_id",
    "attempt_id", "key", "timestamp", "created_at", "time", "timeUnixNano",
)  # fmt: skip
_SORTS: Final = ("event", "type", "kind", "role", "name", "event_type", "stage", "tool_name")

_INT64: Final = range(-(1 << 63), 1 << 63)
_MISSING: Final = object()


class PatchError(ValueError):
    """The patch does not fit its base."""


def canonical(value: Any) -> str:
    """JSON text with sorted keys and no blanks, ASCII only; the same text exactly when two values are equal here."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, hex."""
    return sha256(canonical(value).encode()).hexdigest()


def same(a: Any, b: Any) -> bool:
    """Equal JSON: numbers by value and type, NaN equal to NaN, key order apart."""
    if a.__class__ is not b.__class__:
        return False
    if a.__class__ is dict:
        return len(a) == len(b) and all(k in b and same(v, b[k]) for k, v in a.items())
    if a.__class__ is list:
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or (a != a and b != b)


# ------------------------------------------------------------------------------------------------------- the index
class _Index:
    """Nodes of the base worth copying, numbered in the order of a walk with sorted keys."""

    def __init__(self, base: Any, wanted: bool) -> None:
        self.nodes: list[Any] = []
        self.known: dict[bytes, int] = {}
        self._digests: dict[int, bytes] = {}
        self._hash = wanted
        self._walk(base)

    def _walk(self, value: Any) -> int:
        """Number the node and what is below it; the rough size of its JSON."""
        size = 2
        if value.__class__ is dict:
            for key in sorted(value):
                size += len(key) + 4 + self._walk(value[key])
        elif value.__class__ is list:
            for item in value:
                size += 1 + self._walk(item)
        elif value.__class__ is str:
            size += len(value)
        else:
            size = 4
        if size >= COPY_FROM:
            if self._hash:
                self.known.setdefault(_fingerprint(value, self._digests), len(self.nodes))
            self.nodes.append(value)
        return size

    def find(self, value: Any, seen: dict[int, bytes]) -> int | None:
        """The number of an equal node."""
        return self.known.get(_fingerprint(value, seen))


def _fingerprint(value: Any, seen: dict[int, bytes]) -> bytes:
    """A digest of the value; those of containers are kept by identity in ``seen`` while their owner lives."""
    cls = value.__class__
    if cls is dict:
        if (known := seen.get(id(value))) is None:
            h = blake2b(b"{", digest_size=16)
            for key in sorted(value):
                h.update(repr(key).encode("utf-8", "surrogatepass"))
                h.update(_fingerprint(value[key], seen))
            known = seen[id(value)] = h.digest()
        return known
    if cls is list:
        if (known := seen.get(id(value))) is None:
            h = blake2b(b"[", digest_size=16)
            for item in value:
                h.update(_fingerprint(item, seen))
            known = seen[id(value)] = h.digest()
        return known
    data = ("s" + value) if cls is str else repr(value)
    return blake2b(data.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# -------------------------------------------------------------------------------------------------------- the diff
class _Differ:
    """``changed``, when given, gets how many values of the other side were not found in the base, by path (`leaves`)."""

    def __init__(self, base: Any, changed: Counter[str] | None = None) -> None:
        self._base = base
        self._changed = changed
        self._path: list[str] = []
        self._lazy: _Index | None = None
        self._seen: dict[int, bytes] = {}

    def _find(self, value: Any) -> int | None:
        if self._lazy is None:
            self._lazy = _Index(self._base, True)
        return self._lazy.find(value, self._seen)

    def diff(self, a: Any, b: Any) -> list[Any] | None:
        """What makes ``b`` of ``a``; None when they are equal."""
        if a.__class__ is dict and b.__class__ is dict:
            return self._objects(a, b)
        if a.__class__ is list and b.__class__ is list:
            return self._lists(a, b)
        if same(a, b):
            return None
        if a.__class__ is str and b.__class__ is str and (spliced := _splice(a, b)) is not None:
            if self._changed is not None:
                self._changed[path_of(self._path)] += 1
            return spliced
        return self.write(b)

    def _objects(self, a: dict[str, Any], b: dict[str, Any]) -> list[Any] | None:
        changed, added = {}, {}
        for key, value in b.items():
            self._path.append(key)
            if (old := a.get(key, _MISSING)) is _MISSING:
                added[key] = self.write(value)
            elif (step := self.diff(old, value)) is not None:
                changed[key] = step
            self._path.pop()
        removed = [key for key in a if key not in b]
        if not (changed or added or removed):
            return None
        if not all(map(_strict, (*changed, *added, *removed))):
            return self.write(b)
        found: list[Any] = [OBJECT, changed, added, removed]
        while not found[-1]:
            found.pop()
        return found

    def _lists(self, a: list[Any], b: list[Any]) -> list[Any] | None:
        start, most = 0, min(len(a), len(b))
        steps = _Steps()
        while start < most and (a[start] is b[start] or same(a[start], b[start])):
            start += 1
        if start == len(a) == len(b):
            return None
        steps.copy(start)
        self._path.append("[]")
        for i, j in _aligned(a, b, start):
            if j is None:
                steps.skip(1)
            elif i is None:
                steps.insert(self.write(b[j]))
            elif (step := self.diff(a[i], b[j])) is None:
                steps.copy(1)
            else:
                steps.change(step)
        self._path.pop()
        return [LIST, steps.done()]

    def write(self, value: Any) -> list[Any]:
        """A patch without a base: the value, with what the base holds already copied from it."""
        cls = value.__class__
        if (long := cls is str and len(value) + 2 >= COPY_FROM) or (cls in (dict, list) and value):
            if (known := self._find(value)) is not None:
                return [COPY, known]
            if cls is dict:
                parts = {k: self._below(k, v) for k, v in value.items()}
                if any(p[0] not in (VALUE, TEXT) for p in parts.values()) and all(map(_strict, parts)):
                    return [BUILD_OBJECT, parts]
            elif cls is list:
                items = [self._below("[]", v) for v in value]
                if any(p[0] not in (VALUE, TEXT) for p in items):
                    return [BUILD_LIST, items]
            if long and self._changed is not None:
                self._changed[path_of(self._path)] += 1
        elif self._changed is not None:
            self._changed[path_of(self._path)] += 1
        return [VALUE, value] if _strict(value) else [TEXT, json.dumps(value, separators=(",", ":"))]

    def _below(self, key: str, value: Any) -> list[Any]:
        self._path.append(key)
        found = self.write(value)
        self._path.pop()
        return found


def path_of(keys: list[str]) -> str:
    """A path such as ``messages[].content``; what lies deeper than ten members is under its tenth."""
    return ".".join(keys[:10]).replace(".[]", "[]")


def leaves(value: Any, found: Counter[str] | None = None, keys: list[str] | None = None) -> Counter[str]:
    """How many scalars (and empty objects and lists) there are, by path."""
    found = Counter() if found is None else found
    keys = [] if keys is None else keys
    if value.__class__ is dict and value:
        for key, item in value.items():
            keys.append(key)
            leaves(item, found, keys)
            keys.pop()
    elif value.__class__ is list and value:
        keys.append("[]")
        for item in value:
            leaves(item, found, keys)
        keys.pop()
    else:
        found[path_of(keys)] += 1
    return found


def _splice(a: str, b: str) -> list[Any] | None:
    """A string changed in one place."""
    most = min(len(a), len(b))
    if most < COPY_FROM:
        return None
    head = _common(a, b, most)
    tail = _common(a[::-1], b[::-1], most - head)
    new = b[head : len(b) - tail]
    if head + tail < COPY_FROM or not _strict(new):
        return None
    return [SPLICE, head, tail, new]


def _common(a: str, b: str, most: int) -> int:
    """How many characters both start with, at most ``most``; by halving, so that no Python loop runs over the text."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _strict(value: Any) -> bool:
    """Whether strict JSON with 64-bit integers holds the value."""
    cls = value.__class__
    if cls is str:
        text: str = value
        return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)
    if cls is float:
        return bool(value - value == 0)
    if cls is int:
        return value in _INT64
    if cls is dict:
        return all(_strict(k) and _strict(v) for k, v in value.items())
    if cls is list:
        return all(map(_strict, value))
    return True


class _Steps:
    """Steps of a list patch, with neighbours of one sort joined."""

    def __init__(self) -> None:
        self._steps: list[Any] = []

    def copy(self, n: int) -> None:
        if n and self._steps and self._steps[-1].__class__ is int and self._steps[-1] > 0:
            self._steps[-1] += n
        elif n:
            self._steps.append(n)

    def skip(self, n: int) -> None:
        if n and self._steps and self._steps[-1].__class__ is int and self._steps[-1] < 0:
            self._steps[-1] -= n
        elif n > 0:
            self._steps.append(-n)

    def change(self, step: list[Any]) -> None:
        self._steps.append([step])

    def insert(self, step: list[Any]) -> None:
        if self._steps and self._steps[-1].__class__ is list and self._steps[-1][0] == 0:
            self._steps[-1].append(step)
        else:
            self._steps.append([0, step])

    def done(self) -> list[Any]:
        return self._steps


# ------------------------------------------------------------------------------------------------------- alignment
def _key(item: Any) -> Any:
    """What tells ``item`` apart from its neighbours, as a hashable value."""
    if item.__class__ is dict:
        sort = tuple(v for name in _SORTS if (v := item.get(name)).__class__ is str)
        for name in _IDS:
            if (v := item.get(name)).__class__ in (str, int, float):
                return (name, v, sort)
        return ("", sort or tuple(sorted(item)))
    if item.__class__ is list:
        return ("list",)
    return (item.__class__.__name__, repr(item))


def _numbered(items: list[Any], start: int) -> list[tuple[Any, int]]:
    """Keys made unique by their ordinal among equal ones."""
    seen: dict[Any, int] = {}
    found = []
    for item in items[start:]:
        key = _key(item)
        n = seen[key] = seen.get(key, -1) + 1
        found.append((key, n))
    return found


def _aligned(a: list[Any], b: list[Any], start: int) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of positions, ascending: (i, j) to be diffed, (i, None) to be left out, (None, j) to be inserted where the walk stands.

    Unique keys that both lists have in the same order are the anchors (longest increasing run); between two anchors items are paired
    in order as long as they are of one class."""
    keys = {key: i for i, key in enumerate(_numbered(a, start), start)}
    places = [(keys[key], j) for j, key in enumerate(_numbered(b, start), start) if key in keys]
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for n, (i, _j) in enumerate(places):
        at = bisect_left(tails, i)
        if at == len(tails):
            tails.append(i)
            ends.append(n)
        else:
            tails[at] = i
            ends[at] = n
        before.append(ends[at - 1] if at else -1)
    anchors: list[tuple[int, int]] = []
    n = ends[-1] if ends else -1
    while n >= 0:
        anchors.append(places[n])
        n = before[n]
    i, j = start, start
    for x, y in [*reversed(anchors), (len(a), len(b))]:
        while i < x and j < y and a[i].__class__ is b[j].__class__ and a[i].__class__ in (dict, list, str):
            yield i, j
            i, j = i + 1, j + 1
        while i < x:
            yield i, None
            i += 1
        while j < y:
            yield None, j
            j += 1
        if x < len(a):
            yield x, y
            i, j = x + 1, y + 1


# ---------------------------------------------------------------------------------------------------------- public
def diff(base: Any, value: Any, changed: Counter[str] | None = None) -> list[Any] | None:
    """The patch that makes ``value`` of ``base``; None when they are equal JSON. It is strict JSON itself. ``changed`` gets how many values
    are not in the base, by path (as `leaves` counts them)."""
    return _Differ(base, changed).diff(base, value)


def apply(base: Any, patch: list[Any] | None) -> Any:
    """``base`` with ``patch`` applied; ``base`` itself is not changed. PatchError when the patch does not fit."""
    if patch is None:
        return base
    nodes: list[Any] | None = None

    def node(n: int) -> Any:
        nonlocal nodes
        if nodes is None:
            nodes = _Index(base, False).nodes
        return nodes[n]

    def run(old: Any, step: list[Any]) -> Any:
        op = step[0]
        if op == VALUE:
            return step[1]
        if op == TEXT:
            return json.loads(step[1])
        if op == COPY:
            return node(step[1])
        if op == OBJECT:
            changed, added, removed = [*step[1:], {}, {}, []][:3] if len(step) < 4 else step[1:]
            gone = set(removed)
            found = {k: run(v, changed[k]) if k in changed else v for k, v in old.items() if k not in gone}
            found.update((k, run(None, v)) for k, v in added.items())
            return found
        if op == LIST:
            return list(_steps(old, step[1]))
        if op == BUILD_OBJECT:
            return {k: run(None, v) for k, v in step[1].items()}
        if op == BUILD_LIST:
            return [run(None, v) for v in step[1]]
        if op == SPLICE:
            head, tail, new = step[1:]
            return old[:head] + new + (old[len(old) - tail :] if tail else "")
        raise PatchError(f"unknown operation {op!r}")

    def _steps(old: list[Any], steps: list[Any]) -> Iterator[Any]:
        at = 0
        for step in steps:
            if step.__class__ is int:
                if step > 0:
                    yield from old[at : at + step]
                at += abs(step)
            elif step[0] == 0:
                for new in step[1:]:
                    yield run(None, new)
            else:
                yield run(old[at], step[0])
                at += 1
        if at != len(old):
            raise PatchError("the list has another length")

    try:
        return run(base, patch)
    except (TypeError, KeyError, IndexError, AttributeError, ValueError) as error:
        raise PatchError(f"the patch does not fit: {error}") from error


__all__ = ["PatchError", "apply", "canonical", "diff", "digest", "leaves", "same"]
