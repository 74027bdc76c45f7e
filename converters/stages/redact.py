"""Secrets out, before anything leaves the machine: on by default for `export` and `view`, on request for `convert`.

Two rules: members whose name says that they hold a secret (``api_key…``, ``password``, ``authorization`` …, and all of ``startup_diagnostic``), and
texts that look like one (bearer tokens, keys of the known providers, private keys, passwords in URLs). The work is done on the JSON of an item, token
by token, so that everything else stays as it is to the byte. An item without any word of the list in it costs a few searches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from operator import attrgetter
from typing import Any, Final, Literal, get_origin, get_type_hints

import msgspec
from msgspec.structs import replace

from ..errors import UsageError
from ..model import AnySpan, Item, TraceHeader, Usage

MARK: Final = "[redacted]"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Item).decode
_text = msgspec.json.Decoder(str).decode

# Names of members whose text is a secret, without regard to case, and to - and _.
_NAMES = re.compile(
    r"(?:.*[._])?(?:\w*apikey\w*|openaikey|anthropickey|(?:client|app|shared|webhook|signing)?secret(?:key)?|secretaccesskey|awssecretaccesskey|"
    r"(?:db|user|admin)?(?:password|passwd|passphrase)|privatekey|(?:proxy)?authorization|(?:set)?cookie|"
    r"(?:access|refresh|auth|bearer|session|id|security|secret|personalaccess|github|gitlab|slack|hf)token|credentials?|startupdiagnostic)",
)
_WHOLE: Final = ("startupdiagnostic", "credentials", "credential")
"""Names whose object or array goes as a whole."""

# Texts that are secrets. Where a group is called "secret", only that goes.
_PATTERNS: Final = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:.*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|.*\Z)",
    r"\b[Bb][Ee][Aa][Rr][Ee][Rr]\s+(?P<secret>[A-Za-z0-9._~+/=-]{12,})",
    r"\b[Bb][Aa][Ss][Ii][Cc]\s+(?P<secret>[A-Za-z0-9+/]{16,}={0,2})(?![A-Za-z0-9+/=])",
    r"\bsk-(?:ant-|proj-|or-|lf-|svcacct-|admin-)?[A-Za-z0-9_-]{16,}",
    r"\b(?:pk|rk|sk)_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bpk-lf-[0-9a-f-]{20,}",
    r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{40,}|\bglpat-[A-Za-z0-9_-]{20,}",
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    r"\bAIza[0-9A-Za-z_-]{35}",
    r"\bya29\.[0-9A-Za-z_-]{20,}",
    r"\bxox[abeoprs]-[0-9A-Za-z-]{10,}",
    r"\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}|\bpypi-[A-Za-z0-9_-]{40,}|\bgsk_[A-Za-z0-9]{40,}|\bxai-[A-Za-z0-9]{40,}|\br8_[A-Za-z0-9]{36,}",
    r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    r"(?ai:\[startup diagnostic\])\s{0,3}(?P<secret>[^\n]{3,4000})",  # one of SimLab's cookbooks says its keys in a message
    r"(?<=://)[^\s/:@\"']{1,100}:(?P<secret>[^\s/:@\"']{3,200})(?=@)",
    r"(?ai:api[_-]?key|access[_-]?key|secret[_-]?key|client[_-]?secret|(?:access|auth|refresh)[_-]?token|passw(?:or)?d)"
    r"\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?P<secret>(?=[^\s\"'\\,;&()<>{}\[\]]{0,80}[0-9])[^\s\"'\\,;&()<>{}\[\]]{8,400})",
)
# --- The quick look: whether a rule could touch a JSON text. It may say yes for nothing, it must not say no for something (a property test holds that).
# Names and words are looked for in the text without case, hyphens, underscores and blanks, each with what has to follow it: the end of a string, a
# quote or a separator. Words that share a rare letter share a pattern that begins with it: the engine runs from one such letter to the next.
_FOLD: Final = bytes(range(256)).lower()
_DROP: Final = b"-_ "
_END: Final = rb"[\\\"':=\x00-\x20\x80-\xff]"
_KEYS: Final = re.compile(
    rb"k(?:ey(?:(?<=apikey)|(?:(?<=[iscte]key)%b))|(?:en(?<=[shrndytbkf]token)|ie(?<=cookie))%b)" % (_END, _END)
).search
_WORDS: Final = tuple(
    (word, re.compile(rest % _END).search)
    for word, rest in (
        (b"secret", rb"secret(?:key)?%b"),
        (b"passw", rb"passw(?:or)?d%b"),
        (b"passphrase", rb"passphrase%b"),
        (b"authorization", rb"authorization%b"),
        (b"credential", rb"credentials?%b"),
    )
)
# White space after the word may be escaped, or beyond ASCII; so may a slash be.
_SCHEMES: Final = re.compile(rb"(?i)(?:bearer|basic)(?:[ \x80-\xff]|\\[nrtf]|\\u[0-9a-f]{4})+[a-z0-9._~+/=\\-]{12}").search
_URLS: Final = re.compile(rb":\\?/\\?/[^/@\s\"]{4,4000}@").search
_ESCAPED: Final = re.compile(rb"\\u00[2-7]").search
"""A letter, digit or sign that is written as an escape: then the text has to be decoded."""
# Keys of the known providers. Where an escape such as \n stands before one, its letter is no part of a word.
_HYPHENED: Final = re.compile(
    rb"-(?:(?<=sk-)(?:(?<!\wsk-)|(?<=\\[nrtbf]sk-)|(?<=\\u[0-9A-Fa-f]{4}sk-))[\w-]{16}|(?<=pk-)lf-|(?<=xox[a-z]-)|(?<=glpat-)|(?<=pypi-)|(?<=xai-))"
).search
_UNDERSCORED: Final = re.compile(
    rb"_(?:(?<=[prs]k_)(?:live|test)_|(?<=gh[pousr]_)\w{30}|(?<=github_)pat_|(?<=(?:hf|r8)_)\w{30}|(?<=(?:npm|gsk)_)\w{36})"
).search
_OF_CLOUDS: Final = re.compile(rb"A(?:[KS]IA[0-9A-Z]{16}|Iza[\w-]{35})").search


def _quick_look(data: bytes) -> bool:
    if b"\\u00" in data and _ESCAPED(data):
        return True
    if b"@" in data and (b"://" in data or b":\\/" in data) and _URLS(data):
        return True
    if b"-----BEGIN" in data:
        return True
    folded = data.translate(_FOLD, _DROP)
    if _KEYS(folded) or b"startupdiagnostic" in folded:
        return True
    for word, rest in _WORDS:
        if word in folded and rest(folded):
            return True
    if (b"bearer" in folded or b"basic" in folded) and _SCHEMES(data):
        return True
    if _HYPHENED(data) or _UNDERSCORED(data) or _OF_CLOUDS(data):
        return True
    return b"eyJ" in data or b"ya29." in data


@lru_cache(maxsize=4096)
def _secret_name(name: bytes) -> tuple[bool, bool]:
    """Whether a member of this name holds a secret, and whether an object in it goes as a whole."""
    low = name.lower().decode("utf-8", "replace")
    plain = re.sub(r"[-_ ]", "", low)
    return _NAMES.fullmatch(plain) is not None or _NAMES.fullmatch(low.replace("_", "")) is not None, plain.rpartition(".")[2] in _WHOLE


_IDS: Final = ("id", "trace_id", "parent_id")
_NUMBERS: Final = (int, bool, float, int | None, float | None, Usage | None)


@cache
def _fields(kind: type) -> tuple[Callable[[Any], tuple[Any, ...]], Callable[[Any], tuple[Any, ...]], Callable[[Any], tuple[Any, ...]]]:
    """Three getters for a kind of span: its texts, everything that holds more than a text or a number, and the same without ``source``."""
    types = {n: t for n, t in get_type_hints(kind).items() if n in kind.__struct_fields__ and n not in _IDS}  # type: ignore[attr-defined]
    texts = [n for n, t in types.items() if t in (str, str | None)]
    more = [n for n, t in types.items() if n not in texts and t not in _NUMBERS and get_origin(t) is not Literal]
    return attrgetter(*texts), attrgetter(*more), attrgetter(*(n for n in more if n != "source"))


_SHORT: Final = 2 + len("://a:bcd@")
"""Bytes of the shortest JSON string that one of the patterns finds something in."""
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
        self._patterns = [*([re.compile(p, re.DOTALL) for p in _PATTERNS] if builtin else []), *own]
        self._builtin, self._source = builtin, source
        self._clean: set[tuple[Any, ...]] = set()
        self.count = 0

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items without secrets; those that hold none are the same objects."""
        for item in items:
            yield self.item(item)

    def item(self, item: Item) -> Item:
        """One item without secrets."""
        if self._own or item.__class__ is TraceHeader:
            return self._whole(item, item)
        span: AnySpan = item  # type: ignore[assignment]
        texts, more, sent = _fields(span.__class__)
        if any((more if self._source else sent)(span)):
            return self._whole(span, span if self._source else _without_source(span))
        # A span of names and numbers, as most are: the same names come again and again.
        known = texts(span)
        if known not in self._clean or not _is_id(span):
            if self.suspect(_encode((span.id, span.trace_id, span.parent_id, known))):
                return self._whole(span, span)
            if len(self._clean) > 8192:
                self._clean.clear()
            self._clean.add(known)
        return span

    def _whole(self, item: Item, seen: Item) -> Item:
        """``item``, or ``seen``, which is what of it leaves, without its secrets."""
        data = _encode(seen)
        if not self.suspect(data):
            return item
        found = self.json(data)
        return item if found is data else _decode(found)

    def suspect(self, data: bytes) -> bool:
        """Whether a rule could touch this JSON text."""
        return self._own or (self._builtin and _quick_look(data))

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
                    secret, whole = _secret_name(token.group()[1 : -1 - len(token.group(1))])
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
                if not self._own and (len(body) < _SHORT or not _quick_look(body)):
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


def _is_id(span: AnySpan) -> bool:
    """Whether the ids are ids, in which no rule finds anything."""
    return len(span.id) == 16 and len(span.trace_id) == 32 and span.id.isalnum() and span.trace_id.isalnum()


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
