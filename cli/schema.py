"""``spanport schema``."""

from __future__ import annotations

import json

import click

from . import output
from .common import usage


@click.command(
    "schema",
    epilog="""\b
Examples:
  spanport schema spanport
  spanport schema otlp-json > otlp.schema.json
""",
)
@click.argument("format", metavar="FORMAT", shell_complete=output.format_names)
def command(format: str) -> None:
    """The JSON Schema of a format: of its document, or of a line where it is JSON Lines.

    It is made from what the reader decodes with. Fields that it does not name are kept too.
    """
    from ..converters.schema import json_schema

    with usage():
        click.echo(json.dumps(json_schema(format), indent=2, ensure_ascii=False))
