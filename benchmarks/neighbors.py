"""How long an index of occurrences takes to build, beside the embedding in it, and to answer.

python benchmarks/neighbors.py --model MODEL --corpus texts.txt.xz --max-words 2000000 --index FOLDER
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from elmo import Elmo
from elmo.analysis import CorpusIndex, build_index, find_neighbors
from elmo.analysis.neighbors import embed_query, search_index
from elmo.analysis.occurrences import point

QUERIES = (
    "made a spectacular [play] on the ground ball",
    "signed to do a Broadway [play]",
    "I went to the [bank] to deposit money",
    "I sat by the [bank] of the river",
)
REPEATS = 10


class TimedModel(Elmo):
    """A model that adds up how long it embeds."""

    embedding_seconds = 0.0

    def embed(self, *arguments: Any, **settings: Any) -> Any:
        started = time.perf_counter()
        found = super().embed(*arguments, **settings)
        self.embedding_seconds += time.perf_counter() - started
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--corpus", nargs="+", required=True)
    parser.add_argument("--max-words", type=int)
    parser.add_argument("--index", type=Path, required=True)
    given = parser.parse_args()
    if given.index.exists():
        parser.error(f"{given.index} exists already; give a new folder")
    model = TimedModel.from_pretrained(given.model)
    started = time.perf_counter()
    built = build_index(model, given.index, given.corpus, max_words=given.max_words, model_name=given.model)
    build_seconds = time.perf_counter() - started
    started = time.perf_counter()
    index = CorpusIndex(given.index)
    first = find_neighbors(model, QUERIES[0], index)
    first_seconds = time.perf_counter() - started
    searches: dict[str, list[float]] = {"any": [], "same": [], "other": []}
    whole: list[float] = []
    for words, times in searches.items():
        for query in QUERIES * REPEATS:
            occurrence = point(query)
            started = time.perf_counter()
            vectors = embed_query(model, occurrence, (0, *index.manifest.layers))
            embedded = time.perf_counter()
            search_index(index, occurrence, vectors, words=words)
            times.append(time.perf_counter() - embedded)
            whole.append(time.perf_counter() - started)
    size = sum(path.stat().st_size for path in given.index.rglob("*") if path.is_file())
    result = {
        "num_occurrences": built.num_occurrences,
        "num_layers_indexed": len(index.manifest.layers),
        "index_bytes": size,
        "build_seconds": build_seconds,
        "embedding_seconds": model.embedding_seconds,
        "indexing_seconds": build_seconds - model.embedding_seconds,
        "open_and_first_query_seconds": first_seconds,
        "search_milliseconds": {name: 1000 * statistics.median(times) for name, times in searches.items()},
        "query_milliseconds": 1000 * statistics.median(whole),
        "slowest_query_milliseconds": 1000 * max(whole),
    }
    assert first.num_occurrences == built.num_occurrences
    layers = ", ".join(map(str, index.manifest.layers))
    print(f"{built.num_occurrences:,} occurrences, layers {layers}, {size:,} bytes")
    print(
        f"built in {build_seconds:.1f} s: embedding {result['embedding_seconds']:.1f} s, "
        f"all the rest {result['indexing_seconds']:.1f} s"
    )
    print(f"opened and asked the first time in {1000 * first_seconds:.1f} ms")
    for name, milliseconds in result["search_milliseconds"].items():
        print(f"search, words {name}: {milliseconds:.1f} ms")
    print(
        f"whole query with embedding: median {result['query_milliseconds']:.1f} ms, "
        f"slowest {result['slowest_query_milliseconds']:.1f} ms"
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
