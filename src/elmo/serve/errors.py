"""Convert exceptions to HTTP responses: a status and {"error": {"code", "message", "field"}}."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from elmo.errors import ElmoError


class JsonResponse(Response):
    """JSON of numpy arrays and plain values; a number that is not finite becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes."""
        return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


class ApiError(HTTPException):
    """An error response: its status, a code for programs, a message for people, and the invalid field."""

    def __init__(
        self, status: int, code: str, message: str, *, field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(status, message, headers)
        self.code, self.field = code, field

    def to_response(self) -> JsonResponse:
        """Return the HTTP response."""
        error = {"code": self.code, "message": self.detail, "field": self.field}
        return JsonResponse({"error": error}, status_code=self.status_code, headers=self.headers)


async def _report(request: Request, error: Exception) -> Response:
    return _to_api_error(request, error).to_response()


# Exceptions of the last type are raised again after the response, and logged by the server.
HANDLERS: dict[Any, Any] = dict.fromkeys((HTTPException, RequestValidationError, ElmoError, Exception), _report)


def _to_api_error(request: Request, error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, RequestValidationError):
        return _describe_faults(error.errors())
    if isinstance(error, ElmoError):
        return ApiError(400, "invalid_input", str(error))
    if not isinstance(error, HTTPException):
        return ApiError(500, "failed", "The server failed to process this request; see its log.")
    codes = {404: "not_found", 405: "method_not_allowed"}
    message = f"{request.method} {request.url.path[:200]}: {error.detail}; see /docs for the routes."
    return ApiError(error.status_code, codes.get(error.status_code, "http_error"), message, headers=error.headers)


def _describe_faults(faults: Sequence[Any]) -> ApiError:
    """Report the first invalid field; a field with a union type has one fault per type."""
    _, *location = faults[0]["loc"]  # it begins with "body"
    if not location:
        message = 'The body must be a JSON object, such as {"sentences": ["I went to the bank"]}.'
        return ApiError(422, "invalid_request", message)
    field = str(location[0])
    place = field + "".join(f"[{part}]" for part in location if isinstance(part, int))
    rules = dict.fromkeys(fault["msg"] for fault in faults if fault["loc"][1] == field)
    return ApiError(422, "invalid_request", f"{place}: {' or '.join(rules)}.", field=field)
