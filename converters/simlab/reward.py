"""Verdicts: ``reward.json``, ``reward.txt``, a row of ``summary.json``, the ``verifier`` block of a trajectory, as scores and phases.

SimLab's own readers contradict each other about a reward between 0 and 1 (fixture `harbor_half`), so the verdict is that of ``reward.txt``, else of the
verifiers, and the reward is only a score.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Raw, Struct

from .. import jsonio
from ..errors import Report
from ..model import ABSENT, Error, Score, Value, raw
from .document import items

Verdict = Literal["pass", "fail", "unknown"]


class Row(Struct, kw_only=True):
    """One verifier, or the rubric judge: a phase of its own."""

    key: str
    name: str
    scores: list[Score]
    error: Error | None = None
    output: Raw = ABSENT
    source: dict[str, Raw] = {}
    attributes: dict[str, Value] = {}


class Judgement(Struct, kw_only=True):
    """What is known of a rollout's worth. ``source``: members without a place of their own."""

    verdict: Verdict | None = None
    reward: float | None = None
    rows: list[Row] = []
    source: dict[str, Raw] = {}


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def label(passed: bool | None) -> str | None:
    """``pass`` or ``fail``."""
    return None if passed is None else "pass" if passed else "fail"


_CHECKS: Final = ("results", "criteria_results", "checks")


def checks(output: Any) -> list[Score]:
    """The single checks in a verifier's output: a list, or an object that holds one under a known name, or one check, also as JSON text."""
    if isinstance(output, str):
        output = jsonio.value(jsonio.inner(output)) if output.lstrip()[:1] in ("{", "[") else None
    if isinstance(output, dict):
        listed = next((output[k] for k in _CHECKS if isinstance(output.get(k), list)), None)
        if listed is None:
            return _model(output) if "score" in output or "dimension_scores" in output else _check(output)
        output = listed
    return [s for item in output for s in _check(item)] if isinstance(output, list) else []


def _check(item: Any) -> list[Score]:
    if not isinstance(item, dict):
        return []
    name = next((item[k] for k in ("criteria", "name", "criterion", "check") if isinstance(item.get(k), str)), None)
    passed = next((item[k] for k in ("pass", "passed", "success") if isinstance(item.get(k), bool)), None)
    if name is None or passed is None:
        return []
    told = next((item[k] for k in ("detail", "message", "reason") if isinstance(item.get(k), str)), None)
    return [Score(name=name, value=float(passed), label=label(passed), explanation=told)]


def _model(output: dict[str, Any]) -> list[Score]:
    """A reward model's or judge's output: a score, a verdict, scores by dimension."""
    verdict = output.get("verdict")
    found = []
    if (value := jsonio.finite(output.get("score"))) is not None or isinstance(verdict, str):
        found.append(Score(name="score", value=value, label=verdict if isinstance(verdict, str) else None))
    scores = output.get("dimension_scores")
    for item in scores if isinstance(scores, list) else ():
        if isinstance(item, dict) and isinstance(item.get("dimension"), str):
            told = item.get("reason")
            found.append(
                Score(name=item["dimension"], value=jsonio.finite(item.get("score")), explanation=told if isinstance(told, str) else None)
            )
    return found


def _verifier(index: int, given: Raw) -> Row:
    rest = jsonio.fields(given)
    name = jsonio.text(rest.pop("module", ABSENT)) or ""
    passed = _truth(jsonio.value(rest.get("success", ABSENT)))
    if passed is not None:
        rest.pop("success")
    told = jsonio.text(rest.get("message", ABSENT))
    if told is not None:
        rest.pop("message")
    output = rest.pop("output", ABSENT)
    crashed = passed is False and (told or "").startswith("Verifier error:")
    first = Score(name=name or "verifier", value=None if passed is None else float(passed), label=label(passed), explanation=told)
    return Row(
        key=str(index),
        name=name or "verifier",
        scores=[first, *checks(jsonio.value(output))],
        error=Error(type="verifier_error", message=told) if crashed else None,
        output=ABSENT if jsonio.is_null(output) else output,
        source=rest,
    )


def _rubric(given: Raw) -> Row | None:
    found = jsonio.value(given)
    if not isinstance(found, dict):
        return None
    scores = _model(found)
    if scores and scores[0].name == "score":
        scores[0].name = "rubric"
    wrong = found.get("error")
    attributes: dict[str, Value] = {}
    if (sure := jsonio.finite(found.get("confidence"))) is not None:
        attributes["spanport.rubric.confidence"] = sure
    return Row(
        key="rubric",
        name="rubric",
        scores=scores,
        error=Error(type="rubric_error", message=str(wrong)) if wrong else None,
        source={k: v for k, v in jsonio.fields(given).items() if k not in ("score", "verdict", "dimension_scores", "error", "confidence")},
        attributes=attributes,
    )


def judgement(reward: Raw = ABSENT, text: str | None = None, passed: bool | None = None) -> Judgement:
    """``reward``: the content of ``reward.json``; ``text``: of ``reward.txt``; ``passed``: what another file says of the verdict."""
    rest = jsonio.fields(reward)
    listed = rest.get("verifier_results", ABSENT)
    rows: list[Row] = []
    if bytes(memoryview(listed)[:1]) == b"[":
        rest.pop("verifier_results")
        rows = [_verifier(i, item) for i, item in enumerate(items(listed, "verifier_results", Report()))]
    succeeded = [s.label for r in rows for s in r.scores[:1]]
    if (rubric := _rubric(rest.get("rubric_result", ABSENT))) is not None:
        rest.pop("rubric_result")
        rows.append(rubric)
    value = jsonio.finite(jsonio.value(rest.get("reward", ABSENT)))
    if value is not None:
        rest.pop("reward")
    verdict: Verdict | None = None
    if text is not None and text.strip():
        try:
            verdict = "pass" if float(text) >= 1 else "fail"
        except ValueError:
            rest["reward.txt"] = raw(text)
    if verdict is None and succeeded:
        verdict = "fail" if "fail" in succeeded else "pass" if None not in succeeded else "unknown"
    if verdict is None and passed is not None:
        verdict = "pass" if passed else "fail"
    if verdict is None and not succeeded and value is not None:
        verdict = "pass" if value >= 1 else "fail"
    return Judgement(verdict=verdict, reward=value, rows=rows, source=rest)
