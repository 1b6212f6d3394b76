"""The worker side of inference.py and pretrain.py: options, requests and responses, one JSON object per line."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Sentences = list[list[str]]


def serve(open_program: Callable[[dict[str, Any]], dict[str, Callable[..., Any]]]) -> None:
    """Open a program with the given options and answer requests until standard input ends.

    `open_program` returns functions by name; each request names a function and its arguments. The response is its
    return value and the seconds it took. `describe` is called once, at the start, and `prepare` before each request.
    Output of libraries goes to standard error.
    """
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def respond(**values: Any) -> None:
        output.write(json.dumps(values) + "\n")
        output.flush()

    start = time.perf_counter()
    functions = open_program(json.loads(sys.argv[1]))
    seconds = time.perf_counter() - start
    respond(seconds=seconds, described=functions.get("describe", dict)())
    for line in sys.stdin:
        request = json.loads(line)
        functions.get("prepare", dict)()
        start = time.perf_counter()
        result = functions[request["function"]](**request["arguments"])
        respond(seconds=time.perf_counter() - start, result=result)


def cut(sentences: Sentences, batch_size: int) -> list[Sentences]:
    """Cut sentences into batches of similar length, as a careful user would."""
    ordered = sorted(sentences, key=len)
    return [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]
