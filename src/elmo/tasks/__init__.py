"""Labelled data -> a task network with ELMo in it: train, evaluate, predict.

from elmo import tasks
tagger = tasks.load("my-tagger")
tagger.predict(["I went to the bank"])
"""

from elmo.tasks.task import Task, load

__all__ = ["Task", "load"]
