"""What workers of inference.py and pretrain.py share: an order, questions and answers, a line of JSON each."""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Sentences = list[list[str]]


def serve(open_program: Callable[[dict[str, Any]], dict[str, Callable[..., Any]]]) -> None:
    """Open a program as the order says and do what is asked of it until the questions end.

    `open_program` returns functions by name; each question names one and its arguments. What it returns is the
    answer, with the seconds it took. `describe` is called once, at the start, and `prepare` before each question.
    Everything that libraries print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    start = time.perf_counter()
    functions = open_program(json.loads(sys.argv[1]))
    seconds = time.perf_counter() - start
    answer(seconds=seconds, described=functions.get("describe", dict)())
    for line in sys.stdin:
        asked = json.loads(line)
        functions.get("prepare", dict)()
        start = time.perf_counter()
        result = functions[asked["function"]](**asked["arguments"])
        answer(seconds=time.perf_counter() - start, result=result)


def cut(sentences: Sentences, batch_size: int) -> list[Sentences]:
    """Cut sentences into batches of similar length, as a careful user would."""
    ordered = sorted(sentences, key=len)
    return [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]
