"""``spanport completion``."""

from __future__ import annotations

import click

_BETTER = {
    # A zsh that has not run compinit knows no compdef.
    "zsh": [("    compdef ", "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n    compdef ")],
    # Descriptions and file names may hold commas.
    "fish": [('string split ","', 'string split -m 1 ","')],
}
"""What click's scripts leave to be wished."""


@click.command(
    "completion",
    epilog="""\b
Examples:
  eval "$(spanport completion bash)"                        in ~/.bashrc
  eval "$(spanport completion zsh)"                         in ~/.zshrc
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
    script = one.source_template % one.source_vars()
    for there, better in _BETTER.get(shell, ()):
        script = script.replace(there, better)
    click.echo(script)
