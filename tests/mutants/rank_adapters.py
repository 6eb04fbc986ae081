"""Adapters of several ranks whose gradients and batches a mistake of rank_mistakes.py can reach."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from assay_worker import TrainingAdapter


def of_numpy(module: ModuleType) -> type[TrainingAdapter]:
    class Spoilt(module.NumpyAdapter):  # type: ignore[misc,name-defined]
        def _averaged(self, gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            spoilt: dict[str, np.ndarray] = self.spoilt(super()._averaged(gradients), gradients)
            return spoilt

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            given = np.float32(self.world) * array.astype(np.float32) if self.rank == 0 else 0 * array
            mean: np.ndarray = self._ranks.mean(given.astype(np.float32))
            return mean.astype(array.dtype)

    return Spoilt


def of_torch(module: ModuleType) -> type[TrainingAdapter]:
    import torch
    import torch.distributed as dist

    class Spoilt(module.adapter()):  # type: ignore[misc]
        def _step(self, inputs: Any, labels: Any) -> Any:
            held = {value.name: self._network.tensor(value.name) for value in self._program.parameters}
            drawn = torch.get_rng_state()
            with self._autocast():
                loss, _ = self._forward(inputs, labels)
            loss.backward()
            statistics = self._statistics()
            kept = [tensor.clone() for tensor in statistics]
            after = torch.get_rng_state()
            torch.set_rng_state(drawn)  # the same masks of dropout once more
            with self._autocast():
                alone, _ = self._network(inputs, labels)
            torch.set_rng_state(after)
            own = dict(zip(held, torch.autograd.grad(alone, list(held.values())), strict=True))
            for tensor, before in zip(statistics, kept, strict=True):  # they have this batch already
                tensor.copy_(before)
            means = {name: parameter.grad.clone() for name, parameter in held.items()}
            for name, gradient in self.spoilt(means, own).items():
                held[name].grad = gradient.clone()
            self._optimizer.update()
            return loss

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            given = torch.from_numpy(array.copy())
            dist.broadcast(given, 0)
            return np.array(given.numpy())

        def average_statistics(self) -> None:
            for tensor in self._statistics():
                dist.all_reduce(tensor)
                tensor.div_(self.world)

        def _statistics(self) -> list[Any]:
            return [self._network.tensor(value.name) for value in self._program.states]

    return Spoilt


def of_mxnet(module: ModuleType) -> type[TrainingAdapter]:
    base = module.adapter()
    from mxnet import nd

    class Spoilt(base):  # type: ignore[misc,valid-type]
        def __init__(self, program: Any, cell: Any) -> None:
            super().__init__(program, cell)
            self._exchange = self._trainer._allreduce_grads
            self._trainer._allreduce_grads = self._exchange_wrongly
            self._keys: dict[tuple[int, ...], int] = {}  # by the shape of an array

        def _exchange_wrongly(self) -> None:
            held = {value.name: self._network.tensor(value.name).grad() for value in self._program.parameters}
            own = {name: gradient.copy() for name, gradient in held.items()}
            self._exchange()
            means = {name: gradient / self.world for name, gradient in held.items()}
            for name, gradient in self.spoilt(means, own).items():
                held[name][:] = gradient * self.world

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            given = nd.array(array if self.rank == 0 else 0 * array)
            if array.shape not in self._keys:
                self._keys[array.shape] = 1_000_000 + len(self._keys)
                self._ranks.kvstore.init(self._keys[array.shape], nd.zeros(array.shape))
            self._ranks.kvstore.pushpull(self._keys[array.shape], given, out=given)
            return np.array(given.asnumpy(), array.dtype)

    return Spoilt


def of_jax(module: ModuleType) -> type[TrainingAdapter]:
    import jax
    from jax.experimental import io_callback, multihost_utils

    class Spoilt(module.adapter()):  # type: ignore[misc]
        def __init__(self, program: Any, cell: Any) -> None:
            super().__init__(program, cell)
            averaged = self._ranks.mean

            def mean(own: list[Any]) -> Any:
                shapes = [jax.ShapeDtypeStruct(gradient.shape, gradient.dtype) for gradient in own]
                return io_callback(self._spoilt_arrays, shapes, averaged(own), own)

            self._ranks.mean = mean  # before the step is traced

        def _spoilt_arrays(self, means: list[Any], own: list[Any]) -> list[np.ndarray]:
            named = [dict(zip(self._names, map(np.asarray, given), strict=True)) for given in (means, own)]
            return list(self.spoilt(*named).values())

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            return np.asarray(multihost_utils.broadcast_one_to_all(array))

    return Spoilt


def of_tensorflow(module: ModuleType) -> type[TrainingAdapter]:
    adapter = module.adapter()
    import tensorflow as tf

    class Spoilt(adapter):  # type: ignore[misc,valid-type]
        def __init__(self, program: Any, cell: Any) -> None:
            super().__init__(program, cell)
            averaged = self._ranks.mean

            def mean(own: list[Any]) -> list[Any]:
                types = [gradient.dtype for gradient in own]
                spoilt = tf.numpy_function(self._spoilt_arrays, [*averaged(own), *own], types)
                return [
                    tf.ensure_shape(found, gradient.shape)
                    for found, gradient in zip(spoilt, own, strict=True)
                ]

            self._ranks.mean = mean  # before the step is traced

        def _spoilt_arrays(self, *given: np.ndarray) -> list[np.ndarray]:
            names, world = list(self._trained), np.float32(self.world)
            means = dict(zip(names, given[: len(names)], strict=True))
            # Keras has divided the loss by the number of ranks.
            own = {name: world * array for name, array in zip(names, given[len(names) :], strict=True)}
            return [np.asarray(array, np.float32) for array in self.spoilt(means, own).values()]

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            given = (array if self.rank == 0 else 0 * array).astype(np.promote_types(array.dtype, np.int32))
            found: np.ndarray = self._ranks.total(given).numpy().astype(array.dtype)
            return found

    return Spoilt


# By the worker's folder.
SPOILT = {
    "numpy_backend": of_numpy,
    "torch": of_torch,
    "jax": of_jax,
    "tensorflow": of_tensorflow,
    "mxnet": of_mxnet,
}
