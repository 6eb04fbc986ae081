// Random directed acyclic graphs with branches, views, in-place ops, opaque results and updates, the same for
// a seed.
#pragma once

#include <cstdint>
#include <random>

#include "harness/graph/builder.hpp"
#include "harness/graph/graph.hpp"
#include "harness/graph/op.hpp"

namespace assay {

class RandomGraph {
 public:
  explicit RandomGraph(std::uint32_t seed) : random_(seed), graph_("random"), builder_(graph_) {
    values_.push_back(builder_.input("inputs", {4, 6}));
    images_.push_back(builder_.input("images", {2, 3, 8, 8}));
    const int nodes = below(40) + 2;
    for (int i = 0; i < nodes; ++i) add_one();
    const int states = below(5);
    for (int i = 0; i < states; ++i) add_update(i);
    const int outputs = below(4) + 1;
    for (int i = 0; i < outputs; ++i) graph_.add_output(std::to_string(i), any(values_));
  }

  Graph take() { return std::move(graph_); }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint32_t>(n)); }
  ValueId any(const std::vector<ValueId>& from) { return from[random_() % from.size()]; }

  ValueId like(ValueId x, const std::vector<ValueId>& from) {
    std::vector<ValueId> same;
    for (const ValueId id : from) {
      if (graph_.value(id).type == graph_.value(x).type) same.push_back(id);
    }
    return any(same);
  }

  void add_one() {
    const ValueId x = any(values_);
    const ValueId image = any(images_);
    const Shape shape = graph_.value(x).type.shape;
    switch (below(9)) {
      case 0:
        values_.push_back(builder_.relu(x));
        break;
      case 1:
        values_.push_back(builder_.add(x, like(x, values_)));
        break;
      case 2:
        values_.push_back(builder_.apply("relu_gradient", {x, like(x, values_)})[0]);
        break;
      case 3:
        values_.push_back(builder_.linear("fc" + std::to_string(values_.size()), x, 1 + below(40)));
        break;
      case 4:
        values_.push_back(builder_.apply("reshape", {x}, {{"shape", Shape{shape[1], shape[0]}}})[0]);
        break;
      case 5:
        images_.push_back(builder_.relu(image));
        break;
      case 6:
        pool(image);
        break;
      case 7:
        values_.push_back(builder_.flatten(image));
        break;
      case 8: {
        const std::string name = "bn" + std::to_string(images_.size());
        if (graph_.find_node(name) == none) images_.push_back(builder_.batch_norm(name, image));
        break;
      }
      default:
        break;
    }
  }

  void pool(ValueId image) {
    const Shape shape = graph_.value(image).type.shape;
    const std::vector<ValueId> pooled = builder_.apply(
        "max_pool", {image},
        {{"kernel", std::int64_t{2}}, {"stride", std::int64_t{1}}, {"padding", std::int64_t{1}}});
    images_.push_back(pooled[0]);
    if (below(2) == 0) return;
    images_.push_back(builder_.apply("max_pool_gradient", {pooled[0], pooled[1], none},
                                     {{"kernel", std::int64_t{2}},
                                      {"stride", std::int64_t{1}},
                                      {"padding", std::int64_t{1}},
                                      {"size", Shape{shape[2], shape[3]}}})[0]);
  }

  // A state, read or not, replaced by what an in-place op or any other made.
  void add_update(int number) {
    const ValueId x = any(values_);
    const ValueId state =
        graph_.add_value("state" + std::to_string(number), graph_.value(x).type, Role::state, "zeros");
    ValueId source = x;
    switch (below(4)) {
      case 0:
        source = builder_.add(state, x);
        break;
      case 1:
        source = builder_.apply("relu_gradient", {x, state})[0];
        break;
      case 2:
        source = builder_.relu(x);
        break;
      default:
        break;
    }
    graph_.add_update(state, source);
    if (below(3) == 0) values_.push_back(builder_.relu(state));
    values_.push_back(source);
  }

  std::mt19937 random_;
  Graph graph_;
  GraphBuilder builder_;
  std::vector<ValueId> values_;  // of two dimensions
  std::vector<ValueId> images_;  // of four
};

}  // namespace assay
