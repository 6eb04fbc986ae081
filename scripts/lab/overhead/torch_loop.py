"""Loops as users of PyTorch write them: a module, an optimizer, a loop."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice

import numpy as np
import torch
import torch.nn.functional as F
from clock import Batch, Calls, Framework, Loop, main
from networks import Network
from operators import operands_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch_networks import build


def optimizer_of(network: Network, model: nn.Module) -> torch.optim.Optimizer:
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if network.optimizer == "sgd":
        return torch.optim.SGD(parameters, network.learning_rate, momentum=network.momentum)
    if network.optimizer == "rmsprop":
        return torch.optim.RMSprop(parameters, network.learning_rate, alpha=0.9, eps=1e-7)
    if network.optimizer == "adamw":
        # As in nanoGPT.
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": network.weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, network.learning_rate, betas=(0.9, network.beta2))
    return torch.optim.Adam(parameters, network.learning_rate)


def trained(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def loss_of_positions(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


class TorchLoop(Loop):
    def __init__(self, model: nn.Module, batches: Iterator[tuple[Tensor, Tensor]]) -> None:
        self.model = model
        self.batches = batches

    def parameters(self) -> int:
        return trained(self.model)

    def settings(self) -> dict[str, str]:
        return {
            "threads": str(torch.get_num_threads()),
            "interop_threads": str(torch.get_num_interop_threads()),
            "instruction_set": torch.backends.cpu.get_cpu_capability(),
            "optimizer": "PyTorch's default",
        }


class Training(TorchLoop):
    def __init__(
        self,
        model: nn.Module,
        network: Network,
        mode: str,
        batches: Iterator[tuple[Tensor, Tensor]],
        precision: str = "fp32",
    ) -> None:
        super().__init__(model, batches)
        self.precision = precision
        self.optimizer = optimizer_of(network, model)
        self.loss_fn = loss_of_positions if network.next_token else nn.CrossEntropyLoss()
        self.clip_norm = network.clip_norm
        self.forward = torch.compile(model) if mode == "compile" else model

    def step(self, inputs: Tensor, labels: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        if self.precision == "bf16":
            with torch.autocast(inputs.device.type, torch.bfloat16):
                loss = self.loss_fn(self.forward(inputs), labels)
        else:
            loss = self.loss_fn(self.forward(inputs), labels)
        loss.backward()
        if self.clip_norm:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        return loss

    def run(self, steps: int) -> float:
        for inputs, labels in islice(self.batches, steps):
            loss = self.step(inputs, labels)
        return float(loss.item())


class Captured(Training):
    """A whole step as a CUDA graph, after the notes on CUDA graphs in PyTorch's documentation."""

    graph: torch.cuda.CUDAGraph | None = None

    def capture(self, inputs: Tensor, labels: Tensor) -> torch.cuda.CUDAGraph:
        for group in self.optimizer.param_groups:
            group["capturable"] = True
        self.inputs, self.labels = inputs.clone(), labels.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(self.inputs, self.labels)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.step(self.inputs, self.labels)
        return self.graph

    def run(self, steps: int) -> float:
        for inputs, labels in islice(self.batches, steps):
            graph = self.graph or self.capture(inputs, labels)
            self.inputs.copy_(inputs)
            self.labels.copy_(labels)
            graph.replay()
        return float(self.loss.item())


class Inference(TorchLoop):
    def __init__(
        self, model: nn.Module, mode: str, batches: Iterator[tuple[Tensor, Tensor]], precision: str = "fp32"
    ) -> None:
        super().__init__(model.eval(), batches)
        self.precision = precision
        if mode == "freeze":
            from torch._inductor import config

            config.freezing = True
        self.forward = model if mode == "eager" else torch.compile(model)

    def run(self, steps: int) -> float:
        with torch.inference_mode():
            for inputs, _ in islice(self.batches, steps):
                if self.precision == "bf16":
                    with torch.autocast(inputs.device.type, torch.bfloat16):
                        logits = self.forward(inputs)
                else:
                    logits = self.forward(inputs)
        return float(logits.sum())


class Pictures(Dataset):
    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = images
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        # Like torchvision's ToTensor.
        image = torch.from_numpy(self.images[index]).unsqueeze(0)
        return image.to(torch.float32).div(255), int(self.labels[index])


FUNCTIONS = {
    "op/sigmoid": torch.sigmoid,
    "op/relu": F.relu,
    "op/tanh": torch.tanh,
    "op/softplus": F.softplus,
    "op/softsign": F.softsign,
    "op/dot": torch.dot,
    "op/gemm": F.linear,
    "op/flatten_matrix": torch.flatten,
    "op/normalise": lambda x: x / torch.linalg.vector_norm(x).clamp_min(1e-12),
    "op/from_array": torch.tensor,
    "op/from_list": torch.tensor,
    "op/from_rows": torch.tensor,
}
LAYERS = {
    "op/sigmoid": nn.Sigmoid,
    "op/relu": nn.ReLU,
    "op/tanh": nn.Tanh,
    "op/softplus": nn.Softplus,
    "op/softsign": nn.Softsign,
    "op/gemm": lambda: nn.Linear(50, 50, bias=False),
}


class Operator(Calls):
    def run(self, steps: int) -> float:
        with torch.inference_mode():
            return super().run(steps)


class Torch(Framework):
    version = torch.__version__
    modes = ("eager", "compile", "freeze", "cudagraph", "layer")
    devices = ("cpu", "cuda")
    precisions = ("fp32", "tf32", "bf16")

    def resident(self, name: str, network: Network, mode: str, task: str, batches: list[Batch]) -> Loop:
        if self.device == "cuda":  # PyTorch's own default is TF32 only in convolutions
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = self.precision == "tf32"
        model = build(name, network).to(self.device)
        held = [
            (torch.tensor(x, device=self.device), torch.tensor(y, dtype=torch.int64, device=self.device))
            for x, y in batches
        ]
        if task == "infer":
            return Inference(model, mode, cycle(held), self.precision)
        kind = Captured if mode == "cudagraph" else Training
        return kind(model, network, mode, cycle(held), self.precision)

    def loading(self, name: str, network: Network, mode: str, images: np.ndarray, labels: np.ndarray) -> Loop:
        loader = DataLoader(Pictures(images, labels), network.batch, shuffle=True, drop_last=True)

        def batches() -> Iterator[tuple[Tensor, Tensor]]:
            while True:
                yield from loader

        return Training(build(name, network), network, mode, batches())

    def operator(self, name: str, mode: str) -> Loop:
        given = operands_of(name)
        held = given if name.startswith("op/from_") else [torch.tensor(operand) for operand in given]
        if mode == "layer":
            layer = LAYERS[name]()
            if held[1:]:
                layer.weight = nn.Parameter(held[1])
            return Operator(lambda: layer(held[0]), lambda result: float(result.sum()))
        function = torch.compile(FUNCTIONS[name]) if mode == "compile" else FUNCTIONS[name]
        return Operator(lambda: function(*held), lambda result: float(result.sum()))

    def count(self, name: str, network: Network) -> int:
        with torch.device("meta"):
            return trained(build(name, network))


if __name__ == "__main__":
    main(Torch())
