"""Goes through an ONNX graph once, with every extent bound: what depends on no input is computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from . import limits
from .bound_mask import bind_mask
from .errors import Missing, Refused
from .graph import MISSING, Constant, Graph, Input, Node, Source, dtype_of
from .onnx_call import Call, State
from .onnx_file import TYPES, OnnxFile, name_of_type, text_of
from .onnx_folding import FOLDABLE, Folding
from .onnx_ops import OPS
from .options import Options, bound_value, extents_of, with_batch

ONNX = ("", "ai.onnx")


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    return {each.name: helper.get_attribute_value(each) for each in node.attribute}


class OnnxReader:
    """Makes the graph of one batch size. `folded` counts by op what was computed or left out."""

    def __init__(self, file: OnnxFile, options: Options, batch: int) -> None:
        self.file, self.options, self.batch = file, options, batch
        self.opset = file.opset()
        self.graph = Graph(batch)
        self.folding = Folding(self.graph, self.opset)
        self.folded: Counter[str] = Counter()
        self.state = State(self.graph, options, file_batch=1, opset=self.opset)
        self.bound: dict[str, str] = {}
        self._defined: set[str] = set()
        self._arrays: dict[str, np.ndarray] = {}

    def read(self) -> Graph:
        main = self.file.model.graph
        if self.file.model.functions:
            raise Refused(
                f"{self.file.path} has functions ('{self.file.model.functions[0].name}'), which are not "
                "read: export it again without them, or inline them with onnx.inliner"
            )
        self._initializers(main)
        self._inputs(main)
        self._output(main)
        self._nodes(main)
        output = self._value(self.output)
        if output in self.graph.constants:
            raise Refused(f"the output '{self.output}' does not depend on the input")
        if output not in self.graph.nodes:
            raise Refused(f"nothing computes the output '{self.output}'; is the file complete?")
        self.graph.output = output
        return self.graph

    def _initializers(self, graph: onnx.GraphProto) -> None:
        if graph.sparse_initializer:
            raise Refused("the file has sparse tensors, which are not read: export it with dense ones")
        for tensor in graph.initializer:
            self._define(tensor.name)
            if tensor.name not in self._arrays:
                self._arrays[tensor.name] = self.file.array(tensor)
            array = self._arrays[tensor.name]
            self.graph.constants[tensor.name] = Constant(array, original=tensor.name)

    def _inputs(self, graph: onnx.GraphProto) -> None:
        free: list[onnx.ValueInfoProto] = []
        bound: list[onnx.ValueInfoProto] = []
        for value in graph.input:
            if value.name not in self.graph.constants:
                self._define(value.name)
                (bound if value.name in self.options.bound else free).append(value)
        names = [value.name for value in free]
        if len(free) != 1:
            raise Refused(
                f"the file has {len(free)} inputs ({', '.join(names)}), a network of Assay has one: give the "
                "others a value, as in --bind attention_mask=ones"
                if free
                else "the file has no input that is left free"
            )
        for given in (*self.options.shapes, *self.options.bound):
            if given not in {value.name for value in graph.input}:
                raise Refused(f"the file has no input '{given}'; it has {', '.join(names)}")
        self._free(free[0])
        for value in bound:
            self._bind(value)

    def _declared(self, value: onnx.ValueInfoProto) -> list[int | None] | None:
        tensor = value.type.tensor_type
        if not tensor.HasField("shape"):
            return None
        return [
            d.dim_value if d.HasField("dim_value") and d.dim_value > 0 else None for d in tensor.shape.dim
        ]

    def _free(self, value: onnx.ValueInfoProto) -> None:
        element = value.type.tensor_type.elem_type
        dtype = dtype_of(TYPES[element]) if element in TYPES else name_of_type(element)
        if dtype not in ("f32", "int"):
            raise Refused(
                f"the input '{value.name}' has elements of {name_of_type(element)}; a network of Assay has "
                "float or whole numbers (tokens): export it with float32"
            )
        declared = self._declared(value)
        self.extents = extents_of(value.name, declared, self.options, fixed=False)
        if declared and declared[0]:
            self.state.file_batch = declared[0]
        self.graph.inputs[value.name] = Input(dtype, with_batch(self.extents, self.batch))

    def _bind(self, value: onnx.ValueInfoProto) -> None:
        text = self.options.bound[value.name]
        element = value.type.tensor_type.elem_type
        if element not in TYPES:
            raise Refused(f"--bind {value.name}: the input has elements of {name_of_type(element)}")
        declared = self._declared(value)
        given = self.options.shapes.get(value.name)
        if given is not None:
            shape = with_batch(given, self.batch)
        elif declared is None or None in declared[1:]:
            shape = None
        else:
            shape = tuple(self.batch if extent is None else extent for extent in declared)
        self.bound[value.name] = text
        if text.startswith("not_equal"):
            bind_mask(self.graph, value.name, text, dtype_of(TYPES[element]))
            return
        array = bound_value(value.name, text, TYPES[element], shape)
        self.graph.constants[value.name] = Constant(array)

    def _output(self, graph: onnx.GraphProto) -> None:
        names = [value.name for value in graph.output]
        if not names:
            raise Refused("the file has no output")
        self.output = self.options.output or names[0]
        self.other_outputs = [name for name in names if name != self.output]

    # Nodes: those of a branch that is taken come before the rest.

    def _nodes(self, graph: onnx.GraphProto) -> None:
        stack: list[Iterable[Any]] = [iter(graph.node)]
        self.read_nodes = 0
        while stack:
            node = next(stack[-1], None)  # type: ignore[call-overload]
            if node is None:
                stack.pop()
                continue
            if callable(node):
                node()
                continue
            self.read_nodes += 1
            if self.read_nodes > limits.NODES:
                raise Refused(f"the file has more than {limits.NODES} nodes")
            branch = self._node(node)
            if branch is not None:
                stack.append(branch)

    def _node(self, node: onnx.NodeProto) -> Iterable[Any] | None:
        if not any(node.output):
            return None  # nothing can read it
        try:
            attributes = attributes_of(node)
        except ValueError as error:
            raise Refused(
                f"the node '{self._named(node)}' has an attribute without a value: {error}"
            ) from None
        if node.op_type == "If" and node.domain in ONNX:
            return self._branch(node, attributes)
        inputs = [self._value(name) if name else None for name in node.input]
        for name in node.output:
            if name:
                self._define(name)
        op = node.op_type if node.domain in ONNX else f"{text_of(node.domain)}.{text_of(node.op_type)}"
        source = Source(text_of(op), self._named(node))
        if node.domain in ONNX and self._folds(node, inputs, attributes):
            return None
        call = Call(self.state, node, source, inputs, attributes)
        try:
            if node.domain not in ONNX or (node.op_type not in OPS and node.op_type not in FOLDABLE):
                raise Missing(source.op)
            if all(name is None or self._is_known(name) for name in inputs):
                constants = all(name is None or name in self.graph.constants for name in inputs)
                if constants and inputs and node.op_type != "Gather":
                    raise Missing(f"{source.op}: of constants, too large to be computed here")
                if node.op_type not in OPS:
                    raise Missing(source.op)
                self._write(call, OPS[node.op_type])
                self._unread(node, source, inputs)
                return None
            self._unknown(node, source, inputs, "")
        except Missing as missing:
            self._unknown(node, source, inputs, str(missing) or "an op without a name")
        return None

    def _write(self, call: Call, write: Callable[[Call], None]) -> None:
        """Write a node as ops. Attributes of a type or length that ONNX does not have are a feature, too."""
        try:
            write(call)
        except (ValueError, TypeError, IndexError, KeyError, OverflowError, ZeroDivisionError) as error:
            raise Missing(f"{call.source.op}: not in the form of ONNX ({error})") from None

    def _named(self, node: onnx.NodeProto) -> str:
        return text_of(node.name or next((name for name in node.output if name), "") or node.op_type)

    def _folds(self, node: onnx.NodeProto, inputs: list[str | None], attributes: dict[str, Any]) -> bool:
        if node.op_type == "Identity" and inputs and inputs[0] is not None and node.output:
            self.state.renamed[node.output[0]] = inputs[0]
            self.folded["Identity"] += 1
            return True
        if (
            node.op_type == "Constant"
            and isinstance(attributes.get("value"), onnx.TensorProto)
            and node.output
        ):
            name = node.output[0]
            if name not in self._arrays:
                self._arrays[name] = self.file.array(attributes["value"])
            self.graph.constants[name] = Constant(self._arrays[name], original=name)
            self.folded["Constant"] += 1
            return True
        if any(
            name is not None and name not in self.graph.constants for name in inputs
        ) and node.op_type not in (
            "Shape",
            "Size",
        ):
            return False
        try:
            found = self.folding.compute(node, inputs, attributes)
        except (ValueError, TypeError, IndexError, KeyError, OverflowError):
            return False  # not in the form of ONNX: the op is missing
        if found is None:
            return False
        self.graph.constants.update(found)
        self.folded[node.op_type] += 1
        return True

    def _branch(self, node: onnx.NodeProto, attributes: dict[str, Any]) -> Iterable[Any] | None:
        condition = self.graph.array(self._value(node.input[0])) if node.input else None
        if condition is None or condition.size != 1:
            for name in node.output:
                self._define(name)
            read: list[str | None] = [self._value(name) for name in node.input]
            self._unknown(
                node, Source("If", self._named(node)), read, "If: its condition depends on the input"
            )
            return None
        graph = attributes.get("then_branch" if condition.reshape(-1)[0] else "else_branch")
        if graph is None or len(graph.output) != len(node.output):
            raise Refused(f"the node '{self._named(node)}' (If) has no such branch; the file is damaged")
        self._initializers(graph)
        self.folded["If"] += 1

        def leave() -> None:
            for outer, inner in zip(node.output, graph.output, strict=True):
                self._define(outer)
                self.state.renamed[outer] = self._value(inner.name)

        return iter([*graph.node, leave])

    # Values.

    def _define(self, name: str) -> None:
        if not isinstance(name, str):
            raise Refused(f"the name {name!r} in the file is not text: the file is damaged")
        if name in self._defined:
            raise Refused(f"two nodes or tensors of the file have the name '{name}'; the file is damaged")
        self._defined.add(name)

    def _value(self, name: str) -> str:
        found = self.state.renamed.get(name, name)
        if (
            found not in self.graph.nodes
            and found not in self.graph.constants
            and found not in self.graph.inputs
        ):
            raise Refused(
                f"the value '{name}' is read, but nothing computes it before: the file is damaged, has a "
                "cycle, or its nodes are not in order"
            )
        return found

    def _is_known(self, name: str) -> bool:
        if name in self.state.sequences:
            return True
        node = self.graph.nodes.get(name)
        return node is None or node.shape is not None

    def _unread(self, node: onnx.NodeProto, source: Source, inputs: list[str | None]) -> None:
        """A result that its op does not make is missing if the output needs it: a mask, indices."""
        for i, name in enumerate(node.output):
            if name and name not in self.graph.nodes and name not in self.state.renamed:
                feature = f"{source.op}: result {i + 1}"
                self.graph.nodes[name] = Node(
                    MISSING, list(inputs), {"feature": feature}, None, "f32", source
                )

    def _unknown(self, node: onnx.NodeProto, source: Source, inputs: list[str | None], feature: str) -> None:
        """Put a node of the op MISSING in place of each result."""
        types = (
            self.folding.types(node, inputs)
            if all(name is None or self._is_known(name) for name in inputs)
            else {}
        )
        for name in node.output:
            if name:
                shape, dtype = types.get(name, (None, "f32"))
                if shape is not None and math.prod(shape) > limits.ELEMENTS:
                    shape = None
                held = Node(MISSING, list(inputs), {"feature": feature}, shape, dtype, source)
                self.graph.nodes[name] = held
