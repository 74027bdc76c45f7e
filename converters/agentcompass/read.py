"""A run directory, a results tree or a single top file of AgentCompass as items: which of these it is, and who reads it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from ..errors import ReadError, Report
from ..jsonio import decode, fields
from ..model import Item
from ..registry import ReadOptions
from ..source import Source
from .follow import follow
from .layout import in_stretch, is_details, is_run, run_directories, within
from .rundir import Top, Tree, as_object, read_run, without_events
from .schema import decode_object


def read(source: Source, report: Report, options: ReadOptions) -> Iterator[Item]:
    """A run directory, a ``details`` folder, a results tree, a run_info.json or a progress.json. ReadError when there is no run in it."""
    if source.is_dir:
        assert source.path is not None
        root = source.path
        if options.follow:
            yield from follow(root, report, options)
            return
        if not is_run(root) and is_details(root):
            yield from read_run(root, report)
            return
        roots = list(run_directories(root))
        if not roots:
            raise ReadError("no AgentCompass run in it", input=source.name, hint="a run has run_info.json, progress.jsonl or details/")
        tree = Tree(roots)
        for place, one in enumerate(roots):
            if one == root:
                yield from read_run(one, report, tree, options.share)
                continue
            if not in_stretch(place, len(roots), options.share):
                continue
            with within(report, str(one.relative_to(root))):
                try:
                    yield from read_run(one, report, tree)
                except ReadError as error:  # the other runs of the tree are read all the same
                    report.note("bad-run", error.message, "lost", line=error.line, byte=error.byte, path=error.path)
        return
    members = decode(source.data(), decode_object, report) if source.object is None else fields(Raw(msgspec.json.encode(source.object)))
    name = "run_info" if "request" in members or "schema_version" in members else "progress"
    if name == "progress" and "total_tasks" not in members:
        raise ReadError("neither a run_info.json nor a progress.json", input=source.name)
    top = Top(**{name: members})
    header, base = without_events(top, "run")
    yield header
    kept = (
        {f"run_info.{k}": v for k, v in members.items() if k not in ("run_id", "status", "error")}
        if name == "run_info"
        else {name: as_object(members)}
    )
    yield msgspec.structs.replace(base, source=kept)
