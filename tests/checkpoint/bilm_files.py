"""Random models in bilm-tf's file format and what they compute, in plain NumPy from the published description.

Nothing of the package is used here, so agreement with it means something.
"""

import json
from pathlib import Path

import h5py
import numpy as np

Variables = dict[str, np.ndarray]


def make_options(
    *,
    dim: int = 10,
    projection: int = 6,
    num_layers: int = 2,
    skip: bool = True,
    clips: tuple[float | None, float | None] = (0.4, 0.3),
    filters: tuple[tuple[int, int], ...] = ((1, 3), (2, 4), (5, 4)),
    activation: str = "relu",
    num_highways: int | None = 2,
    num_characters: int = 262,
    max_characters: int = 50,
    num_words: int | None = None,
) -> dict:
    """Options with small sizes; `num_words` makes a model that reads whole words."""
    lstm = {"dim": dim, "projection_dim": projection, "n_layers": num_layers, "use_skip_connections": skip}
    for name, clip in zip(("cell_clip", "proj_clip"), clips, strict=True):
        if clip is not None:
            lstm[name] = clip
    options = {"lstm": lstm}
    if num_words is not None:
        return {**options, "n_tokens_vocab": num_words}
    options["char_cnn"] = {
        "activation": activation,
        "embedding": {"dim": 4},
        "filters": [list(pair) for pair in filters],
        "n_characters": num_characters,
        "max_characters_per_token": max_characters,
    }
    if num_highways is not None:
        options["char_cnn"]["n_highway"] = num_highways
    return options


def cell_name(options: dict, direction: int, layer: int) -> str:
    stacked = f"MultiRNNCell/Cell{layer}/" if options["lstm"]["n_layers"] > 1 else ""
    return f"RNN_{direction}/RNN/{stacked}LSTMCell"


def make_variables(options: dict, seed: int = 0, *, scale: float = 0.5) -> Variables:
    """Random values for every variable that the options need."""
    rng = np.random.default_rng(seed)
    dim, projection = options["lstm"]["dim"], options["lstm"]["projection_dim"]

    def draw(*shape: int) -> np.ndarray:
        return (scale * rng.standard_normal(shape, dtype=np.float32)).astype(np.float32)

    variables: Variables = {}
    if "char_cnn" in options:
        cnn = options["char_cnn"]
        features = sum(channels for _, channels in cnn["filters"])
        embedding_dim = cnn["embedding"]["dim"]
        variables["char_embed"] = draw(261, embedding_dim)
        for number, (width, channels) in enumerate(cnn["filters"]):
            variables[f"CNN/W_cnn_{number}"] = draw(1, width, embedding_dim, channels)
            variables[f"CNN/b_cnn_{number}"] = draw(channels)
        for number in range(cnn.get("n_highway") or 0):
            for gate in ("carry", "transform"):
                variables[f"CNN_high_{number}/W_{gate}"] = draw(features, features)
                variables[f"CNN_high_{number}/b_{gate}"] = draw(features)
        if features != projection:
            variables["CNN_proj/W_proj"], variables["CNN_proj/b_proj"] = draw(features, projection), draw(projection)
    else:
        variables["embedding"] = draw(options["n_tokens_vocab"], projection)
    for direction in (0, 1):
        for layer in range(options["lstm"]["n_layers"]):
            name = cell_name(options, direction, layer)
            variables[f"{name}/W_0"], variables[f"{name}/B"] = draw(2 * projection, 4 * dim), draw(4 * dim)
            if dim != projection:
                variables[f"{name}/W_P_0"] = draw(dim, projection)
    return variables


def write_model(folder: Path, options: dict, variables: Variables, vocabulary: list[str] | None = None) -> Path:
    """Write options.json, weights.hdf5 and, if given, vocab.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options))
    with h5py.File(folder / "weights.hdf5", "w") as file:
        for name, value in variables.items():
            file[name] = value
    if vocabulary is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary), encoding="utf-8")
    return folder


class NumpyBilm:
    """The model of bilm-tf, a sentence at a time; keeps its state from call to call if asked to."""

    def __init__(self, options: dict, variables: Variables, vocabulary: list[str] | None = None) -> None:
        self.options, self.variables, self.vocabulary = options, variables, vocabulary
        self.state: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def embed(self, words: list[str], *, carry: bool = False) -> np.ndarray:
        """All layers without boundaries, (L+1, T, 2D)."""
        if not carry:
            self.state = {}
        tokens = np.stack([self._token(word) for word in [None, *words, False]])
        layers = [np.concatenate([tokens, tokens], axis=1)]
        directions = [self._run(0, tokens), [layer[::-1] for layer in self._run(1, tokens[::-1])]]
        layers += [np.concatenate(pair, axis=1) for pair in zip(*directions, strict=True)]
        return np.stack(layers)[:, 1:-1]

    def _token(self, word: str | bool | None) -> np.ndarray:
        """A word's vector; None is the begin of the sentence, False its end."""
        if "char_cnn" not in self.options:
            assert self.vocabulary is not None
            name = {None: "<S>", False: "</S>"}.get(word, word)
            known = name in self.vocabulary
            return self.variables["embedding"][self.vocabulary.index(name if known else "<UNK>")]
        cnn = self.options["char_cnn"]
        limit = cnn["max_characters_per_token"]
        content = {None: [256], False: [257]}.get(word)
        if content is None:
            content = list(str(word).encode("utf-8", "ignore"))[: limit - 2]
        ids = [258, *content, 259]
        characters = self.variables["char_embed"][ids + [260] * (limit - len(ids))]
        features = []
        for number, (width, _) in enumerate(cnn["filters"]):
            kernel = self.variables[f"CNN/W_cnn_{number}"][0]
            positions = [
                np.einsum("wd,wdc->c", characters[start : start + width], kernel) for start in range(limit - width + 1)
            ]
            pooled = np.max(positions, axis=0) + self.variables[f"CNN/b_cnn_{number}"]
            features.append(np.maximum(pooled, 0) if cnn["activation"] == "relu" else np.tanh(pooled))
        vector = np.concatenate(features)
        for number in range(cnn.get("n_highway") or 0):
            name = f"CNN_high_{number}"
            carry = _sigmoid(vector @ self.variables[f"{name}/W_carry"] + self.variables[f"{name}/b_carry"])
            changed = vector @ self.variables[f"{name}/W_transform"] + self.variables[f"{name}/b_transform"]
            vector = carry * np.maximum(changed, 0) + (1 - carry) * vector
        if "CNN_proj/W_proj" in self.variables:
            vector = vector @ self.variables["CNN_proj/W_proj"] + self.variables["CNN_proj/b_proj"]
        return vector

    def _run(self, direction: int, inputs: np.ndarray) -> list[np.ndarray]:
        lstm = self.options["lstm"]
        layers = []
        for layer in range(lstm["n_layers"]):
            name = cell_name(self.options, direction, layer)
            hidden, cell = self.state.get((direction, layer), (np.zeros(lstm["projection_dim"]), np.zeros(lstm["dim"])))
            outputs = []
            for step in inputs:
                gates = np.concatenate([step, hidden]) @ self.variables[f"{name}/W_0"] + self.variables[f"{name}/B"]
                i, j, f, o = np.split(gates, 4)
                cell = _clip(_sigmoid(f + 1) * cell + _sigmoid(i) * np.tanh(j), lstm.get("cell_clip"))
                hidden = _sigmoid(o) * np.tanh(cell)
                if f"{name}/W_P_0" in self.variables:
                    hidden = _clip(hidden @ self.variables[f"{name}/W_P_0"], lstm.get("proj_clip"))
                outputs.append(hidden + step if lstm["use_skip_connections"] and layer > 0 else hidden)
            self.state[direction, layer] = hidden, cell
            inputs = np.stack(outputs)
            layers.append(inputs)
        return layers


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))


def _clip(value: np.ndarray, limit: float | None) -> np.ndarray:
    return value if limit is None else np.clip(value, -limit, limit)
