"""Train a named-entity tagger with ELMo on a CoNLL file, then tag a sentence.

python examples/entities.py train.conll dev.conll entities --say "Ada Lovelace was born in London ."
"""

import argparse

from elmo import tasks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("output", help="a new folder for the tagger")
    parser.add_argument("--model", help="default: en-small")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--say", default="Ada Lovelace was born in London .")
    arguments = parser.parse_args()

    # A character CNN in addition to ELMo, a BiLSTM, and a CRF because the tags mark spans.
    settings = {"words.kinds": ["characters"], "fit.num_epochs": arguments.epochs}
    result = tasks.train(
        arguments.train,
        kind="ner",
        dev=arguments.dev,
        model=arguments.model,
        output=arguments.output,
        settings=settings,
        progress=True,
    )
    print(f"dev F1 {result.dev['f1']:.1f}; weights of the layers: {result.mixes[0]['weights']}")

    (prediction,) = result.load().predict([arguments.say])
    for entity, start, end in prediction.spans:
        print(f"{entity}: {' '.join(prediction.words[start:end])}")


if __name__ == "__main__":
    main()
