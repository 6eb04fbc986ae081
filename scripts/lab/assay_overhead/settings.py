"""The settings in which an adapter differs from its framework's defaults, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    framework: str
    name: str
    adapter: str
    loop: str
    remark: str = ""


# The reasons for differences in the settings that both sides report.
REMARKS = {
    ("torch", "optimizer"): "one kernel updates all parameters",
    ("torch", "interop_threads"): "within the budget of --threads",
    ("tensorflow", "interop_threads"): "within the budget of --threads",
    ("mxnet", "threads"): "MXNet's own default is half of the processors",
    ("onnxruntime", "threads"): "0: one for each core, which stays there",
}
# Differences that no process reports.
KNOWN = (
    Setting("jax", "donated arguments", "all of the state", "none", "memory is reused in place"),
    Setting("mxnet", "kvstore", "None", "device", "one device has nothing to exchange"),
    Setting("mxnet", "large copies", "in a thread that ends", "anywhere", "no second OpenMP pool stays"),
    Setting("mxnet", "hybridized loss", "yes", "no", "in the compiled modes"),
    Setting("tensorflow", "gradient of an embedding", "dense", "IndexedSlices", "every row is updated"),
    *(
        Setting(name, "glibc keeps blocks of", "up to 32 MiB", "what it freed", "as after loading data")
        for name in ("jax", "mxnet", "onnxruntime", "openvino", "tensorflow", "torch")
    ),
    *(
        Setting(name, "parameters of a bf16 inference", "cast once", "cast in each call", "as our engine")
        for name in ("tensorflow", "torch")
    ),
    Setting("onnxruntime", "outputs", "where they were", "new in each step", "as its documentation has it"),
    Setting("openvino", "performance_hint", "LATENCY", "none", "the hint for one request at a time"),
    Setting("openvino", "inputs", "of each slot in turn", "one batch", "as benchmark_app does"),
    Setting("torch", "compiled function", "network and loss", "network", "in the compiled modes"),
)


def differences(
    framework: str,
    adapter: Mapping[str, str],
    loop: Mapping[str, str],
    loop_environment: Mapping[str, str],
) -> list[Setting]:
    """Compare the settings of both sides; names in capitals are variables of the adapter's environment."""
    found = [(name, adapter[name], loop[name]) for name in loop if name in adapter]
    variables = (name for name in adapter if name.isupper())
    found += [(name, adapter[name], loop_environment.get(name, "not set")) for name in variables]
    return [
        Setting(framework, name, ours, theirs, REMARKS.get((framework, name), ""))
        for name, ours, theirs in found
        if ours != theirs
    ]
