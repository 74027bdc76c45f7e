"""What is known of the backends behind the profiles: how a project is chosen, what happens to a span that comes twice, known limits, links, read-back,
scores. Measured with Phoenix 20.26 and MLflow 3.17 (``docs/backends``); Langfuse after its source.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from ..converters.clock import to_iso
from ..converters.conventions import langfuse, phoenix
from ..converters.errors import UsageError
from ..converters.model import Item, Score, TraceHeader, Value
from .otlp.settings import Destination, environment_headers
from .rest import Rest, RestError

DAY: Final = 86_400
EXPERIMENT: Final = "x-mlflow-experiment-id"
SCORER: Final = "spanport"


@dataclass(frozen=True)
class Backend:
    """One profile's backend. ``twice``: what becomes of a span that comes again (``ignored``, ``updated``, ``stored``: a second copy); ``protocols``
    that it takes; ``old_after``: seconds of age from which ``old`` is said; ``large_after``: bytes of a trace from which ``large`` is said; ``reads_back``: `Reader` knows its API."""

    name: str
    twice: str = "ignored"
    protocols: tuple[str, ...] = ("http/protobuf", "http/json", "grpc")
    unique_span_ids: bool = False
    old_after: int = DAY
    old: str = ""
    large_after: int = 5_000_000
    large: str = ""
    reads_back: bool = False


BACKENDS: Final = {
    b.name: b
    for b in (
        Backend(
            "generic",
            old="Tempo, Jaeger, Logfire, Opik and New Relic hide or drop spans of that age (--shift-time now moves them); other backends take them",
            large="Tempo refuses traces of that size, and pages of others are slow with them (--trace-per task or attempt makes smaller ones)",
        ),
        Backend(
            "phoenix",
            protocols=("http/protobuf", "grpc"),
            unique_span_ids=True,
            old_after=7 * DAY,
            old="its lists show the last 7 days; the links below open them, or choose a longer time range",
            reads_back=True,
        ),
        Backend(
            "mlflow",
            twice="updated",
            protocols=("http/protobuf", "http/json"),
            old_after=7 * DAY,
            old="its list shows recent traces; the links below open it with all of them",
            reads_back=True,
        ),
        Backend(
            "langfuse",
            twice="stored",
            protocols=("http/protobuf", "http/json"),
            large_after=16_000_000,
            large="its intake warns of bodies of that size",
        ),
    )
}


@dataclass(frozen=True)
class Route:
    """Where in a backend spans go: the destination with its headers, what is added to the resource, the project's or experiment's name and id."""

    to: Destination
    resource: dict[str, Value]
    project: str | None = None
    project_id: str | None = None


def route(backend: Backend, to: Destination, project: str | None, dry: bool = False) -> Route:
    """Choose the project (Phoenix) or experiment (MLflow, by name or id; made when there is none of that name). UsageError where the
    backend has nothing of the kind, or does not speak the protocol."""
    if to.protocol not in backend.protocols:
        raise UsageError(f"{backend.name} does not take {to.protocol}; --protocol {backend.protocols[0]} works")
    if backend.name == "phoenix":
        known = project or {**environment_headers(), **to.headers}.get("x-project-name") or "default"
        return Route(to, {phoenix.PROJECT: project} if project else {}, known)
    if backend.name == "mlflow":
        return _mlflow_route(to, project, dry)
    if project is not None:
        hint = "its keys choose the project" if backend.name == "langfuse" else "--profile phoenix and mlflow have projects"
        raise UsageError(f"--project means nothing with --profile {backend.name}: {hint}")
    if backend.name == "langfuse":
        return Route(to.with_headers(langfuse.INGESTION), {})
    return Route(to, {})


def _mlflow_route(to: Destination, project: str | None, dry: bool) -> Route:
    given = {**environment_headers(), **to.headers}.get(EXPERIMENT)
    if project is None:
        found = given or "0"  # the experiment called Default, which every server has
        return Route(to.with_headers({EXPERIMENT: found}), {}, found, found)
    if project.isdigit():
        return Route(replace(to, headers={**to.headers, EXPERIMENT: project}), {}, project, project)
    if dry:
        return Route(to, {}, project)
    api = Rest(to)
    path = "api/2.0/mlflow/experiments"
    try:
        number = api.call("GET", f"{path}/get-by-name", experiment_name=project)["experiment"]["experiment_id"]
    except RestError as error:
        if error.status != 404:
            raise
        try:
            number = api.call("POST", f"{path}/create", {"name": project})["experiment_id"]
        except RestError as made:  # another export made it just now
            if made.status != 400:
                raise
            number = api.call("GET", f"{path}/get-by-name", experiment_name=project)["experiment"]["experiment_id"]
    return Route(replace(to, headers={**to.headers, EXPERIMENT: str(number)}), {}, project, str(number))


# ------------------------------------------------------------------------------------------------------------ reading back
Ids = dict[str, set[str]]
"""Trace id → span ids, in hex."""


def stored(backend: Backend, to: Route, trace: str) -> set[str]:
    """The ids of the spans of ``trace`` that the backend gives back. RestError when it can't be asked; an unknown trace has none."""
    api = Rest(to.to)
    try:
        return set(_phoenix_spans(api, to.project or "default", trace) if backend.name == "phoenix" else _mlflow_spans(api, trace))
    except RestError as error:
        if error.status == 404:
            return set()
        raise


def _phoenix_spans(api: Rest, project: str, trace: str) -> Iterator[str]:
    cursor: str | None = None
    while True:
        page = api.call("GET", f"v1/projects/{quote(project, safe='')}/spans", limit=1000, trace_id=trace, cursor=cursor)
        for span in page["data"]:
            yield span["context"]["span_id"]
        cursor = page.get("next_cursor")
        if not cursor:
            return


def _mlflow_spans(api: Rest, trace: str) -> Iterator[str]:
    found = api.call("GET", "api/3.0/mlflow/traces/get", trace_id=f"tr-{trace}")
    for span in found["trace"].get("spans", ()):
        yield base64.b64decode(span["span_id"]).hex()


def wait_for(
    backend: Backend,
    to: Route,
    expected: Ids,
    seconds: float,
    stop: Callable[[float], bool],
    say: Callable[[str], None],
) -> tuple[int, dict[str, int]]:
    """Read back until every expected span is found, or none has appeared for ``seconds``: (how many were found, trace id → how many are
    missing). ``stop(n)`` waits n seconds and is true when it is time to end."""
    until, best = time.monotonic() + seconds, 0
    found: dict[str, int] = dict.fromkeys(expected, 0)
    pause = 0.2
    while True:
        missing = {trace: ids for trace, ids in expected.items() if found[trace] < len(ids)}
        for trace, ids in missing.items():
            found[trace] = len(ids & stored(backend, to, trace))
        if sum(found.values()) > best:
            until, best = time.monotonic() + seconds, sum(found.values())
        left = {trace: len(ids) - found[trace] for trace, ids in expected.items() if found[trace] < len(ids)}
        if not left or time.monotonic() + pause > until:
            return sum(found.values()), left
        say(f"{sum(left.values()):,} spans can't be read back yet")
        if stop(pause):
            return sum(found.values()), left
        pause = min(pause * 2, 5.0)


# ------------------------------------------------------------------------------------------------------------------ scores
class Scored:
    """Collects the scores of the spans that pass, to be sent after them."""

    def __init__(self) -> None:
        self.scores: list[tuple[str, str, Score]] = []

    def items(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items as they are."""
        for item in items:
            if not isinstance(item, TraceHeader) and item.scores:
                self.scores.extend((item.trace_id, item.id, score) for score in item.scores)
            yield item


def send_scores(backend: Backend, to: Route, scores: list[tuple[str, str, Score]]) -> tuple[int, dict[str, int]]:
    """Send (trace id, span id, score) by the backend's API: (how many were taken, reason → how many were not). Sent again, a score
    replaces itself. The spans must be there already."""
    api = Rest(to.to)
    return _phoenix_scores(api, scores) if backend.name == "phoenix" else _mlflow_scores(api, scores)


def _phoenix_scores(api: Rest, scores: list[tuple[str, str, Score]]) -> tuple[int, dict[str, int]]:
    taken, failed = 0, dict[str, int]()
    for at in range(0, len(scores), 100):
        part = scores[at : at + 100]
        data = [
            {
                "span_id": span,
                "name": score.name,
                "annotator_kind": "CODE",
                "result": {
                    k: v for k, v in (("score", score.value), ("label", score.label), ("explanation", score.explanation)) if v is not None
                },
                "identifier": SCORER,
            }
            for _, span, score in part
        ]
        try:
            api.call("POST", "v1/span_annotations", {"data": data}, sync="true")
            taken += len(part)
        except RestError as error:
            failed[str(error)] = failed.get(str(error), 0) + len(part)
    return taken, failed


def _mlflow_scores(api: Rest, scores: list[tuple[str, str, Score]]) -> tuple[int, dict[str, int]]:
    taken, failed = 0, dict[str, int]()
    known: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
    for trace, span, score in scores:
        try:
            if trace not in known:
                info = api.call("GET", "api/3.0/mlflow/traces/get", trace_id=f"tr-{trace}")["trace"]["trace_info"]
                known[trace] = {
                    (a.get("assessment_name", ""), a.get("span_id", "")): a
                    for a in info.get("assessments", ())
                    if a.get("source", {}).get("source_id") == SCORER and a.get("valid", True)
                }
            value: Any = score.value if score.value is not None else score.label
            before = known[trace].get((score.name, span))
            if before is not None and before.get("feedback", {}).get("value") == value:
                taken += 1
                continue
            now = to_iso(score.time if score.time is not None else time.time_ns()).replace("+00:00", "Z")
            body: dict[str, Any] = {
                "assessment_name": score.name,
                "trace_id": f"tr-{trace}",
                "span_id": span,
                "source": {"source_type": "CODE", "source_id": SCORER},
                "create_time": now,
                "last_update_time": now,
                "feedback": {"value": value},
            }
            if score.explanation is not None:
                body["rationale"] = score.explanation
            if score.label is not None and score.value is not None:
                body["metadata"] = {"label": score.label}
            if before is not None:
                body["overrides"] = before["assessment_id"]
            api.call("POST", f"api/3.0/mlflow/traces/tr-{trace}/assessments", {"assessment": body})
            taken += 1
        except (RestError, KeyError, TypeError) as error:
            failed[str(error)] = failed.get(str(error), 0) + 1
    return taken, failed


# ------------------------------------------------------------------------------------------------------------------- links
def links(backend: Backend, to: Route, traces: Iterable[str]) -> list[str]:
    """An address in the backend's pages for each trace; none where there are no pages, or it can't be asked."""
    if backend.name == "mlflow" and to.project_id is not None:
        return [f"{to.to.base}/#/experiments/{to.project_id}/traces?startTimeLabel=ALL&selectedEvaluationId=tr-{t}" for t in traces]
    if backend.name == "phoenix" and to.to.protocol != "grpc":
        try:
            number = Rest(to.to).call("GET", f"v1/projects/{quote(to.project or 'default', safe='')}")["data"]["id"]
        except (RestError, KeyError, TypeError):  # the project is made with its first span, which may still be in a queue
            return []
        return [f"{to.to.base}/projects/{number}/traces/{t}" for t in traces]
    return []
