"""Secrets out, before anything leaves the machine: on by default for `export` and `view`, on request for `convert`.

Two rules: members whose name says that they hold a secret (``api_key…``, ``password``, ``authorization`` …, and all of ``startup_diagnostic``), and
texts that look like one (bearer tokens, keys of the known providers, private keys, passwords in URLs). The work is done on the JSON of an item, token
by token, so that everything else stays as it is to the byte. An item without any word of the list in it costs a few searches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from ..errors import UsageError
from ..model import Item

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
    r"(?i)\[startup diagnostic\]\s{0,3}(?P<secret>[^\n]{3,4000})",  # one of SimLab's cookbooks says its keys in a message
    r"(?<=://)[^\s/:@\"']{1,100}:(?P<secret>[^\s/:@\"']{3,200})(?=@)",
    r"(?i)(?:api[_-]?key|access[_-]?key|secret[_-]?key|client[_-]?secret|(?:access|auth|refresh)[_-]?token|passw(?:or)?d)"
    r"\\?[\"']?\s{0,3}[:=]\s{0,3}\\?[\"']?(?P<secret>(?=[^\s\"'\\,;&()<>{}\[\]]{0,80}[0-9])[^\s\"'\\,;&()<>{}\[\]]{8,400})",
)
# One of these is found in every JSON text that a rule could touch (in lower case): what has none of them is passed through. Each pattern starts with
# one rare letter of its words, and looks back for what stands before it: the engine runs from one such letter to the next, which is several
# times as fast as searching for each word, or for their alternatives.
_SUSPECT: Final = tuple(
    re.compile(p).search
    for p in (
        rb"k(?:(?<=[icst]k)ey|(?<=[icst][-_ ]k)ey|(?<=[srp]k)[-_]|(?<=tok)en|(?<=cook)ie|(?<=ak)ia)",
        rb"x(?:ox|ai-)",
        rb"z(?:(?<=aiz)a|(?<=authoriz))",
        rb"w(?:(?<=passw)|(?<=pass.w))",
        rb"v(?<=priv)ate",
        rb"b(?:earer|asic)",
        rb"j(?<=eyj)",
        rb"y(?:pi-|a29\.)",
        rb"g(?:h[pousr]_|ithub_|lpat)",
        rb"f(?<=hf)_",
        rb"8(?<=r8)_",
        rb"m(?<=npm)_",
        rb"c(?:redential|(?<=sec)ret)",
        rb"u(?<=startu)p",
        rb"h(?:(?<=passph)|(?<=pass.ph))r",
    )
)
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"(\s*:)?|[\[\]{}]', re.DOTALL)


class Redactor:
    """Takes secrets out of items. ``more``: the user's own patterns, on top of the list; ``builtin`` off leaves only these. ``count`` is how
    many values were replaced."""

    def __init__(self, more: Iterable[str] = (), builtin: bool = True) -> None:
        try:
            own = [re.compile(p, re.DOTALL) for p in more]
        except re.error as error:
            raise UsageError(f"--redact: no regular expression: {error}") from None
        self._own = bool(own)
        self._patterns = [*([re.compile(p, re.DOTALL) for p in _PATTERNS] if builtin else []), *own]
        self._builtin = builtin
        self.count = 0

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items without secrets; those that hold none are the same objects."""
        for item in items:
            yield self.item(item)

    def item(self, item: Item) -> Item:
        """One item without secrets."""
        data = _encode(item)
        if not self.suspect(data):
            return item
        found = self.json(data)
        return item if found is data else _decode(found)

    def suspect(self, data: bytes) -> bool:
        """Whether a rule could touch this JSON text."""
        if self._own:
            return True
        low = data.lower()
        for search in _SUSPECT:
            if search(low):
                return True
        return b"asia" in low or (b"@" in low and b"://" in low)  # a key of AWS; a password in a URL

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
                    name = token.group()[1 : -1 - len(token.group(1))].decode("utf-8", "replace")
                    plain = re.sub(r"[-_ ]", "", name.lower())
                    secret = self._builtin and (
                        _NAMES.fullmatch(plain) is not None or _NAMES.fullmatch(name.lower().replace("_", "")) is not None
                    )
                    at = data[token.end() : token.end() + 24].lstrip()[:1]
                    # An object goes whole only where that is meant: ``"password": {"type": "string"}`` is a schema.
                    whole = secret and (at == b"[" or plain.rpartition(".")[2] in _WHOLE)
                    # The value stands right after the colon unless it is a number, true, false or null: then there is nothing to hide.
                    if secret and at not in (b'"', b"{", b"["):
                        secret = whole = False
                    continue
                body = token.group()
                if secret:
                    secret = whole = False
                    if body not in (b'""', b'"' + MARK.encode() + b'"'):
                        put(token.start(), token.end())
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


def redact(items: Iterable[Item], more: Iterable[str] = (), counted: Callable[[int], None] | None = None) -> Iterator[Item]:
    """The items without secrets (the built-in list and the patterns ``more``); ``counted`` is told of how many values went, at the end."""
    redactor = Redactor(more)
    yield from redactor.items(items)
    if counted is not None:
        counted(redactor.count)


__all__ = ["MARK", "Redactor", "redact"]
