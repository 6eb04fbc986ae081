// Every row of the suite on the kernel library that this program is linked with.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "backends/reference/reference_library.hpp"
#include "harness/graph/builder.hpp"
#include "harness/graph/op.hpp"
#include "harness/graph/passes/autodiff.hpp"
#include "harness/worker/backend.hpp"
#include "tests/ops/guarded_run.hpp"
#include "tests/ops/needed_device.hpp"
#include "tests/ops/op_case.hpp"

namespace assay::ops {
namespace {

constexpr int threads = 2;

std::unique_ptr<KernelLibrary> library_for(PrecisionKind precision, const std::string& mode = "graph") {
  CompileOptions options;
  options.mode = mode;
  options.precision = precision_of(precision);
  options.threads = threads;
  options.deterministic = true;  // a kernel is run twice and must say the same
  return under_test::make_kernel_library(options);
}

double epsilon(DType dtype) {
  if (dtype == DType::f64) return std::numeric_limits<double>::epsilon();
  return dtype == DType::bf16 ? 0x1p-8 : static_cast<double>(std::numeric_limits<float>::epsilon());
}

void compare(const OpCase& row, PrecisionKind precision, const Graph& graph, const GuardedRun& found,
             const GuardedRun& expected) {
  EXPECT_EQ(found.faults, std::vector<std::string>());
  ASSERT_EQ(found.results.size(), expected.results.size());
  for (const auto& [name, values] : expected.results) {
    const std::vector<double>& got = found.results.at(name);
    ASSERT_EQ(got.size(), values.size()) << name;
    double largest = 0, worst = 0;
    std::size_t where = 0, zeros = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      zeros += values[i] == 0;
      if (std::isinf(values[i]) && got[i] == values[i]) continue;
      if (std::isnan(values[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << name << "[" << i << "] is " << got[i] << " and should be a NaN";
        continue;
      }
      largest = std::max(largest, std::abs(values[i]));
      const double error =
          std::isfinite(got[i]) ? std::abs(got[i] - values[i]) : std::numeric_limits<double>::infinity();
      if (error > worst) {
        worst = error;
        where = i;
      }
    }
    EXPECT_LT(zeros, values.size() * 9 / 10 + 1) << name << " is mostly zeros: the row proves nothing";
    // The kernel is not responsible for the rounding of a bf16 operand or result when it is stored.
    const DType dtype = graph.value(graph.output(name)).type.dtype;
    const bool narrow = precision == PrecisionKind::bf16;
    const double bound = (row.tolerance + (narrow ? 2 : 0)) * epsilon(narrow ? DType::bf16 : dtype) * largest;
    EXPECT_LE(worst, bound) << name << "[" << where << "] is " << got[where] << " and should be "
                            << values[where];
  }
}

std::string reason_against(KernelLibrary& library, const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (std::string reason = library.unsupported(graph, node); !reason.empty()) return reason;
  }
  return {};
}

struct Subject {
  std::string mode, op;
};

void PrintTo(const Subject& subject, std::ostream* stream) { *stream << subject.mode << ' ' << subject.op; }

class Conformance : public NeedsDevice<::testing::TestWithParam<Subject>> {};

TEST_P(Conformance, agrees_with_the_reference_in_fp64) {
  const auto& [mode, op] = GetParam();
  // Plain formats are those of mode eager, which has the kernels of mode graph.
  const std::vector<bool> formats = mode == "graph" ? std::vector{true, false} : std::vector{false};
  std::string refused;
  int compared = 0;
  for (const OpCase& row : all_cases()) {
    if (row.op != op) continue;
    reference::ReferenceLibrary oracle(1);
    const GuardedRun expected = run_guarded(row, precision_of(PrecisionKind::fp64), oracle, true);
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
      const auto library = library_for(precision, mode);
      const Graph graph = graph_of(row, precision_of(precision));
      if (const std::string reason = reason_against(*library, graph); !reason.empty()) {
        refused = reason;
        continue;
      }
      for (const bool plain : formats) {
        SCOPED_TRACE(
            fmt::format("{} in {}, formats {}", row.id(), to_string(precision), plain ? "plain" : "chosen"));
        compare(row, precision, graph, run_guarded(row, precision_of(precision), *library, plain), expected);
        ++compared;
      }
    }
  }
  if (compared == 0) GTEST_SKIP() << refused;
}

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const std::string& mode : under_test::planned_modes()) {
    for (const Op* op : all_ops()) all.push_back({mode, std::string(op->name())});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, ::testing::ValuesIn(subjects()), [](const auto& subject) {
  return subject.param.mode == "graph" ? subject.param.op : subject.param.mode + "_" + subject.param.op;
});

TEST(Suite, has_a_row_for_every_op) {
  std::set<std::string> with_row;
  for (const OpCase& row : all_cases()) with_row.insert(row.op);
  for (const Op* op : all_ops()) EXPECT_TRUE(with_row.contains(std::string(op->name()))) << op->name();
}

TEST(Suite, names_each_row_once) {
  std::set<std::string> names;
  for (const OpCase& row : all_cases()) EXPECT_TRUE(names.insert(row.id()).second) << row.id();
}

class Support : public NeedsDevice<::testing::Test> {};

TEST_F(Support, is_described_in_words) {
  const auto library = library_for(PrecisionKind::fp32);
  for (const OpCase& row : all_cases()) {
    for (PrecisionKind precision : {PrecisionKind::fp32, PrecisionKind::bf16}) {
      const Graph graph = graph_of(row, precision_of(precision));
      const std::string reason = reason_against(*library, graph);
      fmt::print("{:<48} {:<5} {}\n", row.id(), to_string(precision), reason.empty() ? "yes" : reason);
      EXPECT_TRUE(reason.empty() || reason.starts_with("[")) << reason;
    }
  }
}

TEST_F(Support, is_in_backend_json) {
  const auto library = library_for(PrecisionKind::fp32);
  std::set<std::string> found;  // the ops for which at least one row runs
  for (const OpCase& row : all_cases()) {
    if (reason_against(*library, graph_of(row, precision_of(PrecisionKind::fp32))).empty())
      found.insert(row.op);
  }
  const std::string file = fmt::format("{}/backends/{}/backend.json", ASSAY_SOURCE, under_test::backend);
  const auto description = nlohmann::json::parse(std::ifstream(file));
  EXPECT_EQ(description.at("ops").get<std::set<std::string>>(), found)
      << "scripts/lab/op-lists writes " << file;
}

}  // namespace
}  // namespace assay::ops
