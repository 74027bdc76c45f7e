"""``spanport convert``: `spanport.convert_all`, and its loss report."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ..converters.errors import Report
from ..converters.stages.content import Content
from ..exporters.batch import Batch
from ..exporters.converting import convert_all
from ..exporters.file import replacing
from .common import batch, from_format, resume, runs, say, tally, usage
from .output import format_names

FATES = ("dropped", "carried", "derived", "mapped")


@click.command(
    "convert",
    epilog="""\b
Examples:
  spanport convert RUN --to otlp-json -o run.otlp.jsonl
  spanport convert RUN --to runartifacts -o - --no-carry
  spanport convert runs/ --to spanport -o converted/ --report
  spanport convert RUN --to atif -o t.json --fail-on-loss --report-json loss.json
""",
)
@runs
@from_format
@batch()
@resume
@click.option(
    "--to", metavar="FORMAT", required=True, shell_complete=format_names, help="The format to write (spanport formats lists them)."
)
@click.option(
    "-o", "--output", metavar="OUT", help="A file; a folder (for several inputs, or a target of several files); - for standard output."
)
@click.option(
    "--carry/--no-carry", default=True, help="Keep what the target can't say in its open field, so that nothing is lost on the way back."
)
@click.option("--report", is_flag=True, help="Tell by field what was mapped, carried, derived and dropped, and why.")
@click.option("--report-json", metavar="FILE", help="The same as JSON, one object an input.")
@click.option("--fail-on-loss", is_flag=True, help="Exit status 4 when something is dropped.")
@click.option(
    "--content", type=click.Choice(["full", "metadata", "none"]), default="full", help="How much of messages and results is written (full)."
)
@click.option("--redact", metavar="REGEX", multiple=True, help="Take out what matches, and the built-in list of secrets.")
@click.option("--redact-secrets", is_flag=True, help="Take out the built-in list of secrets alone.")
def command(
    runs: tuple[str, ...],
    from_: str | None,
    batch: Batch,
    resume: bool,
    to: str,
    output: str | None,
    carry: bool,
    report: bool,
    report_json: str | None,
    fail_on_loss: bool,
    content: Content,
    redact: tuple[str, ...],
    redact_secrets: bool,
) -> None:
    """Write runs in another format. Without -o, one input goes to standard output.

    What the target can't say is carried in its open field (--no-carry leaves it out); converting back gives the same record.
    """
    account = tally(batch)
    done: list[tuple[str, Report]] = []
    several = False
    with usage():
        for one in convert_all(
            runs,
            output,
            to=to,
            format=from_,
            carry=carry,
            account=report or report_json is not None,
            forbid_loss=fail_on_loss,
            content=content,
            redact=redact if redact or redact_secrets else None,
            resume=resume,
            tally=account,
        ):
            several = one.several
            if one.where is not None:
                say(f"wrote {one.where}", least=several)
            if report:
                for line in lines(one.report, str(one.input)):
                    say(line)
            if report_json is not None:
                done.append((str(one.input), one.report))
    if report_json is not None:
        with replacing(Path(report_json)) as file:
            for name, told in done:
                file.write(json.dumps({"input": name, "to": to, **as_dict(told)}).encode() + b"\n")
    if output not in (None, "-") and (summary := account.summary()) is not None:
        say(f"{output}: {summary}")
    sys.exit(account.status())


def as_dict(report: Report) -> dict[str, Any]:
    """A loss report: how many values met which fate, and the fields."""
    found = sorted(report.losses.values(), key=lambda x: (FATES.index(x.fate), -x.count, x.field))
    totals = {fate: sum(x.count for x in found if x.fate == fate) for fate in FATES}
    return {"totals": totals, "fields": [{"field": x.field, "fate": x.fate, "count": x.count, "reason": x.reason} for x in found]}


def lines(report: Report, name: str) -> Iterator[str]:
    """A loss report as text."""
    found = as_dict(report)
    yield f"{name}: " + ", ".join(f"{n:,} {fate}" for fate, n in found["totals"].items() if n)
    for x in found["fields"]:
        yield f"  {x['fate']:8} {x['count']:>8,}  {x['field']}" + (f"  ({x['reason']})" if x["reason"] else "")
