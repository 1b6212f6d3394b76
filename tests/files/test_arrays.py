"""Arrays written incrementally."""

import numpy as np
import pytest

from elmo.files.arrays import growing_npy, read_npy


def test_an_npy_file_grows_by_rows(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file, growing_npy(file, "<f2", (3,)) as add:
        add(np.ones((2, 3)))
        add(np.zeros((0, 3)))
        add(np.full((1, 3), 7.0))
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == np.float16 and found.tolist() == [[1] * 3, [1] * 3, [7] * 3]


def test_a_damaged_npy_file_is_a_value_error(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    assert read_npy(tmp_path / "a.npy").tolist() == [0, 1, 2]
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': ")
    with pytest.raises(ValueError, match=r"a.npy is not a complete array"):
        read_npy(tmp_path / "a.npy")
