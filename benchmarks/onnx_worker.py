"""Run an encoder in onnxruntime in a separate process for inference.py; onnx_export.py writes its file."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from word_pieces import Batch, WordPieces
from worker_loop import serve


def open_model(order: dict[str, Any]) -> dict[str, Callable[..., Any]]:
    pieces = WordPieces(order["folder"], num_threads=order["num_threads"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = order["num_threads"]
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(order["file"], options, providers=["CPUExecutionProvider"])

    def run(batch: Batch) -> npt.NDArray[np.float32]:
        vectors: npt.NDArray[np.float32] = session.run(["vectors"], batch)[0]
        return vectors

    return {**pieces.methods(run), "describe": lambda: {"version": onnxruntime.__version__}}


if __name__ == "__main__":
    serve(open_model)
