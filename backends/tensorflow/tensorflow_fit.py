"""Keras's own loop, model.fit, with the batch library's block clock in a callback.

If each block is an epoch of Keras, the callback is called between epochs only, as a user's would be.
Otherwise it is called before each step.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from assay_worker import Loop, Samples, images_to_theirs

Prepare = Callable[[float, int], None]
Tell = Callable[[tf.Tensor | float, float | None], None]  # loss and, if it is counted, accuracy of a block
Fetch = Callable[[], None]
Batch = tuple[np.ndarray, np.ndarray]
MOST_ARRAY_BYTES = 2 << 30  # larger sets stay as they are stored, and tf.data makes their batches


@dataclass(frozen=True)
class Arrays:
    """All training samples as users give them to fit(x, y, batch_size)."""

    inputs: np.ndarray
    labels: np.ndarray
    batch: int

    @classmethod
    def can_hold(cls, samples: Samples, batch: int) -> bool:
        """Whether the samples can be arrays: nothing is drawn for an epoch, and no sample fills no batch."""
        size = 4 * len(samples) * int(np.prod(samples.raw.shape[1:]))
        return not samples.moved and len(samples) % batch == 0 and size <= MOST_ARRAY_BYTES

    @classmethod
    def of(cls, samples: Samples, batch: int) -> Arrays:
        rows = samples.rows[:, 0]
        inputs = samples.raw[rows]
        if not samples.tokens:
            inputs = images_to_theirs(inputs.astype(np.float32) * samples.scale + samples.shift)
        return cls(np.ascontiguousarray(inputs), np.asarray(samples.labels[rows], np.int32), batch)


Endless = Any  # a tf.data.Dataset, which has no types, or an iterator of batches


class EpochClock(keras.callbacks.Callback):
    """Ends a block with each epoch of Keras, evaluates between them, and stops after the last.

    It has no method for batches, so that a step is that of a user's fit. Its loss is the mean of the epoch.
    """

    def __init__(self, loop: Loop, prepare: Prepare, tell: Tell, steps: Sequence[tuple[float, int]]) -> None:
        super().__init__()
        self._loop, self._prepare, self._tell = loop, prepare, tell
        self._steps = len(steps)
        self._prepare(*steps[0])

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        found = logs or {}
        self._tell(found["loss"], found.get("accuracy"))
        self._loop.end_block()
        rows = self._loop.begin_block()
        if rows is None:
            self.model.stop_training = True
        elif len(rows) != self._steps:
            raise RuntimeError(f"[fit] the next epoch has {len(rows)} steps, and the first has {self._steps}")
        else:
            self._prepare(*rows[0])


class BlockClock(keras.callbacks.Callback):
    """Sets the inputs of each step, ends blocks, evaluates between them, and stops before a step too many.

    It has no method for the end of a batch: with one, Keras would read the loss of every step in the training
    thread, which it leaves to another thread for users without one.
    """

    def __init__(self, loop: Loop, fetch: Fetch | None, prepare: Prepare, tell: Tell) -> None:
        super().__init__()
        self._loop, self._fetch, self._prepare, self._tell = loop, fetch, prepare, tell
        self._began = False
        self._row = loop.begin_step()
        self._counted: float | None = None  # accuracy in the block, but for its last step

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
        if self._loop.last_of_block:  # Keras reports means since the last reset
            self._counted = accuracy_of(self.model)
            self.model.reset_metrics()

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if self._began:  # before Keras resets its metrics
            self._end_step()
        self.model.stop_training = self._row is None

    def _end_step(self) -> None:
        if self._loop.last_of_block:
            accuracy = accuracy_of(self.model)
            if accuracy is not None and self._counted is not None:
                steps = self._loop.steps
                accuracy = (self._counted * (steps - 1) + accuracy) / steps
            self._tell(self.model.get_metrics_result()["loss"], accuracy)
            self.model.reset_metrics()
        self._loop.end_step()
        self._began = False
        self._row = self._loop.begin_step()


def accuracy_of(model: keras.Model) -> float | None:
    """The accuracy since the last reset, if the model was compiled with it."""
    found = model.get_metrics_result().get("accuracy") if len(model.metrics) > 1 else None
    return None if found is None else float(found)


class OneStep(keras.callbacks.Callback):
    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell

    def on_train_batch_end(self, batch: int, logs: dict[str, tf.Tensor] | None = None) -> None:
        self._tell((logs or {})["loss"], None)


def fit_once(model: keras.Model, batch: tuple[tf.Tensor, tf.Tensor], tell: Tell) -> None:
    """Run one step with the function that fit_all() uses."""
    model.fit(tf.data.Dataset.from_tensors(batch), verbose=0, callbacks=[OneStep(tell)])


def fit_all(
    model: keras.Model, loop: Loop, data: Arrays | Endless, fetch: Fetch | None, prepare: Prepare, tell: Tell
) -> None:
    """Fit until the loop has no more steps; `fetch` is called before each step."""
    steps = loop.begin_block()  # the clock runs: users also wait for the work of fit before the first step
    if steps is None:
        return
    is_whole = not isinstance(data, Arrays) or len(steps) * data.batch == len(data.labels)
    clock: keras.callbacks.Callback
    if fetch is None and loop.epoch > 0 and is_whole and rate_is_constant(loop, len(steps)):
        clock, length = EpochClock(loop, prepare, tell, steps), len(steps)
    else:
        clock, length = BlockClock(loop, fetch, prepare, tell), sys.maxsize
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Your input ran out of data")  # it did not: see BlockClock
        if isinstance(data, Arrays):
            model.fit(
                data.inputs,
                data.labels,
                data.batch,
                epochs=sys.maxsize,
                verbose=0,
                callbacks=[clock],
            )
        else:
            model.fit(data, steps_per_epoch=length, epochs=sys.maxsize, verbose=0, callbacks=[clock])


def rate_is_constant(loop: Loop, steps: int) -> bool:
    """Whether the learning rate changes only between epochs of so many steps."""
    rates = [rate for rate, _ in loop.supply.schedule]
    return all(rate == rates[i - i % steps] for i, rate in enumerate(rates))


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
    supply = loop.supply
    inputs = tf.Variable(images_to_theirs(supply.inputs), trainable=False)
    labels = tf.Variable(supply.labels, trainable=False)

    def fetch() -> None:
        supply.next_batch()
        inputs.assign(np.ascontiguousarray(images_to_theirs(supply.inputs)))
        labels.assign(supply.labels)

    # No batch is made ahead of time: each step reads the batch that was fetched for it.
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    options.autotune.enabled = False
    data = tf.data.Dataset.range(1).repeat().map(lambda _: (inputs.read_value(), labels.read_value()))
    return data.with_options(options), fetch
