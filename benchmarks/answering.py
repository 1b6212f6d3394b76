"""What the workers of inference.py share: an order as the argument, then questions and answers, JSON a line."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Sentences = list[list[str]]


def serve(open_model: Callable[[dict[str, Any]], dict[str, Callable[..., Any]]]) -> None:
    """Open a model as the order says and do what is asked of it until the questions end.

    `open_model` gives functions by name; each question names one and its arguments. What a function gives is the
    answer, with the seconds it took. Everything that libraries print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = time.perf_counter()
    functions = open_model(json.loads(sys.argv[1]))
    answers.write(json.dumps({"seconds": time.perf_counter() - start}) + "\n")
    answers.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        if "prepare" in functions:
            functions["prepare"]()
        start = time.perf_counter()
        result = functions[asked["function"]](**asked["arguments"])
        answers.write(json.dumps({"seconds": time.perf_counter() - start, "result": result}) + "\n")
        answers.flush()


def cut(sentences: Sentences, batch_size: int) -> list[Sentences]:
    """Cut sentences into batches of similar length, as a careful user would."""
    ordered = sorted(sentences, key=len)
    return [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]
