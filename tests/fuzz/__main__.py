"""Run one fuzzer until it finds something: python -m tests.fuzz TARGET [options of libFuzzer].

For example `python -m tests.fuzz csv -max_total_time=600`. A finding is written to the current folder as
crash-HASH; when the reader is fixed, put it into tests/fuzz/corpus/TARGET, so that it is tested from then on.
"""

import sys
import tempfile
from pathlib import Path

import atheris

CORPUS = Path(__file__).with_name("corpus")
MEMORY_FOLDER = Path("/dev/shm")  # writing files is most of the work elsewhere


def main(name: str, *options: str) -> None:
    """Fuzz one target, starting from its seeds and the kept corpus."""
    with atheris.instrument_imports(include=["elmo"]):
        from tests.fuzz.targets import TARGETS, check

        place = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None
        with tempfile.TemporaryDirectory(dir=place) as temporary:
            inputs, folder = Path(temporary) / "inputs", Path(temporary) / "files"
            inputs.mkdir()
            folder.mkdir()
            target = TARGETS[name](folder)
            for seed_name, content in target.seeds.items():
                (inputs / f"seed-{seed_name}").write_bytes(content)
            for path in (CORPUS / name).glob("*"):
                (inputs / path.name).write_bytes(path.read_bytes())
            limits = ["-timeout=30", "-rss_limit_mb=3072", "-len_control=0", "-print_final_stats=1"]
            atheris.Setup([sys.argv[0], *limits, *options, str(inputs)], lambda content: check(target, content))
            atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
