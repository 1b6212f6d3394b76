"""ONNX: a model -> one file for onnxruntime, which computes all layers from the ids of words.

Inputs: `char_ids` (B, T, C) int64, without boundaries, any valid id where padded; `word_ids` (B, T) int64 for
word-level models; `lengths` (B,) int64. Output: `layers` (L+1, B, T, 2D), zero where padded. B and T are dynamic. The
graph adds the sentence boundaries itself, and the recurrence is ONNX's Scan.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmo import __version__
from elmo.checkpoint.checkpoint import SOFTMAX_PREFIXES
from elmo.config import CharacterConfig, EncoderConfig, ModelConfig
from elmo.errors import InputError
from elmo.extras import require
from elmo.files.durable import output_file
from elmo.model import Elmo
from elmo.text.batch import Indexer

OPSET, IR_VERSION = 17, 9  # of onnxruntime 1.14 and later
_LEAVES = ("weight", "bias")
Weights = Mapping[str, npt.NDArray[np.float32]]


def export_onnx(model: Elmo, path: str | Path) -> None:
    """Write the model as one .onnx file, whose output `layers` equals `Elmo.embed(…, layers="all")`."""
    onnx = require("onnx", "onnx", "elmo export onnx")
    config = model.config
    if not isinstance(config.encoder, EncoderConfig):
        raise InputError("The encoder of this model is a Transformer; only LSTM models can be exported to ONNX.")
    weights = {
        name: np.asarray(weight, dtype=np.float32)
        for name, weight in model.checkpoint().weights.items()
        if not name.startswith(SOFTMAX_PREFIXES)
    }
    graph = _Graph(onnx)
    indexer = model.checkpoint().indexer()
    layers = _add_model(graph, config, weights, indexer)
    inputs = [onnx.helper.make_tensor_value_info("lengths", onnx.TensorProto.INT64, ["batch"])]
    if config.words:
        inputs.insert(0, onnx.helper.make_tensor_value_info("word_ids", onnx.TensorProto.INT64, ["batch", "length"]))
    if config.characters:
        shape = ["batch", "length", config.characters.max_characters]
        inputs.insert(0, onnx.helper.make_tensor_value_info("char_ids", onnx.TensorProto.INT64, shape))
    exported = onnx.helper.make_model(
        onnx.helper.make_graph(graph.nodes, "elmo", inputs, [layers], graph.constants),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="modern-elmo",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(exported, _describe(model, indexer))
    onnx.checker.check_model(exported)
    with output_file(Path(path)) as temporary:
        temporary.write_bytes(exported.SerializeToString())


class _Graph:
    """The nodes and constants of a graph; its methods return the names of outputs."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype))
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def add(self, operator: str, *inputs: str, num_outputs: int = 1, **attributes: Any) -> Any:
        outputs = [f"{operator}_{len(self.nodes)}_{number}" for number in range(num_outputs)]
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, outputs, **attributes))
        return outputs[0] if num_outputs == 1 else outputs

    def linear(self, inputs: str, weight: Any, bias: Any = None) -> str:
        """Return x Wᵀ + b."""
        product: str = self.add("MatMul", inputs, self.constant(weight.T))
        return product if bias is None else self.add("Add", product, self.constant(bias))

    def clip(self, inputs: str, bound: float | None) -> str:
        return inputs if bound is None else self.add("Clip", inputs, self.constant(-bound), self.constant(bound))


def _add_model(graph: _Graph, config: ModelConfig, weights: Weights, indexer: Indexer) -> Any:
    add, integers = graph.add, graph.integers
    dim = config.encoder.output_dim
    source = "char_ids" if config.characters else "word_ids"
    num_rows = add("Slice", add("Shape", source), integers(0), integers(1))
    num_words = add("Slice", add("Shape", source), integers(1), integers(2))
    positions = add("Range", graph.constant(0, np.int64), add("Squeeze", num_words), graph.constant(1, np.int64))
    steps = add("Range", graph.constant(0, np.int64), add("Squeeze", add("Add", num_words, integers(2))),
                graph.constant(1, np.int64))  # fmt: skip
    lengths = add("Unsqueeze", "lengths", integers(1))
    is_end = add("Equal", steps, add("Add", lengths, integers(1)))
    step_mask = add("Cast", add("Less", steps, add("Add", lengths, integers(2))), to=graph.onnx.TensorProto.FLOAT)
    word_mask = add("Cast", add("Less", positions, lengths), to=graph.onnx.TensorProto.FLOAT)

    features = []
    if indexer.vocabulary is not None:
        ids = _add_boundaries(graph, "word_ids", indexer.vocabulary.boundaries(), num_rows, is_end)
        features.append(add("Gather", graph.constant(weights["tokens.words.weight"]), ids))
    if config.characters and indexer.alphabet is not None:
        ids = _add_boundaries(graph, "char_ids", indexer.alphabet.boundaries(), num_rows, is_end)
        encoded = _add_characters(graph, config.characters, weights, ids)
        shape = add("Concat", num_rows, integers(-1), integers(config.characters.num_features), axis=0)
        features.append(add("Reshape", encoded, shape))
    words = features[0] if len(features) == 1 else add("Concat", *features, axis=2)
    if config.token_projection:
        words = graph.linear(words, weights["tokens.projection.weight"], weights["tokens.projection.bias"])
    words = add("Mul", words, add("Unsqueeze", step_mask, integers(2)))

    ends = add("Add", "lengths", integers(2))
    reverse = {"batch_axis": 0, "time_axis": 1}
    assert isinstance(config.encoder, EncoderConfig)
    left_to_right = _add_direction(graph, config.encoder, weights, "left_to_right", words, num_rows)
    reversed_words = add("ReverseSequence", words, ends, **reverse)
    right_to_left = _add_direction(graph, config.encoder, weights, "right_to_left", reversed_words, num_rows)
    right_to_left = [add("ReverseSequence", layer, ends, **reverse) for layer in right_to_left]
    word_mask = add("Unsqueeze", word_mask, integers(2))
    layers = []
    for pair in [(words, words), *zip(left_to_right, right_to_left, strict=True)]:
        layer = add("Slice", add("Concat", *pair, axis=2), integers(1), integers(-1), integers(1))
        layers.append(add("Unsqueeze", add("Mul", layer, word_mask), integers(0)))
    graph.nodes.append(graph.onnx.helper.make_node("Concat", layers, ["layers"], axis=0))
    shape = [len(layers), "batch", "length", 2 * dim]
    return graph.onnx.helper.make_tensor_value_info("layers", graph.onnx.TensorProto.FLOAT, shape)


def _add_boundaries(graph: _Graph, name: str, ids: npt.NDArray[np.int64], num_rows: str, is_end: str) -> str:
    """Add the begin id before each sentence and the end id after its last word: (B, T, ...) -> (B, T+2, ...)."""
    rest = ids.shape[1:]
    sizes = [num_rows, graph.integers(1), *([graph.integers(*rest)] if rest else [])]
    shape = graph.add("Concat", *sizes, axis=0)
    begin, end = (graph.constant(row[None, None], np.int64) for row in ids)
    begins, ends = (graph.add("Expand", row, shape) for row in (begin, end))
    longer = graph.add("Concat", begins, name, ends, axis=1)
    condition = graph.add("Unsqueeze", is_end, graph.integers(2)) if rest else is_end
    return str(graph.add("Where", condition, end, longer))


def _add_characters(graph: _Graph, config: CharacterConfig, weights: Weights, ids: str) -> str:
    """Add the character CNN, (B, T, C) -> (B·T, features): embedding, convolutions, max-pooling, highways."""
    prefix = "tokens.characters"
    flat = graph.add("Reshape", ids, graph.integers(-1, config.max_characters))
    embedded = graph.add("Gather", graph.constant(weights[f"{prefix}.embedding.weight"]), flat)
    embedded = graph.add("Transpose", embedded, perm=[0, 2, 1])
    pooled = []
    for number in range(len(config.filters)):
        kernel, bias = (graph.constant(weights[f"{prefix}.convolutions.{number}.{leaf}"]) for leaf in _LEAVES)
        pooled.append(graph.add("ReduceMax", graph.add("Conv", embedded, kernel, bias), axes=[2], keepdims=0))
    joined = pooled[0] if len(pooled) == 1 else graph.add("Concat", *pooled, axis=1)
    features: str = graph.add({"relu": "Relu", "tanh": "Tanh"}[config.activation], joined)
    for number in range(config.num_highways):
        transform, gate = (
            graph.linear(features, *(weights[f"{prefix}.highways.{number}.{name}.{leaf}"] for leaf in _LEAVES))
            for name in ("transform", "gate")
        )
        change = graph.add("Sub", graph.add("Relu", transform), features)
        features = graph.add("Add", features, graph.add("Mul", graph.add("Sigmoid", gate), change))
    return features


def _add_direction(
    graph: _Graph, config: EncoderConfig, weights: Weights, direction: str, words: str, num_rows: str
) -> list[str]:
    """Add the LSTM of one direction, (B, T, D) in its order -> the output of each layer, (B, T, D)."""
    outputs = []
    inputs = graph.add("Transpose", words, perm=[1, 0, 2])
    hidden, cell = (
        graph.add("Expand", graph.constant([[0.0]]), graph.add("Concat", num_rows, graph.integers(size), axis=0))
        for size in (config.output_dim, config.cell_dim)
    )
    for number in range(config.num_layers):
        prefix = f"{direction}.layers.{number}"
        bias = weights[f"{prefix}.bias"].copy()
        bias[config.cell_dim : 2 * config.cell_dim] += config.forget_bias
        gates = graph.linear(inputs, weights[f"{prefix}.input_weight"], bias)
        body = _make_step(graph, config, weights, prefix)
        _, _, result = graph.add("Scan", hidden, cell, gates, num_outputs=3, body=body, num_scan_inputs=1)
        inputs = graph.add("Add", result, inputs) if config.residual and number > 0 else result
        outputs.append(graph.add("Transpose", inputs, perm=[1, 0, 2]))
    return outputs


def _make_step(graph: _Graph, config: EncoderConfig, weights: Weights, prefix: str) -> Any:
    """Return the body of Scan: hidden (B, D), cell (B, H) and the gates' input (B, 4H) -> next hidden and cell."""
    helper, float_type = graph.onnx.helper, graph.onnx.TensorProto.FLOAT
    step = _Graph(graph.onnx)
    step.constants = graph.constants  # the body of Scan can use the constants of the graph
    gates = step.add("Add", "from_input", step.linear("hidden", weights[f"{prefix}.state_weight"]))
    input_gate, forget_gate, candidate, output_gate = step.add("Split", gates, num_outputs=4, axis=1)
    old = step.add("Mul", step.add("Sigmoid", forget_gate), "cell")
    new = step.add("Mul", step.add("Sigmoid", input_gate), step.add("Tanh", candidate))
    cell = step.clip(step.add("Add", old, new), config.cell_clip)
    hidden = step.add("Mul", step.add("Sigmoid", output_gate), step.add("Tanh", cell))
    if config.projected:
        projected = step.linear(hidden, weights[f"{prefix}.projection_weight"])
        hidden = step.clip(projected, config.projection_clip)
    output = step.add("Identity", hidden)

    def describe(**sizes: int) -> list[Any]:
        return [helper.make_tensor_value_info(name, float_type, [None, size]) for name, size in sizes.items()]

    inputs = describe(hidden=config.output_dim, cell=config.cell_dim, from_input=4 * config.cell_dim)
    outputs = describe(**{hidden: config.output_dim, cell: config.cell_dim, output: config.output_dim})
    return helper.make_graph(step.nodes, prefix.replace(".", "_"), inputs, outputs)


def _describe(model: Elmo, indexer: Indexer) -> dict[str, str]:
    """Return the metadata of the file, from which a client makes ids."""
    config = model.config
    metadata = {"elmo.source": str(model.checkpoint().origin.get("source", ""))}
    if config.characters:
        metadata["elmo.alphabet"] = config.characters.alphabet
        if characters := model.checkpoint().characters:
            metadata["elmo.characters"] = json.dumps(characters)
    if indexer.vocabulary is not None:
        metadata["elmo.vocabulary"] = json.dumps(indexer.vocabulary.words)
    if model.tokenization.reads_characters:  # each letter of these scripts is a token
        metadata["elmo.scripts"] = json.dumps(config.tokenization.scripts)
        metadata["elmo.aliases"] = json.dumps(model.tokenization.aliases)
    return metadata
