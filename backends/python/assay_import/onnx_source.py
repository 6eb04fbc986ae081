"""An ONNX file as a source of networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from . import limits
from .onnx_file import OnnxFile, text_of
from .onnx_reader import OnnxReader
from .options import Options
from .reading import Reading


class OnnxSource:
    def __init__(self, path: Path, options: Options) -> None:
        self._file = OnnxFile.open(path)
        self._options = options
        model = self._file.model
        producer = " ".join(text_of(part) for part in (model.producer_name, model.producer_version) if part)
        self.facts: dict[str, Any] = {
            "source": {
                "name": path.name,
                "bytes": self._file.size,
                "sha256": self._file.digest,
                "external": [],
            },
            "format": "onnx",
            "producer": producer[:200],
            "opset": self._file.opset(),
            "tools": {"onnx": onnx.__version__},
        }

    def read(self, batch: int) -> Reading:
        reader = OnnxReader(self._file, self._options, batch)
        graph = reader.read()
        self.facts["source"]["external"] = [self._file.external[name] for name in sorted(self._file.external)]
        return Reading(
            graph,
            reader.bound,
            dict(reader.folded),
            [],
            reader.output,
            reader.other_outputs,
            len(reader.state.freed),
            reader.state.file_batch,
        )

    def write_original(self, path: Path) -> bool:
        """Write a copy of the file, with external tensors inside. Returns whether they fit."""
        if not self._file.external:
            path.write_bytes(self._file.path.read_bytes())
            return True
        total = sum(each["bytes"] for each in self._file.external.values())
        if total + self._file.size > limits.INSIDE_BYTES:
            return False
        model = onnx.ModelProto()
        model.CopyFrom(self._file.model)
        for tensor in model.graph.initializer:
            if tensor.data_location == TensorProto.EXTERNAL:
                values = self._file.array(tensor)
                del tensor.external_data[:]
                tensor.data_location = TensorProto.DEFAULT
                tensor.raw_data = values.tobytes()
        path.write_bytes(model.SerializeToString())
        return True
