"""Measure how long an index of occurrences takes to build, compared with embedding alone, and to search.

python benchmarks/neighbors.py --model MODEL --corpus texts.txt.xz --index FOLDER
Without --corpus, an existing index is only searched; it stores the time of its last build. On a busy machine, use the
CPU seconds.
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from elmo import Elmo
from elmo.analysis import CorpusIndex, build_index, find_neighbors
from elmo.analysis.layers import embed_layers
from elmo.analysis.occurrences import read_query
from elmo.inference.context import normalize
from elmo.vectors.folder import INDEX

QUERIES = (
    "made a spectacular [play] on the ground ball",
    "signed to do a Broadway [play]",
    "I went to the [bank] to deposit money",
    "I sat by the [bank] of the river",
)
REPEATS = 10
BUILDING = "building.json"


class TimedModel(Elmo):
    """A model that measures the total time of embedding."""

    embedding_seconds = 0.0
    embedding_cpu_seconds = 0.0

    def embed(self, *arguments: Any, **settings: Any) -> Any:
        started, cpu_started = time.perf_counter(), time.process_time()
        vectors = super().embed(*arguments, **settings)
        self.embedding_seconds += time.perf_counter() - started
        self.embedding_cpu_seconds += time.process_time() - cpu_started
        return vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--corpus", nargs="*", default=[])
    parser.add_argument("--layers", help="as in elmo neighbors --build")
    parser.add_argument("--index", type=Path, required=True)
    options = parser.parse_args()
    model = TimedModel.from_pretrained(options.model)
    path = options.index / INDEX / BUILDING
    if options.corpus:
        building = measure_building(model, options)
        path.write_text(json.dumps(building), encoding="utf-8")
    building = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if building:
        print_building(building)
    print(json.dumps({"building": building, "searches": measure_searches(model, options.index)}))


def measure_building(model: TimedModel, options: argparse.Namespace) -> dict[str, Any]:
    started, cpu_started = time.perf_counter(), time.process_time()
    built = build_index(model, options.index, options.corpus, layers=options.layers, model_name=options.model)
    return {
        "num_words": built.num_occurrences,
        "build_seconds": time.perf_counter() - started,
        "build_cpu_seconds": time.process_time() - cpu_started,
        "embedding_seconds": model.embedding_seconds,
        "embedding_cpu_seconds": model.embedding_cpu_seconds,
    }


def print_building(building: dict[str, Any]) -> None:
    print(f"{building['num_words']:,} words were embedded and indexed:\n")
    print("| | seconds | CPU seconds |\n|---|---|---|")
    seconds, cpu_seconds = building["embedding_seconds"], building["embedding_cpu_seconds"]
    print(f"| embedding | {seconds:.0f} | {cpu_seconds:.0f} |")
    rest, cpu_rest = building["build_seconds"] - seconds, building["build_cpu_seconds"] - cpu_seconds
    print(f"| everything else | {rest:.0f} | {cpu_rest:.0f} |\n")


def measure_searches(model: Elmo, folder: Path) -> dict[str, Any]:
    started = time.perf_counter()
    index = CorpusIndex(folder)
    opening_seconds = time.perf_counter() - started
    find_neighbors(model, QUERIES[0], index)
    first_seconds = time.perf_counter() - started
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    opened = f"opened in {1000 * opening_seconds:.1f} ms"
    print(f"{index.num_occurrences:,} occurrences in {size / 1e6:,.0f} MB, {opened},")
    print(f"first search in {1000 * first_seconds:.1f} ms; further searches, in milliseconds:\n")
    print("| words | search, median | with embedding, median | slowest |\n|---|---|---|---|")
    milliseconds = {}
    for words in ("any", "same", "other"):
        searches, whole = [], []
        for query in QUERIES * REPEATS:
            occurrence = read_query(query)
            started = time.perf_counter()
            vectors = embed_layers(model, [occurrence], (0, *index.layers))
            embedded = time.perf_counter()
            for layer in index.layers:
                index.search(normalize(vectors[layer][0]), layer, word=occurrence.word, words=words, top_k=30)
            index.search_words(normalize(vectors[0][0]), exclude=[occurrence.word], top_k=30)
            ended = time.perf_counter()
            searches.append(1000 * (ended - embedded))
            whole.append(1000 * (ended - started))
        medians = statistics.median(searches), statistics.median(whole)
        print(f"| {words} | {medians[0]:.1f} | {medians[1]:.1f} | {max(whole):.1f} |")
        milliseconds[words] = {"search": medians[0], "query": medians[1], "slowest_query": max(whole)}
    return {
        "num_occurrences": index.num_occurrences,
        "num_layers_indexed": len(index.layers),
        "index_bytes": size,
        "opening_milliseconds": 1000 * opening_seconds,
        "first_query_milliseconds": 1000 * first_seconds,
        "milliseconds": milliseconds,
    }


if __name__ == "__main__":
    main()
