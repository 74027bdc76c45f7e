"""The record as a document, for `spanport schema`: what the reader decodes item by item (`spanport.converters.simlab.shapes`), put together.

It is the spelling that today's SimLab writes. Others that are read as well are told by their shape (``docs/formats/runartifacts.md``). Nothing reads with this.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..simlab.shapes import Common, Recorded, Result


class Document(Struct, kw_only=True):
    """``artifacts.json``. ``tool_calls`` and ``tool_results`` belong together by place. Times are ISO 8601."""

    version: str | None = None
    task_id: str
    task: str | None = None
    model: str | None = None
    provider: str | None = None
    messages: list[Common]
    tool_calls: list[Recorded]
    tool_results: list[Result]
    metadata: dict[str, Any] | None = None
    final_observation: str | None = None
    error: str | None = None
    steps_taken: int | None = None
    max_steps: int | None = None
    created_at: str | None = None
