"""What an export can be told, in one place: `Options`, and what follows from them for the stages (`choices`), the encoder (`plan`) and the destination."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from typing import Any, Final

from ..converters import clock
from ..converters.errors import UsageError
from ..converters.model import Value
from ..converters.stages.resource import environment
from .backends import BACKENDS, Backend, Route
from .batch import Batch
from .export import Plan
from .otlp.batch import Limits
from .otlp.settings import Destination, destination, variable
from .pipeline import Choices

MIB: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Options(Choices):
    """Those of `Choices` (what leaves), and where and how it goes. Each has an option of the command ``spanport export`` that says more."""

    format: str | None = None
    """Read as this format instead of recognising it."""
    follow: bool = False
    """Keep reading inputs that grow; each span goes as soon as it is complete."""

    endpoint: str | None = None
    protocol: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    compression: str | None = None
    timeout: float | None = None
    """Seconds for one request."""
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    project: str | None = None
    """Phoenix project, or MLflow experiment."""
    output: str | None = None
    """Write OTLP to this file instead, or - for standard output; a folder (with / at its end) gets one a input."""
    encoding: str | None = None
    """Of ``output``: json or protobuf; None goes by its name."""

    retry_for: float = 60.0
    """Seconds that retrying may take in total."""
    max_attribute_bytes: int | None = None
    max_attributes: int | None = None
    max_batch_bytes: int = 3 * MIB
    max_batch_spans: int = 2048
    spool: str | None = None
    """A folder for what could not be delivered; None keeps nothing."""
    ledger: bool | None = None
    """Send nothing that was delivered before; None: where the backend stores copies."""
    force: bool = False
    resume: bool = False
    """Skip inputs of which all was accepted by an earlier call like this one."""
    verify: bool = False
    verify_for: float | None = None
    """Seconds without a new span after which reading back is given up."""
    scores: bool = False
    dry_run: bool = False

    @property
    def backend(self) -> Backend:
        """The one of the profile. UsageError when there is none of that name."""
        if self.profile not in BACKENDS:
            raise UsageError(f"no profile {self.profile!r}; there are {', '.join(BACKENDS)}")
        return BACKENDS[self.profile]

    @property
    def books(self) -> bool:
        """Whether the ledger is kept."""
        return not self.dry_run and (self.ledger if self.ledger is not None else self.backend.twice == "stored")

    def check(self, batch: Batch) -> None:
        """UsageError for options that exclude each other, or that the backend knows nothing of."""
        for one, other, when in (
            ("output", "endpoint", self.output and self.endpoint),
            ("follow", "select", self.follow and self.select),
            ("follow", "shift-time", self.follow and self.shift_to is not None),
            ("follow", "resume", self.follow and self.resume),
            ("follow", "jobs", self.follow and (batch.jobs or 1) > 1),
            ("follow", "engine", self.follow and batch.engine != "local"),
        ):
            if when:
                raise UsageError(f"--{one} and --{other} exclude each other")
        to, backend = self.where(), self.backend
        for name in ("verify", "scores", "resume"):
            if getattr(self, name) and to is None:
                raise UsageError(f"--{name} needs an endpoint (--endpoint, or OTEL_EXPORTER_OTLP_ENDPOINT)")
        for name in ("verify", "scores"):
            if getattr(self, name) and not backend.reads_back:
                raise UsageError(f"--{name} needs --profile phoenix or mlflow")
            if getattr(self, name) and to is not None and to.protocol == "grpc":
                raise UsageError(f"--{name} needs HTTP: the API is not on the gRPC port")

    def where(self) -> Destination | None:
        """Where to send; None for files. UsageError when the options, or the environment, say nothing that works."""
        if self.output is not None:
            return None
        return destination(
            self.endpoint,
            self.protocol,
            headers=self.headers,
            compression=self.compression,
            timeout=self.timeout,
            certificate=self.certificate,
            client_certificate=self.client_certificate,
            client_key=self.client_key,
        )

    def choices(self, more: Mapping[str, Value]) -> Choices:
        """What leaves. ``more``: what the route adds to the resource; the environment's comes first, the user's own last."""
        own = {f.name: getattr(self, f.name) for f in fields(Choices)}
        return replace(Choices(**own), resource={**environment(), **more, **self.resource})

    def plan(self, census: Counter[str] | None = None) -> Plan:
        """How spans are dressed and cut."""
        backend = self.backend
        return Plan(
            profile=self.dressing(),
            limits=Limits(bytes=self.max_batch_bytes, spans=self.max_batch_spans),
            max_attribute_bytes=self.max_attribute_bytes,
            max_attributes=self.max_attributes,
            at_once=self.follow,
            unique_span_ids=backend.unique_span_ids,
            census=census,
            old=time.time_ns() - backend.old_after * clock.SECOND if backend.old else None,
            large=backend.large_after if backend.large else None,
        )

    def settings(self, way: Route, strict: bool) -> str:
        """All that makes what arrives, or where, another thing: for ``resume``, which stores only a digest of it. A key or a tenant in the headers is another place."""
        own = sorted((f.name, repr(getattr(self, f.name))) for f in fields(self) if f.name not in _SAME)
        found: list[Any] = [version("spanport"), way.to.url, way.project, sorted(way.to.headers.items())]
        return repr([*found, strict, variable("HEADERS"), sorted(environment().items()), own])


_SAME: Final = frozenset(
    (
        *("endpoint", "protocol", "output", "encoding", "project", "headers", "compression", "timeout", "retry_for"),
        *("certificate", "client_certificate", "client_key", "max_batch_bytes", "max_batch_spans", "follow", "resume"),
        *("spool", "ledger", "force", "verify_for", "dry_run"),
    )
)
"""Options that change nothing of what arrives, or that `Options.settings` looks at in another way. Any other one makes an input that was done one to do again."""

__all__ = ["Options"]
