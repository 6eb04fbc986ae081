"""JAX as an assay_worker.TrainingAdapter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
import optax
from assay_worker import (
    CAST,
    Adapter,
    Cell,
    Exchange,
    Info,
    Library,
    Program,
    TrainingAdapter,
    Unsupported,
    Value,
    images_to_ours,
    images_to_theirs,
    loaded_libraries,
    refuse,
)
from jax import Array
from jax_decoder import Decoder
from jax_network import Form, Network, Values
from jax_op import JaxOp
from jax_optimizer import MOMENTS, field, make_optimizer, with_fields
from jax_ranks import Ranks, Together
from jax_scan import Scan
from jax_settings import (
    CHANNELS_FIRST,
    as_array,
    compute_type,
    configure,
    device_of,
    memory_of,
    observed,
    put,
)

Tensors = dict[str, np.ndarray]
Step = Callable[..., Any]


class JaxAdapter(TrainingAdapter):
    """Modes: `eager`, op by op; `jit`: the whole step, update included, compiled as one function; and `scan`:
    several steps in one call."""

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        return JaxOp if program.is_op else cls

    @classmethod
    def info(cls, cell: Cell) -> Info:
        configure(cell)
        versions = {"XLA": version("jaxlib")}
        found = loaded_libraries({"libjax_common": "XLA", "xla_extension": "XLA"}, versions)
        return Info("jax", jax.__version__, [*found, Library("optax", optax.__version__)], observed())

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse(program)
        self._ranks = Ranks(cell)  # before the first use of a device
        self._device = device_of(cell.device)
        self._program, self._cell, self._train = program, cell, cell.task == "train"
        if self._train:
            self._optimizer = make_optimizer(program.optimizer)
        self._slots: dict[int, tuple[Array, Array]] = {}
        self._names = [value.name for value in program.parameters]
        # A list keeps the graph's order. JAX sorts the keys of a dict, and XLA schedules by the order of its
        # arguments: with each bias before its weight a step of lenet5 takes 3 % longer.
        self._parameters: list[Array] = []
        self._states: Values = {}
        self._optimizer_state: Any = None
        self._last: Any = None
        self._rate: float | None = None
        self._down: Array | None = None  # -self._rate, on the device
        self._restarted = True
        # Each round draws other masks, as it has other parameters. Without a dropout nothing is drawn.
        training, inference = program.graph(cell.task), program.inference
        drops = [node for node in training.nodes if node.op == "dropout"]
        self._key = self._put_key(cell.seed) if drops else None
        self._masks: Values = {}

        native = cell.layout != CHANNELS_FIRST
        self._images_last = native
        # While it trains, a step casts the parameters that it has just updated.
        casts = cell.precision == "bf16" and not self._train
        form = Form(compute_type(cell), images_last=native, inputs_first=native)
        network = Network(program, form, cell.task, casts)
        self._layout, self._read, self._operands = network.layout, network.read, list[Array]()

        def loss_of(
            parameters: list[Array],
            states: Values,
            inputs: Array,
            labels: Array,
            masks: Values,
            key: Array | None,
        ) -> tuple[Array, Values]:
            values = network.run(
                {**self._named(parameters), **states, **masks, "inputs": inputs, "labels": labels}, key
            )
            updated = states | {state: values[name] for state, name in training.updates.items()}
            return values[training.outputs["loss"]], updated

        gradient_of = jax.value_and_grad(loss_of, has_aux=True)

        def train_step(
            parameters: list[Array],
            states: Values,
            moments: Any,
            key: Array | None,
            inputs: Array,
            labels: Array,
            masks: Values,
            down: Array,  # minus the learning rate
        ) -> tuple[list[Array], Values, Any, Array | None, Array]:
            key, drawn = (None, None) if key is None else jax.random.split(key)
            (loss, states), gradients = gradient_of(parameters, states, inputs, labels, masks, drawn)
            gradients = self._ranks.mean(gradients)
            directions, moments = self._optimizer.update(gradients, moments, parameters)
            steps = jax.tree.map(lambda direction: down * direction, directions)
            return optax.apply_updates(parameters, steps), states, moments, key, self._ranks.row(loss)

        def infer(operands: list[Array], states: Values, inputs: Array) -> Array:
            return network.run_inference({**self._of_inference(operands), **states, "inputs": inputs})[
                inference.outputs["logits"]
            ]

        def dropped(
            parameters: list[Array], states: Values, inputs: Array, labels: Array, key: Array
        ) -> list[tuple[Array, Array]]:
            values = network.run(
                {**self._named(parameters), **states, "inputs": inputs, "labels": labels}, key
            )
            return [(values[str(node.inputs[0])], values[str(node.outputs[0])]) for node in drops]

        self._train_step = train_step
        self._decoder: Decoder | None = None
        if program.decoding is not None:
            self._decoder = Decoder(program.decoding, network, self._of_inference, cell, self._device)
        self._scan: Scan | None = None
        if cell.mode == "scan":
            slots = int(cell.request.get("loader", {}).get("resident_batches", 1))
            self._scan = Scan(train_step, slots, self._device)
        if cell.mode != "eager":
            self._step: Step = self._compiled(train_step)
            self._infer: Step = jax.jit(infer)
            self._dropped: Step = jax.jit(dropped)
        else:
            self._step, self._infer = train_step, infer
            self._dropped = dropped

    def set_state(self, tensors: Tensors) -> None:
        def start(value: Value, moment: str = "") -> Array:
            given = tensors.get(value.name + moment)
            if given is None:
                given = np.full(value.shape, not moment and value.initializer == "ones")
            return self._put(self._layout.to_theirs(value.name, np.asarray(given, np.float32)))

        program, everywhere = self._program, self._ranks.everywhere
        parameters = [start(value) for value in program.parameters]
        self._states = {value.name: everywhere(start(value)) for value in program.states}
        self._parameters = [everywhere(parameter) for parameter in parameters]
        if self._train:
            fields = {
                theirs: [start(value, f".{ours}") for value in program.parameters]
                for ours, theirs in self._moments().items()
            }
            moments = with_fields(self._optimizer.init(parameters), **fields)
            self._optimizer_state = jax.tree.map(everywhere, moments)
        else:
            held = self._named(self._parameters)
            dtype = compute_type(self._cell)
            held |= {f"{name}{CAST}": parameter.astype(dtype) for name, parameter in held.items()}
            self._operands = [held[name] for name in self._read]
        self._restarted = True
        if self._decoder:
            self._decoder.clear()

    def state(self) -> Tensors:
        held = self._named(self._parameters) | self._states
        found = {name: self._to_ours(name, value) for name, value in held.items()}
        for ours, theirs in self._moments().items():
            moments = self._named(field(self._optimizer_state, theirs))
            found |= {f"{name}.{ours}": self._to_ours(name, moment) for name, moment in moments.items()}
        return found

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        batch = self._ranks.rows(self._batch(inputs)), self._ranks.rows(self._put(labels))
        if self._scan:
            self._scan.stage(slot, *batch)
        else:
            self._slots[slot] = batch

    @property
    def takes_blocks(self) -> bool:
        return self._scan is not None

    def block(self, first_slot: int, rows: Sequence[tuple[float, int]]) -> None:
        if self._scan is None:
            return super().block(first_slot, rows)
        if self._restarted:
            self._start_at(rows[0][1])
        state = self._parameters, self._states, self._optimizer_state, self._key
        state, self._last = self._scan.run(state, self._masks, first_slot, [rate for rate, _ in rows])
        self._parameters, self._states, self._optimizer_state, self._key = state

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        if self._scan:
            return self.block(slot, [(learning_rate, step)])
        inputs, labels = self._slots[slot]
        if not self._train:
            self._last = self._infer(self._operands, self._states, inputs)
            return
        if self._restarted:
            self._start_at(step)
        if learning_rate != self._rate:
            self._rate = learning_rate
            self._down = self._ranks.everywhere(self._put(np.array(-learning_rate, np.float32)))
        self._parameters, self._states, self._optimizer_state, self._key, self._last = self._step(
            self._parameters,
            self._states,
            self._optimizer_state,
            self._key,
            inputs,
            labels,
            self._masks,
            self._down,
        )

    def prefill(self, slot: int) -> None:
        self._last = self._decoding().prefill(self._operands, self._slots[slot][0])

    def next_token(self, slot: int) -> None:
        self._last = self._decoding().next_token(self._operands, self._slots[slot][0])

    def synchronize(self) -> None:
        if self._train:
            jax.block_until_ready((self._parameters, self._states, self._optimizer_state, self._last))
        else:
            self._last.block_until_ready()  # jax.block_until_ready() needs 20 us to search a tree for arrays

    def loss(self) -> float:
        return float("nan") if self._last is None else float(self._ranks.own(self._last).item())

    def agree(self, value: int) -> int:
        return self._ranks.agreed(value)

    def exchange(self) -> Exchange:
        if self._cell.world == 1:
            return super().exchange()
        without = self._compiled(self._train_step)

        def local_step(slot: int, learning_rate: float, step: int) -> None:
            timed, self._step, self._ranks.exchanges = self._step, without, False
            self.step(slot, learning_rate, step)
            self._step, self._ranks.exchanges = timed, True

        parameters = self._parameters
        return Exchange(sum(p.nbytes for p in parameters), local_step, self._ranks.bare(parameters))

    def results(self) -> Tensors:
        return {"logits": as_array(self._last)}

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        operands = self._parameters if self._train else self._operands
        held = jax.tree.map(self._ranks.own, (operands, self._states))
        return as_array(self._infer(*held, self._batch(inputs)))

    def supply_masks(self, masks: Tensors) -> None:
        # Under jit this is a second program of the same network, with the masks as operands.
        self._masks = {name: self._ranks.rows(self._batch(mask)) for name, mask in masks.items()}
        if isinstance(self._step, Together):
            self._step.take_other_operands()

    def seed_masks(self, seed: int) -> None:
        self._key = None if self._key is None else self._put_key(seed)

    def draw_masks(self, slot: int) -> Tensors:
        if self._key is None:
            return {}
        key, drawn = jax.random.split(self._ranks.own(self._key))
        self._key = self._ranks.everywhere(key)
        batch = self._scan.batch(slot) if self._scan else self._slots[slot]
        operands = jax.tree.map(self._ranks.own, (self._parameters, self._states, *batch))
        found = self._dropped(*operands, drawn)
        # An element that was 0 before is 0 after, whether it was kept or not.
        return {
            value.name: self._batch_to_ours(np.where(as_array(x) == 0, 255, as_array(y) != 0)).astype(
                np.uint8
            )
            for value, (x, y) in zip(self._program.masks, found, strict=True)
        }

    def memory(self) -> dict[str, int]:
        held = [*self._parameters, *self._operands, self._states, self._optimizer_state]
        kept = {id(array): array.nbytes for array in jax.tree.leaves(held)}
        found = {"persistent": sum(kept.values())}
        if self._decoder:
            found["caches"] = self._decoder.cache_bytes
            found["persistent"] += found["caches"]
        return found | memory_of(self._device)

    def settings(self) -> dict[str, str]:
        if self._decoder:
            return observed(self._decoder.token_function)
        if self._scan:
            return observed(self._scan.compiled)
        return observed(self._step if self._train else self._infer) | self._ranks.settings()

    def _compiled(self, step: Step) -> Step:
        """Compile the step of all ranks; its batch and masks are a rank's own rows."""
        return self._ranks.compiled(step, rows=(4, 5, 6), donated=(0, 1, 2, 3))

    def _decoding(self) -> Decoder:
        if self._decoder is None:
            raise Unsupported("[decode] the program generates no tokens")
        return self._decoder

    def _named(self, of_parameters: list[Array]) -> Values:
        return dict(zip(self._names, of_parameters, strict=True))

    def _of_inference(self, operands: list[Array]) -> Values:
        return dict(zip(self._read, operands, strict=True))

    def _moments(self) -> dict[str, str]:
        if not self._train:
            return {}
        known = MOMENTS[self._program.optimizer.kind]
        return {name: known[name] for name in self._program.optimizer.moments}

    def _start_at(self, step: int) -> None:
        """Set the step count of optax to the first step of the schedule."""
        if self._program.optimizer.counts_steps:
            count = self._put(np.array(step - 1, np.int32))
            self._optimizer_state = with_fields(self._optimizer_state, count=self._ranks.everywhere(count))
        self._restarted = False

    def _to_ours(self, name: str, of_parameter: Array) -> np.ndarray:
        """A parameter, its gradient or one of its moments in the contract's layout."""
        return self._layout.to_ours(name, as_array(self._ranks.own(of_parameter)))

    def _batch(self, array: np.ndarray) -> Array:
        return self._put(images_to_theirs(array) if self._images_last else array)

    def _batch_to_ours(self, array: np.ndarray) -> np.ndarray:
        return images_to_ours(array) if self._images_last else array

    def _put(self, array: np.ndarray) -> Array:
        return put(array, self._device)

    def _put_key(self, seed: int) -> Array:
        """Take the key of this rank: each draws its own masks."""
        return self._ranks.everywhere(jax.device_put(jax.random.key(seed), self._device))
