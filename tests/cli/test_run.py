"""Help, version, wrong usage and write errors, which all commands have in common."""

from typing import get_args

import pytest

from elmo import Elmo, __version__, progress
from elmo.checkpoint.open import Format
from elmo.cli import main
from elmo.cli.app import COMMANDS, GROUPS
from elmo.vectors.settings import FILE_ENDINGS
from elmo.vectors.writing import RowEmbedder
from tests.cli.conftest import Run


def test_version(run: Run):
    assert run("--version").out == f"elmo {__version__}\n"


def test_help_lists_each_command_with_a_whole_sentence(run: Run):
    answer = run("--help")
    assert answer.code == 0 and "..." not in answer.out.split("Commands:")[1]
    for name in {*GROUPS, *COMMANDS} - {name for name in COMMANDS if " " in name}:
        assert f"\n  {name} " in answer.out
    assert run("-h").out == answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example(run: Run, name):
    answer = run(*name.split(), "--help")
    assert answer.code == 0 and "Example" in answer.out and f"    elmo {name} " in answer.out


def test_no_command_gives_help_but_is_a_mistake(run: Run):
    answer = run()
    assert answer.code == 2 and answer.out.startswith("Usage: elmo")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["embed", "--txt", "I"], "No such option '--txt'."),
        (["embde"], "No such command 'embde'. Did you mean 'embed'? See elmo --help."),
        (["static", "corpus", "--xyz", "8"], "No such option '--xyz'. See elmo static --help."),
        (["convert", "in"], "Missing argument 'OUT'. See elmo convert --help."),
        (["embed", "--layers"], "Option '--layers' requires an argument. See elmo embed --help."),
        (["substitutes", "a", "--top-k", "one"], "Invalid value for '--top-k'"),
        (["embed", "--text", "I", "--state", "keep"], "'keep' is not one of 'zero', 'carry'"),
    ],
)
def test_wrong_usage_is_one_line(run: Run, arguments, message):
    assert message in run(*arguments).message()


def test_help_names_every_format(run: Run):
    text = run("embed", "--help").out
    assert all(format in text for format in get_args(Format))
    assert all(ending in text for ending in FILE_ENDINGS)


@pytest.mark.parametrize("ending", [".npz", ".jsonl", ".h5"])
@pytest.mark.parametrize("command", ["embed", "encode"])
@pytest.mark.parametrize("limit_bytes", [100, 20_000])
@pytest.mark.needs("resource")
def test_a_full_disk_is_one_line_and_leaves_no_file(run: Run, model_folder, tmp_path, command, ending, limit_bytes):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    sentences = b"I went to the bank\n" * 1100
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limits[1]))  # a full disk that any user can make
    try:
        answer = run(command, "-", "-m", model_folder, "-o", tmp_path / f"vectors{ending}", stdin=sentences)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large." in answer.message()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", FILE_ENDINGS)
@pytest.mark.parametrize("command", ["embed", "encode"])
@pytest.mark.parametrize(
    ("failure", "code", "line"),
    [
        ((OSError, 28, "No space left on device"), 2, "elmo: No space left on device.\n"),
        ((KeyboardInterrupt,), 130, "elmo: interrupted\n"),
    ],
)
def test_a_failure_leaves_the_old_file_alone(
    run: Run, model_folder, tmp_path, monkeypatch, ending, command, failure, code, line
):
    output = tmp_path / f"vectors{ending}"
    output.write_text("old")
    embed = RowEmbedder._embed
    num_calls = 0

    def fail_the_second_time(self, *arguments, **options):
        nonlocal num_calls
        num_calls += 1
        if num_calls == 2 or ending == ".npy":
            make_error, *values = failure
            raise make_error(*values)  # a new one: its traceback keeps the open files of this test
        return embed(self, *arguments, **options)

    monkeypatch.setattr(RowEmbedder, "_embed", fail_the_second_time)
    sentences = b"one" if ending == ".npy" else b"one\ntwo"
    answer = run(command, "-", "-m", model_folder, "-o", output, "--state", "carry", stdin=sentences)
    assert (answer.code, answer.err) == (code, line)
    assert [entry.name for entry in tmp_path.iterdir()] == [output.name]
    assert output.read_text() == "old"


def test_the_end_of_a_file_is_not_taken_for_ctrl_d(monkeypatch, model_folder):
    def fail(*arguments, **options):
        raise EOFError("No data left in file")

    monkeypatch.setattr(Elmo, "from_pretrained", fail)
    with pytest.raises(EOFError, match="No data left in file"):
        main(["embed", "--text", "a", "-m", str(model_folder)])


def test_no_bar_without_a_terminal(run: Run, model_folder, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "SECONDS_BEFORE_SHOWN", 0.0)
    answer = run("embed", "--text", "I", "-m", model_folder, "-o", tmp_path / "vectors.npz")
    assert (answer.code, answer.err) == (0, "")
