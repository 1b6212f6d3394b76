"""The earlier name of elmo.vectors, for code written for version 0.1."""

from elmo.vectors.embed import embed_files as run_job
from elmo.vectors.reading import open_folder as open
from elmo.vectors.settings import VectorSettings as JobSettings

__all__ = ["JobSettings", "open", "run_job"]
