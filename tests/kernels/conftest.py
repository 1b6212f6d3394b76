"""The compiled library, for tests that compare it with what replaces it."""

import pytest

from elmo.kernels.library import find_library


@pytest.fixture
def library(kernels):
    library = find_library()
    if library is None:
        pytest.skip("this is what the kernels are compared with")
    return library
