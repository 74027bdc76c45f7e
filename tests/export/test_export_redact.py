"""Secrets: the quick look and the shortcuts against the two rules written down plainly, over generated texts and records."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from spanport.converters.model import Event, Phase, Task, ToolCall, raw
from spanport.converters.stages import redact
from spanport.converters.stages.redact import MARK, Redactor

FIXTURES = Path(__file__).parents[2] / "fixtures"
PATTERNS = [re.compile(p, re.DOTALL) for p in redact._PATTERNS]


def plain_text(text: str) -> str:
    def put(hit: re.Match[str]) -> str:
        found = hit.groupdict().get("secret")
        if found is None:
            return MARK if hit.group() else ""
        if found == MARK:
            return hit.group()
        at = hit.start("secret") - hit.start()
        return hit.group()[:at] + MARK + hit.group()[at + len(found) :]

    for pattern in PATTERNS:
        text = pattern.sub(put, text)
    return text


def plain(value: Any) -> Any:
    """The rules, on a decoded value: the oracle."""
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {k: member(k, v) for k, v in value.items()}
    return value


def member(name: str, value: Any) -> Any:
    low = "".join(c.lower() if c.isascii() else c for c in name)
    short = re.sub("[-_ ]", "", low)
    if redact._NAMES.fullmatch(short) or redact._NAMES.fullmatch(low.replace("_", "")):
        if isinstance(value, list) or (isinstance(value, dict) and short.rpartition(".")[2] in redact._WHOLE):
            return MARK
        if isinstance(value, str):
            return MARK if value else ""
    return plain(value)


# Pieces of which texts are made: every kind of secret, words that nearly are, what may stand between.
LONG = "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6hIj9kLm2n"
SECRETS = [
    *(
        f"{p}{LONG}"
        for p in ("sk-", "sk-ant-", "sk-proj-", "sk_live_", "rk_test_", "ghp_", "ghs_", "github_pat_", "glpat-", "AIza", "ya29.")
    ),
    *(f"{p}{LONG}" for p in ("xoxb-", "hf_", "npm_", "pypi-", "gsk_", "xai-", "r8_")),
    *("pk-lf-" + "0123456789abcdef-" * 2, "AKIAABCDEFGHIJKLMNOP", "ASIA0123456789ABCDEF", f"eyJ{LONG}.eyJ{LONG}.{LONG}"),
    *(f"Bearer {LONG}", f"bearer\n{LONG}/+=", f"BEARER\t{LONG}", f"Basic {LONG}==", f"basic\u00a0{LONG}"),
    *("postgres://u:pw-1@h/db", "https://üser:p\\w@host", "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----", "[Startup Diagnostic] OPENAI=1 KEY=2"),
    *(
        f"{k}{sep}{LONG}"
        for k in ("api_key", "API-KEY", "accessKey", "secret_key", "client_secret", "auth-token")
        for sep in ("=", ": ", '": "', "\n=\n")
    ),
    *(f"{k}{sep}hunter22" for k in ("password", "passwd", "Refresh_Token", "ACCESS_TOKEN") for sep in ("=", " :\u2003", '\\":\\"', "='")),
]
WORDS = [
    *(
        "the",
        "task-specific",
        "risk_averse",
        "token",
        "tokens:",
        "basic",
        "bearer of",
        "secret",
        "key:",
        "password",
        "cookie",
        "a@b.c",
        "https://x.y/z",
    ),
    *(
        "api",
        "private",
        "credential",
        "0123456789abcdef" * 2,
        "monkey=1",
        "communication-systems",
        "é",
        "\u212aey",
        "\u0131",
        "ſ",
        "\u001b[1m",
        "\ud7ff",
    ),
]
BETWEEN = ["", " ", "\n", "\t", '"', "'", "\\", "/", ":", "=", ",", ".", "_", "-", "@", "é", "\u00a0"]
NAMES = [
    *(
        "api_key",
        "apikey",
        "x-api-key",
        "my api key",
        "openai_key",
        "anthropic-key",
        "access_key",
        "accessKey",
        "aws_secret_access_key",
        "secret",
        "secret_key",
    ),
    *(
        "client_secret",
        "private-key",
        "password",
        "db_password",
        "passphrase",
        "Authorization",
        "proxy-authorization",
        "Set-Cookie",
        "cookie",
        "session_token",
    ),
    *("credentials", "credential", "startup_diagnostic", "a.b.password", "auth_token", "hf-token", "bearer token", "pass-word", "API KEY"),
    *(
        "token",
        "tokens",
        "input_tokens",
        "key",
        "name",
        "text",
        "secrets",
        "password2",
        "é_password",
        "\u212aey",
        "api_\u212aey",
        "author",
        "basic",
    ),
]
texts = st.lists(st.sampled_from(SECRETS) | st.sampled_from(WORDS) | st.sampled_from(BETWEEN) | st.text(max_size=3), max_size=6).map(
    "".join
)
names = st.sampled_from(NAMES) | st.sampled_from(NAMES).map(str.upper) | st.text(max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


def forms(value: Any) -> list[bytes]:
    """The JSON texts that a value is found as in records."""
    found = [
        msgspec.json.encode(value),
        json.dumps(value).encode(),
        json.dumps(value, indent=1, ensure_ascii=False).encode("utf-8", "replace"),
    ]
    found.append(found[0].replace(b"/", b"\\/"))
    # A serializer that is careful with HTML.
    found.append(json.dumps(value).replace("+", "\\u002b").replace("'", "\\u0027").encode())
    return found


def escaped_name(value: Any) -> bool:
    """A name that is written with an escape is not looked at as a name."""
    if isinstance(value, dict):
        return any(json.dumps(k) != f'"{k}"' for k in value) or any(escaped_name(v) for v in value.values())
    return isinstance(value, list) and any(escaped_name(v) for v in value)


@settings(max_examples=600)
@given(values)
@example({"api_key": "x", "a": [{"password": ["x"]}]})
def test_the_rules_hold_on_json_as_on_values(value: Any) -> None:
    if escaped_name(value):
        return
    for data in forms(value):
        found = Redactor().json(data)
        assert msgspec.json.decode(found) == plain(value)
        redactor = Redactor()
        if found != data:
            assert redactor.suspect(data), data


@pytest.mark.parametrize("text", SECRETS)
def test_each_kind_of_secret_is_seen_in_every_form(text: str) -> None:
    for around in ("{}", "a\n{}\nb", '"{}"', "é{}é", "x {} y"):
        said = around.format(text)
        for data in forms({"text": said}):
            assert Redactor().suspect(data) or plain_text(said) == said, (data, said)
        escaped = b'{"text":"%s"}' % "".join(f"\\u{ord(c):04x}" for c in said).encode()
        assert Redactor().suspect(escaped) or plain_text(said) == said


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_seen_in_every_form(name: str) -> None:
    for given_ in ({name: "value"}, {"a": [{name.upper(): ["value"]}]}, {name: {"b": "c"}}):
        for data in forms(given_):
            found = Redactor().json(data)
            assert msgspec.json.decode(found) == plain(given_)
            assert Redactor().suspect(data) or found == data


@settings(max_examples=300)
@given(texts, texts, names, values)
def test_spans_by_the_shortcut_as_by_the_rules(name: str, category: str, key: str, value: Any) -> None:
    redactor = Redactor()
    base = {"id": "0123456789abcdef", "trace_id": "0123456789abcdef" * 2, "key": "k"}
    spans = [
        Phase(name=name, type=category, **base),
        Task(name=name, category=category, native_id=name, events=[Event(name=category)], **base),
        ToolCall(name=name, arguments=raw(value), attributes={"note": category}, **base),
        Phase(name=name, source={"x": raw(value)}, **base),
    ]
    for span in [*spans, *spans]:
        before = msgspec.json.decode(msgspec.json.encode(span))
        if escaped_name(before):
            continue
        assert msgspec.json.decode(msgspec.json.encode(redactor.item(span))) == plain(before)


def test_what_does_not_leave_is_not_looked_at() -> None:
    redactor = Redactor(source=False)
    hidden = raw({"password": "hunter22"})
    span = Phase(
        id="0" * 15 + "1", trace_id="1" * 32, name="n", key="k", source={"x": hidden}, events=[Event(name="e", source={"y": hidden})]
    )
    assert redactor.item(span) is span
    assert not redactor.count
    told = redactor.item(replace(span, events=[Event(name="e", attributes={"password": "hunter22"}, source={"y": hidden})]))
    assert b"hunter22" not in msgspec.json.encode(told)
    assert redactor.count == 1


def test_own_patterns_find_short_texts_and_ids() -> None:
    span = ToolCall(id="0" * 15 + "1", trace_id="1" * 32, name="n", key="k", arguments=Raw(b'{"a": "x1"}'))
    assert bytes(Redactor([r"x\d"]).item(span).arguments) == b'{"a": "[redacted]"}'  # type: ignore[union-attr]
    assert Redactor([r"^n$"]).item(span).name == MARK


def test_the_records_of_the_fixtures() -> None:
    tried = 0
    for path in sorted(FIXTURES.rglob("*")):
        if path.suffix not in (".json", ".jsonl") or path.stat().st_size > 200_000:
            continue
        try:
            items = list(spanport.stream(path))
        except spanport.ReadError:
            continue
        redactor = Redactor()
        for item in items:
            before = msgspec.json.decode(msgspec.json.encode(item))
            if escaped_name(before):
                continue
            tried += 1
            assert msgspec.json.decode(msgspec.json.encode(redactor.item(item))) == plain(before), path
    assert tried > 200
