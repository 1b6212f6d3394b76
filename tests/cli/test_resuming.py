"""Interrupting a long command prints the command that resumes it."""

import importlib
import shlex

import pytest

from tests.tasks.toys import SMALL, write_toy

FAST = [part for name, value in SMALL.items() for part in ("--set", f"{name}={value}")]


def interrupt(monkeypatch, target: str, *, after: int = 0) -> None:
    """Let a function be interrupted as by Ctrl-C, the first time or after some calls."""
    module, _, name = target.rpartition(".")
    owner = importlib.import_module(module)
    original, calls = getattr(owner, name), []

    def call(*arguments, **options):
        calls.append(None)
        if len(calls) > after:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(owner, name, call)


def resuming_command(answer) -> list[str]:
    assert answer.code == 130, answer
    said = answer.err.splitlines()[-1]
    start, colon, command = said.partition("resume: ")
    assert start == "elmo: interrupted; " and colon, said
    name, *arguments = shlex.split(command)
    assert name == "elmo"
    return arguments


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (["embed", "my text.txt", "--output", "vectors"], "elmo.vectors.embed.embed_files"),
        (["encode", "my text.txt", "--output", "vectors"], "elmo.vectors.embed.embed_files"),
        (["prepare", "my text.txt", "--output", "corpus", "--workers", "1"], "elmo.corpus.prepare.prepare"),
        (["neighbors", "--build", "index", "--corpus", "my text.txt"], "elmo.analysis.index.build_index"),
    ],
)
def test_the_same_command_resumes(run, model_folder, tmp_path, monkeypatch, command, target):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my text.txt").write_text("I went to the bank\n")
    arguments = [*command, *([] if command[0] == "prepare" else ["-m", str(model_folder)])]
    with monkeypatch.context() as patch:
        interrupt(patch, target)
        found = resuming_command(run(*arguments))
    assert found == arguments
    assert run(*found).code == 0


def test_a_task_is_resumed_by_its_folder_once_it_has_begun(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_toy("classification", tmp_path)
    arguments = ["task", "train", "sentiment", "--train", "train.csv", "--elmo", "none", "-o", "a task", *FAST]
    with monkeypatch.context() as patch:
        interrupt(patch, "elmo.tasks.training.fit")
        found = resuming_command(run(*arguments))
    assert found == ["task", "train", "--resume", "a task"]
    assert run(*found).code == 0
    with monkeypatch.context() as patch:
        interrupt(patch, "elmo.tasks.training.start")
        again = [*arguments[: -len(FAST) - 1], "another", *FAST]
        assert resuming_command(run(*again)) == again


def test_standard_input_is_needed_again(run, model_folder, tmp_path, monkeypatch):
    interrupt(monkeypatch, "elmo.vectors.embed.embed_files")
    answer = run("embed", "-", "--output", tmp_path / "vectors", "-m", model_folder, stdin=b"I went\n")
    assert "elmo: interrupted; resume with the same standard input: elmo embed - --output" in answer.err


def test_short_commands_print_no_resume_hint(run, model_folder, monkeypatch):
    interrupt(monkeypatch, "elmo.cli.options.choose_model")
    assert run("score", "--text", "a").err == "elmo: interrupted\n"


def test_a_finished_folder_is_not_reported_as_written(run, model_folder, tmp_path):
    (tmp_path / "text.txt").write_text("I went to the bank\n")
    command = ("embed", tmp_path / "text.txt", "--output", tmp_path / "vectors", "-m", model_folder)
    assert run(*command).out.startswith("Wrote ")
    assert run(*command).out == f"Wrote {tmp_path / 'vectors'} (rows: 1, words: 5, vectors: 5).\n"
