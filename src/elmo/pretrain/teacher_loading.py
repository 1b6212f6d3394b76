"""A folder or a name on the hub -> an encoder and its tokenizer, or one sentence about why not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from elmo.checkpoint.hub import fetch_from_hub
from elmo.errors import ConfigError, first_line

MAX_PIECES = 512
# What a repository on the hub holds besides: the same weights for other libraries.
FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
OLD_WEIGHTS = "pytorch_model*.bin"


def load_encoder(name: str) -> tuple[nn.Module, Any, int]:
    """Give the network, its fast tokenizer and how many pieces it reads at once."""
    try:
        import transformers
    except ImportError as error:
        raise ConfigError("A teacher needs transformers: pip install 'modern-elmo[distill]'.") from error
    folder = _find_folder(name)
    try:
        with _quiet(transformers):
            # The tokenizers of RoBERTa's kind want to be told that words come one by one.
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=True, add_prefix_space=True)
            network, told = transformers.AutoModel.from_pretrained(folder, output_loading_info=True)
    except Exception as error:  # the library raises of every kind, and each means that there is no teacher
        raise ConfigError(
            f"The teacher {name} could not be opened ({first_line(error).rstrip('.:')}); give an encoder that "
            "transformers' AutoModel and AutoTokenizer open."
        ) from error
    missing = [key for key in told["missing_keys"] if "pooler" not in key]
    if missing:
        raise ConfigError(
            f"The teacher {name} has no weights for {', '.join(sorted(missing)[:3])} ({len(missing)} in all); its "
            "files are not those of one model."
        )
    if not getattr(tokenizer, "is_fast", False):
        raise ConfigError(
            f"The teacher {name} has a slow tokenizer ({type(tokenizer).__name__}), which does not say which word "
            "a piece is of; choose an encoder with a fast one (tokenizer.json)."
        )
    if network.config.is_encoder_decoder:
        network = network.get_encoder()
    return network.eval().requires_grad_(False), tokenizer, _max_pieces(network, tokenizer)


def _find_folder(name: str) -> Path:
    folder = Path(name)
    if not folder.is_dir():
        folder = fetch_from_hub(name, files=FILES)
        if not list(folder.glob("*.safetensors")):
            folder = fetch_from_hub(name, files=(*FILES, OLD_WEIGHTS))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"The teacher {name} has no config.json; give the folder or the name of a Hugging Face encoder."
        )
    return folder


def _max_pieces(network: nn.Module, tokenizer: Any) -> int:
    config: Any = network.config
    positions = getattr(config, "max_position_embeddings", None) or MAX_PIECES
    # RoBERTa's kind counts positions from the one after padding's.
    return min(MAX_PIECES, int(positions) - 2, int(tokenizer.model_max_length))


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep bars and advice off the screen: what matters is told by an error."""
    logging = transformers.utils.logging
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
