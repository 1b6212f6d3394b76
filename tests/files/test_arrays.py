"""Arrays written incrementally."""

import numpy as np

from elmo.files.arrays import growing_npy


def test_an_npy_file_grows_by_rows(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file, growing_npy(file, "<f2", (3,)) as add:
        add(np.ones((2, 3)))
        add(np.zeros((0, 3)))
        add(np.full((1, 3), 7.0))
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == np.float16 and found.tolist() == [[1] * 3, [1] * 3, [7] * 3]
