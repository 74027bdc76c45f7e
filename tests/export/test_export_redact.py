"""Secrets: the quick look and the shortcuts against the two rules written down plainly, over generated texts and records."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import spanport
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace
from spanport.converters import model
from spanport.converters.model import Event, Phase, Task, ToolCall, raw
from spanport.converters.stages import secret
from spanport.converters.stages.redact import MARK, Redactor

FIXTURES = Path(__file__).parents[2] / "fixtures"
PATTERNS = [re.compile(p, re.DOTALL) for p in secret.PATTERNS]


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
    if secret.NAMES.fullmatch(short) or secret.NAMES.fullmatch(low.replace("_", "")):
        if isinstance(value, list) or (isinstance(value, dict) and short.rpartition(".")[2] in secret.WHOLE):
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


def nothing(written: bytes) -> bool:
    """Whether the rules, written down plainly, find nothing: what `json` finds hangs on the quick look."""
    value = msgspec.json.decode(written)
    return bool(plain(value) == value)


def around(found: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts with ``found`` in them."""
    beside = st.sampled_from(["", " ", "\n", "a", '"', "\\", "é", "x: ", "\u2003"])
    return st.tuples(beside, found, beside).map("".join)


@pytest.mark.parametrize("number", range(len(secret.PATTERNS)))
@settings(max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.data())
def test_the_quick_look_passes_over_nothing_that_a_pattern_finds(number: int, data: st.DataObject) -> None:
    """Texts made from the pattern itself: every way to write what it finds."""
    text = data.draw(around(st.from_regex(PATTERNS[number])))
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    if not PATTERNS[number].search(text):
        return
    for written in [*forms(text), *forms([1, {"a": text}])]:
        assert Redactor().suspect(written) or nothing(written), written


GAPS = [
    "",
    " ",
    "  ",
    "\t",
    "\n",
    "\u2003",
    "\u3000",
    "\u00a0",
    "\x1f",
    "\x0b",
    '"',
    "'",
    "\\",
    '\\"',
    "\\'",
    "' ",
    '" ',
    '"\n\u2003',
    "\u2003 ",
    "\u1680\n ",
]


@settings(max_examples=600)
@given(
    st.sampled_from(
        [
            "api_key",
            "apikey",
            "ACCESS-KEY",
            "secretKey",
            "client_secret",
            "authToken",
            "refresh-token",
            "Access_Token",
            "passwd",
            "PassWord",
        ]
    ),
    st.sampled_from(GAPS),
    st.sampled_from(":="),
    st.sampled_from(GAPS),
    st.sampled_from(["hunter2222", "é" * 80 + "1", "abc/def/1", "\U0001f600" * 70 + "2", "abcdefgh", "x1"]),
    st.sampled_from(["", "my ", "my", "é"]),
)
def test_a_word_and_its_value_are_seen_whatever_stands_between(word: str, one: str, sign: str, two: str, value: str, before: str) -> None:
    text = f"{before}{word}{one}{sign}{two}{value}"
    for written in [*forms(text), *forms({"text": text}), *forms([{"text": json.dumps(text)}])]:
        assert Redactor().suspect(written) or nothing(written), written


@settings(max_examples=500)
@given(st.from_regex(secret.NAMES, fullmatch=True), st.lists(st.tuples(st.integers(0, 40), st.sampled_from("-_ ")), max_size=4), st.data())
def test_the_quick_look_passes_over_no_name(name: str, signs: list[tuple[int, str]], data: st.DataObject) -> None:
    """Names made from the rule, with signs anywhere in them, in capitals or not, with white space before the colon."""
    for at, sign in signs:
        name = name[:at] + sign + name[at:]
    name = data.draw(st.sampled_from([name, name.upper(), name.title()]))
    blank = data.draw(st.sampled_from(["", " ", "\n", "\t\r\n  "]))
    try:
        quoted = msgspec.json.encode(name)
    except UnicodeEncodeError:
        return
    for held in (b'"value"', b'["value"]'):
        written = b'{"a": "b", %b%b: %b}' % (quoted, blank.encode(), held)
        assert Redactor().suspect(written) or nothing(written), written


def test_every_place_of_a_sign_in_a_name_is_seen() -> None:
    for word in (
        "apikey",
        "openaikey",
        "token",
        "password",
        "passwd",
        "passphrase",
        "authorization",
        "cookie",
        "secret",
        "credentials",
        "startupdiagnostic",
    ):
        for name in (f"auth{word}" if word == "token" else word, f"x.{'auth' if word == 'token' else ''}{word}"):
            for signs in itertools.product(range(len(name) + 1), repeat=2):
                spelled = name
                for at in signs:
                    spelled = f"{spelled[:at]}_{spelled[at:]}"
                written = b'{"%b":"v"}' % spelled.encode()
                assert Redactor().suspect(written) or nothing(written), written


def test_no_field_of_the_model_is_called_like_a_secret() -> None:
    """Their names are not looked at."""
    names = {
        name
        for kind in model.__dict__.values()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct)
        for name in kind.__struct_fields__
    }
    assert len(names) > 60
    assert not [name for name in names if secret.secret_name(name.encode())[0]]


def test_an_id_that_is_none_is_looked_at() -> None:
    for ids in ({"id": "password=hunter22"}, {"parent_id": "password=hunter22"}, {"trace_id": "password=hunter22"}):
        base = {"id": "0123456789abcdef", "trace_id": "0123456789abcdef" * 2, "key": "k", "name": "n"}
        redactor = Redactor()
        redactor.item(Phase(**base))
        for more in ({}, {"attributes": {"a": "b"}}):
            assert b"hunter22" not in msgspec.json.encode(redactor.item(Phase(**{**base, **ids}, **more)))


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
