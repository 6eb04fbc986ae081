"""Keras's own loop, model.fit, with the batch library's block clock in a callback."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator

import keras
import numpy as np
import tensorflow as tf
from assay_worker import Loop, Samples, images_to_theirs

Prepare = Callable[[float, int], None]
Tell = Callable[[tf.Tensor], None]
Fetch = Callable[[], None]
Batch = tuple[np.ndarray, np.ndarray]


class BlockClock(keras.callbacks.Callback):
    """Sets the inputs of each step, ends blocks, evaluates between them, and stops before a step too many.

    It has no method for the end of a batch: with one, Keras would read the loss of every step in the training
    thread, which it leaves to another thread for users without one.
    """

    def __init__(self, loop: Loop, fetch: Fetch | None, prepare: Prepare, tell: Tell) -> None:
        super().__init__()
        self._loop, self._fetch, self._prepare, self._tell = loop, fetch, prepare, tell
        self._began = False
        self._row = (
            loop.begin_step()
        )  # the clock runs: users also wait for the work of fit before the first step

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None:
        if self._began:
            self._end_step()
        if self._row is None:
            self.model.stop_training = True
            raise StopIteration  # as at the end of a data set
        self._began = True
        self._prepare(*self._row)
        if self._fetch is not None:
            self._fetch()
        if self._loop.last_of_block:
            self.model.reset_metrics()  # Keras reports the mean since the last reset

    def _end_step(self) -> None:
        if self._loop.last_of_block:
            self._tell(self.model.get_metrics_result()["loss"])
        self._loop.end_step()
        self._row = self._loop.begin_step()


class OneStep(keras.callbacks.Callback):
    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    def on_train_batch_end(self, batch: int, logs: dict[str, tf.Tensor] | None = None) -> None:
        self._tell((logs or {})["loss"])


def fit_once(model: keras.Model, batch: tuple[tf.Tensor, tf.Tensor], tell: Tell) -> None:
    """Run one step with the function that fit_all() uses."""
    model.fit(tf.data.Dataset.from_tensors(batch), verbose=0, callbacks=[OneStep(tell)])


def fit_all(
    model: keras.Model,
    loop: Loop,
    data: tf.data.Dataset | Iterator[Batch],
    fetch: Fetch | None,
    prepare: Prepare,
    tell: Tell,
) -> None:
    """Fit on endless data until the loop has no more steps; `fetch` is called before each step."""
    clock = BlockClock(loop, fetch, prepare, tell)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")  # it did not: see BlockClock
        model.fit(data, steps_per_epoch=sys.maxsize, verbose=0, callbacks=[clock])


def resident(slots: list[tuple[tf.Tensor, tf.Tensor]]) -> tf.data.Dataset:
    """Return the staged batches in turn, made ahead of time as in Keras's guides."""
    stacked = tuple(tf.stack(parts) for parts in zip(*slots, strict=True))
    return tf.data.Dataset.from_tensor_slices(stacked).repeat().prefetch(tf.data.AUTOTUNE)


def generated(samples: Samples, batch: int, order: np.random.Generator) -> Iterator[Batch]:
    """Yield one pass of batches, each made sample by sample in Python.

    Keras calls it in a thread of tf.data, as it calls the generators of its users.
    """
    whole = len(samples) // batch * batch
    for rows in order.permutation(len(samples))[:whole].reshape(-1, batch):
        inputs, labels = zip(*(samples[row] for row in rows.tolist()), strict=True)
        yield np.ascontiguousarray(images_to_theirs(np.stack(inputs))), np.asarray(labels, np.int32)


def loaded(loop: Loop) -> tuple[tf.data.Dataset, Fetch]:
    """Return a data set of the batch fetched last, and the function that fetches the library's next batch.

    tf.data would call a Python generator (`from_generator`) for each batch in one of its threads.
    """
    session = loop.session
    inputs = tf.Variable(images_to_theirs(session.inputs), trainable=False)
    labels = tf.Variable(session.labels, trainable=False)

    def fetch() -> None:
        session.next_batch()
        inputs.assign(np.ascontiguousarray(images_to_theirs(session.inputs)))
        labels.assign(session.labels)

    # No batch is made ahead of time: each step reads the batch that was fetched for it.
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    data = tf.data.Dataset.range(1).repeat().map(lambda _: (inputs.read_value(), labels.read_value()))
    return data.with_options(options), fetch
