"""JAX behind the contract of assay_worker.Adapter."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from assay_worker import Adapter, Cell, Info, Library, Program, Unavailable, Unsupported, loaded_libraries
from jax import Array
from jax_network import Values, function_of
from jax_optimizer import MOMENTS, make_optimizer, with_fields

Tensors = dict[str, np.ndarray]
Step = Callable[..., Any]


class JaxAdapter(Adapter):
    """Modes: `eager`, op by op, and `jit`: the whole step, update included, compiled as one function."""

    @classmethod
    def info(cls, cell: Cell) -> Info:
        _configure(cell)
        versions = {"XLA": version("jaxlib")}
        found = loaded_libraries({"libjax_common": "XLA", "xla_extension": "XLA"}, versions)
        return Info("jax", jax.__version__, [*found, Library("optax", optax.__version__)], _observed())

    def __init__(self, program: Program, cell: Cell, check: bool) -> None:
        if cell.device != "cuda" and cell.precision == "tf32":
            raise Unsupported(f"[tf32] the device {cell.device} has no TF32")
        if cell.mode not in ("eager", "jit"):
            raise Unsupported(f"mode {cell.mode!r}: eager and jit are known")
        self._device = _device(cell.device)
        self._program, self._train = program, cell.task == "train"
        self._optimizer = make_optimizer(program.optimizer)
        self._slots: dict[int, tuple[Array, Array]] = {}
        self._parameters: Values = {}
        self._states: Values = {}
        self._optimizer_state: Any = None
        self._last: Any = None
        self._restarted = True

        compute = jnp.bfloat16 if cell.precision == "bf16" else jnp.float32
        training, inference = program.training, program.inference
        run, run_inference = function_of(training, compute), function_of(inference, compute)

        def loss_of(parameters: Values, states: Values, inputs: Array, labels: Array) -> tuple[Array, Any]:
            values = run({**parameters, **states, "inputs": inputs, "labels": labels})
            updated = states | {state: values[name] for state, name in training.updates.items()}
            return values[training.outputs["loss"]], (updated, values[training.outputs["logits"]])

        gradient_of = jax.value_and_grad(loss_of, has_aux=True)

        def train_step(
            parameters: Values, states: Values, moments: Any, inputs: Array, labels: Array, rate: float
        ) -> tuple[Values, Values, Any, Array]:
            (loss, (states, _)), gradients = gradient_of(parameters, states, inputs, labels)
            directions, moments = self._optimizer.update(gradients, moments, parameters)
            steps = jax.tree.map(lambda direction: -rate * direction, directions)
            return optax.apply_updates(parameters, steps), states, moments, loss

        def infer(parameters: Values, states: Values, inputs: Array) -> Array:
            return run_inference({**parameters, **states, "inputs": inputs})[inference.outputs["logits"]]

        if cell.mode == "jit":
            self._step: Step = jax.jit(train_step, donate_argnums=(0, 1, 2))
            self._infer: Step = jax.jit(infer)
            self._gradients: Step = jax.jit(gradient_of)
        else:
            self._step, self._infer, self._gradients = train_step, infer, gradient_of

    def set_state(self, tensors: Tensors) -> None:
        def start(name: str, shape: tuple[int, ...], fill: float = 0.0) -> Array:
            return self._put(np.asarray(tensors.get(name, np.full(shape, fill)), np.float32))

        program = self._program
        self._parameters = {v.name: start(v.name, v.shape) for v in program.parameters}
        self._states = {v.name: start(v.name, v.shape, v.initializer == "ones") for v in program.states}
        fields = {
            theirs: {v.name: start(f"{v.name}.{ours}", v.shape) for v in program.parameters}
            for ours, theirs in self._moments().items()
        }
        self._optimizer_state = with_fields(self._optimizer.init(self._parameters), **fields)
        self._restarted = True

    def state(self) -> Tensors:
        found = {name: _array(value) for name, value in (self._parameters | self._states).items()}
        for ours, theirs in self._moments().items():
            for name, moment in getattr(self._optimizer_state[1], theirs).items():
                found[f"{name}.{ours}"] = _array(moment)
        return found

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self._slots[slot] = self._put(inputs), self._put(labels)

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        inputs, labels = self._slots[slot]
        if not self._train:
            self._last = self._infer(self._parameters, self._states, inputs)
            return
        if self._restarted:
            self._start_at(step)
        self._parameters, self._states, self._optimizer_state, self._last = self._step(
            self._parameters, self._states, self._optimizer_state, inputs, labels, learning_rate
        )

    def synchronize(self) -> None:
        jax.block_until_ready((self._parameters, self._states, self._optimizer_state, self._last))

    def loss(self) -> float:
        return float("nan") if self._last is None else float(self._last)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        return _array(self._infer(self._parameters, self._states, self._put(inputs)))

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> Tensors:
        (loss, (self._states, logits)), gradients = self._gradients(
            self._parameters, self._states, self._put(inputs), self._put(labels)
        )
        found = {f"gradient/{name}": _array(gradient) for name, gradient in gradients.items()}
        return {"loss": _array(loss), "logits": _array(logits), **found}

    def memory(self) -> dict[str, int]:
        kept = jax.tree.leaves((self._parameters, self._states, self._optimizer_state))
        found = {"persistent": sum(array.nbytes for array in kept)}
        if statistics := self._device.memory_stats():
            found["framework_peak"] = statistics["peak_bytes_in_use"]
        return found

    def settings(self) -> dict[str, str]:
        found = _observed()
        compiled = getattr(self._step if self._train else self._infer, "_cache_size", None)
        if compiled:
            # More than one means that it compiled anew.
            found["compiled_graphs"] = str(compiled())
        return found

    def _moments(self) -> dict[str, str]:
        known = MOMENTS[self._program.optimizer.kind]
        return {name: known[name] for name in self._program.optimizer.moments}

    def _start_at(self, step: int) -> None:
        """Let optax, which counts the steps itself, begin with the one that the schedule begins with."""
        if self._program.optimizer.kind == "adam":
            count = self._put(np.array(step - 1, np.int32))
            self._optimizer_state = with_fields(self._optimizer_state, count=count)
        self._restarted = False

    def _put(self, array: np.ndarray) -> Array:
        # Always a copy: the buffer belongs to the batch library, and JAX would alias it on a CPU.
        return jax.device_put(np.array(array), self._device, may_alias=False)


def _array(value: Array) -> np.ndarray:
    return np.asarray(value.astype(jnp.float32))


def _device(kind: str) -> jax.Device:
    try:
        return jax.devices(kind)[0]
    except RuntimeError as error:
        raise Unavailable(f"JAX {jax.__version__} finds no {kind} device: {error}") from error


def _configure(cell: Cell) -> None:
    """Set what holds for the whole process, before JAX starts its backend."""
    os.environ["PJRT_NPROC"] = str(cell.threads)
    if cell.device == "cuda":
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if cell.deterministic:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()
    else:
        jax.config.update("jax_platforms", "cpu")
    jax.config.update(
        "jax_default_matmul_precision", "tensorfloat32" if cell.precision == "tf32" else "highest"
    )


def _observed() -> dict[str, str]:
    names = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").iterdir()]
    return {
        "threads": str(sum("XLAEigen" in name for name in names)),
        "matmul_precision": str(jax.config.jax_default_matmul_precision),
        "python": platform.python_version(),
    }
