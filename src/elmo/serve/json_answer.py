"""Values, numbers of numpy among them -> an answer in JSON."""

from typing import Any

import orjson
from starlette.responses import Response

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY


class JsonAnswer(Response):
    """JSON by orjson. A number that is not finite becomes null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Give the bytes."""
        return orjson.dumps(content, option=_OPTIONS)
