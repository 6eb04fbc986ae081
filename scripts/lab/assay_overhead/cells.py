"""The cells that are measured: each framework, mode, task, network and loader."""

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
# They infer only.
RUNTIMES: dict[str, tuple[str, ...]] = {"onnxruntime": ("enable-all",), "openvino": ("latency",)}
INFERENCE_MODES = {"torch": ("freeze",), "mxnet": ("mkldnn",)}
OTHER_MODES = {"tensorflow": ("xla", "autocluster", "fit-xla")}  # measured only on request
# Measured on LOADED, which they train in the studies.
STUDY_MODES = {
    "tensorflow": ("fit", "fit-generator", "fit-autocluster", "fit-eager", "v1-graph"),
    "mxnet": ("hybridize-plain", "two-contexts", "two-contexts-own-threads"),
}
ONLY_NATIVE = ("fit-generator",)
# Single operators, with the size of both sides; measured only on request.
OPERATORS = {
    **dict.fromkeys(("op/sigmoid", "op/relu", "op/tanh", "op/softplus", "op/softsign"), "500"),
    **{"op/dot": "1000", "op/gemm": "m50", "op/flatten_matrix": "m50", "op/normalise": "m50"},
    **{"op/from_array": "20000", "op/from_list": "5000", "op/from_rows": "5000"},
}
OPERATOR_MODES: dict[str, tuple[str, ...]] = {
    "torch": ("eager", "compile", "layer"),
    "tensorflow": ("eager", "function", "tensordot", "layer"),
    "jax": ("eager", "jit"),
    "mxnet": ("eager", "function", "layer"),
}
LAYERS = ("op/sigmoid", "op/relu", "op/tanh", "op/softplus", "op/softsign", "op/gemm")
PRODUCTS = ("op/dot", "op/gemm")
CREATION = ("op/from_array", "op/from_list", "op/from_rows")
CREATES = ("torch", "tensorflow", "mxnet")
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


def modes_of(framework: str, task: str, network: str, wanted: Collection[str]) -> list[str]:
    """Return the requested modes that the framework has; all except OTHER_MODES if none is named."""
    if framework in RUNTIMES:
        known = RUNTIMES[framework] if task == "infer" and network not in OPERATORS else ()
        return [mode for mode in known if not wanted or mode in wanted]
    if network in OPERATORS:
        known = OPERATOR_MODES[framework] if task == "infer" else ()
        return [mode for mode in known if takes(framework, mode, network) and (not wanted or mode in wanted)]
    known = MODES[framework]
    if task == "infer":
        known += INFERENCE_MODES.get(framework, ())
    elif network == LOADED or wanted:
        known += STUDY_MODES.get(framework, ())
    if not wanted:
        return [*known]
    return [mode for mode in (*known, *OTHER_MODES.get(framework, ())) if mode in wanted]


def takes(framework: str, mode: str, operator: str) -> bool:
    """Whether the framework has this operator in this mode."""
    if operator in CREATION and (framework not in CREATES or mode not in ("eager", "function")):
        return False
    return (mode != "layer" or operator in LAYERS) and (mode != "tensordot" or operator in PRODUCTS)


def loaders_of(framework: str, mode: str, task: str, network: str) -> list[str]:
    if mode in ONLY_NATIVE:
        return ["native"]
    if task == "infer" or network != LOADED:
        return ["resident"]
    return [loader for loader in LOADERS if loader != "native" or framework not in WITHOUT_A_LOADER]


def cells_of(
    frameworks: Collection[str] = (*MODES, *RUNTIMES),
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
        for mode in modes_of(framework, task, network, modes)
        for loader in loaders_of(framework, mode, task, network)
        if loader in loaders
    ]
