"""``spanport convert``: a thin skin over `spanport.converters.convert`."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from ..converters import registry
from ..converters.convert import Stage, convert
from ..converters.errors import Report, SpanportError, UsageError
from ..converters.source import is_url, shown_url
from ..converters.stages.choose import choose
from ..exporters.file import replacing
from .common import (
    Account,
    Batch,
    Input,
    Inputs,
    NotARun,
    Outcome,
    Resume,
    absolute,
    batch,
    from_format,
    open_source,
    resume,
    runs,
    say,
    shares,
    usage,
)
from .output import format_names

JOINED = ("otlp-json", "otlp-proto")
"""Formats whose files, one after the other, are one file: an input may be converted in shares."""
FATES = ("dropped", "carried", "derived", "mapped")


@dataclass(frozen=True)
class Plan:
    """What is done with each input. ``into``: a folder for one output an input; ``file``: the one output; neither: standard output."""

    to: str
    from_: str | None
    carry: bool
    account: bool
    content: str
    redact: tuple[str, ...] | None
    file: str | None
    into: str | None
    parquet: bool = False
    parts: str | None = None
    """A folder for the shares of an input that is divided; they come back as bytes without one."""
    remote: bool = False
    """Another machine may do it: what is for standard output has to come back."""


def _stages(plan: Plan) -> list[Stage]:
    found: list[Stage] = []
    if plan.content != "full":
        from ..converters.stages.content import content

        found.append(partial(content, level=plan.content))  # type: ignore[arg-type]
    if plan.redact is not None:
        from ..converters.stages.redact import redact

        found.append(partial(redact, more=plan.redact))
    return found


def _work(plan: Plan, one: Input, report: Report) -> tuple[str | None, bytes]:
    """Convert one input; (where it was written, or None and the bytes)."""
    source = open_source(one)
    report.input = source.name
    if one.found and not [f for f, _ in registry.candidates(registry.probe(source)) if plan.from_ in (None, f.name)]:
        raise NotARun(source.name)
    target = registry.get(plan.to)

    def run(out: Any, folder: Path | None = None) -> None:
        convert(
            open_source(one) if folder is not None and one.name != "-" else source,
            out,
            to=plan.to,
            from_=plan.from_,
            carry=plan.carry,
            report=report,
            stages=[*([partial(choose, choice=one.choice)] if one.choice else []), *_stages(plan)],
            folder=folder,
            account=plan.account,
            extra={"parquet": True} if plan.parquet else None,
            options=registry.ReadOptions(share=one.share) if one.share is not None else None,
        )

    if one.share is not None:
        if plan.parts is None:
            out = io.BytesIO()
            run(out)
            return None, out.getvalue()
        with tempfile.NamedTemporaryFile(dir=plan.parts, delete=False) as part:
            run(part)
        return part.name, b""

    if plan.file is None and plan.into is None:
        held = io.BytesIO()
        if plan.carry or plan.account or plan.remote:
            run(held)
        else:
            run(sys.stdout.buffer)
        return None, held.getvalue()
    where = f"{plan.into.rstrip('/')}/{one.output(target.suffix)}" if plan.into is not None else str(plan.file)
    if is_url(where):
        with replacing(where) as file:
            run(file)
        return shown_url(where), b""
    path = Path(where)
    folder = path.with_name(path.name[: -len(target.suffix)]) if plan.into is not None else path
    if plan.into is None and path.is_dir():
        run(io.BytesIO(), folder)
        return str(folder), b""
    try:
        with replacing(path) as file:
            run(file)
    except UsageError:
        if folder.exists() and not folder.is_dir():
            raise
        run(io.BytesIO(), folder)
        return str(folder), b""
    return str(path), b""


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
@batch
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
    content: str,
    redact: tuple[str, ...],
    redact_secrets: bool,
) -> None:
    """Write runs in another format. Without -o, one input goes to standard output.

    What the target can't say is carried in its open field (--no-carry leaves it out); converting back gives the same record.
    """
    account = Account(batch)
    with usage(), account, ExitStack() as stack:
        target = registry.get(to)
        if target.writer is None:
            raise UsageError(f"{to} is read only")
        inputs = Inputs(runs, from_)
        if output == "":
            raise UsageError("-o is empty (a variable that is not set?)")
        several = _several(inputs)
        to_folder = output not in (None, "-") and (
            several or str(output).endswith("/") or (Path(str(output)).is_dir() and not _one_folder(inputs))
        )
        if several and not to_folder:
            raise UsageError("several inputs need -o FOLDER")
        if resume and not to_folder:
            raise UsageError("--resume needs -o FOLDER")
        remote = batch.engine != "local"
        if resume and is_url(str(output)):
            raise UsageError("--resume needs a folder on disk, not a URL")
        if to_folder and not is_url(str(output)):
            writable(str(output))
            inputs = inputs.into(str(output), target.suffix)
        if output is not None and remote and output != "-":
            output = absolute(output)
        plan = Plan(
            to=to,
            from_=from_,
            carry=carry,
            account=report or report_json is not None or fail_on_loss,
            content=content,
            redact=redact if redact or redact_secrets else None,
            file=None if to_folder or output in (None, "-") else output,
            into=output if to_folder else None,
            remote=remote,
            parquet=to == "table" and str(output).endswith((".parquet", ".pq")),
        )
        done: list[tuple[str, Report]] = []
        if to in JOINED and not remote:
            plan = replace(plan, parts=stack.enter_context(tempfile.TemporaryDirectory(prefix="spanport-")))
        divide = partial(shares, from_) if to in JOINED and not plan.account else None
        for outcome in account.each(partial(_work, plan), inputs, resume=_resume(plan, batch.strict) if resume else None, divide=divide):
            if outcome.error is not None:
                continue  # a share of it is missing
            where, data = outcome.results[0]
            if outcome.more:
                where = _joined(plan, outcome)
            elif where is None:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            if where is not None:
                say(f"wrote {where}", least=several)
            if plan.account:
                if fail_on_loss and any(x.fate == "dropped" for x in outcome.report.losses.values()):
                    account.forbidden, outcome.digest = True, None  # not done: --resume comes back to it
                if report:
                    for line in lines(outcome.report, str(outcome.input)):
                        say(line)
                done.append((str(outcome.input), outcome.report))
        if report_json is not None:
            with replacing(Path(report_json)) as file:
                for name, one in done:
                    file.write(json.dumps({"input": name, "to": to, **as_dict(one)}).encode() + b"\n")
        if to_folder and (summary := account.summary()) is not None:
            say(f"{output}: {summary}")
    sys.exit(account.status())


def _joined(plan: Plan, outcome: Outcome[tuple[str | None, bytes]]) -> str | None:
    """The shares of one input one after the other: where they were written, None for standard output."""
    target = f"{plan.into.rstrip('/')}/{outcome.input.output(registry.get(plan.to).suffix)}" if plan.into is not None else plan.file

    def copy(out: BinaryIO) -> None:
        for name, data in outcome.results:
            if name is None:
                out.write(data)
                continue
            with open(name, "rb") as part:
                shutil.copyfileobj(part, out, 1 << 20)
            os.unlink(name)

    if target is None:
        copy(sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return None
    with replacing(target) as file:
        copy(file)
    return target


def writable(folder: str) -> None:
    """Make the folder of outputs. SpanportError when nothing can be put there, said once and not for each input."""
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise SpanportError(f"{folder} can't be written: {error.strerror}") from error


def _several(inputs: Inputs) -> bool:
    return sum(1 for _, _ in zip(range(2), inputs, strict=False)) > 1


def _one_folder(inputs: Inputs) -> bool:
    """Whether the one input is a folder: then a folder as the output is that of its record."""
    one = next(iter(inputs), None)
    return one is not None and (one.folder or Path(one.name).is_dir())


def _resume(plan: Plan, strict: bool) -> Resume:
    from .. import __version__

    assert plan.into is not None
    folder = Path(plan.into)
    # All of the plan but where it goes, and what tells of it (a loss that is asked for has to be looked for).
    settings = repr([__version__, replace(plan, file=None, into=None, parts=None, remote=False), strict])
    return Resume(folder / ".spanport-done", settings, folder, registry.get(plan.to).suffix)


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
