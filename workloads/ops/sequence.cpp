// Ops on sequences: lookup of tokens in a table, and recurrence.
#include "workloads/ops/list.hpp"

namespace assay {
namespace {

OpWorkload embedding() {
  OpWorkload row;
  row.name = "op/embedding";
  row.description =
      "N rows of a table (V, D) by their numbers; the table's gradient is dense. By default 5000 rows of 128";
  row.dimensions = {{.name = "n"}, {.name = "v", .fallback = 5000}, {.name = "d", .fallback = 128}};
  row.sizes = {"n4v16d4", "n64v500d16", "n500", "n16000", "n131072"};
  row.default_size = "n16000";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const std::string below = "below:" + std::to_string(d.at("v"));
    const ValueId indices = b.input("indices", {d.at("n")}, below, DType::i32);
    const ValueId weight = b.input("weight", {d.at("v"), d.at("d")}, "signal");
    b.result("y", b.graph().apply("embedding", {indices, weight}, {}, "y")[0]);
  };
  return row;
}

OpWorkload lstm() {
  OpWorkload row;
  row.name = "op/lstm";
  row.description =
      "x (N, T, I) through one layer of H units, all steps y (N, T, H); t is 25, h is 128, i is h where it "
      "is not given";
  row.dimensions = {{.name = "n"},
                    {.name = "t", .fallback = 25},
                    {.name = "h", .fallback = 128},
                    {.name = "i", .like = "h"}};
  row.sizes = {"n1t2h4", "n2t5h16", "n1", "n32", "n32h512", "n64t100h512"};
  row.default_size = "n32";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const std::int64_t features = d.at("i"), units = d.at("h");
    const ValueId x = b.input("x", {d.at("n"), d.at("t"), features}, "signal");
    const ValueId weight = b.input("weight", {4 * units, features}, "weight");
    const ValueId recurrent = b.input("recurrent_weight", {4 * units, units}, "weight");
    const ValueId bias = b.input("bias", {4 * units}, "signal");
    b.result("y", b.graph().apply("lstm", {x, weight, recurrent, bias}, {{"last", false}}, "y")[0]);
  };
  return row;
}

}  // namespace

std::vector<OpWorkload> sequence_op_workloads() { return {embedding(), lstm()}; }

}  // namespace assay
