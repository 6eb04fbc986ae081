"""MXNet's Gluon as an assay_worker.TrainingAdapter."""

from __future__ import annotations

import mxnet as mx
import numpy as np
from assay_worker import (
    Adapter,
    Cell,
    Exchange,
    Info,
    Program,
    Samples,
    TrainingAdapter,
    Unsupported,
    loaded_libraries,
)
from assay_worker.tensors import same_tensors, scaled
from mxnet import autograd, gluon, nd
from mxnet_arrays import to_mxnet, to_numpy
from mxnet_loader import make_loader
from mxnet_network import Network, loss
from mxnet_op import MxnetOp
from mxnet_optimizer import Amends, clip, make_optimizer, moments_of, scales
from mxnet_ranks import Ranks
from mxnet_settings import MODES, PLAIN, STATIC, TWO_CONTEXTS, observed, refuse_cell, use_device

Tensors = dict[str, np.ndarray]


class MxnetAdapter(TrainingAdapter):
    """Modes: `eager` (imperative), `hybridize` (static allocation and static shapes), `hybridize-plain`
    (hybridize() without arguments), `two-contexts` (imperative, half of each batch on either of two CPU
    contexts, whose gradients a kvstore adds up; the contexts share the cell's threads),
    `two-contexts-own-threads` (each context has as many as MXNet takes by itself), and for task infer
    `mkldnn` (hybridized with the subgraph backend of oneDNN)."""

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        return MxnetOp if program.is_op else cls

    @classmethod
    def info(cls, cell: Cell) -> Info:
        files = {"libmxnet": "MXNet", "libgomp": "OpenMP", "libopenblas": "OpenBLAS"}
        return Info("mxnet", mx.__version__, loaded_libraries(files, {"MXNet": mx.__version__}), observed())

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_cell(cell, program)
        use_device(cell)
        self._program, self._cell, self._train = program, cell, cell.task == "train"
        self._ranks = Ranks(cell) if cell.world > 1 else None
        self._contexts = [mx.cpu(0), mx.cpu(1)] if cell.mode in TWO_CONTEXTS else []
        if self._contexts and (program.batch % 2 or program.optimizer.clip_norm):
            raise Unsupported(
                "[two-contexts] an odd batch cannot be halved, and no norm of half a gradient is clipped"
            )
        self._network = Network(program, cell.task)
        self._network.initialize(mx.init.Zero(), ctx=self._contexts or None)
        self._loss_of = loss(program.ignored_label, program.labels)
        self._compiles = bool(MODES[cell.mode])
        if self._compiles:
            self._loss_of.hybridize(**(PLAIN if cell.mode == "hybridize-plain" else STATIC))
        self._compile()
        # Each round draws other masks, as it has other parameters.
        mx.random.seed(cell.seed)
        np.random.seed(cell.seed)  # Gluon's own loader shuffles with it
        self._masks: list[nd.NDArray] = []
        if self._train:
            self._make_trainer()
        self._slots: dict[int, tuple[nd.NDArray, nd.NDArray]] = {}
        self._losses: list[nd.NDArray] = []  # of the last step, by context
        self._logits: nd.NDArray | None = None  # of the last inference
        self._accuracy = mx.metric.Accuracy() if cell.running_accuracy else None
        self._fused: Tensors = {}
        self._loader: gluon.data.DataLoader | None = None
        self._rate: float | None = None  # the rate inside SGD's velocity, or None
        self._restarted = True

    def _make_trainer(self) -> None:
        program = self._program
        rule = program.optimizer
        self._optimizer = make_optimizer(rule)
        self._amends = Amends(rule)
        trained = [self._network.tensor(value.name) for value in program.parameters]
        for parameter, value in zip(trained, program.parameters, strict=True):
            parameter.wd_mult = float(rule.decays(value.shape))
        self._trained = trained
        # Looked up here, and not in each step.
        self._counts_steps, self._clip_norm = rule.counts_steps, rule.clip_norm
        self._batch = program.batch * self._cell.world
        self._decoupled = not rule.decay_is_coupled
        self._rate_within = rule.kind == "sgd" and rule.momentum != 0  # the velocity has the learning rate
        if self._ranks:
            # The servers only add: the optimizer is this process's own, as without ranks.
            self._trainer = gluon.Trainer(
                trained, self._optimizer, kvstore=self._ranks.kvstore, update_on_kvstore=False
            )
            self._start_kvstore()  # copies a rank's parameters to all: before they are set
        else:
            kvstore = "device" if self._contexts else None
            self._trainer = gluon.Trainer(trained, self._optimizer, kvstore=kvstore)

    def set_state(self, tensors: Tensors) -> None:
        for value in self._program.parameters + self._program.states:
            given = tensors.get(value.name)
            if given is None:
                given = np.full(value.shape, value.initializer == "ones", np.float32)
            self._network.tensor(value.name).set_data(to_mxnet(given))
        if self._cell.mode == "mkldnn":
            if not same_tensors(tensors, self._fused):
                self._compile()  # its subgraphs keep weights in their own format
            self._fused = tensors
        if self._train:
            self._set_moments(tensors)
        self._rate = None
        self._restarted = True
        if self._accuracy:
            self._accuracy.reset()

    def _set_moments(self, tensors: Tensors) -> None:
        updater, scale = self._updater(), scales(self._program.optimizer)
        for index, value in enumerate(self._program.parameters):
            state = self._optimizer.create_state(index, self._network.tensor(value.name).data())
            # A kvstore moves them to the context where it keeps the weight.
            updater.states[index], updater.states_synced[index] = state, not self._contexts
            for name, moment in moments_of(self._program.optimizer, state).items():
                if (given := tensors.get(f"{value.name}.{name}")) is not None:
                    moment[:] = to_mxnet(scaled(given, scale[name]))

    def state(self) -> Tensors:
        found = {
            value.name: to_numpy(self._network.tensor(value.name).data())
            for value in self._program.parameters + self._program.states
        }
        scale = scales(self._program.optimizer) if self._train else {}
        within = self._rate
        for value, moments in self._moments():
            for name, moment in moments.items():
                factor = 1 / scale[name] if within is None else -1 / within
                found[f"{value}.{name}"] = scaled(to_numpy(moment), factor)
        return found

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self._slots[slot] = to_mxnet(inputs), nd.array(labels)

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        inputs, labels = self._slots[slot]
        if not self._train:
            self._logits = self._network(inputs)
            return
        if self._restarted:
            self._start_at(step)
        if self._rate_within and learning_rate != self._rate:
            self._rescale(learning_rate)
        if self._counts_steps:
            self._optimizer.epsilon = self._amends.epsilon(step)
        self._trainer.set_learning_rate(
            learning_rate if self._decoupled else self._amends.rate(learning_rate)
        )
        if self._contexts:
            self._record_halves(inputs, labels)
        else:
            with autograd.record():
                logits = self._network(inputs, *self._masks)
                self._losses = [self._loss_of(logits, labels)]
            if self._accuracy:
                self._accuracy.update([labels], [logits])
        for losses in self._losses:
            losses.backward()
        # Gradients are sums over the batch, which the Trainer divides.
        if self._clip_norm:
            self._trainer.allreduce_grads()
            clip(self._trained, self._clip_norm, self._batch)
            self._trainer.update(self._batch)
        else:
            self._trainer.step(self._batch)

    def loader(self, samples: Samples) -> gluon.data.DataLoader:
        if self._loader is None:
            self._loader = make_loader(samples, self._program.batch, self._cell)
        return self._loader

    def close(self) -> None:
        self._loader = None  # its processes end with it

    def take(self, batch: list[nd.NDArray]) -> None:
        here = mx.context.current_context()
        batch = [part.as_in_context(here) for part in batch]
        inputs, labels = batch
        self._slots[0] = inputs, labels

    def taken(self) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = (array.asnumpy() for array in self._slots[0])
        return inputs, labels

    def synchronize(self) -> None:
        nd.waitall()

    def loss(self) -> float:
        means = [float(losses.mean().asscalar()) for losses in self._losses]
        return sum(means) / len(means) if means else float("nan")

    def running_accuracy(self) -> float | None:
        if self._accuracy is None:
            return None
        _, share = self._accuracy.get()
        self._accuracy.reset()
        return float(share)

    def agree(self, value: int) -> int:
        return super().agree(value) if self._ranks is None else self._ranks.agree(value)

    def exchange(self) -> Exchange:
        if self._ranks is None:
            return super().exchange()
        gradients = [parameter.grad() for parameter in self._trained]
        timed = self._trainer._allreduce_grads  # what its step() and allreduce_grads() call

        def local_step(slot: int, learning_rate: float, step: int) -> None:
            self._trainer._allreduce_grads = lambda: None
            self.step(slot, learning_rate, step)
            self._trainer._allreduce_grads = timed

        count = sum(gradient.size * gradient.dtype().itemsize for gradient in gradients)
        return Exchange(count, local_step, self._ranks.bare(gradients))

    def results(self) -> Tensors:
        return {} if self._logits is None else {"logits": to_numpy(self._logits)}

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        # Nothing is dropped here: with supplied masks this is another graph.
        if self._masks:
            self._compile()
        logits = to_numpy(self._network(to_mxnet(inputs)))
        if self._masks:
            self._compile()
        return logits

    def supply_masks(self, masks: Tensors) -> None:
        # Hybridize again: a second graph of the same network, with the masks as operands.
        given = [masks[value.name] for value in self._program.masks if masks]
        self._masks = [to_mxnet(mask.astype(np.float32)) for mask in given]
        if self._program.masks:
            self._compile()

    def seed_masks(self, seed: int) -> None:
        mx.random.seed(seed)

    def draw_masks(self, slot: int) -> Tensors:
        inputs, _ = self._slots[slot]
        self._network.telling = True
        self._compile()
        with autograd.record():
            found = [to_numpy(array) for array in self._network(inputs)]
        self._network.telling = False
        self._compile()
        # An element that was 0 before is 0 after, whether it was kept or not.
        return {
            value.name: np.where(x == 0, 255, y != 0).astype(np.uint8)
            for value, x, y in zip(self._program.masks, found[::2], found[1::2], strict=True)
        }

    def memory(self) -> dict[str, int]:
        kept = [
            self._network.tensor(value.name).data()
            for value in self._program.parameters + self._program.states
        ]
        kept += [moment for _, moments in self._moments() for moment in moments.values()]
        return {"persistent": sum(array.size * array.dtype().itemsize for array in kept)}

    def settings(self) -> dict[str, str]:
        ranks = {"data_parallel": f"kvstore dist_sync, {self._ranks.servers}"} if self._ranks else {}
        return observed() | ranks

    def _compile(self) -> None:
        if self._compiles:
            self._network.hybridize(**MODES[self._cell.mode])

    def _record_halves(self, inputs: nd.NDArray, labels: nd.NDArray) -> None:
        halves = [gluon.utils.split_and_load(part, self._contexts) for part in (inputs, labels)]
        with autograd.record():
            logits = [self._network(x) for x in halves[0]]
            self._losses = [self._loss_of(x, y) for x, y in zip(logits, halves[1], strict=True)]
        if self._accuracy:
            self._accuracy.update(halves[1], logits)

    def _updater(self) -> mx.optimizer.Updater:
        """Return what keeps the moments: a kvstore, or else the Trainer."""
        if not self._contexts:
            return self._trainer._updaters[0]  # save_states() writes this one
        if not self._trainer._kv_initialized:  # setting a parameter ends its kvstore
            self._start_kvstore()
        return self._trainer._kvstore._updater

    def _start_kvstore(self) -> None:
        self._trainer._init_kvstore()
        self._trainer._init_params()

    def _moments(self) -> list[tuple[str, dict[str, nd.NDArray]]]:
        if not self._train:
            return []
        states, spec = self._updater().states, self._program.optimizer
        return [
            (value.name, moments_of(spec, states[index]))
            for index, value in enumerate(self._program.parameters)
        ]

    def _rescale(self, learning_rate: float) -> None:
        # set_state() sets a velocity without a rate.
        factor = -learning_rate if self._rate is None else learning_rate / self._rate
        for _, moments in self._moments():
            moments["momentum"] *= factor
        self._rate = learning_rate

    def _start_at(self, step: int) -> None:
        """Set MXNet's count of updates to the first step of the schedule."""
        for index in range(len(self._program.parameters)):
            self._optimizer._index_update_count[index] = step - 1
        self._restarted = False
