"""Named entities: train a tagger on a CoNLL file with ELMo in it, then find the names in a sentence.

python examples/entities.py train.conll dev.conll entities --say "Ada Lovelace was born in London ."
"""

import argparse
from pathlib import Path

from elmo import tasks
from elmo.tasks.fit import Watcher
from elmo.tasks.run_folder import TaskInputs, start
from elmo.tasks.settings import make_settings
from elmo.tasks.training import train_task
from elmo.tasks.workbench import Workbench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("output", type=Path, help="a new folder for the tagger")
    parser.add_argument("--model", help="without it, the default model")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--say", default="Ada Lovelace was born in London .")
    arguments = parser.parse_args()

    # A character CNN beside ELMo, a BiLSTM between, and a CRF on top, for the tags mark spans.
    settings = make_settings("tagging", {"words.kinds": ["characters"], "fit.num_epochs": arguments.epochs})
    inputs = TaskInputs("tagging", arguments.train, arguments.dev, model=arguments.model)
    start(inputs, settings, arguments.output)
    scores = train_task(Workbench(inputs), settings, arguments.output, watcher=Watcher(on_epoch=tell))
    print(f"dev F1 {scores['dev']['f1']:.1f}; the layers count {scores['mixes'][0]['weights']}")

    tagger = tasks.load(arguments.output)
    (found,) = tagger.predict([arguments.say])
    for kind, first, last in found.spans:
        print(f"{kind}: {' '.join(found.words[first:last])}")


def tell(record: dict[str, object]) -> None:
    print(record)


if __name__ == "__main__":
    main()
