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
  // The last two: the tables of MiniLM and of GPT-2 small.
  row.sizes = {"n4v16d4", "n64v500d16", "n500", "n16000", "n131072", "n4096v30522d384", "n1024v50257d768"};
  row.default_size = "n16000";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const std::string below = "below:" + std::to_string(d.at("v"));
    const ValueId indices = b.input("indices", {d.at("n")}, below, DType::i32);
    const ValueId weight = b.input("weight", {d.at("v"), d.at("d")}, "signal");
    b.result("y", b.graph().apply("embedding", {indices, weight}, {}, "y")[0]);
  };
  return row;
}

OpWorkload lstm_op() {
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

// (N, 1, 1, T); an op without a mask has none.
ValueId padding_mask(OperandBuilder& b, const Dimensions& d) {
  if (d.at("m") == 0) return none;
  return b.input("mask", {d.at("n"), 1, 1, d.at("t")}, "padding");
}

// In the order of the sweep: two tiny ones, MiniLM with one text, with 32, and with 32 of different lengths, ViT-Tiny
// for 32 x 32 images, nanoGPT at character level, BERT-base, GPT-2 small with its whole context, and Llama 3 8B.
OpWorkload attention() {
  OpWorkload row;
  row.name = "op/attention";
  row.description =
      "q (N, S, H, D), k and v (N, T, G, D); c 1: causal, m 1: a mask that hides padding; t is 128, h is 12, d is "
      "64, s is t and g is h where they are not given";
  row.dimensions = {{.name = "n"},
                    {.name = "t", .fallback = 128},
                    {.name = "h", .fallback = 12},
                    {.name = "d", .fallback = 64},
                    {.name = "s", .like = "t"},
                    {.name = "g", .like = "h"},
                    {.name = "c", .least = 0},
                    {.name = "m", .least = 0}};
  row.sizes = {"n1t8h2d4", "n2t8h2d4m1",    "n1d32", "n32d32",    "n32d32m1",
               "n64t64h3", "n12t64h4d32c1", "n8",    "n1t1024c1", "n1t1024h32d128g8c1"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId q = b.input("q", {d.at("n"), d.at("s"), d.at("h"), d.at("d")}, "signal");
    const ValueId k = b.input("k", {d.at("n"), d.at("t"), d.at("g"), d.at("d")}, "signal");
    const ValueId v = b.input("v", {d.at("n"), d.at("t"), d.at("g"), d.at("d")}, "signal");
    b.result("y", b.graph().attention(q, k, v, {.causal = d.at("c") > 0, .mask = padding_mask(b, d)}, "y"));
  };
  return row;
}

// In the order of the sweep: two tiny ones, then MiniLM with one text, and with 32 and 1024 of different lengths.
OpWorkload mean_pool() {
  OpWorkload row;
  row.name = "op/mean_pool";
  row.description =
      "the mean over the steps of x (N, T, D): y (N, D); m 1: a mask that hides padding; t is 128 and d is 384 where "
      "they are not given";
  row.dimensions = {{.name = "n"},
                    {.name = "t", .fallback = 128},
                    {.name = "d", .fallback = 384},
                    {.name = "m", .least = 0}};
  row.sizes = {"n1t8d4", "n3t8d4m1", "n1", "n32m1", "n1024m1"};
  row.default_size = "n32m1";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("n"), d.at("t"), d.at("d")}, "signal");
    b.result("y", b.graph().mean_pool(x, padding_mask(b, d), "y"));
  };
  return row;
}

OpWorkload rotary() {
  OpWorkload row;
  row.name = "op/rotary";
  row.description =
      "rotary positions of x (N, T, H, D), pairs of halves, base 10000; t is 128, h is 12 and d is 64 where they "
      "are not given";
  row.dimensions = {{.name = "n"},
                    {.name = "t", .fallback = 128},
                    {.name = "h", .fallback = 12},
                    {.name = "d", .fallback = 64, .least = 2}};
  row.sizes = {"n1t8h2d4", "n1", "n8", "n1t1024", "n8t1024", "n1t1024h32d128"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", {d.at("n"), d.at("t"), d.at("h"), d.at("d")}, "signal");
    b.result("y", b.graph().rotary(x, 10000, false, "y"));
  };
  return row;
}

}  // namespace

std::vector<OpWorkload> sequence_op_workloads() {
  return {embedding(), lstm_op(), attention(), mean_pool(), rotary()};
}

}  // namespace assay
