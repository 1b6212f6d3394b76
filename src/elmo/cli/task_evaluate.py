"""`elmo task evaluate`: a trained task and labelled examples -> scores."""

import json
from typing import Annotated

import typer

from elmo.cli import options, task_options


def evaluate(
    task: task_options.TaskFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Labelled examples; - is standard input.")],
    format: task_options.FormatChoice = None,
    column: task_options.Columns = None,
    header: task_options.Header = None,
    bilm: task_options.BilmPlace = None,
    precision: task_options.Precision = None,
    device: options.Device = "cpu",
    as_json: options.AsJson = False,
) -> None:
    """Measure a trained task on labelled examples.

    \b
    Example:
      elmo task evaluate tagger test.conllu
    """
    from elmo.tasks import load
    from elmo.tasks.data import read_examples

    opened = load(task, bilm=bilm, precision=precision, device=device)
    trained = opened.description
    read = task_options.choose_read_settings(trained.read, opened.family, file, format, column, header)
    examples, _ = read_examples(file, opened.family, read, trained.label_map)
    scores = opened.evaluate(examples)
    if as_json:
        print(json.dumps({"num_examples": len(examples), **scores}))
    else:
        listed = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
        print(f"{file}: {listed} (examples: {len(examples):,}).")
