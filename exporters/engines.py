"""The engines that there are, by name."""

from __future__ import annotations

from ..converters.errors import UsageError
from .engine import Engine, Local


def open_engine(spec: str = "local", jobs: int = 1) -> Engine:
    """The engine that ``spec`` names: ``local``, or ``dask://HOST:PORT``. UsageError for any other."""
    if spec == "local":
        return Local(jobs)
    if spec.startswith("dask://"):
        try:
            from .dask import Cluster
        except ImportError:
            raise UsageError("a Dask cluster needs the extra: pip install 'spanport[dask]'") from None
        engine: Engine = Cluster(spec.removeprefix("dask://"))
        return engine
    raise UsageError(f"no engine {spec!r}; there are local and dask://HOST:PORT")
