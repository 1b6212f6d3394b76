"""`elmo probe KIND`: labelled data -> what each layer knows of it."""

from enum import Enum
from typing import Annotated

import typer

from elmo.cli import options, task_options
from elmo.cli.opening import open_model
from elmo.cli.probe_report import to_lines
from elmo.files.rows import to_json
from elmo.progress import progress_bar


class Kind(str, Enum):
    """What is probed."""

    tagging = "tagging"
    features = "features"
    classification = "classification"
    senses = "senses"
    similarity = "similarity"


def probe(
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="tagging: a tag of each word. features: CoNLL-U's FEATS, each feature. classification: a label "
            "of each text. senses: WordNet keys, by the nearest neighbour. similarity: scores of sentence pairs.",
        ),
    ],
    test: Annotated[str, typer.Option(metavar="FILE", help="What is measured on.")],
    train: Annotated[
        str | None, typer.Option(metavar="FILE", help="What is learned from; similarity may do without.")
    ] = None,
    column: task_options.Columns = None,
    file_format: task_options.FormatChoice = None,
    sense_index: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Of senses: WordNet's index.sense, for lemmas that training lacks."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many, from 0 on.", min=1)] = 3,
    max_train_words: Annotated[
        int | None,
        typer.Option(
            help="Train on so many words, which each seed draws by itself; senses takes the first ones.",
            show_default="100,000; 200,000 of texts; 1,000,000 of senses",
            min=1,
        ),
    ] = None,
    max_test_words: Annotated[
        int | None, typer.Option(help="Of the linear probes: measure on so many.", show_default="50,000", min=1)
    ] = None,
    json: options.AsJson = False,
    model: options.ModelName = None,
    device: options.Device = "cpu",
    local_files_only: options.LocalFilesOnly = False,
) -> None:
    """Measure what each layer knows of labelled data.

    Beside the layers stand their average and their learned mix; for models with a context layer also meaning
    (senses) and the vectors of elmo encode (similarity).

    \b
    Examples:
      elmo probe tagging --train train.conllu --test test.conllu --column tag=xpos
      elmo probe features --train train.conllu --test test.conllu
      elmo probe senses --train semcor.data.xml --test all.data.xml --sense-index index.sense
      elmo probe similarity --train sts-train.csv --test sts-test.csv
    """
    from elmo.analysis.probing import probe as run_probe

    columns = task_options.read_pairs(column, "--column")
    elmo = open_model(model, device=device, local_files_only=local_files_only)
    with progress_bar(unit="words", num_bytes=None, prints=False) as advance:
        found = run_probe(
            elmo, kind.value, train=train, test=test, format=file_format, columns=columns, sense_index=sense_index,
            seeds=range(seeds), max_train_words=max_train_words, max_test_words=max_test_words,
            advance=lambda num_words: advance(0, num_words),
        )  # fmt: skip
    print(to_json(found.to_dict()) if json else "\n".join(to_lines(found)))
