"""Run the notebooks in a fresh kernel.

python -m tests.end_to_end.notebooks [NAME ...] runs them and writes their outputs into them; look at the pictures
before you commit.
"""

import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "notebooks"


def execute(path: Path) -> Any:
    """Run a notebook from its folder and return it with the outputs it has now; an error in a cell is raised."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": str(path.parent)}})
    # Networks this small are slower with a second thread, and on a busy machine far slower.
    language = "zh" if path.stem == "chinese" else "en"  # of the labels of plots
    client.execute(env={**os.environ, "OMP_NUM_THREADS": "1", "ELMO_LANG": language})
    return notebook


def write(path: Path) -> None:
    """Run a notebook and keep its outputs, without times that would differ from run to run."""
    import nbformat

    notebook = execute(path)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("*.ipynb")):
        write(FOLDER / f"{name}.ipynb")
