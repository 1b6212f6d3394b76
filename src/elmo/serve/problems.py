"""What is wrong with a request -> a status and {"error": {"code", "message", "field"}}."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from elmo.serve.json_answer import JsonAnswer

# Others have closed the connection: nobody reads this one, but it is counted.
CLIENT_GONE = 499


class Problem(Exception):  # noqa: N818  # an answer rather than a failure
    """A request that is refused, and why."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.field = status, code, message, field
        self.headers = dict(headers or {})

    def to_answer(self) -> JsonAnswer:
        """Give what is sent."""
        return JsonAnswer(
            {"error": {"code": self.code, "message": self.message, "field": self.field}},
            status_code=self.status,
            headers=self.headers,
        )


def too_much(message: str, field: str | None) -> Problem:
    """Refuse a request for its size."""
    return Problem(413, "too_large", message, field=field)


def unknown_name(what: str, name: str, known: list[str], field: str | None) -> Problem:
    """Refuse a name that is not served."""
    listed = ", ".join(known) or "none"
    return Problem(
        404, f"{what}_not_found", f"There is no {what} {name!r:.80} here; known: {listed}.", field=field
    )


def from_validation(error: ValidationError) -> Problem:
    """Tell the first fault that pydantic found."""
    first: Any = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        reason = first["ctx"]["error"]
        return Problem(400, "invalid_json", f"The body is not valid JSON ({reason}); send a JSON object.")
    field = ".".join(map(str, first["loc"])) or None
    message = first["msg"] if first["type"] == "elmo" else _describe(field, first)
    return Problem(422, "invalid_request", message, field=field)


def _describe(field: str | None, fault: Any) -> str:
    if fault["type"] == "missing":
        return f"{field} is missing; it is needed."
    if fault["type"] == "extra_forbidden":
        return f"{field} is not a field of this request; take it out, or see /docs for those that are."
    if fault["type"] in ("model_type", "model_attributes_type"):
        return 'The body must be a JSON object, such as {"sentences": ["I went to the bank"]}.'
    reason = fault["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"{field}: it {reason}." if fault["msg"].startswith("Input ") else f"{field}: {reason}."
