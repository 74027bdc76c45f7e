"""The command ``spanport``: one module a command, loaded when it is used. A thin skin over `spanport.exporters` and
`spanport.converters`; nothing imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

# Command → (module, one line of help), so that `spanport --help` imports none of them.
COMMANDS = {
    "show": "A run as a tree in the terminal.",
    "export": "Send runs to a tracing backend, or to an OTLP file.",
    "convert": "Write runs in another format.",
    "stats": "Count spans, errors, tokens and times.",
    "formats": "List the formats that are read and written.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f".{cmd_name}", __name__).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"spanport {version('spanport')}")
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version and exit.")
def group() -> None:
    """Records of AI-agent runs as spans: into any tracing backend, from any format to any other.

    RUN is a file, a directory, or - for standard input; its format is recognised from its content.
    """


def main() -> Any:
    """The entry point of the console script."""
    return group(prog_name="spanport")
