from . import analysis as analysis
from . import tasks as tasks
from . import vectors as vectors
from .checkpoint.source import list_models as list_models
from .config import ModelConfig as ModelConfig
from .corpus.prepare import prepare as prepare
from .errors import CheckpointError as CheckpointError
from .errors import ConfigError as ConfigError
from .errors import ElmoError as ElmoError
from .errors import InputError as InputError
from .fusion.fuse import fuse as fuse
from .layer import ElmoLayer as ElmoLayer
from .model import Elmo as Elmo
from .nn.scalar_mix import ScalarMix as ScalarMix
from .pretrain.launch import resume_training as resume_training
from .pretrain.launch import train as train

__version__: str
