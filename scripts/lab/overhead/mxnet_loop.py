"""Loops as users of Gluon write them: a block, a Trainer, a loop."""

from __future__ import annotations

import ctypes
import math
import warnings
from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np
from clock import Batch, Framework, Loop, main
from networks import Network

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for kind in (bool, int, float, complex, object, str):
        # MXNet 1.9 reads these names when it is imported; NumPy 1.24 removed them.
        if not hasattr(np, kind.__name__):
            setattr(np, kind.__name__, kind)

import mxnet as mx
from mxnet import autograd, gluon, nd
from mxnet.gluon.data.vision.transforms import ToTensor
from mxnet_networks import build
from mxnet_operators import operator

STATIC = {"static_alloc": True, "static_shape": True}  # as in GluonCV's training scripts
TWO_CONTEXTS = ("two-contexts", "two-contexts-own-threads")
HYBRIDIZE: dict[str, dict[str, Any]] = {
    "hybridize": STATIC,
    "hybridize-plain": {},
    "mkldnn": STATIC | {"backend": "MKLDNN"},
}


class AdamW(mx.optimizer.Optimizer):
    """As the BERTAdam of GluonNLP, with bias correction."""

    def __init__(self, beta2: float, **options: Any) -> None:
        super().__init__(**options)
        self.beta2 = beta2

    def create_state(self, index: int, weight: nd.NDArray) -> tuple[nd.NDArray, nd.NDArray]:
        return nd.zeros(weight.shape), nd.zeros(weight.shape)

    def update(self, index: int, weight: nd.NDArray, grad: nd.NDArray, state: Any) -> None:
        self._update_count(index)
        t = self._index_update_count[index]
        nd.contrib.adamw_update(
            *(weight, grad, *state, self.rescale_grad),
            out=weight,
            lr=math.sqrt(1 - self.beta2**t) / (1 - 0.9**t),
            eta=self._get_lr(index),
            wd=self._get_wd(index),
            beta2=self.beta2,
        )


def trainer_of(network: Network, net: gluon.HybridBlock) -> gluon.Trainer:
    options = {"learning_rate": network.learning_rate}
    if network.optimizer == "adamw":
        net.collect_params(".*(bias|gamma|beta)").setattr("wd_mult", 0.0)
        adamw = AdamW(network.beta2, wd=network.weight_decay, **options)
        return gluon.Trainer(net.collect_params(), adamw, kvstore=None)
    if network.optimizer == "sgd" and network.momentum:
        options["momentum"] = network.momentum
    if network.optimizer == "rmsprop":
        options |= {"gamma1": 0.9, "epsilon": 1e-7}
    return gluon.Trainer(net.collect_params(), network.optimizer, options)


def trained(net: gluon.HybridBlock) -> int:
    known = net.collect_params().values()
    return sum(math.prod(parameter.shape) for parameter in known if parameter.grad_req != "null")


class MxnetLoop(Loop):
    def __init__(self, name: str, network: Network, mode: str, batches: Iterator[list[nd.NDArray]]) -> None:
        self.net = build(name, network)
        self.net.initialize(mx.init.Xavier())
        if mode in HYBRIDIZE:
            self.net.hybridize(**HYBRIDIZE[mode])
        self.batch = network.batch
        self.batches = batches

    def parameters(self) -> int:
        return trained(self.net)

    def settings(self) -> dict[str, str]:
        return {"threads": str(ctypes.CDLL("libgomp.so.1").omp_get_max_threads())}


class Training(MxnetLoop):
    def __init__(self, name: str, network: Network, mode: str, batches: Iterator[list[nd.NDArray]]) -> None:
        super().__init__(name, network, mode, batches)
        self.loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = trainer_of(network, self.net)
        self.clip_norm = network.clip_norm

    def run(self, steps: int) -> float:
        for inputs, labels in islice(self.batches, steps):
            with autograd.record():
                loss = self.loss_fn(self.net(inputs), labels)
            loss.backward()
            if self.clip_norm:
                gradients = [p.grad() for p in self.net.collect_params().values() if p.grad_req != "null"]
                gluon.utils.clip_global_norm(gradients, self.clip_norm * self.batch)
            self.trainer.step(self.batch)
        nd.waitall()
        return float(loss.mean().asscalar())


class TwoContexts(MxnetLoop):
    """Half of each batch on either context, as in Gluon's tutorial on several devices."""

    def __init__(self, name: str, network: Network, mode: str, batches: Iterator[list[nd.NDArray]]) -> None:
        self.contexts = [mx.cpu(0), mx.cpu(1)]
        self.net = build(name, network)
        self.net.initialize(mx.init.Xavier(), ctx=self.contexts)
        self.batch, self.batches = network.batch, batches
        self.loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
        self.trainer = trainer_of(network, self.net)

    def run(self, steps: int) -> float:
        for inputs, labels in islice(self.batches, steps):
            halves = gluon.utils.split_and_load(inputs, self.contexts)
            of_halves = gluon.utils.split_and_load(labels, self.contexts)
            with autograd.record():
                losses = [self.loss_fn(self.net(x), y) for x, y in zip(halves, of_halves, strict=True)]
            for loss in losses:
                loss.backward()
            self.trainer.step(self.batch)
        nd.waitall()
        return sum(float(loss.mean().asscalar()) for loss in losses) / len(losses)


class Inference(MxnetLoop):
    def run(self, steps: int) -> float:
        for inputs, _ in islice(self.batches, steps):
            logits = self.net(inputs)
            logits.wait_to_read()
        return float(logits.sum().asscalar())


class Mxnet(Framework):
    version = mx.__version__
    modes = ("eager", *HYBRIDIZE, *TWO_CONTEXTS, "function", "layer")

    def resident(self, name: str, network: Network, mode: str, task: str, batches: list[Batch]) -> Loop:
        held = [[nd.array(x), nd.array(y)] for x, y in batches]
        kind = Inference if task == "infer" else TwoContexts if mode in TWO_CONTEXTS else Training
        return kind(name, network, mode, cycle(held))

    def loading(self, name: str, network: Network, mode: str, images: np.ndarray, labels: np.ndarray) -> Loop:
        pictures = gluon.data.ArrayDataset(nd.array(images[..., None], dtype="uint8"), labels)
        loader = gluon.data.DataLoader(
            pictures.transform_first(ToTensor()), network.batch, shuffle=True, last_batch="discard"
        )

        def batches() -> Iterator[list[nd.NDArray]]:
            while True:
                yield from loader

        kind = TwoContexts if mode in TWO_CONTEXTS else Training
        return kind(name, network, mode, batches())

    def operator(self, name: str, mode: str) -> Loop:
        return operator(name, mode)

    def count(self, name: str, network: Network) -> int:
        net = build(name, network)
        net.infer_shape(nd.zeros((1, *network.shape)))
        return trained(net)


if __name__ == "__main__":
    main(Mxnet())
