"""The functions behind the commands, called as a program does: what they give, what they raise, and what a tally of theirs says.

Expectations are those of the command line's tests and of `fixtures/cli/README.md`, which counts the spans of bench by hand.
"""

import io
import json
import sys
from pathlib import Path

import pytest
import spanport
from spanport.cli import COMMANDS, run

FIXTURES = Path(__file__).parent.parent / "fixtures"
BENCH = FIXTURES / "cli" / "bench.spanport.jsonl"
NEXT_DAY = FIXTURES / "cli" / "bench-next-day.spanport.jsonl"
SPANS = {"run": 1, "task": 2, "attempt": 3, "phase": 3, "model_request": 5, "tool_call": 3}
BEHIND = {
    "show": "show",
    "export": "export",
    "resend": "resend",
    "convert": "convert_all",
    "check": "check",
    "stats": "stats",
    "view": "view",
    "diff": "diff",
    "artifacts": "list_artifacts",
    "formats": "formats",
    "schema": "json_schema",
}


class Heard(spanport.Voice):
    """A voice that writes down what it is told."""

    lines: list[str] = []

    def say(self, text: str, least: int = 0) -> None:
        if self.level >= least:
            self.lines.append(text)

    def complain(self, text: str) -> None:
        self.lines.append(f"error: {text}")


@pytest.fixture
def voice() -> Heard:
    heard = Heard(level=0)
    heard.lines.clear()
    return heard


def test_every_command_has_a_public_function():
    assert set(COMMANDS) - {"completion"} == set(BEHIND)
    for name in BEHIND.values():
        assert name in spanport.__all__
        assert callable(getattr(spanport, name))


def test_stats_of_a_file_a_list_and_a_trace():
    assert {k: spanport.stats(BENCH).spans[k] for k in SPANS} == SPANS
    assert spanport.stats([str(BENCH), NEXT_DAY]).inputs == 2
    assert spanport.stats(spanport.read(BENCH)).spans == spanport.stats(BENCH).spans
    assert spanport.stats(spanport.stream(BENCH)).spans == spanport.stats(BENCH).spans
    assert spanport.stats(BENCH.read_bytes()).spans == spanport.stats(BENCH).spans
    with BENCH.open("rb") as file:
        assert spanport.stats(file).spans == spanport.stats(BENCH).spans


def test_without_a_tally_what_cannot_be_read_raises(tmp_path):
    for call in (
        spanport.stats,
        lambda s: list(spanport.check(s)),
        lambda s: spanport.diff(s, s),
        lambda s: list(spanport.convert_all(s, to="spanport")),
    ):
        with pytest.raises(spanport.ReadError, match="absent"):
            call(tmp_path / "absent")


def test_a_tally_counts_what_cannot_be_read_and_goes_on(tmp_path, voice):
    tally = spanport.Tally(voice=voice)
    totals = spanport.stats([tmp_path / "absent", BENCH], tally=tally)
    assert totals.spans["task"] == 2
    assert (tally.done, tally.failed, tally.status()) == (1, 1, 3)
    assert [line for line in voice.lines if "absent" in line and line.startswith("error: ")]


def test_a_tally_keeps_bad_records(tmp_path, voice):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(BENCH.read_bytes().replace(b"\n", b"\n{broken\n", 1))
    errors = tmp_path / "errors.jsonl"
    spanport.stats(bad, tally=spanport.Tally(spanport.Batch(jobs=1, errors=str(errors)), voice=voice))
    assert "{broken" in errors.read_text()


def test_a_tally_keeps_bad_items_of_a_document(tmp_path):
    chat = tmp_path / "chat.json"
    chat.write_text('{"messages":[{"role":"user","content":"a"},{"no": "message"},{"role":"assistant","content":"b"}]}')
    errors = tmp_path / "errors.jsonl"
    spanport.stats(chat, tally=spanport.Tally(spanport.Batch(jobs=1, errors=str(errors))))
    (kept,) = [json.loads(line) for line in errors.read_text().splitlines()]
    assert (kept["path"], kept["record"]) == ("$.messages[1]", '{"no": "message"}')
    trajectory = tmp_path / "t.atif.json"
    trajectory.write_text(
        '{"schema_version":"ATIF-v1.6","session_id":"s","agent":{"name":"a","version":"1"},'
        '"steps":[{"step_id":1,"source":"user","message":"x"}],"subagent_trajectories":[{"no":"steps"}]}'
    )
    spanport.stats(trajectory, tally=spanport.Tally(spanport.Batch(jobs=1, errors=str(errors))))
    (kept,) = [json.loads(line) for line in errors.read_text().splitlines()]
    assert (kept["path"], kept["record"]) == ("$.subagent_trajectories[0]", '{"no":"steps"}')


def test_check():
    (found,) = spanport.check(BENCH, to="otlp-json")
    assert (found.format, found.lost, found.target) == ("spanport", 0, "otlp-json")
    assert {k: found.spans[k] for k in SPANS} == SPANS
    with pytest.raises(spanport.UsageError):
        list(spanport.check(BENCH, to="nothing"))


def test_show_writes_a_line_a_span():
    lines: list[str] = []
    spanport.show(BENCH, write=lines.append)
    kinds = [line.split()[0] for line in lines if line.split()]
    assert {word: kinds.count(word) for word in ("task", "attempt", "phase", "request", "tool")} == {
        "task": 2,
        "attempt": 3,
        "phase": 3,
        "request": 5,
        "tool": 3,
    }


def test_diff_of_two_and_of_parts():
    assert {pair.sign for pair in spanport.diff(BENCH, BENCH).pairs} == {" "}
    changed = spanport.diff(str(BENCH), str(NEXT_DAY))
    assert {pair.sign for pair in changed.pairs} - {" "}
    part = spanport.diff(f"{BENCH}#task=quito&attempt=1", f"{BENCH}#task=quito&attempt=2")
    assert part.a.spans["attempt"] == part.b.spans["attempt"] == 1
    with pytest.raises(spanport.UsageError, match="colour"):
        spanport.diff(f"{BENCH}#colour=1", BENCH)


def test_view(tmp_path):
    spanport.view(BENCH, tmp_path / "page.html")
    out = io.BytesIO()
    spanport.view(spanport.read(BENCH), out)
    for page in ((tmp_path / "page.html").read_bytes(), out.getvalue()):
        assert page.startswith(b"<!doctype html")
        assert page.rstrip().endswith(b"</html>")
    tally = spanport.Tally()
    with pytest.raises(spanport.SpanportError, match="nothing to show"):
        spanport.view(tmp_path / "absent", tmp_path / "none.html", tally=tally)
    assert not (tmp_path / "none.html").exists()
    assert tally.failed == 1


def test_convert_all_keeps_the_tree(tmp_path):
    for name in ("a/run.jsonl", "b/run.jsonl"):
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / name).write_bytes(BENCH.read_bytes())
    done = list(spanport.convert_all(tmp_path / "in", str(tmp_path / "out"), to="otlp-json", tally=spanport.Tally()))
    assert [one.input.relative for one in done] == ["a/run.jsonl", "b/run.jsonl"]
    for one in done:
        assert one.where is not None
        assert spanport.stats(one.where).spans == spanport.stats(BENCH).spans
    with pytest.raises(spanport.UsageError, match="folder"):
        list(spanport.convert_all(tmp_path / "in", to="otlp-json"))


def test_a_table_is_no_spreadsheet(tmp_path):
    with pytest.raises(spanport.UsageError, match="CSV"):
        list(spanport.convert_all(BENCH, str(tmp_path / "t.xlsx"), to="table"))


def test_diff_numbers_spans_as_their_own_run_does(tmp_path):
    """A has four calls of one name, B has two of them and one of its own: no path names a fifth."""
    from spanport.converters.model import Run, ToolCall, Trace, TraceHeader

    def made(*arguments: str) -> list[Trace]:
        trace = "0" * 31 + "1"
        calls = [
            ToolCall(id=f"{i:016x}", trace_id=trace, name="bash", key=a, parent_id="f" * 16, call_id=a, start=i, end=i + 1)
            for i, a in enumerate(arguments)
        ]
        root = Run(id="f" * 16, trace_id=trace, name="run", key="run", start=0, end=9)
        return [Trace(header=TraceHeader(id=trace, family="x", format="spanport", run_key=["1"]), spans=[root, *calls])]

    pairs = list(spanport.diff(made("a", "b", "c", "d"), made("a", "x", "d")).pairs)
    numbers = [(p.sign, p.path.rpartition("[")[2].rstrip("]")) for p in pairs[1:]]
    assert {n for _, n in numbers} <= {"1", "2", "3", "4"}
    assert [n for sign, n in numbers if sign != "+"] == ["1", "2", "3", "4"]


def test_export_to_files_and_its_account(tmp_path, voice):
    found = spanport.export(BENCH, output=f"{tmp_path}/", tally=spanport.Tally(voice=voice))
    assert (found.accepted, found.balanced, found.status()) == (sum(SPANS.values()), True, 0)
    assert spanport.stats(tmp_path / "bench.otlp.jsonl").spans == spanport.stats(BENCH).spans
    assert voice.lines == [f"wrote {tmp_path / 'bench.otlp.jsonl'}"]
    dry = spanport.export(BENCH, output=str(tmp_path / "none.jsonl"), dry_run=True)
    assert dry.census
    assert not (tmp_path / "none.jsonl").exists()
    failed = spanport.export(tmp_path / "absent", output=str(tmp_path / "none.jsonl"), tally=spanport.Tally())
    assert (failed.status(), failed.inputs.failed) == (1, 1)
    with pytest.raises(spanport.ReadError, match="absent"):
        spanport.export(tmp_path / "absent", output=str(tmp_path / "none.jsonl"))
    assert not (tmp_path / "none.jsonl").exists()


def test_export_to_a_url():
    fsspec = pytest.importorskip("fsspec")
    found = spanport.export(BENCH, output="memory://exported/o.otlp.jsonl")
    with fsspec.open("memory://exported/o.otlp.jsonl", "rb") as file:
        assert spanport.stats(file).spans == spanport.stats(BENCH).spans
    assert found.accepted == sum(SPANS.values())


def test_export_of_items_that_a_program_makes(tmp_path):
    """A stream that is filtered on its way, without a list of it."""
    kept = (item for item in spanport.stream(BENCH) if not isinstance(item, spanport.ToolCall))
    found = spanport.export(kept, output=str(tmp_path / "o.otlp.jsonl"))
    assert found.accepted == sum(SPANS.values()) - SPANS["tool_call"]


def test_export_refuses_options_that_exclude_each_other(tmp_path):
    for wrong in ({"follow": True, "select": ("status=error",)}, {"profile": "nowhere"}, {"verify": True}, {"scores": True}):
        with pytest.raises(spanport.UsageError):
            spanport.export(BENCH, output=str(tmp_path / "o"), **wrong)
    with pytest.raises(TypeError):
        spanport.export(BENCH, output=str(tmp_path / "o"), colour="red")


def test_resend_of_an_empty_spool(tmp_path):
    assert list(spanport.resend(tmp_path)) == []


def test_a_library_prints_nothing(tmp_path, capfd):
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(BENCH.read_bytes().replace(b"\n", b"\n{broken\n", 1))
    spanport.stats(bad)
    spanport.export(bad, output=str(tmp_path / "o.otlp.jsonl"))
    list(spanport.check(bad))
    list(spanport.convert_all(bad, str(tmp_path / "c"), to="spanport"))
    spanport.export(tmp_path / "absent", output=str(tmp_path / "o2.jsonl"), tally=spanport.Tally())
    assert capfd.readouterr() == ("", "")


def test_check_of_standard_input_reads_it_once_for_both(monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BENCH.read_bytes())))
    assert run(["check", "-", "--to", "otlp-json"]) == 0
    assert "to otlp-json" in capfd.readouterr().out
