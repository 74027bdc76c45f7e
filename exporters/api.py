"""Sending as a library: `export` is what the command does, in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..converters.api import items_of, stream
from ..converters.errors import Report, UsageError
from ..converters.model import Item, Trace, TraceHeader, Value
from .backends import BACKENDS, route
from .export import Plan, codec_for, send
from .ledger import Ledger, default_path
from .otlp.account import Account
from .otlp.batch import Limits
from .otlp.sender import Retry
from .otlp.settings import destination
from .pipeline import Choices, Pipeline
from .spool import Spool

if TYPE_CHECKING:
    from ..converters.stages.content import Content
    from ..converters.stages.history import Histories


def export(
    source: Any,
    endpoint: str | None = None,
    *,
    protocol: str | None = None,
    profile: str = "generic",
    project: str | None = None,
    headers: Mapping[str, str] | None = None,
    content: Content = "full",
    history: Histories = "delta",
    redact: Iterable[str] = (),
    builtin_redaction: bool = True,
    carry: bool = False,
    select: Iterable[str] = (),
    dialect: Literal["1.41", "0.1"] = "1.41",
    resource: Mapping[str, Value] | None = None,
    retry_for: float = 60.0,
    timeout: float | None = None,
    spool: str | Path | None = None,
    ledger: bool | None = None,
    report: Report | None = None,
    say: Callable[[str], None] | None = None,
) -> Account:
    """Send ``source`` (what `spanport.stream` takes, or traces or items in memory) to ``endpoint``, or to where the environment says.

    The account says of every span whether it was accepted, rejected, failed or left out; its ``status()`` is what the command would exit with. Nothing
    is kept of what fails unless ``spool`` names a folder. UsageError when there is no endpoint; ReadError when nothing can be read."""
    to = destination(endpoint, protocol, headers=headers, timeout=timeout)
    if to is None:
        raise UsageError("no endpoint: give one, or set OTEL_EXPORTER_OTLP_ENDPOINT")
    if profile not in BACKENDS:
        raise UsageError(f"no profile {profile!r}; there are {', '.join(BACKENDS)}")
    backend = BACKENDS[profile]
    way = route(backend, to, project)
    account = Account()
    pipe = Pipeline(
        Choices(
            profile=profile,
            dialect=dialect,
            carry=carry,
            content=content,
            redact=tuple(redact),
            builtin_redaction=builtin_redaction,
            select=tuple(select),
            history=history,
            resource={**way.resource, **(resource or {})},
        ),
        account,
    )
    codec = codec_for(to.protocol)
    books = ledger or (ledger is None and backend.twice == "stored")
    kept = Spool(Path(spool), way.to, codec, profile, books) if spool is not None else None
    known = Ledger(default_path()) if books else None
    try:
        send(
            pipe.items(_items(source, report)),
            way.to,
            Plan(profile=pipe.choices.dressing(), limits=Limits(), unique_span_ids=backend.unique_span_ids),
            account=account,
            retry=Retry(total=retry_for),
            keep=kept.keep if kept is not None else None,
            ledger=known,
            say=say,
        )
    finally:
        if kept is not None:
            kept.close()
            account.spool, account.spool_error = str(kept.path) if kept.path else None, kept.error
        if known is not None:
            known.close()
    account.redacted = pipe.redacted
    return account


def _items(source: Any, report: Report | None) -> Iterable[Item]:
    if isinstance(source, Trace):
        return items_of([source])
    if isinstance(source, list | tuple) and source and isinstance(source[0], Trace | TraceHeader):
        return items_of(source)
    return stream(source, report=report)
