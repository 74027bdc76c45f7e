"""``spanport formats``."""

from __future__ import annotations

import click

from ..converters.registry import formats


@click.command("formats")
def command() -> None:
    """List the formats that are read and written."""
    for one in formats().values():
        ways = "/".join(w for w, can in (("read", one.reader), ("write", one.writer)) if can)
        click.echo(f"{one.name:22} {ways:11} {one.title}; recognised by: {one.recognised}")
