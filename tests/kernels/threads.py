"""Many threads use one model at once and get the bits of one thread: python tests/kernels/threads.py.

It needs only the installed package, so that a wheel can be tried on any Python, also without the global lock.
"""

import platform
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from elmo import Elmo
from elmo.kernels.library import find_kernels

NUM_THREADS, NUM_ROUNDS = 8, 25
SENTENCES = ["I went to the bank to deposit money .", "the river bank", "a", "words words words " * 9]


def main() -> None:
    """Compare; SystemExit if a thread got something else."""
    is_free = not getattr(sys, "_is_gil_enabled", lambda: True)()
    for precision in ("float32", "int8"):
        model = Elmo.from_pretrained(precision=precision)
        expected = [vectors.tobytes() for vectors in model.embed(SENTENCES)]
        shared = Elmo.from_pretrained(precision=precision)  # whose word cache is empty
        barrier = threading.Barrier(NUM_THREADS)

        def work(number: int, shared: Elmo = shared, barrier: threading.Barrier = barrier) -> list[bytes]:
            barrier.wait()
            order = [(number + at) % len(SENTENCES) for at in range(NUM_ROUNDS * len(SENTENCES))]
            return [shared.embed(SENTENCES[at]).tobytes() for at in order]

        with ThreadPoolExecutor(NUM_THREADS) as pool:
            for number, answers in enumerate(pool.map(work, range(NUM_THREADS))):
                for at, answer in enumerate(answers):
                    if answer != expected[(number + at) % len(SENTENCES)]:
                        raise SystemExit(f"{precision}: thread {number} got other vectors in call {at}")
    kernels = find_kernels().reason if find_kernels().library else "NumPy"
    python = f"Python {platform.python_version()}{' without the global lock' if is_free else ''}"
    sys.stdout.write(f"{python}, {kernels}: {2 * NUM_THREADS * NUM_ROUNDS * len(SENTENCES)} calls agree\n")


if __name__ == "__main__":
    main()
