"""Train a named-entity tagger with ELMo on a CoNLL file, then tag a sentence.

python examples/entities.py train.conll dev.conll entities
"""

import sys

from elmo import tasks


def train_tagger(train: str, dev: str, output: str, *, model: str | None = None, num_epochs: int = 15) -> tasks.Task:
    """Train a tagger in the folder output; without a model, on en-small."""
    # A character CNN in addition to ELMo, a BiLSTM, and a CRF because the tags mark spans.
    settings = {"words.kinds": ["characters"], "fit.num_epochs": num_epochs}
    result = tasks.train(
        train, dev=dev, kind="ner", model=model, output=output, settings=settings, show_progress_bar=True
    )
    print(f"dev F1 {result.dev['f1']:.1f}; weights of the layers: {result.mixes[0]['weights']}")
    return result.load()


def print_entities(tagger: tasks.Task, text: str) -> None:
    (prediction,) = tagger.predict([text])
    for entity, start, end in prediction.spans:
        print(f"{entity}: {' '.join(prediction.words[start:end])}")


if __name__ == "__main__":
    print_entities(train_tagger(*sys.argv[1:]), "Ada Lovelace was born in London .")
