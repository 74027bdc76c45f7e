"""From inputs to OTLP in files: all into one (or standard output), or a file each in a folder; here or by several workers (`spread`)."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from ..converters import registry
from ..converters.errors import ReadError, SpanportError, UsageError
from ..converters.inputs import Input, items, shares
from ..converters.model import Item
from .batch import NOTHING_DONE
from .export import send
from .exported import Exported
from .file import Spared, replacing
from .otlp.account import Account
from .otlp.codec import JSON, PROTOBUF, Codec
from .otlp.files import FileChannel, NoChannel, codec_of
from .otlp.settings import Destination
from .pipeline import Pipeline
from .sending import by_several, how, read, waited_for

_ELSEWHERE = "give another folder or file with -o"
_APART = "spanport convert --to otlp-json -o FOLDER keeps them apart"


class _Nothing(Exception):
    """No input gave anything: no file is written, and one that is there stays."""


def to_files(given: Iterable[Input], output: str, found: Exported) -> None:
    """Write ``given`` to ``output``: a file, - for standard output, or a folder (one that is there, or with / at its end) for one file an input. SpanportError when it
    can't be written."""
    options, tally = found.options, found.inputs
    folder = output if output.endswith("/") or os.path.isdir(output) else None
    codec = _codec(options.encoding) if folder is not None else codec_of(output, options.encoding)
    pipe = Pipeline(options.choices({}), found)
    spared = Spared(one.name for one in given)
    if folder is None and output in spared:
        raise UsageError(f"{output} is an input; the output needs another name")
    spread = by_several(given, options, tally)
    with ExitStack() as stack:
        stack.enter_context(tally)
        if options.dry_run:
            _write(read(given, found, pipe), None, codec, found)
        elif spread:
            _by_workers(given, output, folder, codec, found, spared)
            return
        elif folder is not None:
            _each(given, folder, codec, pipe, found, spared)
        elif output == "-":
            _write(read(given, found, pipe), sys.stdout.buffer, codec, found)
        else:
            with suppress(_Nothing):
                with replacing(output) as file:
                    _write(read(given, found, pipe), file, codec, found)
                    if tally.status() == NOTHING_DONE and not found.read:
                        raise _Nothing
                tally.voice.say(f"wrote {output}")
        found.redacted = pipe.redacted


def _codec(encoding: str | None) -> Codec:
    return PROTOBUF if encoding == "protobuf" else JSON


def _suffix(codec: Codec) -> str:
    return registry.get("otlp-json" if codec is JSON else "otlp-proto").suffix


def _each(given: Iterable[Input], folder: str, codec: Codec, pipe: Pipeline, found: Exported, spared: Spared) -> None:
    """A file for each input."""
    options, tally = found.options, found.inputs
    taken: dict[str, str] = {}
    several = _several(given)
    for one in tally.over(given):
        if found.stop:
            break
        name = one.output(_suffix(codec)).name
        with tally.input(one) as report:
            passed = pipe.items(items(one, report, options.format, how(options, found.stop)), waited_for(given, options))
            first = next(passed, None)  # a file that is no run has ended here
            if (refused := _refused(one, Path(folder, name), taken, spared)) is not None:
                raise refused
            account = Account()
            try:
                with replacing(Path(folder, name)) as file:
                    _write(chain([first] if first is not None else [], passed), file, codec, found, account)
            except BaseException:
                _not_written(account)
                raise
            finally:
                found.merge(account)
            tally.voice.say(f"wrote {Path(folder, name)}", least=several)


def _refused(one: Input, target: Path, taken: dict[str, str], spared: Spared) -> ReadError | None:
    """Why ``target`` can't be the output of ``one``: another input of this call was written there (``taken``), or it is an input."""
    if taken.setdefault(target.name, str(one)) != str(one):
        return ReadError(f"would be written to {target.name}, as {taken[target.name]} was", input=str(one), hint=_APART)
    if target in spared:
        return ReadError(f"would be written to {target.name}, which is an input", input=str(one), hint=_ELSEWHERE)
    return None


def _several(given: Iterable[Input]) -> bool:
    """Of several inputs only the number of files is told."""
    return len(list(islice(iter(given), 2))) > 1


def _not_written(account: Account) -> None:
    """The spans of a file that found no place: none of them arrived."""
    if account.accepted:
        account.fail([], account.accepted, "its file was not written")
        account.accepted = 0


def _write(passed: Iterable[Item | None], file: BinaryIO | None, codec: Codec, found: Exported, account: Account | None = None) -> None:
    """Spans into an open file; None only counts them, and the content that they hold. ``account``: of these spans alone."""
    account = found if account is None else account
    before = account.failed
    send(
        passed,
        Destination(url="file:."),
        found.options.plan(found.census if file is None else None),
        account=account,
        stop=found.stop,
        channel=NoChannel() if file is None else FileChannel(file, codec),
        codec=codec,
    )
    if account.failed > before:  # also when it was to stop: what is not whole takes no place
        raise SpanportError(next(iter(account.reasons)))


def _by_workers(given: Iterable[Input], output: str, folder: str | None, codec: Codec, found: Exported, spared: Spared) -> None:
    """The same by several processes or a cluster. Of an input that ends badly what was read before goes into the common output, but there is no file of its
    own."""
    from . import spread
    from .parts import join

    options, tally = found.options, found.inputs
    with ExitStack() as stack:
        parts = stack.enter_context(tempfile.TemporaryDirectory(prefix="spanport-"))
        encoding = "json" if codec is JSON else "protobuf"
        job = spread.FileJob(
            options.plan(), options.choices({}), options.format, encoding, parts if tally.batch.engine == "local" else None
        )
        out: Any = sys.stdout.buffer if output == "-" else None
        if out is None and folder is None:
            out = stack.enter_context(replacing(output))
        named: dict[str, str] = {}
        several = _several(given)
        divide = partial(shares, options.format) if spread.divisible(options) else None
        for outcome in tally.each(partial(spread.write, job), given, divide=divide):
            written = (done.part for done in outcome.results)
            refused: ReadError | None = None
            if out is not None:
                join(written, out)
            elif outcome.error is None:
                assert folder is not None
                name = outcome.input.output(_suffix(codec)).name
                if (refused := _refused(outcome.input, Path(folder, name), named, spared)) is not None:
                    tally.spoilt(refused)
                else:
                    with replacing(Path(folder, name)) as file:
                        join(written, file)
                    tally.voice.say(f"wrote {Path(folder, name)}", least=several)
            for done in spread.once(outcome.results):
                if refused is not None or (out is None and outcome.error is not None):
                    _not_written(done.spans)
                found.merge(done.spans)
    if output != "-" and folder is None:
        tally.voice.say(f"wrote {output}")


__all__ = ["to_files"]
