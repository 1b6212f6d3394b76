"""Files that grow: what stops the writing is told, whatever was being written."""

import pytest

from elmo.cli.growing_files import open_member, writing_archive


def test_an_interruption_inside_a_member_is_not_hidden(tmp_path, capfd):
    with pytest.raises(KeyboardInterrupt), writing_archive(tmp_path / "vectors.npz") as archive:
        open_member(archive, "0").write(b"half")
        raise KeyboardInterrupt
    del archive
    assert capfd.readouterr().err == ""
