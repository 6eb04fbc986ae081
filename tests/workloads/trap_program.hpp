// A small network in which every trap of the check can be sprung: convolutions with padding, one with stride
// 2, batch norm, a residual addition, both pools, and so few elements a channel that biased and unbiased
// variance differ.
#pragma once

#include "harness/graph/builder.hpp"
#include "harness/graph/program.hpp"

namespace assay {

inline Program trap_program(std::int64_t batch, const OptimizerSpec& optimizer) {
  const auto build = [&](bool training) {
    Graph graph("traps");
    GraphBuilder b(graph, training);
    const ValueId inputs = b.input("inputs", {batch, 2, 8, 8});
    const ValueId labels = b.label("labels", {batch});
    const ValueId trunk = b.relu(
        b.batch_norm("bn1", b.convolution("conv1", inputs, 4, {.kernel = 3, .stride = 2, .padding = 1})));
    ValueId x = b.relu(b.add(b.convolution("conv2", trunk, 4, {.kernel = 3, .padding = 1}), trunk));
    x = b.max_pool(x, {.kernel = 2});
    x = b.flatten(b.average_pool(x, {.kernel = 2}));
    x = b.relu(b.linear("fc1", x, 12));
    const ValueId logits = b.linear("fc2", x, 5);
    graph.add_output("logits", logits);
    if (training) graph.add_output("loss", b.softmax_cross_entropy(logits, labels, "loss"));
    return graph;
  };
  return {build(true), build(false), optimizer};
}

}  // namespace assay
