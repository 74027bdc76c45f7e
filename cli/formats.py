"""``spanport formats``."""

from __future__ import annotations

import json

import click

from ..converters.registry import Format, formats
from . import output


@click.command(
    "formats",
    epilog="""\b
Examples:
  spanport formats
  spanport formats --json | jq -r '.[] | select(.write) | .name'
""",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def command(as_json: bool) -> None:
    """What is read and written: each format with an example of an input and how it is recognised."""
    if as_json:
        click.echo(json.dumps([_object(one) for one in formats().values()], indent=2, ensure_ascii=False))
        return
    wide = max(len(name) for name in formats())
    for one in formats().values():
        found = _object(one)
        ways = ", ".join(way for way in ("read", "write", "schema") if found[way])
        click.echo(output.folded(f"{one.name:{wide}}  {one.title} ({ways})", wide + 4))
        click.echo(output.folded(f"{'':{wide}}    example: {one.example}", wide + 6))
        if found["read"]:
            click.echo(output.folded(f"{'':{wide}}    recognised by: {one.recognised}", wide + 6))


def _object(one: Format) -> dict[str, object]:
    return {
        "name": one.name,
        "title": one.title,
        "read": one.reader is not None,
        "write": one.writer is not None,
        "schema": one.schema is not None,
        "example": one.example,
        "recognised": one.recognised,
        "suffix": one.suffix,
    }
