"""``spanport check``: what `spanport.check` found, in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click

from ..converters.text import printable
from ..exporters.batch import Batch
from ..exporters.check import CLOCKS, NOTES, ODD, Checked, check
from ..exporters.terminal import WORDS
from . import output
from .common import batch, from_format, runs, tally, usage


@click.command(
    "check",
    epilog="""\b
Examples:
  spanport check RUN
  spanport check --to otlp-json --fail-on-loss RUN
  spanport check --json runs/ | jq 'select(.lost > 0)'
""",
)
@runs
@from_format
@batch()
@click.option("--to", metavar="FORMAT", shell_complete=output.format_names, help="Tell also what would be lost on the way to this format.")
@click.option("--carry/--no-carry", default=True, help="With --to: whether the target's open field keeps what it can't say.")
@click.option("--fail-on-loss", is_flag=True, help="Exit status 4 when the target would not hold everything.")
@click.option("--fail-on-odd", is_flag=True, help="Exit status 4 when anything is odd about the record.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an input, a line each.")
def command(
    runs: tuple[str, ...],
    from_: str | None,
    batch: Batch,
    to: str | None,
    carry: bool,
    fail_on_loss: bool,
    fail_on_odd: bool,
    as_json: bool,
) -> None:
    """Is it readable, which format and version, what is odd (with line and JSON path), how good its clocks are, which calls are unpaired,
    and with --to what would be lost.

    Exit status: 0 readable as a whole, 1 nothing is, 3 a part is, 4 see --fail-on-loss and --fail-on-odd.
    """
    account = tally(batch)
    with usage():
        for found in check(runs, format=from_, to=to, carry=carry, tally=account):
            account.forbidden |= (fail_on_loss and found.dropped > 0) or (fail_on_odd and bool(set(found.odd) - NOTES or found.warnings))
            if as_json:
                click.echo(json.dumps(found.as_dict(), ensure_ascii=False))
            else:
                for line in _lines(found):
                    click.echo(output.folded(printable(line), 14))
    sys.exit(account.status())


def _lines(found: Checked) -> Iterator[str]:
    state = "readable" if not found.lost else f"readable in part ({found.lost:,} lost)"
    families = [f for f in found.families if f != found.format]  # who wrote it, where the format does not say
    yield f"{found.input}: {', '.join([found.format, *families])}: {state}"
    if found.why:
        yield f"  recognised  {found.why}"
    if found.versions:
        yield f"  version     {', '.join(f'{k} {v}' for k, v in found.versions.items())}"
    counts = ", ".join(f"{WORDS[k]} {n:,}" for k, n in sorted(found.spans.items(), key=lambda p: list(WORDS).index(p[0])))
    yield f"  spans       {counts or 'none'}{f' in {found.traces:,} traces' if found.traces != 1 else ''}"
    for clock in CLOCKS:
        kinds = {WORDS[k]: n for k, by in found.clocks.items() if (n := by.get(clock))}
        if kinds:
            yield f"  {clock:11} {', '.join(f'{k} {n:,}' for k, n in kinds.items())}"
    for code, odd in found.odd.items():
        yield f"  {'note' if code in NOTES else 'odd':11} {odd.count:,} {ODD[code]}" + (f" ({odd.example})" if odd.example else "")
    shown = [n for n in found.first if output.level > 0 or n.severity != "info"]
    for notice in shown:
        yield f"  {'note' if notice.severity == 'info' else notice.severity:11} {str(notice).removeprefix(found.input + ': ')}"
    if (more := sum(found.notices.values()) - len(shown)) > 0:
        yield f"  more        {more:,} notices: " + ", ".join(f"{code} {n:,}" for code, n in found.notices.items())
    if found.target is not None:
        fates: dict[str, int] = {}
        for x in found.losses:
            fates[x.fate] = fates.get(x.fate, 0) + x.count
        told = ", ".join(f"{n:,} {fate}" for fate, n in fates.items()) or "nothing lost"
        yield f"  to {found.target}: {told}"
        for x in found.losses:
            if x.fate == "dropped" or output.level > 0:
                yield f"    {x.fate:9} {x.count:>7,} × {x.field}" + (f" ({x.reason})" if x.reason else "")
