"""The command ``spanport``: one module a command, loaded when it is used. A thin skin over `spanport.exporters` and
`spanport.converters`; nothing imports it.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import click

from . import output

# Command → its one line of help, so that `spanport --help` imports none of them. The module has the command's name.
COMMANDS = {
    "show": "A run as a tree with a waterfall.",
    "export": "Send runs to a tracing backend, or to an OTLP file.",
    "resend": "Send what exports could not deliver.",
    "convert": "Write runs in another format.",
    "check": "Is it readable, what is odd about it, what would be lost.",
    "stats": "Tokens, times, errors, tools and models.",
    "view": "One self-contained page in the browser.",
    "diff": "What changed between two runs.",
    "artifacts": "Artifacts of a conversation: list, get.",
    "formats": "List the formats that are read and written.",
    "schema": "The JSON Schema of a format.",
    "completion": "Completion for bash, zsh or fish.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use; each takes ``-v`` and ``-q`` too."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __name__).command
        if not any(p.name == "verbose" for p in command.params):
            command.params.extend(output.options())
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would make it status 1
            raise _Unread from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"spanport {version('spanport')}")
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and exit.")
def group() -> None:
    """Records of AI-agent runs as spans: into any tracing backend, from any format to any other.

    RUN is a file, a folder, a glob, - for standard input, or a URL; gzip and Zstandard are undone. The format is recognised
    from the content. A folder that is no run itself stands for the runs in it.

    \b
    Exit status: 0 all done, 1 nothing could be done, 2 wrong usage, 3 a part was done,
    4 a loss that --fail-on-loss forbids, 130 and 143 after a signal.
    """


group.params.extend(output.options())


class _Unread(BaseException):
    """The reader of a pipe (head) has enough."""


class _Terminated(BaseException):
    """SIGTERM, so that what is open is closed and temporary files go."""


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise _Terminated


def main() -> NoReturn:
    """The entry point of the console script: no traceback, and the exit statuses that the help names."""
    # Spans have no circles among them: looking for some after each few hundred takes a fifth of the time, and finds none.
    gc.set_threshold(100_000, 50, 100)
    sys.exit(run())


def run(args: list[str] | None = None) -> int:
    """Run the command line ``args``; the exit status."""
    output.level = 0
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and (stream.errors == "strict" or stream.encoding.lower() not in ("utf-8", "utf8")):
            stream.reconfigure(errors="backslashreplace")  # a terminal that can't show an arrow still shows the rest
    try:
        before = signal.signal(signal.SIGTERM, _terminate)
    except ValueError:  # not the main thread: whoever called us handles signals
        return _run(args)
    try:
        return _run(args)
    finally:
        signal.signal(signal.SIGTERM, before)


def _run(args: list[str] | None) -> int:
    try:
        found = group.main(args, prog_name="spanport", standalone_mode=False)
        sys.stdout.flush()
        return found if isinstance(found, int) else 0
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1 if error.code else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; what was finished is kept", err=True)
        return 130
    except _Terminated:
        click.echo("terminated; what was finished is kept", err=True)
        return 143
    except (_Unread, BrokenPipeError):  # end as the signal would have ended us
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        from ..converters.errors import debugging

        if debugging():
            raise
        click.echo(f"error: {error.filename or 'standard output'}: {error.strerror or error}", err=True)
        if not error.filename:  # what is still held can't go there either, and is not to be tried again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from ..converters.errors import SpanportError, debugging, internal

        if debugging():
            raise
        click.echo(f"error: {error if isinstance(error, SpanportError) else internal(error)}", err=True)
        return 1
