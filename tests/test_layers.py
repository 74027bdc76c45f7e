"""Imports point one way: cli → exporters → converters; formats know the model and its tools, never another format, and the tools know no format.

Read from the source with `ast`, so that an import inside a function counts like one at the top.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from spanport.converters import registry

ROOT = Path(registry.__file__).parent.parent
LAYERS = ("converters", "exporters", "cli")
FORMATS = frozenset(registry.BUILTIN)
SHARED = frozenset({"simlab"})
"""Folders of converters that hold what several formats are made of, and no format."""
WIRE = frozenset({"converters.otlp.encode", "converters.otlp.jsontext", "converters.otlp.wire"})
"""How OTLP is written: what sends it needs it, too."""


def imports(text: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Modules of the package, without its name, that the source ``text`` of ``module`` imports; for ``from x import y`` both x and x.y, since y may be a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            named = [tuple(alias.name.split(".")) for alias in node.names]
            found = [name[1:] for name in named if name[0] == "spanport"]
        elif isinstance(node, ast.ImportFrom):
            base = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                base = module[: len(module) - node.level] + base
            elif base[:1] == ("spanport",):
                base = base[1:]
            else:
                continue
            found = [(*base, alias.name) for alias in node.names]
        else:
            continue
        yield from found


def wrong(module: tuple[str, ...], other: tuple[str, ...]) -> str | None:
    """Why ``module`` must not import ``other``; None when it may."""
    if other[:1] == () or other[0] not in LAYERS:
        return None
    here, there = module[0], other[0]
    if here in LAYERS and LAYERS.index(there) > LAYERS.index(here):
        return f"{here} must not know {there}"
    if there != "converters" or len(other) < 2:
        return None
    folder = module[1] if here == "converters" else None
    if other[1] in FORMATS and folder != other[1]:
        if here == "converters":
            return f"only the format itself knows converters.{other[1]}"
        if here == "exporters" and not any(".".join(other).startswith(name) for name in WIRE):
            return "a format is asked for by its name (converters.registry)"
    if other[1] in SHARED and folder not in FORMATS | SHARED:
        return f"converters.{other[1]} is for formats"
    return None


def modules() -> Iterator[tuple[Path, tuple[str, ...]]]:
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            yield path, path.relative_to(ROOT).with_suffix("").parts


def test_imports_point_one_way() -> None:
    found = list(modules())
    assert len(found) > 100  # the package was found, not an empty folder
    faults = [
        f"{'.'.join(module)} imports {'.'.join(other)}: {why}"
        for path, module in found
        for other in imports(path.read_text(), module)
        if (why := wrong(module, other)) is not None
    ]
    assert faults == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("converters.agno.read", "from ..atif import read"),
        ("converters.agno.read", "from .. import atif"),
        ("converters.agno.read", "from ...exporters.stats import total"),
        ("converters.agno.__init__", "import spanport.cli.common"),
        ("converters.stages.safe", "def f():\n    from ..otlp.text import safe_text"),
        ("converters.carry", "from .otlp.decode import places"),
        ("converters.stages.split", "from ..simlab.trace import single"),
        ("exporters.stats", "from ..converters.agno.read import read"),
        ("exporters.stats", "from ..cli import common"),
    ],
)
def test_an_import_the_wrong_way_is_seen(module: str, line: str) -> None:
    name = tuple(module.split("."))
    assert [why for other in imports(line, name) if (why := wrong(name, other)) is not None]


def test_every_folder_of_converters_is_known() -> None:
    folders = {path.parent.name for path in (ROOT / "converters").glob("*/__init__.py")}
    assert folders - FORMATS - SHARED == {"conventions", "stages"}
