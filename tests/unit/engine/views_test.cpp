// Results that are some of the bytes of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "harness/engine/executor.hpp"
#include "harness/graph/builder.hpp"
#include "tests/unit/engine/programs.hpp"
#include "tests/unit/engine/slicing_library.hpp"

namespace assay {
namespace {

using namespace testing;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr std::int64_t rows = 6, columns = 16;  // a row takes the alignment of the memory

class Views : public ::testing::Test {
 protected:
  ValueId rows_of(ValueId x, std::int64_t begin, std::int64_t end, const char* name) {
    return builder_.apply("slice", {x}, {{"axis", std::int64_t{0}}, {"begin", begin}, {"end", end}}, name)[0];
  }
  // max(x, 0), which may overwrite x.
  ValueId relu(ValueId x, const char* name) { return builder_.apply("relu", {x}, {}, name)[0]; }
  ValueId doubled(ValueId x, const char* name) { return builder_.add(x, x, name); }

  // Every output of the graph after a step, and the steps that there are.
  template <typename Library>
  std::map<std::string, std::vector<float>> run(bool plain = false) {
    const CompileOptions how = options(plain ? "eager" : "graph");
    Library library(how);
    PersistentStore store(library);
    LoweredGraph lowered = lower(graph_, library, {plain, {}});
    const auto is_part = [&](int b) { return lowered.buffers.at(index(b)).kind == Buffer::Kind::part; };
    overwriting_.clear();
    for (const LoweredStep& step : lowered.steps) {
      if (std::ranges::any_of(step.outputs, is_part)) overwriting_.push_back(step.node);
      for (const InPlace& pair : step.in_place)
        EXPECT_FALSE(is_part(step.inputs.at(index(pair.input))))
            << step.node << ": the plan knows only the whole";
    }
    steps_ = lowered.steps.size();
    std::unique_ptr<Executor> executor;
    if (plain) {
      executor = std::make_unique<EagerExecutor>(std::move(lowered), library, store, false);
    } else {
      executor = std::make_unique<GraphExecutor>(std::move(lowered), library, store, false, Packing(), true);
    }
    std::vector<float> x(
        static_cast<std::size_t>(element_count(graph_.value(graph_.find("inputs")).type.shape)));
    std::iota(x.begin(), x.end(), -20.0F);
    if (graph_.find("table") != none) {
      HostTensor table{"table", graph_.value(graph_.find("table")).type, {}};
      table.bytes.resize(static_cast<std::size_t>(table.type.bytes()));
      std::memcpy(table.bytes.data(), x.data(), table.bytes.size());
      store.write(table);
    }
    executor->stage(0, {x.data(), nullptr});
    for (int step = 0; step < 2; ++step) executor->run(0);
    std::map<std::string, std::vector<float>> results;
    for (const std::string& name : executor->output_names()) {
      const HostTensor tensor = executor->output(name);
      const auto values = tensor.as<float>();
      results[name] = {values.begin(), values.end()};
    }
    return results;
  }

  Graph graph_{"g"};
  GraphBuilder builder_{graph_};
  std::size_t steps_ = 0;
  std::vector<std::string> overwriting_;  // the nodes whose result lies over a part
};

// Computes what depends only on parameters once.
class KeepingSlices final : public SlicingLibrary {
 public:
  using SlicingLibrary::SlicingLibrary;
  bool keeps_constants() const override { return true; }
};

TEST_F(Views, OfRowsNeedNoKernelAndHaveTheirElements) {
  const ValueId y = doubled(builder_.input("inputs", {rows, columns}), "y");
  const ValueId some = rows_of(y, 1, 5, "some");
  graph_.add_output("last", rows_of(some, 2, 4, "last"));  // a view of a view
  graph_.add_output("all", rows_of(y, 0, rows, "all"));
  graph_.add_output("shaped", builder_.reshape(some, {2, 2 * columns}, "shaped"));
  graph_.add_output("used", doubled(some, "used"));
  const auto expected = run<ForwardingLibrary>();
  const std::size_t copied = steps_;
  EXPECT_EQ(run<SlicingLibrary>(), expected);
  EXPECT_EQ(copied - steps_, 3U) << "the three slices";
}

TEST_F(Views, AreNotOverwrittenWhileOthersReadTheSameBytes) {
  const ValueId y = doubled(builder_.input("inputs", {rows, columns}), "y");
  const ValueId first = rows_of(y, 0, 3, "first"), second = rows_of(y, 2, 5, "second");
  graph_.add_output("a", doubled(relu(first, "r1"), "a"));
  graph_.add_output("b", doubled(relu(second, "r2"), "b"));
  graph_.add_output("c", doubled(y, "c"));
  const auto expected = run<ForwardingLibrary>();
  EXPECT_EQ(run<SlicingLibrary>(), expected);
  EXPECT_THAT(overwriting_, IsEmpty());
}

TEST_F(Views, AreOverwrittenByTheirLastReaders) {
  const ValueId y = doubled(builder_.input("inputs", {rows, columns}), "y");
  const ValueId first = rows_of(y, 0, 3, "first"), second = rows_of(y, 2, 5, "second"),
                last = rows_of(y, 5, 6, "last");
  const ValueId r1 = relu(first, "r1");  // second has one of its rows
  const ValueId r2 = relu(second, "r2"), r3 = relu(last, "r3");
  for (const ValueId r : {r3, r1, r2})
    graph_.add_output(
        "of_" + graph_.value(r).name,
        doubled(relu(r, (graph_.value(r).name + "_again").c_str()), ("d" + graph_.value(r).name).c_str()));
  const auto expected = run<ForwardingLibrary>();
  EXPECT_EQ(run<SlicingLibrary>(), expected);
  EXPECT_THAT(overwriting_, UnorderedElementsAre("r2", "r3", "r2_again", "r3_again"));
}

// What both operands of a node have.
TEST_F(Views, AreNotOverwrittenByTheOtherOperand) {
  const ValueId y = doubled(builder_.input("inputs", {rows, columns}), "y");
  const ValueId first = rows_of(y, 0, 3, "first"), second = rows_of(y, 1, 4, "second");
  graph_.add_output("sum", builder_.add(first, second, "sum"));
  const auto expected = run<ForwardingLibrary>();
  EXPECT_EQ(run<SlicingLibrary>(), expected);
  EXPECT_THAT(overwriting_, IsEmpty());
}

// A step would find what the one before has left.
TEST_F(Views, OfWhatIsComputedOnceAreNotOverwritten) {
  const ValueId x = builder_.input("inputs", {rows, columns});
  const ValueId twice = doubled(builder_.parameter("table", {rows, columns}, "zeros"), "twice");
  graph_.add_output(
      "sum", builder_.add(rows_of(twice, 2, 4, "places"), rows_of(doubled(x, "y"), 0, 2, "some"), "sum"));
  const auto expected = run<ForwardingLibrary>();
  EXPECT_EQ(run<KeepingSlices>(), expected);
  EXPECT_EQ(expected.at("sum").front(), 2 * (2 * columns - 20) + 2 * -20);
}

// The whole lives as long as its parts, and longer than its own last reader.
TEST_F(Views, KeepTheirBytesUntilTheyAreRead) {
  const ValueId y = doubled(builder_.input("inputs", {rows, columns}), "y");
  const ValueId part = rows_of(y, 4, 6, "part");
  ValueId chain = doubled(relu(y, "r"), "d1");
  for (const char* name : {"d2", "d3", "d4"}) chain = doubled(chain, name);
  graph_.add_output("chain", chain);
  graph_.add_output("late", doubled(part, "late"));
  const auto expected = run<ForwardingLibrary>();
  EXPECT_EQ(run<SlicingLibrary>(), expected);
}

// What is fed has another address in each batch; what begins between two aligned addresses cannot be an operand; and op by
// op each result has memory of its own.
TEST_F(Views, AreCopiesWhereTheyCannotBeViews) {
  const ValueId x = builder_.input("inputs", {rows, columns});
  graph_.add_output("fed", rows_of(x, 2, 4, "fed"));
  const ValueId odd = builder_.reshape(doubled(x, "y"), {2 * rows, columns / 2}, "odd");
  graph_.add_output("between", rows_of(odd, 3, 7, "between"));
  const auto expected = run<ForwardingLibrary>();
  const std::size_t copied = steps_;
  EXPECT_EQ(run<SlicingLibrary>(), expected);
  EXPECT_EQ(steps_, copied);
  EXPECT_EQ(run<SlicingLibrary>(true), expected);
}

TEST_F(Views, OfAParameterAreCopies) {
  builder_.input("inputs", {rows, columns});
  const ValueId table = builder_.parameter("table", {rows, columns}, "zeros");
  graph_.add_output("rows", doubled(rows_of(table, 3, 5, "places"), "rows"));
  const auto expected = run<ForwardingLibrary>();
  EXPECT_EQ(expected.at("rows").front(), 2 * (3 * columns - 20));
  EXPECT_EQ(run<SlicingLibrary>(), expected);
}

}  // namespace
}  // namespace assay
