"""Secrets out, before anything leaves the machine: on by default for `export` and `view`, on request for `convert`.

Two rules: members whose name says that they hold a secret (``api_key…``, ``password``, ``authorization`` …, and all of ``startup_diagnostic``), and
texts that look like one (bearer tokens, keys of the known providers, private keys, passwords in URLs). The work is done on the JSON of an item, token
by token, so that everything else stays as it is to the byte. An item without any word of the list in it costs a few searches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal, get_origin, get_type_hints

import msgspec
from msgspec.structs import astuple, replace

from ..errors import UsageError
from ..model import AnySpan, Item, TraceHeader, Usage
from .secret import PATTERNS, SHORT, in_json, in_text, secret_name

MARK: Final = "[redacted]"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Item).decode
_text = msgspec.json.Decoder(str).decode

_IDS: Final = ("id", "trace_id", "parent_id")
_ids = attrgetter(*_IDS)
_BARE: Final = frozenset({int, float, bool, type(None)})
"""What attributes are mostly: there is nothing in them, whatever they are called."""
_NUMBERS: Final = (int, bool, float, int | None, float | None, Usage | None)


@cache
def _fields(kind: type) -> tuple[Callable[[Any], tuple[str | None, ...]], Callable[[Any], tuple[Any, ...]]]:
    """Two getters for the values of a kind of span, as a tuple: its texts, and everything that holds more than a text or a number, without ``source``."""
    types = {n: t for n, t in get_type_hints(kind).items() if n in kind.__struct_fields__ and n not in _IDS}  # type: ignore[attr-defined]
    texts = [n for n, t in types.items() if t in (str, str | None)]
    more = [n for n, t in types.items() if n not in texts and t not in _NUMBERS and get_origin(t) is not Literal]
    at = kind.__struct_fields__.index  # type: ignore[attr-defined]
    return itemgetter(*map(at, texts)), itemgetter(*(at(n) for n in more if n != "source"))


_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"(\s*:)?|\\?\Z)|[\[\]{}]', re.DOTALL)


class Redactor:
    """Takes secrets out of items. ``more``: the user's own patterns, on top of the list; ``builtin`` off leaves only these. ``source`` off: the
    untyped fields of spans and their events don't leave, and are not looked at. ``count`` is how many values were replaced."""

    def __init__(self, more: Iterable[str] = (), builtin: bool = True, source: bool = True) -> None:
        try:
            own = [re.compile(p, re.DOTALL) for p in more]
        except re.error as error:
            raise UsageError(f"--redact: no regular expression: {error}") from None
        self._own = bool(own)
        self._patterns = [*([re.compile(p, re.DOTALL) for p in PATTERNS] if builtin else []), *own]
        self._builtin, self._source = builtin, source
        self._clean: set[tuple[str | None, ...]] = set()
        self._trace = ""
        self.count = 0

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items without secrets; those that hold none are the same objects."""
        for item in items:
            yield self.item(item)

    def item(self, item: Item) -> Item:
        """One item without secrets."""
        if self._own or item.__class__ is TraceHeader:
            data = _encode(item)
            return self._mended(item, data) if self.suspect(data) else item
        if not self._builtin:
            return item
        span: AnySpan = item  # type: ignore[assignment]
        of_texts, of_more = _fields(span.__class__)
        told = astuple(span)
        texts, more = of_texts(told), of_more(told)
        held = self._held(span, more) if any(more) else []
        if self._source and span.source:
            held.append(span.source)
        if self._are_ids(span) or self._are_clean(_ids(span)):
            known = texts in self._clean
            if held:  # with its texts, where these are its own: one look is cheaper than two
                if not in_json(_encode(held if known else (texts, held))):
                    return span
            elif known or self._are_clean(texts):
                return span
        return self._mended(span, _encode(span if self._source else _without_source(span)))

    def _held(self, span: AnySpan, more: tuple[Any, ...]) -> list[Any]:
        """What of these fields has to be looked at: not numbers, nor the names of the model's own fields."""
        held = [value for value in more if value and not (value.__class__ is dict and _is_bare(value))]
        if span.events and not self._source:
            held = [value for value in held if value is not span.events]
            held += [(e.name, e.attributes) for e in span.events if not (_is_bare(e.attributes) and self._are_clean((e.name,)))]
        return held

    def _are_clean(self, texts: tuple[str | None, ...]) -> bool:
        """Whether no rule could touch these names: mostly the same come again and again, and most spans hold nothing else."""
        if texts in self._clean:
            return True
        if in_text(_encode(texts)):
            return False
        if len(self._clean) > 8192:
            self._clean.clear()
        self._clean.add(texts)
        return True

    def _are_ids(self, span: AnySpan) -> bool:
        """Whether the ids are ids, in which no rule finds anything."""
        own, trace, parent = span.id, span.trace_id, span.parent_id
        if not (len(own) == 16 and own.isalnum()):
            return False
        if trace != self._trace:
            if not (len(trace) == 32 and trace.isalnum()):
                return False
            self._trace = trace
        return parent is None or (len(parent) == 16 and parent.isalnum())

    def _mended(self, item: Item, data: bytes) -> Item:
        """``item``, whose JSON ``data`` is (or that of what of it leaves), without its secrets."""
        found = self.json(data)
        return item if found is data else _decode(found)

    def suspect(self, data: bytes) -> bool:
        """Whether a rule could touch this JSON text."""
        return self._own or (self._builtin and in_json(data))

    def text(self, text: str) -> str:
        """A text without secrets."""
        for pattern in self._patterns:
            text = pattern.sub(self._replaced, text)
        return text

    def _replaced(self, hit: re.Match[str]) -> str:
        if (secret := hit.groupdict().get("secret")) is None:
            self.count += hit.group() != ""
            return MARK if hit.group() else ""
        if secret == MARK:
            return hit.group()
        self.count += 1
        start = hit.start("secret") - hit.start()
        return hit.group()[:start] + MARK + hit.group()[start + len(secret) :]

    def json(self, data: bytes) -> bytes:
        """A JSON text without secrets; the same object when there are none. Only the secrets change: all other bytes stay."""
        out: list[bytes] = []
        last, depth = 0, 0
        skip_to: int | None = None  # depth at which an object that goes as a whole ends
        begun = 0
        secret = False  # the member whose name was just read is a secret
        whole = False

        def put(start: int, end: int) -> None:
            nonlocal last
            out.extend((data[last:start], b'"' + MARK.encode() + b'"'))
            last = end
            self.count += 1

        for token in _TOKENS.finditer(data):
            mark = token.group()[:1]
            if skip_to is not None:
                depth += (mark in b"{[") - (mark in b"}]")
                if depth == skip_to:
                    put(begun, token.end())
                    skip_to = None
                continue
            if mark == b'"':
                if token.group(1) is not None:  # the name of a member
                    if not self._builtin:
                        continue
                    secret, whole = secret_name(token.group()[1 : -1 - len(token.group(1))])
                    if not secret:
                        whole = False
                        continue
                    at = data[token.end() : token.end() + 24].lstrip()[:1]
                    # An object goes whole only where that is meant: ``"password": {"type": "string"}`` is a schema.
                    whole = whole or at == b"["
                    # The value stands right after the colon unless it is a number, true, false or null: then there is nothing to hide.
                    if at not in (b'"', b"{", b"["):
                        secret = whole = False
                    continue
                body = token.group()
                if secret:
                    secret = whole = False
                    if body not in (b'""', b'"' + MARK.encode() + b'"'):
                        put(token.start(), token.end())
                    continue
                if not self._own and (len(body) < SHORT + 2 or not in_text(body)):
                    continue
                text = _text(body)
                mended = self.text(text)
                if mended != text:
                    out.extend((data[last : token.start()], _encode(mended)))
                    last = token.end()
                continue
            if mark in b"{[":
                if whole:
                    skip_to, begun = depth, token.start()
                depth += 1
            else:
                depth -= 1
            secret = whole = False
        if not out:
            return data
        out.append(data[last:])
        return b"".join(out)


def _is_bare(attributes: dict[str, Any]) -> bool:
    """Whether there is nothing in these that could be a secret."""
    return not attributes or all(value.__class__ in _BARE or value == "" for value in attributes.values())


def _without_source(span: AnySpan) -> AnySpan:
    changes: dict[str, Any] = {}
    if span.source:
        changes["source"] = {}
    if any(e.source for e in span.events):
        changes["events"] = [replace(e, source={}) if e.source else e for e in span.events]
    return replace(span, **changes) if changes else span


def redact(items: Iterable[Item], more: Iterable[str] = (), counted: Callable[[int], None] | None = None) -> Iterator[Item]:
    """The items without secrets (the built-in list and the patterns ``more``); ``counted`` is told of how many values went, at the end."""
    redactor = Redactor(more)
    yield from redactor.items(items)
    if counted is not None:
        counted(redactor.count)


__all__ = ["MARK", "Redactor", "redact"]
