"""Check the folder that a command writes a model to before the work begins, so that nothing of value is lost."""

from pathlib import Path

from elmo.errors import InputError

# The files of a model in either format: only a folder with nothing else is ever replaced.
_OWN_FILES = {
    "config.json", "weights.safetensors", "vocabulary.txt", "characters.txt", "word_counts.txt", "README.md",
    "context.safetensors", "context.txt", "options.json", "weights.hdf5", "vocab.txt",
}  # fmt: skip


def check_model_output(source: str, output: Path, *, force: bool, source_name: str) -> None:
    """Raise InputError for a folder with the source in it, with other files than a model, or without `force`."""
    if not output.exists():
        return
    if not output.is_dir():
        raise InputError(f"{output} is a file; give a folder to write the model to.")
    given = Path(source).expanduser()
    if given.exists() and output.samefile(given if given.is_dir() else given.parent):
        raise InputError(f"{output} is the folder of {source_name}; give another folder to write to.")
    names = sorted(entry.name for entry in output.iterdir())
    if names and not force:
        raise InputError(
            f"{output} is not empty (it has {_shorten(names)}); give a new folder, or --force to replace the "
            "model in it."
        )
    if others := [name for name in names if name not in _OWN_FILES]:
        raise InputError(
            f"{output} has other files than a model ({_shorten(others)}), so --force does not replace it; give a "
            "new folder."
        )


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
