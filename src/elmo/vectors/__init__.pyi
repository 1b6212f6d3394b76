from .embed import embed_files as embed_files
from .formats import VectorRow as VectorRow
from .reading import Vectors as Vectors
from .reading import open as open
from .settings import VectorSettings as VectorSettings
