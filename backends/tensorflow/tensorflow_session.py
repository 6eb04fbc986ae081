"""TensorFlow 1's way to train: a session runs a static graph and gets arrays in each step.

Keras 3 has no loop for it, so the step of the other modes is traced once into that graph. Keras's `fit` did
the same internally if eager execution was disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


class SessionStep:
    """One step in its own session, with variables that replace those of the eager network.

    push() copies the eager variables to them, pull() copies them back after the steps.
    """

    def __init__(
        self,
        step: Callable[..., tf.Tensor],
        fed: list[tf.TensorSpec],
        variables: Iterable[tf.Variable],
        threads: int,
    ) -> None:
        traced = tf.function(step).get_concrete_function(*fed)
        of_handle = {id(variable.handle): variable for variable in variables}
        given, captured = traced.inputs[: len(fed)], traced.inputs[len(fed) :]
        graph = tf.Graph()
        with graph.as_default():
            feeds = [v1.placeholder(spec.dtype, spec.shape) for spec in fed]
            stand_ins = dict(zip([tensor.name for tensor in given], feeds, strict=True))
            self._eager: list[tf.Variable] = []
            self._held: list[tf.Variable] = []
            for inner, outer in zip(captured, traced.captured_inputs, strict=True):
                if outer.dtype != tf.resource:
                    stand_ins[inner.name] = tf.constant(outer.numpy())
                    continue
                eager = of_handle[id(outer)]
                held = v1.get_variable(
                    f"held_{len(self._held)}",
                    eager.shape,
                    eager.dtype,
                    v1.zeros_initializer(),
                    use_resource=True,
                )
                stand_ins[inner.name] = held.handle
                self._eager.append(eager)
                self._held.append(held)
            updates = [operation.name for operation in traced.graph.control_outputs]
            found = tf.graph_util.import_graph_def(
                traced.graph.as_graph_def(),
                input_map=stand_ins,
                return_elements=[traced.outputs[0].name, *updates],
                name="step",
            )
            self._set_to = [v1.placeholder(held.dtype, held.shape) for held in self._held]
            self._set = [
                held.assign(value, read_value=False)
                for held, value in zip(self._held, self._set_to, strict=True)
            ]
        config = v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
        self._session = v1.Session(graph=graph, config=config)
        self._run = self._session.make_callable(found, feed_list=feeds)

    def __call__(self, inputs: tf.Tensor, labels: tf.Tensor) -> np.ndarray:
        """Run one step on a batch and return its loss."""
        loss: np.ndarray = self._run(inputs.numpy(), labels.numpy())[0]
        return loss

    def push(self) -> None:
        values = [eager.numpy() for eager in self._eager]
        self._session.run(self._set, dict(zip(self._set_to, values, strict=True)))

    def pull(self) -> None:
        for eager, value in zip(self._eager, self._session.run(self._held), strict=True):
            eager.assign(value)

    def close(self) -> None:
        self._session.close()
