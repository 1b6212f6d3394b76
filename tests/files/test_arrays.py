"""Arrays written piece by piece."""

import h5py
import numpy as np
import pytest

from elmo.files.arrays import add_dataset, growing_npy, open_member, read_npy, write_npy, writing_archive


def test_an_interruption_inside_a_member_is_not_hidden(tmp_path, capfd):
    with pytest.raises(KeyboardInterrupt), writing_archive(tmp_path / "vectors.npz") as archive:
        open_member(archive, "0").write(b"half")
        raise KeyboardInterrupt
    del archive
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("shape", [(0, 4), (3, 4), (2, 3, 4), (4,)])
def test_datasets_have_the_bytes_of_h5py(tmp_path, dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as slow, h5py.File(tmp_path / "b.h5", "w") as fast:
        for number in range(50):
            slow.create_dataset(str(number), data=array)
            add_dataset(fast, str(number), array)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_an_npy_file_grows_by_rows(tmp_path):
    with (tmp_path / "a.npy").open("wb") as file, growing_npy(file, "<f2", (3,)) as add:
        add(np.ones((2, 3)))
        add(np.zeros((0, 3)))
        add(np.full((1, 3), 7.0))
    found = np.load(tmp_path / "a.npy")
    assert found.dtype == np.float16 and found.tolist() == [[1] * 3, [1] * 3, [7] * 3]


def test_a_damaged_npy_file_is_a_value_error(tmp_path):
    record = write_npy(tmp_path / "a.npy", "<i8", 3, [np.arange(2), np.arange(1)])
    assert record.num_bytes == (tmp_path / "a.npy").stat().st_size
    assert read_npy(tmp_path / "a.npy").tolist() == [0, 1, 0]
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': ")
    with pytest.raises(ValueError, match=r"a.npy is not a complete array"):
        read_npy(tmp_path / "a.npy")
