"""``spanport completion``."""

from __future__ import annotations

import click


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(spanport completion bash)"
  spanport completion fish > ~/.config/fish/completions/spanport.fish
""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """The script that makes bash, zsh or fish complete commands, options and formats."""
    from click.shell_completion import get_completion_class

    from . import group

    found = get_completion_class(shell)
    assert found is not None
    # Not through `source()`: for bash that starts a bash to ask for its version.
    one = found(group, {}, "spanport", "_SPANPORT_COMPLETE")
    click.echo(one.source_template % one.source_vars())
