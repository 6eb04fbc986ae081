"""Computes nodes of ONNX whose operands are constants, if the result is small, and views of large ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from . import limits
from .errors import Refused
from .graph import Constant, Graph, dtype_of
from .onnx_file import TYPES
from .shapes import Shape, words

Types = dict[str, tuple[Shape | None, str]]

# Ops that are computed. Random ops and loops are not.
FOLDABLE = words(
    "Abs Add And ArgMax ArgMin Cast CastLike Ceil Clip Concat Constant ConstantOfShape CumSum Div "
    "Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual "
    "Identity Less LessOrEqual Log MatMul Max Mean Min Mod Mul Neg NonZero Not OneHot Or Pad Pow "
    "Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Reshape Round "
    "ScatterElements ScatterND Shape Sigmoid Sign Sin Cos Size Slice Softmax Split Sqrt Squeeze Sub "
    "Sum Tanh Tile Transpose Trilu Unsqueeze Where Xor"
)
KNOWN_BYTES = 1 << 16  # of a constant that may give the shape of a result


class Folding:
    """A budget limits what all constants that are computed have together."""

    def __init__(self, graph: Graph, opset: int) -> None:
        self._graph, self._opset = graph, opset
        self._imports = [helper.make_opsetid("", opset)]
        self._spent = 0

    def compute(
        self, node: onnx.NodeProto, inputs: list[str | None], attributes: dict[str, Any]
    ) -> dict[str, Constant] | None:
        """Return the results of a node, and None if it is not computed."""
        if node.op_type == "Shape":
            return self._shape(node, inputs, attributes)
        if node.op_type not in FOLDABLE or any(name not in self._graph.constants for name in inputs if name):
            return None
        if node.op_type == "Gather" and self._is_table(inputs, attributes):
            return None
        if node.op_type == "Range" and not self._is_short(inputs):
            return None
        viewed = self._view(node, inputs, attributes)
        if viewed is not None:
            return {node.output[0]: viewed}
        return self._evaluate(node, inputs)

    def types(self, node: onnx.NodeProto, inputs: list[str | None]) -> Types:
        """Return the shape and type of each result that is known."""
        graph = self._graph
        elements = {"f32": 1, "int": 7, "bool": 9}
        try:
            schema = onnx.defs.get_schema(node.op_type, self._opset, node.domain)
            named = onnx.NodeProto()
            named.CopyFrom(node)
            given, data = {}, {}
            for i, name in enumerate(inputs):
                if name is None:
                    continue
                key = named.input[i] = f"i{i}"
                array = graph.array(name)
                element = (
                    helper.np_dtype_to_tensor_dtype(array.dtype)
                    if array is not None
                    else elements.get(graph.dtype(name), 1)
                )
                given[key] = helper.make_tensor_type_proto(element, graph.shape(name))
                if array is not None and array.nbytes <= KNOWN_BYTES:
                    data[key] = numpy_helper.from_array(np.ascontiguousarray(array), key)
            inferred = onnx.shape_inference.infer_node_outputs(
                schema, named, given, data, opset_imports=self._imports
            )
        except Exception:  # whatever the node has that ONNX does not like
            return {}
        found: Types = {}
        for name, value in inferred.items():
            tensor = value.tensor_type
            extents = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
            is_known = tensor.HasField("shape") and all(isinstance(d, int) and d >= 0 for d in extents)
            dtype = dtype_of(TYPES[tensor.elem_type]) if tensor.elem_type in TYPES else "other"
            found[name] = (tuple(d for d in extents if d is not None) if is_known else None, dtype)
        return found

    def _shape(
        self, node: onnx.NodeProto, inputs: list[str | None], attributes: dict[str, Any]
    ) -> dict[str, Constant] | None:
        shape = self._graph.shape(str(inputs[0]))
        if shape is None:
            return None
        part = shape[attributes.get("start", 0) : attributes.get("end")]
        return {node.output[0]: Constant(np.array(part, np.int64))}

    def _is_table(self, inputs: list[str | None], attributes: dict[str, Any]) -> bool:
        """Return whether a gather of constants reads rows of a table of floats: an embedding of positions."""
        table, indices = (self._graph.array(name) for name in inputs[:2])
        return (
            table is not None
            and indices is not None
            and attributes.get("axis", 0) == 0
            and table.ndim == 2
            and table.dtype == np.float32
            and indices.ndim > 0
        )

    def _is_short(self, inputs: list[str | None]) -> bool:
        """Return whether a range has few numbers: the reference makes them before it knows how many."""
        start, limit, step = (self._graph.scalar(name) for name in inputs[:3])
        if start is None or limit is None or not step or not math.isfinite(limit - start):
            return False
        return abs((limit - start) / step) <= limits.FOLDED_ELEMENTS

    def _view(
        self, node: onnx.NodeProto, inputs: list[str | None], attributes: dict[str, Any]
    ) -> Constant | None:
        """Return what needs no new memory, whatever its size."""
        if node.op_type == "ConstantOfShape":
            return self._filled(node, inputs, attributes)
        if node.op_type not in ("Transpose", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Identity"):
            return None
        held = self._graph.constants[str(inputs[0])]
        if node.op_type == "Transpose":
            order = attributes.get("perm", list(range(held.array.ndim))[::-1])
            if sorted(order) != list(range(held.array.ndim)):
                raise Refused(f"the node '{node.name}' transposes by {order}; the file is damaged")
            original = held.original if held.array.ndim == 2 and list(order) == [1, 0] else ""
            turned = bool(original) and not held.turned
            return Constant(held.array.transpose(order), "", original, turned, held.is_filled)
        shape = self.types(node, inputs).get(node.output[0], (None, ""))[0]
        if shape is None or math.prod(shape) != held.array.size:
            return None
        original = held.original if shape == held.array.shape or not held.turned else ""
        # All elements of a filled tensor share their memory, so a reshape copies nothing.
        return Constant(
            held.array.reshape(shape), "", original, original != "" and held.turned, held.is_filled
        )

    def _filled(self, node: onnx.NodeProto, inputs: list[str | None], attributes: dict[str, Any]) -> Constant:
        extents = self._graph.array(inputs[0])
        shape = tuple(int(extent) for extent in extents.reshape(-1)) if extents is not None else ()
        if min(shape, default=0) < 0 or math.prod(shape) > limits.ELEMENTS or len(shape) > limits.RANK:
            raise Refused(f"the node '{node.name or node.output[0]}' makes a tensor of the shape {shape}")
        value = attributes.get("value")
        one = numpy_helper.to_array(value).reshape(-1)[:1] if value is not None else np.zeros(1, np.float32)
        if one.size != 1:
            raise Refused(f"the node '{node.name or node.output[0]}' has no value; the file is damaged")
        filled = one.dtype == np.float32 and len(shape) > 0
        return Constant(
            np.broadcast_to(one[0], shape), original=node.output[0] if filled else "", is_filled=filled
        )

    def _evaluate(self, node: onnx.NodeProto, inputs: list[str | None]) -> dict[str, Constant] | None:
        names = [name for name in inputs if name is not None]
        arrays = {name: self._graph.constants[name].array for name in names}
        types = self.types(node, inputs)
        sizes = [shape for shape, _ in types.values()]
        elements = sum(array.size for array in arrays.values())
        if any(shape is None for shape in sizes) or not sizes:
            is_small = node.op_type in ("NonZero", "Range") and elements <= KNOWN_BYTES
            return self._run(node, inputs) if is_small else None
        made = sum(math.prod(shape) for shape in sizes if shape is not None)
        work = made
        if node.op_type == "MatMul":
            work = made * max((array.shape[-1] for array in arrays.values() if array.ndim), default=1)
        if max(made, elements) > limits.FOLDED_ELEMENTS or work > limits.FOLDED_OPERATIONS:
            return None
        self._spent += made
        if self._spent > limits.FOLDED_TOTAL:
            raise Refused(f"the file computes more than {limits.FOLDED_TOTAL} constant elements")
        return self._run(node, inputs)

    def _run(self, node: onnx.NodeProto, inputs: list[str | None]) -> dict[str, Constant] | None:
        named = onnx.NodeProto()
        named.CopyFrom(node)
        fed = {}
        for i, name in enumerate(inputs):
            if name is not None:
                named.input[i] = f"i{i}"
                fed[f"i{i}"] = self._graph.constants[name].array
        operands = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in fed.items()
        ]
        outputs = [name for name in node.output if name]
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph([named], "node", operands, results)
        try:
            with np.errstate(all="ignore"):
                model = helper.make_model(graph, opset_imports=self._imports)
                found = ReferenceEvaluator(model).run(None, fed)
        except Exception:  # whatever operands the file has: the node is then one that is not computed
            return None
        return {name: Constant(np.asarray(array)) for name, array in zip(outputs, found, strict=True)}
