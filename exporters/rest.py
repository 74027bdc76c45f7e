"""The backends' own APIs: JSON over HTTP with the same credentials and certificates as the spans. For read-back, scores, projects and links; never for spans."""

from __future__ import annotations

from typing import Any

import msgspec
import requests

from ..converters.errors import SpanportError
from .otlp.answer import excerpt
from .otlp.settings import Destination, environment_headers

TIMEOUT = 30.0
MAX_BODY = 256 << 20
_OTLP_ONLY = ("content-type", "content-encoding", "accept-encoding")


class RestError(SpanportError):
    """An API did not do what it was asked. ``status`` 0: nobody answered."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Rest:
    """The API of the server that ``to`` belongs to."""

    def __init__(self, to: Destination) -> None:
        self.base = to.base
        self._session = requests.Session()
        self._session.headers.update({k: v for k, v in {**environment_headers(), **to.headers}.items() if k not in _OTLP_ONLY})
        self._verify: str | bool = to.certificate or True
        self._cert = (to.client_certificate, to.client_key) if to.client_certificate and to.client_key else to.client_certificate

    def call(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        """The decoded JSON of an answer (None when it is empty). RestError for anything that is no 2xx."""
        url = f"{self.base}/{path.lstrip('/')}"
        given: dict[str, Any] = {}
        if body is not None:
            given = {"data": msgspec.json.encode(body), "headers": {"content-type": "application/json"}}
        try:
            answer = self._session.request(
                method,
                url,
                params={k: v for k, v in query.items() if v is not None},
                timeout=TIMEOUT,
                verify=self._verify,
                cert=self._cert,
                allow_redirects=False,
                **given,
            )
        except (requests.RequestException, OSError) as error:
            raise RestError(f"{url}: {str(error)[:200]}") from error
        if not 200 <= answer.status_code < 300:
            raise RestError(f"{answer.status_code} from {url}: {excerpt(answer.content)}", answer.status_code)
        if not answer.content:
            return None
        try:
            return msgspec.json.decode(answer.content)
        except msgspec.DecodeError:
            raise RestError(f"{url} answered with something that is no JSON: {excerpt(answer.content)}", answer.status_code) from None
