"""The HTML file: head with the content security policy, style, blocks of data, script. Nothing of a record stands in it as HTML: records
are only in the blocks, which are compressed and written in an alphabet without ``<``, ``&`` and quotes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any, BinaryIO, Final

from ...converters.errors import Report, SpanportError, UsageError
from ...converters.inputs import inputs_of
from ...converters.model import Trace, TraceHeader
from ...converters.stages.redact import Redactor
from ..batch import Tally, alone
from ..file import Spared, replacing
from .pack import Packed, block, encode, pack

STYLE: Final = "page.css"
SCRIPTS: Final = ("data.js", "model.js", "tree.js", "panel.js", "app.js")
"""In this order; each is a plain script that sees the names of those before it."""

MOST_NOTICES: Final = 200


def part(name: str) -> str:
    """One of the page's own files."""
    return files(__package__).joinpath(name).read_text("utf-8")


def source_hash(text: str) -> str:
    """``text`` (what stands between the tags) as a source of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy(style: str, scripts: Sequence[str]) -> str:
    """Nothing may be loaded or run but the page's own style and scripts, told by their hashes, and images that are in the records."""
    return (
        f"default-src 'none'; script-src {' '.join(map(source_hash, scripts))}; style-src {source_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def element(name: str, data: bytes) -> bytes:
    """A block of data that the page's script finds by ``name``."""
    return b'<script type="application/json" id="%s">"%s"</script>\n' % (name.encode(), data)


def notices(reports: Iterable[Report], clean: Callable[[str], str]) -> list[list[Any]]:
    """What the readers had to say, as [severity, text, input]: no more than MOST_NOTICES, and the last one says how many more there are."""
    told = [
        [n.severity, clean(_without_folder(str(n).removeprefix(f"{n.input}: "), n.input)), PurePath(n.input or "").name]
        for r in reports
        for n in r.notices
        if n.severity != "info"
    ]
    more = sum(r.warnings for r in reports) - len(told[:MOST_NOTICES])
    return told[:MOST_NOTICES] + ([["warning", f"{more:,} more are not listed here", ""]] if more > 0 else [])


def _without_folder(text: str, input: str | None) -> str:
    """``text`` without the place on this machine where its input lies: a page is passed on."""
    folder = str(PurePath(input or "").parent)
    return text.replace(folder + "/", "") if len(folder) > 1 else text


def redacted(trace: Trace, redactor: Redactor) -> Trace:
    """The trace without secrets."""
    header, *spans = redactor.items([trace.header, *trace.spans])
    assert isinstance(header, TraceHeader)
    return Trace(header=header, spans=[s for s in spans if not isinstance(s, TraceHeader)])


class NothingToShow(SpanportError):
    """No input could be read: no page is written, and one that is there stays."""


def view(
    source: Any,
    out: BinaryIO | Path | str,
    *,
    format: str | None = None,
    carry: bool = False,
    redact: Sequence[str] = (),
    builtin_redaction: bool = True,
    tally: Tally | None = None,
) -> int:
    """Write the page that shows ``source`` (see `spanport.export`) to ``out``, and return how many secrets were taken out of it. ``redact``: expressions, on top of the built-in
    list. ``tally``: how the inputs went; without one an input that can't be read raises ReadError. NothingToShow when there is nothing to put on the page."""
    tally = tally or alone()
    reports: list[Report] = []
    redactor = Redactor(redact, builtin=builtin_redaction) if redact or builtin_redaction else None
    inputs = inputs_of(source, format)
    if isinstance(out, str | Path) and out in Spared(one.name for one in inputs):
        raise UsageError(f"{out} is an input; the page needs another name")

    def page(file: BinaryIO) -> None:
        with tally:
            found = tally.traces(inputs, format, reports)
            if not write(((trace, str(one)) for trace, one in found), file, reports=reports, carry=carry, redactor=redactor):
                raise NothingToShow("nothing to show")

    if isinstance(out, str | Path):
        with replacing(out) as file:
            page(file)
    else:
        page(out)
    return redactor.count if redactor is not None else 0


def write(
    traces: Iterable[tuple[Trace, str] | Trace],
    out: BinaryIO,
    *,
    reports: Sequence[Report] = (),
    carry: bool = False,
    redactor: Redactor | None = None,
) -> int:
    """Write the page for ``traces`` (each with the name of its input, if there is one) to the binary file ``out``, one trace at a time, and return
    how many there were. ``reports``: what the readers have to say, asked when the last trace is written. ``carry``: with the fields of the
    record that have no typed home. ``redactor`` takes secrets out of everything; None takes nothing out."""
    style, scripts = part(STYLE), [part(name) for name in SCRIPTS]
    head, rest = part("page.html").split("<!-- style -->")
    body, tail = rest.split("<!-- data -->")
    out.write(head.replace("POLICY", policy(style, scripts)).encode())
    out.write(f"<style>{style}</style>{body}".encode())
    runs: list[dict[str, Any]] = []
    for given in traces:
        trace, name = given if isinstance(given, tuple) else (given, "")
        if redactor is not None:
            trace = redacted(trace, redactor)
        packed: Packed = pack(trace, carry)
        out.write(element(f"i{len(runs)}", packed.rows))
        for number, chunk in enumerate(packed.chunks):
            out.write(element(f"c{len(runs)}-{number}", chunk))
        runs.append({**packed.facts, "input": PurePath(name).name or name})
    page = {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": runs,
        "notices": notices(reports, redactor.text if redactor is not None else str),
        "redacted": redactor.count if redactor is not None else None,
        "carry": carry,
    }
    out.write(element("page", block(encode(page))))
    for script in scripts:
        out.write(f"<script>{script}</script>\n".encode())
    out.write(tail.encode())
    return len(runs)
