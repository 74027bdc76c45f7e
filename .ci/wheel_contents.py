"""Check that a wheel holds every package of the checkout (and its data files), and nothing else."""

import re
import sys
import tomllib
import zipfile
from pathlib import Path

root = Path(__file__).parent.parent
config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
listed = set(config["packages"])
code = [p for top in ("converters", "exporters", "cli") for p in (root / top).rglob("*.py")]
on_disk = {"spanport", *("spanport." + ".".join(p.parent.relative_to(root).parts) for p in code)}
problems = [f"package not listed in pyproject.toml: {name}" for name in sorted(on_disk - listed)]
problems += [f"listed package without code: {name}" for name in sorted(listed - on_disk)]

names = set(zipfile.ZipFile(sys.argv[1]).namelist())
wanted = {f"spanport/{p.name}" for p in root.glob("*.py")}
wanted |= {f"spanport/{p.relative_to(root)}" for p in code}
for package, patterns in config.get("package-data", {}).items():
    folder = root.joinpath(*package.split(".")[1:])
    wanted |= {f"spanport/{p.relative_to(root)}" for pattern in patterns for p in folder.glob(pattern)}
found = {n for n in names if not re.match(r"spanport-[^/]*\.dist-info/", n)}
problems += [f"missing from the wheel: {n}" for n in sorted(wanted - found)]
problems += [f"in the wheel and not of the package: {n}" for n in sorted(found - wanted)]
print("\n".join(problems) or f"{len(found)} files, as they should be")
sys.exit(bool(problems))
