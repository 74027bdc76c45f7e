"""Where spans go and how: options first, then the ``OTEL_EXPORTER_OTLP_*`` variables as the specification says, then defaults.

The HTTP channel leaves headers, certificates and the timeout to the official exporter; what has to be known before a request is made (address,
protocol, compression), and everything of the gRPC channel, is resolved here, in one table that a test holds against the official exporters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

from ...converters.errors import UsageError

PREFIX: Final = "OTEL_EXPORTER_OTLP_"
PROTOCOLS: Final = ("http/protobuf", "http/json", "grpc")
COMPRESSIONS: Final = ("none", "gzip", "deflate")
TRACES_PATH: Final = "v1/traces"
DEFAULT_TIMEOUT: Final = 10.0


@dataclass(frozen=True)
class Destination:
    """``url`` is the address that requests go to, whole (HTTP) or scheme and authority (gRPC). ``headers``: what options and profile
    add (names in lower case); those of the environment are added by the channel. ``timeout``: seconds for one request. Certificates are
    paths. ``said_by``: which option or variable gave the address."""

    url: str
    protocol: str = "http/protobuf"
    headers: dict[str, str] = field(default_factory=dict)
    compression: str = "gzip"
    timeout: float | None = None
    certificate: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    insecure: bool = False
    said_by: str = "--endpoint"

    @property
    def name(self) -> str:
        """The address without credentials and query, which is how it is shown, and how the ledger and the spool know it."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        host = f"[{host}]" if ":" in host else host
        return urlunsplit((parts.scheme, host + (f":{parts.port}" if parts.port else ""), parts.path, "", ""))

    @property
    def base(self) -> str:
        """The server's address without the path of traces: where its other APIs are."""
        parts = urlsplit(self.url)
        path = parts.path.removesuffix("/").removesuffix(TRACES_PATH).rstrip("/")
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))

    def with_headers(self, more: Mapping[str, str]) -> Destination:
        """With ``more`` where they are not given already."""
        return replace(self, headers={**{k.lower(): v for k, v in more.items()}, **self.headers})


def variable(name: str) -> tuple[str, str] | None:
    """(variable, value) of an exporter setting such as ``ENDPOINT``: that for traces before the general one; empty is unset."""
    for key in (f"{PREFIX}TRACES_{name}", PREFIX + name):
        if value := os.environ.get(key, "").strip():
            return key, value
    return None


def _value(name: str) -> str | None:
    found = variable(name)
    return found[1] if found else None


def destination(
    endpoint: str | None = None,
    protocol: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    compression: str | None = None,
    timeout: float | None = None,
    certificate: str | None = None,
    client_certificate: str | None = None,
    client_key: str | None = None,
) -> Destination | None:
    """Where to send, or None when neither the call nor the environment names an endpoint. UsageError for what can't work."""
    said_by, from_env = "--endpoint", None
    if endpoint is None:
        from_env = variable("ENDPOINT")
        if from_env is None:
            return None
        said_by, endpoint = from_env
    protocol = protocol or _value("PROTOCOL") or PROTOCOLS[0]
    if protocol not in PROTOCOLS:
        raise UsageError(f"no protocol {protocol!r}; there are {', '.join(PROTOCOLS)}")
    compression = (compression or _value("COMPRESSION") or "gzip").lower()
    if compression not in COMPRESSIONS:
        raise UsageError(f"no compression {compression!r}; there are {', '.join(COMPRESSIONS)}")
    if protocol == "grpc" and compression == "deflate":
        raise UsageError("gRPC compresses with gzip or none")
    insecure = (_value("INSECURE") or "").lower() == "true"
    given = {
        "headers": _checked(headers or {}),
        "compression": compression,
        "timeout": timeout,
        "certificate": _file(certificate or _value("CERTIFICATE"), "certificate"),
        "client_certificate": _file(client_certificate or _value("CLIENT_CERTIFICATE"), "client certificate"),
        "client_key": _file(client_key or _value("CLIENT_KEY"), "client key"),
    }
    if protocol == "grpc":
        url = _grpc_url(endpoint, insecure, said_by)
        if url.startswith("https:"):
            insecure = False
        elif variable("INSECURE") is None:
            insecure = True
    else:
        as_it_is = from_env is not None and from_env[0] == f"{PREFIX}TRACES_ENDPOINT"
        url = _http_url(endpoint, as_it_is, said_by)
    return Destination(url=url, protocol=protocol, insecure=insecure, said_by=said_by, **given)  # type: ignore[arg-type]


def _file(path: str | None, what: str) -> str | None:
    if path is not None and not Path(path).is_file():
        raise UsageError(f"the {what} {path!r} is no file")
    return path


def _checked(headers: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not name or any(c in name for c in "\r\n :") or not name.isascii() or any(c in value for c in "\r\n\0"):
            raise UsageError(f"no header: {name!r}")
        found[name.lower()] = value
    return found


def _parts(endpoint: str, said_by: str) -> tuple[str, str, str, str]:
    """(scheme, authority, path, query) of an address with a scheme; UsageError when it has none or no host."""
    try:
        parts = urlsplit(endpoint)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"{said_by}: no address: {endpoint!r} ({error})") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{said_by}: an address starts with http:// or https://, as in http://localhost:4318, not {endpoint!r}")
    return parts.scheme, parts.netloc, parts.path, parts.query


def _http_url(endpoint: str, as_it_is: bool, said_by: str) -> str:
    scheme, authority, path, query = _parts(endpoint, said_by)
    if not as_it_is and not path.rstrip("/").endswith("/" + TRACES_PATH):
        path = path.rstrip("/") + "/" + TRACES_PATH
    return urlunsplit((scheme, authority, path if as_it_is else path.rstrip("/"), query, ""))


def _grpc_url(endpoint: str, insecure: bool, said_by: str) -> str:
    if "://" not in endpoint:
        if variable("INSECURE") is None:
            raise UsageError(f"{said_by}: say http:// (no TLS) or https:// before {endpoint!r}, or set {PREFIX}INSECURE")
        endpoint = f"{'http' if insecure else 'https'}://{endpoint}"
    scheme, authority, _, _ = _parts(endpoint, said_by)
    return f"{scheme}://{authority}"


def environment_headers() -> dict[str, str]:
    """The headers that the environment states, for gRPC and for the backends' own APIs: ``k=v,k2=v2``, values percent-encoded,
    names in lower case. What is no pair is passed over, as the specification says."""
    found: dict[str, str] = {}
    for pair in (_value("HEADERS") or "").split(","):
        name, eq, value = pair.partition("=")
        if eq and name.strip():
            found[unquote(name.strip()).lower()] = unquote(value.strip())
    return found


def request_timeout(given: float | None) -> float:
    """Seconds for one request: the option, else the variable (seconds, as the official Python exporters read it), else 10."""
    if given is not None:
        return given
    found = variable("TIMEOUT")
    if found is None:
        return DEFAULT_TIMEOUT
    try:
        return float(found[1])
    except ValueError:
        raise UsageError(f"{found[0]}: no number of seconds: {found[1]!r}") from None


__all__ = ["COMPRESSIONS", "PROTOCOLS", "Destination", "destination", "environment_headers", "request_timeout", "variable"]
