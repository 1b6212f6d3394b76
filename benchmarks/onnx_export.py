"""Export a transformers BERT to float32.onnx and int8.onnx: python onnx_export.py MODEL_FOLDER OUTPUT_FOLDER.

The number of rows and pieces is dynamic. onnxruntime's BERT optimizer fuses attention, normalization and activation;
then dynamic quantization gives int8 weights with one scale per output channel.
"""

import sys
from pathlib import Path

import onnx
import torch
from machine import list_flags
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers.optimizer import optimize_model
from torch import Tensor, nn
from transformers import AutoModel

INPUTS, OUTPUT = ["input_ids", "attention_mask", "token_type_ids"], "vectors"


class Vectors(nn.Module):
    """An encoder with positional inputs that returns its last layer."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, *inputs: Tensor) -> Tensor:
        vectors: Tensor = self.encoder(**dict(zip(INPUTS, inputs, strict=True))).last_hidden_state
        return vectors


def export(folder: Path, output: Path) -> None:
    # The optimizer only recognizes explicit attention, in graphs of the older exporter.
    encoder = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    example = torch.ones(2, 8, dtype=torch.long)
    raw, float32, int8 = (output / f"{name}.onnx.part" for name in ("raw", "float32", "int8"))
    torch.onnx.export(
        Vectors(encoder),
        (example,) * len(INPUTS),
        str(raw),
        input_names=INPUTS,
        output_names=[OUTPUT],
        dynamic_axes={name: {0: "rows", 1: "pieces"} for name in (*INPUTS, OUTPUT)},
        opset_version=17,
        dynamo=False,
    )
    settings = encoder.config
    fused = optimize_model(
        str(raw),
        model_type="bert",
        num_heads=settings.num_attention_heads,
        hidden_size=settings.hidden_size,
        opt_level=0,  # further optimization happens when a session is opened, for its machine
    )
    if fused.get_fused_operator_statistics()["Attention"] != settings.num_hidden_layers:
        sys.exit("onnxruntime's optimizer did not fuse the attention of every layer; the peer would be too slow.")
    fused.save_model_to_file(str(float32))
    quantize_dynamic(
        float32,
        int8,
        per_channel=True,
        weight_type=QuantType.QInt8,
        reduce_range=not any("vnni" in flag for flag in list_flags()),  # without VNNI, int8 sums saturate
        # Fused operators are not part of ONNX, so their output type cannot be inferred.
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )
    raw.unlink()
    for path in (float32, int8):
        path.replace(path.with_suffix(""))


if __name__ == "__main__":
    export(Path(sys.argv[1]), Path(sys.argv[2]))
