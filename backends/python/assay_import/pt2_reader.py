"""Goes through a program of torch.export once, with every extent bound."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import limits
from .bound_mask import bind_mask
from .errors import Missing, Refused
from .graph import MISSING, Constant, Graph, Input, Node, Source, dtype_of
from .notes import plural
from .options import Options, bound_value, extents_of, with_batch
from .pt2_call import Call, Ref, State, short_name
from .pt2_constants import CONSTANTS
from .pt2_file import TYPES, Pt2File
from .pt2_ops import OPS
from .reading import Reading, digest_of
from .shapes import Shape, words

NUMBERS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "truediv": operator.truediv,
    "pow": lambda a, b: a**b if abs(a) < 1 << 32 and 0 <= b < 8 else 0,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
IGNORED = ("_assert", "sym_constrain", "_check", "_set_grad_enabled", "assert_tensor_metadata")
VIEWS = words(
    "alias chunk detach expand flatten permute reshape select slice split split_with_sizes squeeze t "
    "transpose unbind unflatten unsqueeze view view_as"
)


class Pt2:
    """A .pt2 as a source of networks."""

    def __init__(self, path: Path, options: Options) -> None:
        self._file, self._options = Pt2File(path), options
        self._arrays = {kind: self._file.tensors(kind) for kind in ("weights", "constants")}
        self.facts: dict[str, Any] = {
            "source": {
                "name": path.name,
                "bytes": path.stat().st_size,
                "sha256": digest_of(path),
                "external": [],
            },
            "format": "pt2",
            "producer": f"torch {str(self._file.document.get('torch_version', ''))[:100]}".strip(),
            "schema_version": self._file.schema,
            "tools": {},
        }

    def read(self, batch: int) -> Reading:
        try:
            reader = Pt2Reader(self._file, self._arrays, self._options, batch)
            graph = reader.read()
        except (KeyError, TypeError, AttributeError, IndexError, StopIteration, ValueError) as error:
            raise Refused(
                f"{self._file.path} is not in torch.export's form: {type(error).__name__} {error}"
            ) from None
        return Reading(
            graph,
            reader.bound,
            dict(reader.folded),
            reader.notes(),
            reader.graph.output,
            reader.other_outputs,
            len(reader.state.freed),
            reader.state.file_batch,
        )


class Pt2Reader:
    """Makes the graph of one batch size."""

    def __init__(
        self, file: Pt2File, arrays: dict[str, dict[str, np.ndarray]], options: Options, batch: int
    ) -> None:
        self.file, self.arrays, self.options, self.batch = file, arrays, options, batch
        self.graph = Graph(batch)
        self.folded: Counter[str] = Counter()
        self.state = State(self.graph, options)
        self.numbers: dict[str, Any] = {}
        self.bound: dict[str, str] = {}
        self.other_outputs: list[str] = []
        self._hint = 0
        self._producer: dict[str, str] = {}
        module = file.document["graph_module"]
        self._graph, self._signature = module["graph"], module["signature"]
        self._types: dict[str, Any] = self._graph["tensor_values"]

    def read(self) -> Graph:
        self._inputs()
        nodes = self._graph["nodes"]
        if len(nodes) > limits.NODES:
            raise Refused(f"{self.file.path} has {len(nodes)} nodes; the limit is {limits.NODES}")
        self._reads = Counter(
            name for node in nodes for each in node["inputs"] for name in names_in(each["arg"])
        )
        for node in nodes:
            self._node(node)
        outputs = [
            spec["user_output"]["arg"]["as_tensor"]["name"]
            for spec in self._signature["output_specs"]
            if "as_tensor" in spec.get("user_output", {}).get("arg", {})
        ]
        if not outputs:
            raise Refused(f"{self.file.path}: the module returns no tensor")
        wanted = self.options.output or outputs[0]
        self.other_outputs = [name for name in outputs if name != wanted]
        output = self.value(wanted)
        if output not in self.graph.nodes:
            raise Refused(f"{self.file.path}: the output '{wanted}' does not depend on the input")
        self.graph.output = output
        return self.graph

    def notes(self) -> list[str]:
        notes = []
        if self.state.modes["eval"]:
            notes.append(
                f"exported in eval mode: batch norm and dropout ({plural(self.state.modes['eval'], 'node')}) "
                "still act when the network is trained"
            )
        return notes

    # Inputs, weights.

    def _inputs(self) -> None:
        free: list[str] = []
        bound: list[str] = []
        for spec in self._signature["input_specs"]:
            kind, entry = entry_of(spec)
            if kind == "user_input":
                arg = entry["arg"]
                if "as_tensor" not in arg:
                    continue  # a number, which is written in the nodes
                name = arg["as_tensor"]["name"]
                (bound if name in self.options.bound else free).append(name)
            elif kind in ("parameter", "buffer", "tensor_constant"):
                self._tensor(kind, entry)
            else:
                raise Refused(f"{self.file.path} has an input of the kind {kind}, which is not read")
        if len(free) != 1:
            raise Refused(
                f"{self.file.path} has {len(free)} inputs ({', '.join(free)}), a network of Assay has one: "
                "give the others a value, as in --bind mask=ones"
            )
        for given in (*self.options.shapes, *self.options.bound):
            if given not in (*free, *bound):
                raise Refused(f"{self.file.path} has no input '{given}'; it has {', '.join(free)}")
        self._free(free[0])
        for name in bound:
            self._bind(name)

    def _tensor(self, kind: str, entry: dict[str, Any]) -> None:
        key = {
            "parameter": "parameter_name",
            "buffer": "buffer_name",
            "tensor_constant": "tensor_constant_name",
        }[kind]
        name = str(entry[key])
        arrays = {**self.arrays["constants"], **self.arrays["weights"]}
        if name not in arrays:
            raise Refused(f"{self.file.path} has no values of the tensor '{name}'")
        role = "parameter" if kind == "parameter" else ""
        held = self.graph.constants.get(name) or Constant(arrays[name], role)
        self.graph.constants[name] = held
        self.state.renamed[entry["arg"]["name"]] = name

    def _declared(self, name: str) -> list[int | None]:
        return [size.get("as_int") for size in self._types[name]["sizes"]]

    def _free(self, name: str) -> None:
        declared = self._declared(name)
        dtype = TYPES.get(self._types[name]["dtype"])
        if dtype is None or dtype_of(dtype) not in ("f32", "int"):
            raise Refused(
                f"the input '{name}' has elements of {dtype or 'a type that is not known'}; a network of "
                "Assay has float or whole numbers (tokens): export it with float32"
            )
        self.state.file_batch = declared[0] or 0 if declared else 0
        first = self._types[name]["sizes"][0].get("as_expr", {}) if declared else {}
        self._hint = int((first.get("hint") or {}).get("as_int") or 0)  # the batch of a symbolic export
        extents = extents_of(name, [None, *declared[1:]], self.options)
        self.graph.inputs[name] = Input(dtype_of(dtype), with_batch(extents, self.batch))

    def _bind(self, name: str) -> None:
        text = self.bound[name] = self.options.bound[name]
        dtype = TYPES[self._types[name]["dtype"]]
        if text.startswith("not_equal"):
            bind_mask(self.graph, name, text, dtype_of(dtype))
            return
        declared = self._declared(name)
        first = self.batch if declared and declared[0] is None else None
        shape = None if None in declared[1:] else tuple(e if e is not None else first or 0 for e in declared)
        self.graph.constants[name] = Constant(bound_value(name, text, dtype, shape))

    # Nodes.

    def value(self, name: str) -> str:
        found = self.state.renamed.get(name, name)
        if (
            found not in self.graph.nodes
            and found not in self.graph.constants
            and found not in self.graph.inputs
        ):
            raise Refused(f"{self.file.path}: the value '{name}' is read, but nothing computes it before")
        return found

    def _node(self, node: dict[str, Any]) -> None:
        target = short_name(str(node["target"]))
        if any(word in target for word in IGNORED):
            return
        outs = [name for out in node["outputs"] for name in names_in(out)]
        numbers = [out["as_sym_int"]["as_name"] for out in node["outputs"] if "as_sym_int" in out]
        if numbers or any("as_sym_bool" in out or "as_sym_float" in out for out in node["outputs"]):
            self._number(target, node, numbers)
            return
        for name in outs:
            if name in self.graph.nodes or name in self.state.renamed or name in self.graph.inputs:
                raise Refused(f"{self.file.path}: two nodes have the result '{name}'")
        source = Source(target, place_of(node))
        arguments = {str(each["name"]): self._argument(each["arg"]) for each in node["inputs"]}
        operands = [ref.name for value in arguments.values() for ref in refs(value)]
        for name in outs:
            self._producer[name] = target
        call = Call(self.state, target, source, arguments, outs)
        try:
            self._in_place(target, node)
            if self._folds(call, operands):
                return
            function = OPS.get(call.op)
            if function is None:
                raise Missing(target)
            if any(self.graph.shape(name) is None for name in operands):
                raise Missing("")
            function(call)
        except Missing as missing:
            for name in outs:
                self._unknown(name, str(missing), source, operands)

    def _in_place(self, target: str, node: dict[str, Any]) -> None:
        """An op that overwrites its operand is one that does not, if nothing else sees the operand."""
        name = target.split(".")[1] if "." in target else target
        if not name.endswith("_") or name.startswith("_"):
            return
        operand = names_in(node["inputs"][0]["arg"])[0]
        if self.state.renamed.get(operand, operand) in self.graph.constants:
            return  # a counter of batches
        made = self._producer.get(operand, "view").split(".")
        if self._reads[operand] > 1 or made[min(1, len(made) - 1)] in VIEWS:
            raise Missing(f"{target}: of a value that is read elsewhere, too")

    def _folds(self, call: Call, operands: list[str]) -> bool:
        if call.op not in CONSTANTS or any(name not in self.graph.constants for name in operands):
            return False
        if any(self.graph.constants[name].role == "parameter" for name in operands):
            return False
        array = CONSTANTS[call.op](call)
        if array is None or array.size > limits.FOLDED_ELEMENTS or array.ndim > limits.RANK:
            return False
        self.graph.constants[call.out] = Constant(np.asarray(array))
        self.folded[call.target] += 1
        return True

    def _unknown(self, name: str, feature: str, source: Source, operands: list[str]) -> None:
        shape = self._exported_shape(name) if feature else None
        self.graph.put(name, Node(MISSING, list(operands), {"feature": feature}, shape, "f32", source))

    def _exported_shape(self, name: str) -> Shape | None:
        """Return the shape of a value when it was exported, with this batch: so later gaps are found, too."""
        if name not in self._types:
            return None
        extents = []
        for i, size in enumerate(self._types[name]["sizes"]):
            extent = size.get("as_int")
            hint = size.get("as_expr", {}).get("hint") or {}
            if extent is None and isinstance(hint.get("as_int"), int) and self._hint:
                extent = hint["as_int"] * self.batch // self._hint
            elif i == 0 and extent is not None and extent == self.state.file_batch:
                extent = self.batch
            extents.append(extent)
        return None if None in extents else tuple(int(extent) for extent in extents)

    def _number(self, target: str, node: dict[str, Any], names: list[str]) -> None:
        arguments = [self._argument(each["arg"]) for each in node["inputs"]]
        if target.startswith("aten.sym_size") and names:
            shape = self.graph.shape(arguments[0].name)
            if shape is None:
                return
            self.numbers[names[0]] = shape[arguments[1]] if len(arguments) > 1 else 0
            return
        compute = NUMBERS.get(target.split(".")[-1])
        if compute is not None and names and all(isinstance(each, (int, float)) for each in arguments):
            try:
                self.numbers[names[0]] = int(compute(*arguments))
            except (ZeroDivisionError, OverflowError):
                raise Refused(f"{self.file.path}: {target} of {arguments} is not a number") from None

    def _argument(self, arg: dict[str, Any]) -> Any:
        """Return an argument of a node: a number, a list, a text, None, or the name of a value."""
        kind, value = entry_of(arg)
        if kind == "as_tensor":
            return Ref(self.value(value["name"]))
        if kind == "as_tensors":
            return [Ref(self.value(each["name"])) for each in value]
        if kind == "as_optional_tensors":
            return [
                Ref(self.value(each["as_tensor"]["name"])) if "as_tensor" in each else None for each in value
            ]
        if kind == "as_optional_tensor":
            return Ref(self.value(value["as_tensor"]["name"])) if "as_tensor" in value else None
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return self._symbol(value)
        if kind == "as_sym_ints":
            return [self._symbol(each) for each in value]
        if kind == "as_float":
            return float(value)  # torch writes what is not finite as a text
        return None if kind == "as_none" else value

    def _symbol(self, value: dict[str, Any]) -> Any:
        if "as_name" in value:
            return self.numbers.get(value["as_name"])
        return entry_of(value)[1]


def refs(value: Any) -> list[Ref]:
    if isinstance(value, list):
        return [ref for each in value for ref in refs(each)]
    return [value] if isinstance(value, Ref) else []


def entry_of(union: dict[str, Any]) -> tuple[str, Any]:
    """Return kind and value of what torch writes as an object with one entry."""
    ((kind, value),) = union.items()
    return kind, value


def names_in(arg: dict[str, Any]) -> list[str]:
    """Return the names of the tensors in an argument."""
    kind, value = entry_of(arg)
    if kind == "as_tensor":
        return [str(value["name"])]
    if kind == "as_tensors":
        return [str(each["name"]) for each in value]
    if kind == "as_optional_tensors":
        return [str(each["as_tensor"]["name"]) for each in value if "as_tensor" in each]
    return []


def place_of(node: dict[str, Any]) -> str:
    """Return the module of a node, as its user calls it, and the node's own name."""
    stack = str(node.get("metadata", {}).get("nn_module_stack", "")).split(";")[-1].split(",")
    name = str(node.get("name") or node["target"])
    return f"{stack[1]} ({name})" if len(stack) > 1 and stack[1] else name
