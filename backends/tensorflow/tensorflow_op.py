"""A single op of TensorFlow: only forward, or forward and the gradients of its operands by a GradientTape.

If a Keras layer has its own variables, the operands replace them in a keras.StatelessScope. Mode `layer` has
a layer for each slot, which is called as users call it; `function` and `tensordot` call a function of tf.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from assay_worker import (
    Cell,
    Node,
    OpAdapter,
    Program,
    images_to_ours,
    images_to_theirs,
)
from keras import layers
from tensorflow_functions import OF_MODE, TYPES, Bound, Layer
from tensorflow_network import IMAGE_OPS, Builder, Dropout
from tensorflow_settings import MODES, observed, refuse_cell


class TensorflowOp(OpAdapter):
    """A step is one function of its operands and states."""

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_cell(cell, program)
        super().__init__(program, cell)
        self._images = any(node.op in IMAGE_OPS for node in self.graph.nodes)
        self._builder = Builder(self.graph, self._images, cell.seed)
        self._plan = [(node, self._translate(node)) for node in self.graph.nodes]
        self._build()
        # One call of a function or layer, which is all that a step does.
        self._is_call = cell.mode == "layer" or cell.mode in OF_MODE
        # The operands that are in the layout of TensorFlow's weights.
        self._weights = set(self._builder.kept)
        self._positions = [self.operands.index(name) for name in self.differentiated]
        self._step = MODES[cell.mode](self._both_ways if self.is_training else self._forward)
        self._last: Sequence[tf.Tensor] = ()

    def place(self, name: str, array: np.ndarray) -> tf.Tensor:
        if name in self._weights:
            array = self._builder.layout.to_theirs(name, array)
        elif self._images:
            array = images_to_theirs(array)
        # Always a copy: the buffer belongs to the batch library.
        return tf.constant(np.ascontiguousarray(array).reshape(array.shape))

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, inputs, labels)
        if self._is_call:
            operands, cotangents = self._slots[slot]
            self._slots[slot] = [self._bound(dict(zip(self.operands, operands, strict=True)))], cotangents

    def fetch(self, name: str, tensor: tf.Tensor) -> np.ndarray:
        found = tf.cast(tensor, tf.float32).numpy()
        if name in self._weights:
            return self._builder.layout.to_ours(name, found)
        return images_to_ours(found) if self._images else found

    def compute(self, given: list[Any], cotangents: list[tf.Tensor]) -> Sequence[tf.Tensor]:
        if self._is_call:
            self._last = self._call(given[0], cotangents)
            return self._last
        backward = (cotangents,) if self.is_training else ()
        self._last, self.states = self._step(self.states, given, *backward)
        return self._last

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def settings(self) -> dict[str, str]:
        return observed(self._step)

    def _translate(self, node: Node) -> Any:
        values = self.graph.values
        return self._builder.translate(node, [values.get(name) if name else None for name in node.inputs])

    def _build(self) -> None:
        """Make the layers create their variables, by a call that computes nothing."""
        kept = self._builder.awaited()
        if not kept:
            return
        values: dict[str | None, Any] = {}
        for name in self.operands:
            value = self.graph.values[name]
            shape = images_to_theirs(np.empty(value.shape, np.bool_)).shape if self._images else value.shape
            values[name] = keras.KerasTensor(shape, TYPES[value.dtype])
        for node, run in self._plan:
            fed = [values[name] for name in node.inputs if name in values and name not in kept]
            values[node.outputs[0]] = run(*fed)
        self._builder.finish()

    def _bound(self, held: dict[str, Any]) -> Bound | Layer:
        if self.cell.mode == "layer":
            return Layer(self.graph, self._images, held)
        return Bound(self.cell.mode, self.graph.nodes[0], held)

    def _call(self, run: Bound | Layer, cotangents: list[tf.Tensor]) -> Sequence[tf.Tensor]:
        if not self.is_training:
            return [run()]
        sources = [run.sources[name] for name in self.differentiated]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            result = run()
        found = tape.gradient(result, sources, tf.cast(cotangents[0], result.dtype))
        return [result, *(tf.convert_to_tensor(gradient) for gradient in found)]

    def _forward(
        self, states: dict[str, tf.Tensor], operands: list[Any]
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        values: dict[str | None, Any] = dict(states.items())
        values.update(zip(self.given, operands, strict=True))
        kept = self._builder.kept
        if not kept:
            self._walk(values)
            return [values[name] for name in self.graph.outputs.values()], states
        with keras.StatelessScope([(kept[name], values[name]) for name in kept]) as scope:
            self._walk(values)
        found = {name: scope.get_current_value(kept[name]) for name in states}
        return [values[name] for name in self.graph.outputs.values()], found

    def _walk(self, values: dict[str | None, Any]) -> None:
        for node, run in self._plan:
            fed = [
                values[name] for name in node.inputs if name is not None and name not in self._builder.kept
            ]
            how = {"training": self.is_training} if isinstance(run, layers.BatchNormalization) else {}
            if isinstance(run, Dropout):  # a single op drops in both tasks
                how = {"training": True}
            values[node.outputs[0]] = run(*fed, **how)

    def _both_ways(
        self, states: dict[str, tf.Tensor], operands: list[tf.Tensor], cotangents: list[tf.Tensor]
    ) -> tuple[list[tf.Tensor], dict[str, tf.Tensor]]:
        given = [operands[position] for position in self._positions]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(given)
            results, updated = self._forward(states, operands)
        # Under bf16 some results are bf16; cotangents are given in fp32.
        of_results = [tf.cast(c, result.dtype) for c, result in zip(cotangents, results, strict=True)]
        found = tape.gradient(results, given, of_results)
        # An embedding's gradient is a tf.IndexedSlices; make it dense, as in the contract.
        return [*results, *(tf.convert_to_tensor(gradient) for gradient in found)], updated
