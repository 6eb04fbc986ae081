"""Writes the files of data, with PyTorch. They are kept: no test needs it.

    ~/.local/share/assay/environments/torch/bin/python tests/import/make_models.py

The files of ONNX also need the packages onnx and onnxscript: give their folder in PYTHONPATH.
Traces of this machine are removed from the files; they are otherwise as torch writes them.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional as F

FOLDER = Path(__file__).resolve().parent / "data"


class Cnn(nn.Module):
    """A convolution with batch norm, a residual sum in place, pools, dropout; exported in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4, eps=1e-3, momentum=0.2)
        self.block = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.Hardswish(), nn.Conv2d(4, 4, 1))
        self.drop = nn.Dropout(0.25)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.stem(x)), inplace=True), 2)
        y = self.block(x)
        y += x
        y = F.adaptive_avg_pool2d(y, 1)
        return self.head(self.drop(torch.flatten(y, 1)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.after = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = (
            each.view(n, t, self.heads, d // self.heads).transpose(1, 2)
            for each in self.qkv(self.before(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, d)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.after(x)), approximate="tanh"))


class Transformer(nn.Module):
    """A language model of one block, whose last layer has the table of tokens as its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(11, 8)
        self.places = nn.Embedding(6, 8)
        self.block = Block(8, 2)
        self.norm = nn.LayerNorm(8)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return F.linear(self.norm(self.block(x)), self.words.weight)


class Encoder(nn.Module):
    """A block that hides the padding of texts, and the mean over the tokens that are left."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(13, 8)
        self.places = nn.Parameter(torch.randn(6, 8))
        self.heads = 2
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        kept = tokens != 0
        mask = torch.zeros_like(tokens, dtype=torch.float32).masked_fill(~kept, float("-inf"))
        x = self.words(tokens) + self.places
        n, t, d = x.shape
        q, k, v = (part(x).view(n, t, self.heads, d // self.heads).transpose(1, 2) for part in self.parts[:3])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :])
        x = self.norm(x + self.parts[3](y.transpose(1, 2).reshape(n, t, d)))
        count = kept.float()[:, :, None]
        return self.head((x * count).sum(1) / count.sum(1).clamp(min=1e-9))


def write_encoder() -> None:
    """As .pt2, and as ONNX by both of torch's exporters: by its name's opset, `traced` by the older one."""
    torch.manual_seed(1)
    encoder = Encoder().eval()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn_like(parameter) / 2)
    tokens = torch.randint(1, 13, (3, 6))
    tokens[1, 4:] = 0
    free = ({0: torch.export.Dim("N")},)
    torch.export.save(torch.export.export(encoder, (tokens,), dynamic_shapes=free), FOLDER / "encoder.pt2")
    without_traces(FOLDER / "encoder.pt2")
    for opset, traced in ((17, True), (18, True), (18, False), (23, False)):
        path = FOLDER / f"encoder-{opset}{'-traced' if traced else ''}.onnx"
        given = {"dynamic_axes": {"tokens": {0: "N"}}} if traced else {"dynamic_shapes": free}
        torch.onnx.export(
            encoder, (tokens,), path, opset_version=opset, dynamo=not traced, input_names=["tokens"],
            output_names=["logits"], external_data=False, **given,
        )  # fmt: skip
        model = onnx.load(path)
        for each in (model, model.graph, *model.graph.node, *model.graph.value_info, *model.graph.input):
            each.doc_string = ""
            del each.metadata_props[:]
        onnx.save(model, path)
    with torch.no_grad():
        np.savez(FOLDER / "encoder.npz", tokens=tokens.numpy(), logits=encoder(tokens).numpy())


def without_traces(path: Path) -> None:
    """Remove the places of source lines from the nodes, and the inputs of the example."""
    with zipfile.ZipFile(path) as given:
        files = {name: given.read(name) for name in given.namelist() if "sample_inputs" not in name}
    (model,) = [name for name in files if name.endswith("models/model.json")]
    document = json.loads(files[model])
    for node in document["graph_module"]["graph"]["nodes"]:
        node["metadata"] = {"nn_module_stack": node["metadata"].get("nn_module_stack", "")}
    document["guards_code"] = []
    files[model] = json.dumps(document, separators=(",", ":")).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in files.items():
            made.writestr(zipfile.ZipInfo(name), data)
    path.write_bytes(out.getvalue())


def main() -> None:
    torch.manual_seed(0)
    cnn, transformer = Cnn(), Transformer()
    for _ in range(3):
        cnn(torch.randn(4, 3, 8, 8))  # running statistics that are not those of the start
    free = ({0: torch.export.Dim.DYNAMIC},)
    images, tokens = torch.randn(3, 3, 8, 8), torch.randint(0, 11, (3, 6))
    for name, module, example in (("cnn", cnn.train(), images), ("transformer", transformer.train(), tokens)):
        torch.export.save(
            torch.export.export(module, (example,), dynamic_shapes=free), FOLDER / f"{name}.pt2"
        )
        without_traces(FOLDER / f"{name}.pt2")
    with torch.no_grad():
        np.savez(
            FOLDER / "answers.npz",
            images=images.numpy(),
            cnn=cnn.eval()(images).numpy(),
            tokens=tokens.numpy(),
            transformer=transformer.eval()(tokens).numpy(),
        )


if __name__ == "__main__":
    main()
    write_encoder()
