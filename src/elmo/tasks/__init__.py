"""Train task networks with ELMo on labelled data, evaluate them and predict. Names are imported on first use.

from elmo import tasks
tasks.train("train.conll", dev="dev.conll", kind="ner", output="tagger")
tasks.load("tagger").predict(["I went to the bank"])
"""

from elmo.extras import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__)
