"""The account of an export in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from ..converters import clock
from ..converters.text import volume

if TYPE_CHECKING:
    from ..exporters.backends import Route
    from ..exporters.exported import Exported
    from ..exporters.otlp.account import Account


def of(count: int, noun: str) -> str:
    """``1 span``, ``2 spans``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def dry(found: Exported) -> None:
    """What would be sent, and which content would leave."""
    way = found.way
    if way is not None:
        project = f", project {way.project}" if way.project else ""
        click.echo(f"destination: {way.to.name} ({way.to.protocol}, {way.to.compression}){project}")
    else:
        click.echo(f"destination: {found.options.output}")
    click.echo(f"spans:       {found.accepted:,} of {of(found.traces, 'trace')} in {of(found.requests, 'request')}, {volume(found.bytes)}")
    if found.first is not None and found.last is not None:
        click.echo(f"times:       {clock.to_iso(found.first)} to {clock.to_iso(found.last)}")
    for name, count in found.left_out.items():
        click.echo(f"left out:    {count:,} {name.replace('_', ' ')}")
    click.echo(f"redacted:    {found.redacted:,} values")
    if not found.census:
        click.echo("content:     none")
    for name, count in found.census.most_common():
        click.echo(f"content:     {name} {volume(count)}")


def summary(way: Route, spans: Account) -> Iterator[str]:
    """The account in a few lines."""
    words = [f"{spans.accepted:,} accepted", f"{spans.rejected:,} rejected", f"{spans.failed:,} failed"]
    words += [f"{count:,} left out ({name.replace('_', ' ')})" for name, count in spans.left_out.items() if count]
    yield f"{way.to.name}: read {of(spans.read, 'span')} of {of(spans.traces, 'trace')}: {', '.join(words)}"
    extra = [f"{volume(spans.bytes)} in {of(spans.requests, 'request')}" if spans.requests else "no request"]
    extra += ["1 retry" if spans.retries == 1 else f"{spans.retries:,} retries"] if spans.retries else []
    extra += [f"{of(spans.redacted, 'secret')} redacted"] if spans.redacted else []
    extra += [f"{spans.cut:,} spans with cut values"] if spans.cut else []
    extra += [f"{of(spans.shortened, 'oversize span')} shortened"] if spans.shortened else []
    extra += [f"{n:,} × {what} made safe" for what, n in spans.changed.items()]
    yield ", ".join(extra)
    if spans.first is not None and spans.last is not None:
        yield f"times {clock.to_iso(spans.first)} to {clock.to_iso(spans.last)}"
    if spans.stored is not None:
        yield f"{spans.stored:,} of {spans.accepted:,} read back: stored"
    if spans.scores or spans.scores_failed:
        yield f"{of(spans.scores, 'score')} sent"
    for text, count in spans.warnings.items():
        yield f"warning: {text}" + (f" ({count:,} times)" if count > 1 else "")
    for reason, count in spans.reasons.most_common(3):
        yield f"{of(count, 'span')}: {reason}"
    if spans.rejected_spans:
        more = spans.rejected - len(spans.rejected_spans)
        yield f"rejected spans: {', '.join(spans.rejected_spans)}" + (f" and {more:,} more" if more > 0 else "")
    if spans.failed_traces:
        yield f"traces with failed spans: {', '.join(spans.failed_traces[:5])}" + (" …" if len(spans.failed_traces) > 5 else "")
    if spans.left_out["delivered_before"] and not spans.accepted and not spans.failed:
        yield "everything of it was delivered there before; nothing was sent (--force sends it again)"
    if spans.spool:
        yield f"{of(spans.spooled, 'span')} kept in {spans.spool}: spanport resend sends them"
    if spans.spool_error:
        yield f"error: {spans.failed - spans.spooled:,} failed spans could not be kept: {spans.spool_error}"
    for link in spans.links[:5]:
        yield f"open {link}"
