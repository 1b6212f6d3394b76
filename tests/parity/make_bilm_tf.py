"""Make the fixtures fixtures/bilm-tf-*: random weights in the layout of bilm-tf's HDF5 files, and their vectors.

The vectors are computed here in float64, sentence by sentence, from the description of what bilm-tf computes; no
code of the package is used, so that a mistake there cannot repeat itself. Run: python tests/parity/make_bilm_tf.py
"""

import json
from pathlib import Path

import h5py
import numpy as np

FIXTURES = Path(__file__).parent / "fixtures"
MAX_CHARACTERS = 20
BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PAD = 256, 257, 258, 259, 260
BATCHES = [  # rows without a sentence keep their state
    [["The", "bank", "of", "the", "river", "."], ["naïve", "日本語", "😀"], ["x"]],
    [
        ["A", "word-that-is-much-longer-than-twenty-bytes"],
        ["again", "The", "bank"],
    ],
    [["one"], ["two", "words"], ["three", "more", "words"], ["a", "new", "row"]],
]
OPTIONS = {
    "two-layers": {
        "lstm": {"dim": 24, "projection_dim": 8, "n_layers": 2, "cell_clip": 0.6, "proj_clip": 0.4,
                 "use_skip_connections": False},
        "char_cnn": {"activation": "tanh", "embedding": {"dim": 5}, "filters": [[1, 6], [2, 7], [3, 9]],
                     "max_characters_per_token": MAX_CHARACTERS, "n_characters": 261, "n_highway": 1},
    },
    # No residual is possible, the cells are not projected, and neither are the words.
    "one-layer": {
        "lstm": {"dim": 12, "projection_dim": 12, "n_layers": 1, "cell_clip": 3, "proj_clip": 3,
                 "use_skip_connections": True},
        "char_cnn": {"activation": "relu", "embedding": {"dim": 4}, "filters": [[1, 5], [4, 7]],
                     "max_characters_per_token": MAX_CHARACTERS, "n_characters": 262, "n_highway": 2},
    },
}  # fmt: skip


def draw_weights(options: dict, seed: int) -> dict[str, np.ndarray]:
    """Return the variables of a model, by their names in the file."""
    draw = np.random.default_rng(seed)
    lstm, cnn = options["lstm"], options["char_cnn"]
    dim, cell_dim, features = lstm["projection_dim"], lstm["dim"], sum(size for _, size in cnn["filters"])
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, cnn["embedding"]["dim"])}
    for number, (width, channels) in enumerate(cnn["filters"]):
        shapes[f"CNN/W_cnn_{number}"] = (1, width, cnn["embedding"]["dim"], channels)
        shapes[f"CNN/b_cnn_{number}"] = (channels,)
    for number in range(cnn["n_highway"]):
        for name in ("carry", "transform"):
            shapes[f"CNN_high_{number}/W_{name}"] = (features, features)
            shapes[f"CNN_high_{number}/b_{name}"] = (features,)
    if features != dim:
        shapes["CNN_proj/W_proj"], shapes["CNN_proj/b_proj"] = (features, dim), (dim,)
    for direction in (0, 1):
        for layer in range(lstm["n_layers"]):
            cell = cell_name(lstm, direction, layer)
            shapes[f"{cell}/W_0"], shapes[f"{cell}/B"] = (2 * dim, 4 * cell_dim), (4 * cell_dim,)
            if cell_dim != dim:
                shapes[f"{cell}/W_P_0"] = (cell_dim, dim)
    return {name: draw.normal(0, 0.4, shape).astype(np.float32) for name, shape in shapes.items()}


def cell_name(lstm: dict, direction: int, layer: int) -> str:
    """Return the group of a cell's variables."""
    return f"RNN_{direction}/RNN/{f'MultiRNNCell/Cell{layer}/' if lstm['n_layers'] > 1 else ''}LSTMCell"


def to_ids(word: str) -> list[int]:
    """Return the character ids of a word, without the shift by one that makes room for padded words."""
    inner = list(word.encode()[: MAX_CHARACTERS - 2])
    return pad([BEGIN_WORD, *inner, END_WORD])


def pad(ids: list[int]) -> list[int]:
    """Fill with in-word padding, which has an embedding of its own."""
    return ids + [PAD] * (MAX_CHARACTERS - len(ids))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def encode_word(ids: list[int], cnn: dict, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Return the vector of a word before the LSTMs."""
    characters = weights["char_embed"][ids]  # (C, d)
    features = []
    for number, (width, _) in enumerate(cnn["filters"]):
        kernel, bias = weights[f"CNN/W_cnn_{number}"][0], weights[f"CNN/b_cnn_{number}"]  # (width, d, channels)
        windows = [characters[start : start + width] for start in range(len(ids) - width + 1)]
        outputs = [np.einsum("wd,wdc->c", window, kernel) + bias for window in windows]
        pooled = np.max(outputs, axis=0)
        features.append(np.tanh(pooled) if cnn["activation"] == "tanh" else np.maximum(pooled, 0))
    x = np.concatenate(features)
    for number in range(cnn["n_highway"]):
        parts = {name: (weights[f"CNN_high_{number}/W_{name}"], weights[f"CNN_high_{number}/b_{name}"])
                 for name in ("carry", "transform")}  # fmt: skip
        carry = sigmoid(x @ parts["carry"][0] + parts["carry"][1])
        transformed = np.maximum(x @ parts["transform"][0] + parts["transform"][1], 0)
        x = carry * transformed + (1 - carry) * x
    return x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"] if "CNN_proj/W_proj" in weights else x


def run_direction(
    vectors: np.ndarray, direction: int, lstm: dict, weights: dict[str, np.ndarray], state: dict
) -> list[np.ndarray]:
    """Return the output of each layer over a sentence with its boundaries, and advance the state."""
    outputs, inputs = [], vectors
    for layer in range(lstm["n_layers"]):
        cell = cell_name(lstm, direction, layer)
        zeros = np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"])
        c, h = state.get((direction, layer), zeros)
        rows = []
        for x in inputs:
            gates = np.concatenate([x, h]) @ weights[f"{cell}/W_0"] + weights[f"{cell}/B"]
            i, j, f, o = np.split(gates, 4)
            c = np.clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), -lstm["cell_clip"], lstm["cell_clip"])
            h = sigmoid(o) * np.tanh(c)
            if f"{cell}/W_P_0" in weights:
                h = np.clip(h @ weights[f"{cell}/W_P_0"], -lstm["proj_clip"], lstm["proj_clip"])
            rows.append(h)
        state[direction, layer] = c, h
        output = np.array(rows)
        outputs.append(output + inputs if layer and lstm["use_skip_connections"] else output)
        inputs = outputs[-1]
    return outputs


def embed(words: list[str], options: dict, weights: dict[str, np.ndarray], state: dict) -> np.ndarray:
    """Return all layers (L + 1, T, 2D) of a sentence, boundaries stripped."""
    boundaries = [pad([BEGIN_WORD, mark, END_WORD]) for mark in (BEGIN_SENTENCE, END_SENTENCE)]
    ids = [boundaries[0], *map(to_ids, words), boundaries[1]]
    vectors = np.array([encode_word(word, options["char_cnn"], weights) for word in ids])
    ahead = run_direction(vectors, 0, options["lstm"], weights, state)
    back = [output[::-1] for output in run_direction(vectors[::-1], 1, options["lstm"], weights, state)]
    layers = [np.concatenate([vectors, vectors], axis=1)]
    layers += [np.concatenate(pair, axis=1) for pair in zip(ahead, back, strict=True)]
    return np.array(layers)[:, 1:-1]


def main() -> None:
    """Write both fixtures."""
    for seed, (name, options) in enumerate(OPTIONS.items()):
        folder = FIXTURES / f"bilm-tf-{name}"
        folder.mkdir(exist_ok=True)
        weights = draw_weights(options, seed)
        with h5py.File(folder / "weights.hdf5", "w") as file:
            for key, array in weights.items():
                file.create_dataset(key, data=array)
        wide = {key: array.astype(np.float64) for key, array in weights.items()}
        states: list[dict] = [{} for _ in range(max(map(len, BATCHES)))]  # carried by row from batch to batch
        expected = {
            f"{number}_{row}": embed(words, options, wide, states[row]).astype(np.float32)
            for number, batch in enumerate(BATCHES)
            for row, words in enumerate(batch)
        }
        np.savez_compressed(folder / "expected.npz", **expected)
        (folder / "batches.json").write_text(json.dumps(BATCHES, ensure_ascii=False, indent=1) + "\n", "utf-8")
        (folder / "options.json").write_text(json.dumps(options) + "\n", "utf-8")


if __name__ == "__main__":
    main()
