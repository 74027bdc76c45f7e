"""Phoenix and MLflow on loopback, each in a virtual environment of its own (``.ci/backends`` makes them and names them here):
SPANPORT_PHOENIX and SPANPORT_MLFLOW are the folders of the environments. Without them these tests are skipped.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def started(command: list[str], health: str, log: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    """The server, once it answers."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **env}, start_new_session=True)
    until = time.monotonic() + 180
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"{command[0]} ended: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(health, timeout=2):
                return process
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise RuntimeError(f"{command[0]} does not answer: {log.read_text()[-2000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def environment(name: str) -> Path:
    folder = os.environ.get(name)
    if not folder:
        pytest.skip(f"{name} names no virtual environment (.ci/backends)")
    return Path(folder)


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Phoenix."""
    folder = environment("SPANPORT_PHOENIX")
    data, port = tmp_path_factory.mktemp("phoenix"), free_port()
    env = {
        "PHOENIX_WORKING_DIR": str(data),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    process = started([str(folder / "bin" / "phoenix"), "serve"], f"http://127.0.0.1:{port}/healthz", data / "log", env)
    os.environ["SPANPORT_TEST_PHOENIX_GRPC"] = f"http://127.0.0.1:{env['PHOENIX_GRPC_PORT']}"
    yield f"http://127.0.0.1:{port}"
    stop(process)


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow."""
    folder = environment("SPANPORT_MLFLOW")
    data, port = tmp_path_factory.mktemp("mlflow"), free_port()
    env = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }
    command = [str(folder / "bin" / "mlflow"), "server", "--backend-store-uri", f"sqlite:///{data}/mlflow.db"]
    command += ["--artifacts-destination", str(data / "artifacts"), "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    process = started(command, f"http://127.0.0.1:{port}/health", data / "log", env)
    yield f"http://127.0.0.1:{port}"
    stop(process)


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """The command in a process of its own, with a state directory of the test's."""

    def ran(*args: Any, status: int = 0) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("OTEL_")}
        env["XDG_STATE_HOME"] = str(tmp_path / "state")
        done = subprocess.run(
            [sys.executable, "-m", "spanport", *map(str, args)], capture_output=True, text=True, timeout=900, env=env, cwd=tmp_path
        )
        assert done.returncode == status, done.stderr
        return done

    return ran
