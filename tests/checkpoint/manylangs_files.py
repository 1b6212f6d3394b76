"""Random models in ELMoForManyLangs' folder format and what they compute, in plain NumPy."""

import json
from pathlib import Path

import numpy as np
import torch

SPECIAL = ["<oov>", "<pad>", "<bos>", "<eos>"]
# Characters that text tools take for line ends or blanks, as the published dictionaries have them.
WORDS = [*SPECIAL, "the", "bank", "\u2028", "\u0085", "\u3000", "a\tb", "x" * 48]
CHARACTERS = [*SPECIAL, "<bow>", "<eow>", *"thebankx", "\u2028", "\u0085", "é", "我"]


def make_settings(*, char_dim: int = 5, word_dim: int = 7, num_layers: int = 2, activation: str = "relu") -> dict:
    return {
        "encoder": {
            "name": "elmo",
            "projection_dim": 6,
            "cell_clip": 0.4,
            "proj_clip": 0.3,
            "dim": 10,
            "n_layers": num_layers,
        },
        "token_embedder": {
            "name": "cnn",
            "activation": activation,
            "filters": [[1, 3], [2, 4], [4, 2]],
            "n_highway": 2,
            "word_dim": word_dim,
            "char_dim": char_dim,
            "max_characters_per_token": 50,
        },
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }


def make_state_dicts(settings: dict, seed: int = 0) -> tuple[dict, dict]:
    """Random token_embedder.pkl and encoder.pkl."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.5

    embedder, encoder = settings["token_embedder"], settings["encoder"]
    features = sum(channels for _, channels in embedder["filters"])
    tokens = {}
    total = 0
    if embedder["word_dim"] > 0:
        tokens["word_emb_layer.embedding.weight"] = draw(len(WORDS), embedder["word_dim"])
        total += embedder["word_dim"]
    if embedder["char_dim"] > 0:
        tokens["char_emb_layer.embedding.weight"] = draw(len(CHARACTERS), embedder["char_dim"])
        for number, (width, channels) in enumerate(embedder["filters"]):
            tokens[f"convolutions.{number}.weight"] = draw(channels, embedder["char_dim"], width)
            tokens[f"convolutions.{number}.bias"] = draw(channels)
        for number in range(embedder["n_highway"]):
            tokens[f"highways._layers.{number}.weight"] = draw(2 * features, features)
            tokens[f"highways._layers.{number}.bias"] = draw(2 * features)
        total += features
    tokens["projection.weight"], tokens["projection.bias"] = draw(encoder["projection_dim"], total), draw(6)
    layers = {}
    for direction in ("forward", "backward"):
        for layer in range(encoder["n_layers"]):
            name = f"{direction}_layer_{layer}"
            layers[f"{name}.input_linearity.weight"] = draw(40, 6)
            layers[f"{name}.state_linearity.weight"] = draw(40, 6)
            layers[f"{name}.state_linearity.bias"] = draw(40)
            layers[f"{name}.state_projection.weight"] = draw(6, 10)
    return tokens, layers


def write_model(folder: Path, settings: dict, tokens: dict, encoder: dict) -> Path:
    """Write the folder; its config.json names a path that is long gone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"config_path": "/gone/configs/cnn_tiny.json", "gpu": 0}))
    (folder / "cnn_tiny.json").write_text(json.dumps(settings))
    for name, entries in (("word.dic", WORDS), ("char.dic", CHARACTERS)):
        lines = "".join(f"{entry}\t{number}\n" for number, entry in enumerate(entries))
        (folder / name).write_bytes(lines.encode("utf-8"))
    torch.save(tokens, folder / "token_embedder.pkl")
    torch.save(encoder, folder / "encoder.pkl")
    return folder


class NumpyManyLangs:
    """The published model, a sentence at a time from a zero state."""

    def __init__(self, settings: dict, tokens: dict, encoder: dict) -> None:
        self.settings = settings
        self.variables = {name: tensor.numpy().astype(np.float64) for name, tensor in {**tokens, **encoder}.items()}

    def embed(self, words: list[str]) -> np.ndarray:
        """All layers without boundaries, (L+1, T, 2D)."""
        tokens = np.stack([self._token(word[:48]) for word in ["<bos>", *words, "<eos>"]])
        layers = [np.concatenate([tokens, tokens], axis=1)]
        ahead = self._run("forward", tokens)
        back = [layer[::-1] for layer in self._run("backward", tokens[::-1])]
        layers += [np.concatenate(pair, axis=1) for pair in zip(ahead, back, strict=True)]
        return np.stack(layers)[:, 1:-1]

    def _token(self, word: str) -> np.ndarray:
        embedder = self.settings["token_embedder"]
        parts = []
        if embedder["word_dim"] > 0:
            row = WORDS.index(word if word in WORDS else "<oov>")
            parts.append(self.variables["word_emb_layer.embedding.weight"][row])
        if embedder["char_dim"] > 0:
            content = [word] if word in ("<bos>", "<eos>") else list(word)
            # The original swaps the marks of begin and end.
            spelled = ["<eow>", *content, "<bow>"]
            spelled += ["<pad>"] * (50 - len(spelled))
            rows = [CHARACTERS.index(entry if entry in CHARACTERS else "<oov>") for entry in spelled]
            characters = self.variables["char_emb_layer.embedding.weight"][rows]
            features = []
            for number, (width, _) in enumerate(embedder["filters"]):
                kernel = self.variables[f"convolutions.{number}.weight"]
                positions = [
                    np.einsum("wd,cdw->c", characters[start : start + width], kernel) for start in range(50 - width + 1)
                ]
                pooled = np.max(positions, axis=0) + self.variables[f"convolutions.{number}.bias"]
                features.append(np.maximum(pooled, 0) if embedder["activation"] == "relu" else np.tanh(pooled))
            vector = np.concatenate(features)
            for number in range(embedder["n_highway"]):
                name = f"highways._layers.{number}"
                both = self.variables[f"{name}.weight"] @ vector + self.variables[f"{name}.bias"]
                changed, gate = np.split(both, 2)
                gate = 1 / (1 + np.exp(-gate))
                vector = gate * vector + (1 - gate) * np.maximum(changed, 0)
            parts.append(vector)
        return self.variables["projection.weight"] @ np.concatenate(parts) + self.variables["projection.bias"]

    def _run(self, direction: str, inputs: np.ndarray) -> list[np.ndarray]:
        encoder = self.settings["encoder"]
        layers = []
        for layer in range(encoder["n_layers"]):
            name = f"{direction}_layer_{layer}"
            hidden, cell = np.zeros(6), np.zeros(10)
            outputs = []
            for step in inputs:
                gates = self.variables[f"{name}.input_linearity.weight"] @ step
                gates = gates + self.variables[f"{name}.state_linearity.weight"] @ hidden
                gates = gates + self.variables[f"{name}.state_linearity.bias"]
                i, f, g, o = np.split(gates, 4)
                cell = _sigmoid(i) * np.tanh(g) + _sigmoid(f) * cell
                cell = np.clip(cell, -encoder["cell_clip"], encoder["cell_clip"])
                hidden = self.variables[f"{name}.state_projection.weight"] @ (_sigmoid(o) * np.tanh(cell))
                hidden = np.clip(hidden, -encoder["proj_clip"], encoder["proj_clip"])
                outputs.append(hidden + step if layer > 0 else hidden)
            inputs = np.stack(outputs)
            layers.append(inputs)
        return layers


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))
