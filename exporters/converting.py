"""Inputs in another format: one or many, each by `spanport.converters.convert`, in several processes where it is worth it."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ..converters import registry
from ..converters.convert import Stage, convert
from ..converters.errors import ReadError, Report, SpanportError, UsageError
from ..converters.inputs import Input, Inputs, absolute, inputs_of, open_input, recognised, shares
from ..converters.source import is_url, shown_url
from ..converters.stages.choose import choose
from .batch import Outcome, Resume, Tally, alone
from .file import Spared, replacing
from .parts import Part, join, keep

if TYPE_CHECKING:
    from ..converters.stages.content import Content

JOINED: Final = ("otlp-json", "otlp-proto")
"""Formats whose files, one after the other, are one file: an input may be converted in shares."""

_SHEETS: Final = (".xlsx", ".xls", ".ods")
"""What no writer here makes, and what a CSV of that name would not be."""


class Converted(Struct):
    """One input in another format. ``where``: the file or folder that was written; None for standard output. ``several``: there are others. ``report``: what was odd, and what
    was lost on the way, by field, where that was asked for."""

    input: Input
    where: str | None
    report: Report
    several: bool


def convert_all(
    source: Any,
    output: str | None = None,
    *,
    to: str,
    format: str | None = None,
    carry: bool = True,
    account: bool = False,
    forbid_loss: bool = False,
    content: Content = "full",
    redact: Sequence[str] | None = None,
    resume: bool = False,
    tally: Tally | None = None,
) -> Iterator[Converted]:
    """Write each input of ``source`` (see `spanport.export`) in the format ``to``; they are converted while this is iterated over.

    ``output``: a file; a folder (one that is there, with / at its end, or for several inputs), where outputs lie as the inputs do; - or None for standard output.
    ``account``: work out what became of each field. ``forbid_loss``: the tally's status says when something was dropped. ``redact``: expressions, and the built-in list
    of secrets; None takes nothing out. ``resume``: skip inputs whose output in the folder is there from an earlier call. ``tally``: how the inputs went; without one an
    input that can't be read raises ReadError. UsageError for what does not go together."""
    tally = tally or alone()
    target, batch = registry.get(to), tally.batch
    if target.writer is None:
        raise UsageError(f"{to} is read only")
    if output == "":
        raise UsageError("the output is empty (a variable that is not set?)")
    if to == "table" and str(output).endswith(_SHEETS):
        raise UsageError(f"{output}: a table is written as CSV, or as Parquet to a name that ends in .parquet")
    inputs = inputs_of(source, format)
    several = len(list(islice(iter(inputs), 2))) > 1
    into = _folder(inputs, output, several)
    if several and into is None:
        raise UsageError("several inputs need an output folder (-o FOLDER)")
    if resume and (into is None or is_url(into)):
        raise UsageError("--resume needs an output folder (-o FOLDER) on disk")
    if into is not None and not is_url(into):
        _writable(into)
        inputs = inputs.into(into, target.suffix) if isinstance(inputs, Inputs) else inputs
    remote = batch.engine != "local"
    file = None if into is not None or output in (None, "-") else output
    plan = Plan(
        to=to,
        format=format,
        carry=carry,
        account=account or forbid_loss,
        content=content,
        redact=tuple(redact) if redact is not None else None,
        file=absolute(file) if remote and file is not None else file,
        into=absolute(into) if remote and into is not None else into,
        remote=remote,
        parquet=to == "table" and str(output).endswith((".parquet", ".pq")),
    )
    with tally, ExitStack() as stack:
        if to in JOINED and not remote:
            plan = replace(plan, parts=stack.enter_context(tempfile.TemporaryDirectory(prefix="spanport-")))
        divide = partial(shares, format) if to in JOINED and not plan.account else None
        for outcome in tally.each(partial(_work, plan), inputs, resume=_resume(plan, batch.strict) if resume else None, divide=divide):
            if outcome.error is not None:
                continue  # a share of it is missing
            where = _placed(plan, outcome)
            if forbid_loss and any(x.fate == "dropped" for x in outcome.report.losses.values()):
                tally.forbidden, outcome.digest = True, None  # not done: resuming comes back to it
            yield Converted(outcome.input, where, outcome.report, several)


def _folder(inputs: Iterable[Input], output: str | None, several: bool) -> str | None:
    """``output`` when it is a folder for outputs of inputs; None for a file, or for the folder of one record that is a folder itself."""
    if output is None or output == "-":
        return None
    if several or output.endswith("/"):
        return output
    one = next(iter(inputs), None)
    whole = one is not None and (one.folder or Path(one.name).is_dir())
    return output if Path(output).is_dir() and not whole else None


@dataclass(frozen=True)
class Plan:
    """What is done with each input. ``into``: a folder for one output an input; ``file``: the one output; neither: standard output."""

    to: str
    format: str | None
    carry: bool
    account: bool
    content: Content
    redact: tuple[str, ...] | None
    file: str | None
    into: str | None
    parquet: bool = False
    parts: str | None = None
    """A folder for the shares of an input that is divided; they come back as bytes without one."""
    remote: bool = False
    """Another machine may do it: what is for standard output has to come back."""

    def place(self, one: Input) -> str | None:
        """Where the output of ``one`` goes; None for standard output."""
        return self.file if self.into is None else f"{self.into.rstrip('/')}/{one.output(registry.get(self.to).suffix)}"


def _stages(plan: Plan) -> list[Stage]:
    found: list[Stage] = []
    if plan.content != "full":
        from ..converters.stages.content import content

        found.append(partial(content, level=plan.content))
    if plan.redact is not None:
        from ..converters.stages.redact import redact

        found.append(partial(redact, more=plan.redact))
    return found


def _work(plan: Plan, one: Input, report: Report) -> Part:
    """Convert one input; (where it was written, or None and the bytes)."""
    source = open_input(one)
    report.input = source.name
    recognised(one, source, plan.format)
    where = plan.place(one)
    if where is not None and where in Spared([one.name]):
        raise ReadError("would be replaced by its own output", input=source.name, hint="give another with -o")

    def run(out: Any, folder: Path | None = None) -> None:
        convert(
            open_input(one) if folder is not None and one.name != "-" else source,
            out,
            to=plan.to,
            from_=plan.format,
            carry=plan.carry,
            report=report,
            stages=[*([partial(choose, choice=one.choice)] if one.choice else []), *_stages(plan)],
            folder=folder,
            account=plan.account,
            extra={"parquet": True} if plan.parquet else None,
            options=registry.ReadOptions(share=one.share) if one.share is not None else None,
        )

    if one.share is not None:
        return keep(plan.parts, run)
    if where is None:
        if plan.carry or plan.account or plan.remote:
            return keep(None, run)
        run(sys.stdout.buffer)
        return None, b""
    if is_url(where):
        with replacing(where) as file:
            run(file)
        return shown_url(where), b""
    path = Path(where)
    folder = path.with_name(path.name[: -len(registry.get(plan.to).suffix)]) if plan.into is not None else path
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


def _placed(plan: Plan, outcome: Outcome[Part]) -> str | None:
    """Where the output of one input is: in its place, or put there now (one that was divided, or is for standard output: None)."""
    where = outcome.results[0][0]
    if not outcome.more and where is not None:
        return where
    target = plan.place(outcome.input)
    if target is None:
        join(outcome.results, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return None
    with replacing(target) as file:
        join(outcome.results, file)
    return target


def _writable(folder: str) -> None:
    """Make the folder of outputs. SpanportError when nothing can be put there, said once and not for each input."""
    try:
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise SpanportError(f"{folder} can't be written: {error.strerror}") from error


def _resume(plan: Plan, strict: bool) -> Resume:
    assert plan.into is not None
    folder = Path(plan.into)
    # All of the plan but where it goes, and what tells of it (a loss that is asked for has to be looked for).
    settings = repr([version("spanport"), replace(plan, file=None, into=None, parts=None, remote=False), strict])
    return Resume(folder / ".spanport-done", settings, folder, registry.get(plan.to).suffix)


__all__ = ["Converted", "convert_all"]
