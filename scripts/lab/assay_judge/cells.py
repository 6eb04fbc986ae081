"""The cells that are judged: each framework, mode, task, network and loader."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

# The imperative mode and the compiled one.
MODES: dict[str, tuple[str, ...]] = {
    "torch": ("eager", "compile"),
    "tensorflow": ("eager", "graph"),
    "jax": ("eager", "jit"),
    "mxnet": ("eager", "hybridize"),
}
INFERENCE_MODES = {"torch": ("freeze",), "mxnet": ("mkldnn",)}
OTHER_MODES = {"tensorflow": ("xla",)}  # judged only on request
PUBLISHED = ("mlp", "lenet5", "cnn", "resnet56", "lstm")
OTHER_NETWORKS = (
    *("cifar10-cnn", "resnet50", "alexnet", "overfeat", "vgg_a", "googlenet"),
    *("vit-tiny", "minilm", "nanogpt"),
)
# Of the loops: a framework that is not named has fp32 only.
PRECISIONS = {"torch": ("fp32", "bf16"), "tensorflow": ("fp32", "bf16")}
TASKS = ("train", "infer")
LOADERS = ("resident", "harness", "native")
LOADED = "lenet5"  # the network that is also trained through loaders
WITHOUT_A_LOADER = ("jax",)


@dataclass(frozen=True)
class Cell:
    framework: str
    mode: str
    task: str
    network: str
    loader: str

    @property
    def name(self) -> str:
        return "/".join((self.framework, self.mode, self.task, self.network, self.loader))


def modes_of(framework: str, task: str, wanted: Collection[str]) -> list[str]:
    """Return the requested modes that the framework has; all except OTHER_MODES if none is named."""
    known = MODES[framework]
    if task == "infer":
        known += INFERENCE_MODES.get(framework, ())
    if not wanted:
        return [*known]
    return [mode for mode in (*known, *OTHER_MODES.get(framework, ())) if mode in wanted]


def loaders_of(framework: str, task: str, network: str) -> list[str]:
    if task == "infer" or network != LOADED:
        return ["resident"]
    return [loader for loader in LOADERS if loader != "native" or framework not in WITHOUT_A_LOADER]


def cells_of(
    frameworks: Collection[str] = (*MODES,),
    networks: Collection[str] = PUBLISHED,
    modes: Collection[str] = (),
    tasks: Collection[str] = TASKS,
    loaders: Collection[str] = LOADERS,
) -> list[Cell]:
    return [
        Cell(framework, mode, task, network, loader)
        for framework in frameworks
        for network in networks
        for task in tasks
        for mode in modes_of(framework, task, modes)
        for loader in loaders_of(framework, task, network)
        if loader in loaders
    ]
