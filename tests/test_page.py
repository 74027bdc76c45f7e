"""The page as a file: what stands in it, what can't, how large it is, and the command. What it does in a browser is in test_page_browser.py."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import random
import re
import zlib
from html.parser import HTMLParser
from importlib import resources, util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import spanport
from click.testing import CliRunner
from spanport.cli import group
from spanport.converters.errors import Report
from spanport.converters.model import BlobPart, Message, ModelRequest, Run, ToolCall, Trace, raw
from spanport.converters.registry import WriteOptions
from spanport.exporters.page import write
from spanport.exporters.page.pack import CHUNK, encode, in_order

ROOT = Path(__file__).parent.parent


def made() -> ModuleType:
    """The maker of traces in fixtures/page."""
    spec = util.spec_from_file_location("page_make", ROOT / "fixtures" / "page" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = made()


def page(*traces: Trace, **more: Any) -> bytes:
    out = io.BytesIO()
    assert write(list(traces), out, **more) == len(traces)
    return out.getvalue()


class Reader(HTMLParser):
    """The parts of a page as a browser finds them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.policy = ""
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self.blocks: dict[str, str] = {}
        self.attributes: list[tuple[str, str, str | None]] = []
        self._into: tuple[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.attributes += [(tag, k, v) for k, v in attrs]
        if tag == "meta" and given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given.get("content") or ""
        self._into = ("block", given["id"]) if given.get("type") == "application/json" else (tag, None)

    def handle_endtag(self, tag: str) -> None:
        self._into = None

    def handle_data(self, data: str) -> None:
        match self._into:
            case ("style", _):
                self.styles.append(data)
            case ("script", _):
                self.scripts.append(data)
            case ("block", name):
                self.blocks[name or ""] = data


def opened(block: str) -> Any:
    """A block's bytes, undone here with the standard library alone."""
    packed = json.loads(block).encode().translate(bytes.maketrans(b",./", b"<&`"))
    return zlib.decompress(base64.b85decode(packed), -15)


def test_the_policy_lets_only_the_pages_own_script_and_style_run() -> None:
    found = Reader(page(make.hostile()).decode())

    def sources(texts: list[str]) -> set[str]:
        return {f"'sha256-{base64.b64encode(hashlib.sha256(t.encode()).digest()).decode()}'" for t in texts}

    rules = {name: set(values) for name, *values in (rule.split() for rule in found.policy.split(";"))}
    assert rules == {
        "default-src": {"'none'"},
        "script-src": sources(found.scripts),
        "style-src": sources(found.styles),
        "img-src": {"data:"},
        "base-uri": {"'none'"},
        "form-action": {"'none'"},
    }
    assert len(found.scripts) == 5
    assert len(found.styles) == 1


def test_nothing_of_a_record_is_html() -> None:
    text = page(make.hostile(), make.team()).decode()
    found = Reader(text)
    assert "hacked" not in text
    assert "Atlas of bridges" not in text
    assert not [a for a in found.attributes if a[1].startswith("on") or a[1] in ("style", "src", "srcdoc")]
    assert {v for _, k, v in found.attributes if k == "href"} <= {f"#s-{name}" for name in re.findall(r'id="s-(\w+)"', text)}
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/2000/svg", "", text)
    for name, block in found.blocks.items():
        assert re.fullmatch(r'"[0-9A-Za-z!#$%()*+\-;=>?@^_{|}~,./]*"', block), name


def test_scripts_are_plain_files_without_markup_sinks() -> None:
    files = [f for f in resources.files("spanport.exporters.page").iterdir() if f.name.endswith(".js")]
    assert len(files) == 5
    for file in files:
        text = file.read_text("utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|fetch\(|XMLHttpRequest|import\(|</script", text
        ), file.name


def test_blocks_hold_every_span_and_its_content() -> None:
    trace = make.team()
    blocks = Reader(page(trace).decode()).blocks
    index = json.loads(opened(blocks["i0"]))
    lines = opened(blocks["c0-0"]).split(b"\n")
    ids = re.findall(".{16}", index["id"])
    assert sorted(ids) == sorted(s.id for s in trace.spans)
    assert len(lines) == len(ids)
    content = dict(zip(ids, map(json.loads, lines), strict=True))
    for span in trace.spans:
        if isinstance(span, ToolCall):
            assert content[span.id].get("a") == (json.loads(bytes(span.arguments)) if span.arguments else None)
        if isinstance(span, ModelRequest):
            assert [m[0] for m in content[span.id].get("m", [])] == [m.role for m in span.input_messages]
        assert [x[0] for x in content[span.id].get("S", [])] == [x.name for x in span.scores]
    about = json.loads(opened(blocks["page"]))["runs"][0]
    assert about["tokens"] == {
        "input": 1210 + 1388 + 980 + 2190,
        "output": 164 + 204 + 611 + 402,
        "cache_read": 1024 + 1210 + 1388,
        "reasoning": 88,
    }
    assert about["cost"] == pytest.approx(0.0121 + 0.0139 + 0.0222)


def test_numbers_keep_their_digits() -> None:
    blocks = Reader(page(make.hostile()).decode()).blocks
    lines = b"".join(opened(b) for name, b in blocks.items() if name.startswith("c"))
    assert b"[12345678901234567890,1.10,1e400,-0," in lines


def test_untyped_fields_only_with_carry() -> None:
    assert b"vendor_flags" not in opened(Reader(page(make.team()).decode()).blocks["c0-0"])
    assert b"vendor_flags" in opened(Reader(page(make.team(), carry=True).decode()).blocks["c0-0"])


def test_every_span_has_one_row_whatever_its_parent_says() -> None:
    trace = make.hostile()
    rows = [s for _, s in in_order(trace.spans)]
    assert len(rows) == len(trace.spans)
    assert {id(s) for s in rows} == {id(s) for s in trace.spans}
    # ids that many spans share must not multiply what is below them
    twins = [Run(id=f"{n // 2:016x}", trace_id="t", name="x", key=str(n), parent_id=f"{n // 2 - 1:016x}") for n in range(80)]
    assert sorted(id(s) for _, s in in_order(twins)) == sorted(map(id, twins))


def test_what_json_cant_hold_is_mended() -> None:
    assert json.loads(encode({"a": "x\ud800y", "b": 1 << 80})) == {"a": "x\ufffdy", "b": str(1 << 80)}


def sizes(trace: Trace) -> tuple[int, int]:
    """Bytes of the page, and of the smaller of gzipped OTLP protobuf and OTLP JSON without carry."""
    otlp = []
    for name in ("otlp-proto", "otlp-json"):
        out = io.BytesIO()
        spanport.write([trace], out, format=name, options=WriteOptions(carry=False))
        otlp.append(len(gzip.compress(out.getvalue())))
    return len(page(trace)), min(otlp)


@pytest.mark.parametrize("count", [1, 10_000])
def test_size(count: int) -> None:
    whole, otlp = sizes(make.long(count))
    assert whole <= 1.3 * otlp + 200_000


def test_size_of_what_does_not_compress() -> None:
    blob = base64.b64encode(random.Random(1).randbytes(3_000_000)).decode()
    trace = make.team()
    trace.spans.append(
        ModelRequest(
            id="e" * 16,
            trace_id=trace.header.id,
            name="m",
            key="blob",
            start=make.START,
            end=make.START,
            input_messages=[Message(role="user", parts=[BlobPart(modality="audio", content=blob, mime_type="audio/wav")])],
        )
    )
    whole, otlp = sizes(trace)
    assert whole <= 1.3 * otlp + 200_000


def test_long_content_is_in_many_blocks() -> None:
    blocks = Reader(page(make.long(3000)).decode()).blocks
    firsts = json.loads(opened(blocks["i0"]))["chunks"]
    chunks = [opened(blocks[f"c0-{n}"]) for n in range(len(firsts))]
    assert len(chunks) > 3
    assert all(len(c) <= CHUNK for c in chunks)
    assert [sum(c.count(b"\n") + 1 for c in chunks[:n]) for n in range(len(chunks))] == firsts


# ------------------------------------------------------------------------------------------------------- the command
def run_file(folder: Path, name: str = "run.spanport.jsonl", *traces: Trace) -> Path:
    path = folder / name
    with path.open("wb") as file:
        spanport.write(list(traces) or make.rich(), file, format="spanport")
    return path


def blocks_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(opened(Reader(path.read_text("utf-8")).blocks["page"]))
    return found


def test_view_writes_a_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(group, ["view", str(run_file(tmp_path)), "-o", str(tmp_path / "out" / "page.html")])
    assert result.exit_code == 0, result.output
    assert [r["name"] for r in blocks_of(tmp_path / "out" / "page.html")["runs"]] == [
        "Atlas of bridges",
        "bridges-mini, 3 tasks",
        "Atlas of rivers",
    ]
    assert not list(tmp_path.glob("out/*.tmp"))


def test_view_opens_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_urls: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", lambda url: opened_urls.append(url) or True)
    result = CliRunner().invoke(group, ["view", str(run_file(tmp_path))])
    assert result.exit_code == 0, result.output
    (url,) = opened_urls
    path = Path(url.removeprefix("file://"))
    assert path.stat().st_mode & 0o777 | path.parent.stat().st_mode & 0o077 == path.stat().st_mode & 0o777
    assert len(blocks_of(path)["runs"]) == 3


def test_view_says_where_the_page_is_without_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", lambda url: False)
    result = CliRunner().invoke(group, ["view", str(run_file(tmp_path))])
    assert result.exit_code == 0
    assert "no browser found; the page is " in result.output


def test_view_of_several_inputs_tells_what_was_lost(tmp_path: Path) -> None:
    good, bad = run_file(tmp_path, "good.jsonl", make.team()), run_file(tmp_path, "half.jsonl", make.benchmark())
    bad.write_bytes(bad.read_bytes() + b'{"kind": "run", "nonsense": \n')
    none = tmp_path / "none.json"
    none.write_text("{}")
    out = tmp_path / "page.html"
    result = CliRunner().invoke(group, ["view", str(good), str(bad), str(none), "-o", str(out)])
    assert result.exit_code == 3, result.output
    found = blocks_of(out)
    assert [r["input"] for r in found["runs"]] == ["good.jsonl", "half.jsonl"]
    ((severity, text, name),) = found["notices"]
    assert (severity, name) == ("lost", "half.jsonl")
    assert text.startswith("line ")
    assert str(tmp_path) not in json.dumps(found)


def test_view_of_nothing_leaves_what_is_there(tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text("before")
    none = tmp_path / "none.json"
    none.write_text("{}")
    result = CliRunner().invoke(group, ["view", str(none), "-o", str(out)])
    assert result.exit_code == 1
    assert out.read_text() == "before"


def test_notices_are_bounded() -> None:
    report = Report(input="x.jsonl")
    for n in range(5000):
        report.note("bad-line", "not JSON", "lost", line=n)
    found = json.loads(opened(Reader(page(make.team(), reports=[report]).decode()).blocks["page"]))["notices"]
    assert len(found) == 201
    assert found[-1][1] == "4,800 more are not listed here"


def test_secrets_are_redacted_as_in_export(tmp_path: Path) -> None:
    key = "sk-" + "a1B2" * 8
    trace = make.broken_off()
    trace.header.source["api_key"] = raw("hunter2hunter2")
    trace.spans.append(
        ToolCall(
            id="e" * 16,
            trace_id=trace.header.id,
            name="login",
            key="x",
            result=raw(f"Authorization: Bearer {key}"),
            source={"password": raw("swordfish")},
        )
    )
    source = run_file(tmp_path, "run.spanport.jsonl", trace)

    def shown(*options: str) -> tuple[bytes, dict[str, Any], str]:
        result = CliRunner().invoke(group, ["view", str(source), "-o", str(tmp_path / "p.html"), *options])
        assert result.exit_code == 0, result.output
        blocks = Reader((tmp_path / "p.html").read_text("utf-8")).blocks
        return b"".join(map(opened, blocks.values())), json.loads(opened(blocks["page"])), result.output

    everything, about, told = shown("--carry")
    assert key.encode() not in everything
    assert b"swordfish" not in everything
    assert about["redacted"] >= 2
    assert f"{about['redacted']} secrets redacted" in told
    everything, about, told = shown("--carry", "--no-redact")
    assert key.encode() in everything
    assert b"swordfish" in everything
    assert about["redacted"] is None
    everything, about, _ = shown("--no-redact", "--redact", "Torne")
    assert key.encode() in everything
    assert b"Torne" not in everything
    assert about["redacted"] == 1
    result = CliRunner().invoke(group, ["view", str(source), "--redact", "("])
    assert result.exit_code == 2
