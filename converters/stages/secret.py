"""What a secret looks like: the rules, and a quick look that says whether any of them could touch a text. `redact` acts on them.

The quick look is a necessary condition, nothing more: it may say yes for nothing, it must not say no for something (a property test holds that for every
rule). It is the cost of every item that leaves, so it is made of what is cheap on bytes: whether one character occurs; a pattern that begins with one
fixed, rare character, since the engine runs to the next of these at a byte a cycle; and directly behind that character conditions without a choice,
which reject in a few ns what costs ten times as much where there is a ``|``. It takes texts as they are and texts in JSON, so a white space may be
itself or an escape; a letter, digit or sign that is written as an escape makes it say yes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

Search = Callable[..., re.Match[bytes] | None]

# ----------------------------------------------------------------------------------------------------------------- the rules
# Names of members whose text is a secret, without regard to case, and to - and _.
NAMES: Final = re.compile(
    r"(?:.*[._])?(?:\w*apikey\w*|openaikey|anthropickey|(?:client|app|shared|webhook|signing)?secret(?:key)?|secretaccesskey|awssecretaccesskey|"
    r"(?:db|user|admin)?(?:password|passwd|passphrase)|privatekey|(?:proxy)?authorization|(?:set)?cookie|"
    r"(?:access|refresh|auth|bearer|session|id|security|secret|personalaccess|github|gitlab|slack|hf)token|credentials?|startupdiagnostic)",
)
WHOLE: Final = ("startupdiagnostic", "credentials", "credential")
"""Names whose object or array goes as a whole."""

# Texts that are secrets. Where a group is called "secret", only that goes.
PATTERNS: Final = (
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
SHORT: Final = len("://a:bcd@")
"""Bytes of the shortest text that one of the patterns finds something in."""


@lru_cache(maxsize=4096)
def secret_name(name: bytes) -> tuple[bool, bool]:
    """Whether a member of this name holds a secret, and whether an object in it goes as a whole."""
    low = name.lower().decode("utf-8", "replace")
    plain = re.sub(r"[-_ ]", "", low)
    return NAMES.fullmatch(plain) is not None or NAMES.fullmatch(low.replace("_", "")) is not None, plain.rpartition(".")[2] in WHOLE


# ----------------------------------------------------------------------------------------------------- the quick look at texts
_ESCAPED: Final = re.compile(rb"\\u00[2-7]").search
_URLS: Final = re.compile(rb":\\?/\\?/[^/@\s\"]{4,4000}@").search
# Keys of the known providers. Where an escape such as \n stands before one, its letter is no part of a word.
_HYPHENED: Final = re.compile(
    rb"-(?:(?<=sk-)(?:(?<!\wsk-)|(?<=\\[nrtbf]sk-)|(?<=\\u[0-9A-Fa-f]{4}sk-))[\w-]{16}|(?<=pk-)lf-|(?<=xox[a-z]-)|(?<=glpat-)|(?<=pypi-)|(?<=xai-)|----BEGIN)"
).search
_UNDERSCORED: Final = re.compile(
    rb"_(?<=[bfkmoprsu8]_)(?:(?<=[prs]k_)(?:live|test)_|(?<=gh[pousr]_)\w{30}|(?<=github_)pat_|(?<=(?:hf|r8)_)\w{30}|(?<=(?:npm|gsk)_)\w{36})"
).search
_OF_CLOUDS: Final = re.compile(rb"I(?:(?<=A[KS]I)A[0-9A-Z]{16}|(?<=AI)za[\w-]{35})").search
_DOTTED: Final = re.compile(rb"\.(?:eyJ|(?<=ya29\.))").search

# From here on in lower case.
_BLANK: Final = rb"(?:[\t-\r\x1c-\x20\x80-\xff]|\\[nrtf]|\\u[0-9a-f]{4})"
_SCHEMES: Final = re.compile(rb"b(?=[ea][as][ri])(?:earer%b+[a-z0-9._~+/=\\-]{12}|asic%b+[a-z0-9+/\\]{16})" % (_BLANK, _BLANK)).search
_DIAGNOSTIC: Final = re.compile(rb"\[(?=startup diagnostic\])").search
# A word, then ``=`` or ``:``, with quotes and blanks around, then a value with a digit in it. Words with a k are looked for together with names.
_AROUND: Final = rb"""(?:[\\"'\t-\r\x1c-\x20\x80-\xff]|(?<=\\)(?:[nrtf]|u[0-9a-f]{4}))*"""
_SAID: Final = rb"""%b[:=]%b[^\s"',;&()<>{}\[\]]{0,1000}[0-9]""" % (_AROUND, _AROUND)
_SAID_KEY: Final = re.compile(
    rb"k(?=e[yn])(?<=[isto_-]k)(?:(?:(?<=(?:pi|ss|et)k)|(?<=(?:pi|ss|et)[_-]k))ey|(?:(?<=(?:ss|th|sh)tok)|(?<=(?:ss|th|sh)[_-]tok))en)%b"
    % _SAID
).search
_SAID_WORD: Final = re.compile(rb"w(?<=passw)(?:or)?d%b" % _SAID).search
_SAID_SECRET: Final = re.compile(rb"secret(?<=[t_-]secret)%b" % _SAID).search
# A colon that could be that of such a word, by what stands before it, and is not that of a member. Escapes are another matter.
_COLON: Final = re.compile(rb""":(?<![^\\]":)(?<=[dfnrty"'\\\t-\r\x1c-\x20\x80-\xff]:)""").search

# ----------------------------------------------------------------------------------------------------- the quick look at names of members
_KEYISH: Final = re.compile(rb"k(?<=[isto_ -]k)(?=[_ -]*e[_ -]*[yn])").search
# A name that has "apikey" in it, whatever follows; hyphens, underscores and blanks may stand anywhere.
_API_KEYS: Final = re.compile(
    rb"k(?<=[i_ -]k)(?:(?<=pik)|(?<=pi[_ -]k)|(?<=[_ -][_ -]k)|(?<=[_ -]ik)|(?<=[_ -]i[_ -]k))[_ -]*e[_ -]*y[\w\x80-\xff -]*\"\s*:"
).search
# The others by how they end: key, token, cookie, secret, password, passwd, passphrase, authorization, credential(s), startupdiagnostic, again with such signs
# between the letters. The last four, one by one (each may be any as soon as one of the signs stands behind it), without some common names, then the
# last three together. What passes is looked at by the rule.
_ENDINGS: Final = re.compile(
    rb":(?<=[yntedlsc_ -]\":)(?<![^eirwsoal_ -][^_ -]\":)(?<![^kroasit_ -][^_ -][^_ -]\":)(?<![^iceostwr_ -][^_ -][^_ -][^_ -]\":)"
    rb"(?<!\"key\":)(?<![^a_ -]tion\":)(?<![^z_ -]ation\":)"
    rb"(?<=(?:[k_ -]e[ny]|[k_ -]ie|[r_ -]et|[os_ -][rw]d|[a_ -]se|[i_ -]on|[i_ -]al|[a_ -]ls|[t_ -]ic|.[_ -].|..[_ -])\":)"
).search
_SPACED: Final = re.compile(rb":(?<=[\t-\r ]:)").search
"""White space before the colon: rare, so each is looked at."""


# ----------------------------------------------------------------------------------------------------------------- both
# One byte, as a number, is looked for many times as fast as a bytes object of length one: with that, Python first tries whether it is a number.
_BACKSLASH, _AT, _HYPHEN, _UNDERSCORE, _I, _DOT, _B, _BRACKET, _EQUALS, _K, _W, _QUOTE = b'\\@-_I.b[=kw"'


def in_text(data: bytes) -> bool:
    """Whether a pattern could find something in this text, which is in JSON."""
    return _with_case(data) or _without_case(data.lower(), False)


def in_json(data: bytes) -> bool:
    """Whether a rule could touch this JSON text."""
    return _with_case(data) or _without_case(data.lower(), data[:1] != b'"')


def _with_case(data: bytes) -> bool:
    if _BACKSLASH in data and data.find(b"\\u00") >= 0 and _ESCAPED(data):
        return True
    if _AT in data and _URLS(data):
        return True
    if (_HYPHEN in data and _HYPHENED(data)) or (_UNDERSCORE in data and _UNDERSCORED(data)):
        return True
    return bool((_I in data and _OF_CLOUDS(data)) or (_DOT in data and _DOTTED(data)))


def _without_case(low: bytes, names: bool) -> bool:
    if (_B in low and _SCHEMES(low)) or (_BRACKET in low and _DIAGNOSTIC(low)):
        return True
    names = names and _QUOTE in low
    said = bool(_EQUALS in low or _COLON(low) or (_BACKSLASH in low and low.find(b"\\u") >= 0))
    if (said or names) and _K in low and _KEYISH(low) and ((said and _SAID_KEY(low)) or (names and _API_KEYS(low))):
        return True
    if said and ((_W in low and _SAID_WORD(low)) or (low.find(b"secret") >= 0 and _SAID_SECRET(low))):
        return True
    return names and (_any_name(_ENDINGS, low) or (said and _any_name(_SPACED, low)))


def _any_name(search: Search, low: bytes) -> bool:
    """Whether one of the colons that ``search`` finds stands behind the name of a secret."""
    found = search(low)
    while found:
        if _names_a_secret(low, found.start()):
            return True
        found = search(low, found.end())
    return False


def _names_a_secret(data: bytes, colon: int) -> bool:
    """Whether the name before this colon, if it is one, is that of a secret."""
    while data[colon - 1 : colon].isspace():
        colon -= 1
    if data[colon - 1 : colon] != b'"':
        return False
    return secret_name(data[data.rfind(b'"', 0, colon - 1) + 1 : colon - 1])[0]


__all__ = ["NAMES", "PATTERNS", "SHORT", "WHOLE", "in_json", "in_text", "secret_name"]
