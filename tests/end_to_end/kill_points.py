"""Kill a command before each of its file operations, run it again, and compare what it wrote.

A program of its own (python -m tests.end_to_end.kill_points SCENARIO.json), so that there is one thread when it
forks: importing once and forking for every trial is what makes all points affordable. Prints JSON.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import sys
from importlib import import_module
from pathlib import Path

# Raised by the interpreter before it does what they are called after.
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LIBRARIES = {
    "elmo", "torch", "safetensors", "sklearn", "scipy", "pandas", "faiss", "pyarrow", "h5py",
    "tokenizers", "sentencex", "google", "rich", "matplotlib", "huggingface_hub",
}  # fmt: skip
VOLATILE = re.compile(rb'"elapsed_seconds": [\d.]+')
UNFINISHED = re.compile(r"saving-[0-9a-f]+|^\.job$|^\.preparing$|\.spool$|state\.pt$")


def watch(folder: Path, on_operation) -> None:
    """Call `on_operation` before each operation of this process that changes something in a folder."""
    inside = f"{folder.resolve()}{os.sep}"

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not (flags or 0) & WRITES:
                return
        elif event not in CHANGES:
            return
        paths = [os.fsdecode(each) for each in arguments[:2] if isinstance(each, str | bytes | os.PathLike)]
        if any(os.path.abspath(path).startswith(inside) for path in paths):  # noqa: PTH100
            on_operation(event, paths)

    sys.addaudithook(hook)


def run(arguments: list[str], folder: Path, kill_at: int | None, log: Path) -> int:
    """Run the command in a child; return its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 99
    try:
        os.chdir(folder)
        null, said = os.open(os.devnull, os.O_RDWR), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(null, 0)
        os.dup2(said, 1)
        os.dup2(said, 2)
        operations: list[str] = []

        def on_operation(event: str, paths: list[str]) -> None:
            operations.append(f"{event} {paths[0]}")
            if len(operations) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        watch(folder, on_operation)
        from elmo.cli import main

        code = main(arguments)
        if kill_at is None:
            log.with_suffix(".operations").write_text("\n".join(operations))
            log.with_suffix(".modules").write_text("\n".join(sys.modules))
        sys.stdout.flush()
    except BaseException:
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def snapshot(folder: Path) -> dict[str, str]:
    """Return the hash of every file, the time it took left out.

    Not of locks, and of the layer cache, which holds
    values of a killed process that nothing refers to.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name.startswith("cache/") or path.name == ".lock":
            continue
        if path.is_file():
            found[name] = hashlib.sha256(VOLATILE.sub(b"", path.read_bytes())).hexdigest()
        elif UNFINISHED.search(path.name):
            found[name] = "a folder"
    return found


def prepare_trial(scenario: dict, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if scenario.get("begins_with"):
        shutil.copytree(scenario["begins_with"], folder)
    else:
        folder.mkdir()


def go_on(scenario: dict, folder: Path, log: Path) -> str | None:
    """Run the same command again, and where that is refused the one that resumes; return what is wrong."""
    log.unlink(missing_ok=True)
    codes = []
    for name in ("command", "resume"):
        if name in scenario:
            codes.append(run(scenario[name], folder, None, log))
            if codes[-1] == 0:
                return None
            if codes[-1] != 2:
                break
    return f"exit codes {codes}: {log.read_text()[-400:]}"


def main() -> None:
    scenario = json.loads(Path(sys.argv[1]).read_text())
    work = Path(sys.argv[1]).resolve().parent
    folder, log = work / "trial", work / "said.txt"
    import_commands()
    prepare_trial(scenario, folder)
    if run(scenario["command"], folder, None, log) != 0:
        raise SystemExit(log.read_text())
    operations = log.with_suffix(".operations").read_text().splitlines()
    for name in log.with_suffix(".modules").read_text().splitlines():
        if name.partition(".")[0] in LIBRARIES:  # so that no trial has to
            with contextlib.suppress(ImportError):
                import_module(name)
    expected = snapshot(folder)
    failures = [] if not any(UNFINISHED.search(Path(name).name) for name in expected) else ["leftovers: no kill"]
    num_killed = 0
    for point in range(1, len(operations) + 1):
        prepare_trial(scenario, folder)
        code = run(scenario["command"], folder, point, log)
        num_killed += code == -signal.SIGKILL
        fault = go_on(scenario, folder, log)
        if fault is None and (found := snapshot(folder)) != expected:
            different = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
            fault = f"other files: {sorted(different)[:5]}"
        if fault is not None:
            failures.append(f"killed before {point}, {operations[point - 1]}: {fault}")
    sys.stdout.write(json.dumps({"num_points": len(operations), "num_killed": num_killed, "failures": failures}))


def import_commands() -> None:
    """Import all that commands need, once."""
    import torch

    torch.set_num_threads(1)
    for name in ("elmo.cli.app", "elmo.vectors.embed", "elmo.pretrain.launch", "elmo.tasks.comparison"):
        import_module(name)


if __name__ == "__main__":
    main()
