"""The compiled library, for comparisons with NumPy."""

import pytest

from elmo.kernels.library import find_library


@pytest.fixture
def library(kernels):
    library = find_library()
    if library is None:
        pytest.skip("this is what the kernels are compared with")
    return library
