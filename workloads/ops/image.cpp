// Ops on images (N, C, H, W).
#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "workloads/ops/list.hpp"

namespace assay {
namespace {

std::vector<Dimension> image(std::int64_t channels) {
  return {{.name = "n"},
          {.name = "c", .fallback = channels},
          {.name = "h", .fallback = 28},
          {.name = "w", .like = "h"}};
}

Shape shape_of(const Dimensions& d) { return {d.at("n"), d.at("c"), d.at("h"), d.at("w")}; }

// One number if both are equal, else both, as often as `times` says.
Attribute one_or_both(std::int64_t rows, std::int64_t columns, int times = 1) {
  if (rows == columns) return rows;
  std::vector<std::int64_t> both;
  for (int i = 0; i < times; ++i) both.insert(both.end(), {rows, columns});
  return both;
}

OpWorkload convolution() {
  OpWorkload row;
  row.name = "op/convolution";
  row.description =
      "x (N, C, H, W), weight (K, C/g, R, S), padding p and q, stride t and u of rows and columns, g groups, "
      "dilation d; without a bias. By default 64 channels of 28 x 28, 3 x 3, padded by 1";
  row.dimensions = {{.name = "n"},
                    {.name = "c", .fallback = 64},
                    {.name = "h", .fallback = 28},
                    {.name = "w", .like = "h"},
                    {.name = "k", .like = "c"},
                    {.name = "r", .fallback = 3},
                    {.name = "s", .like = "r"},
                    {.name = "p", .fallback = 1, .least = 0},
                    {.name = "t", .fallback = 1},
                    {.name = "q", .like = "p", .least = 0},
                    {.name = "u", .like = "t"},
                    {.name = "g", .fallback = 1},
                    {.name = "d", .fallback = 1}};
  row.sizes = {"n1c1h4", "n1c3k16", "n1", "n8", "n8g64", "n32", "n64h56"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", shape_of(d), "signal");
    const std::int64_t groups = d.at("g"), dilation = d.at("d");
    if (d.at("c") % groups != 0)
      throw GraphError(fmt::format("{} channels do not fall into {} groups", d.at("c"), groups));
    const ValueId weight = b.input("weight", {d.at("k"), d.at("c") / groups, d.at("r"), d.at("s")}, "weight");
    Attributes window{{"stride", one_or_both(d.at("t"), d.at("u"))},
                      {"padding", one_or_both(d.at("p"), d.at("q"), 2)}};
    if (dilation > 1) window.set("dilation", dilation);
    if (groups > 1) window.set("groups", groups);
    b.result("y", b.graph().apply("convolution", {x, weight, none}, window, "y")[0]);
  };
  return row;
}

OpWorkload pool(const std::string& op) {
  OpWorkload row;
  row.name = "op/" + op;
  row.description =
      "x (N, C, H, W), window r by s, stride t and u of rows and columns, padding p. By default 64 channels of "
      "28 x 28, 2 x 2";
  row.dimensions = image(64);
  row.dimensions.push_back({.name = "r", .fallback = 2});
  row.dimensions.push_back({.name = "t", .like = "r"});
  row.dimensions.push_back({.name = "s", .like = "r"});
  row.dimensions.push_back({.name = "u", .like = "t"});
  row.dimensions.push_back({.name = "p", .fallback = 0, .least = 0});
  if (op == "average_pool") {
    row.description += "; the padding does not count with x1";
    row.dimensions.push_back({.name = "x", .fallback = 0, .least = 0});
  }
  row.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  row.default_size = "n8";
  row.build = [op](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", shape_of(d), "signal");
    Attributes window{{"kernel", one_or_both(d.at("r"), d.at("s"))},
                      {"stride", one_or_both(d.at("t"), d.at("u"))},
                      {"padding", d.at("p")}};
    if (const auto found = d.find("x"); found != d.end() && found->second > 0) {
      if (found->second > 1) throw GraphError("x is 0 or 1: whether the divisor leaves the padding out");
      window.set("count_padding", false);
    }
    b.result("y", b.graph().apply(op, {x}, window, "y")[0]);
  };
  return row;
}

OpWorkload local_response_norm() {
  OpWorkload row;
  row.name = "op/local_response_norm";
  row.description =
      "x (N, C, H, W) over z neighbouring channels, alpha 1e-4 and beta 0.75 as in AlexNet. By default 64 "
      "channels of 28 x 28, 5 of them";
  row.dimensions = image(64);
  row.dimensions.push_back({.name = "z", .fallback = 5});
  row.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", shape_of(d), "signal");
    const Attributes attributes{{"size", d.at("z")}, {"alpha", 1e-4}, {"beta", 0.75}, {"bias", 1.0}};
    b.result("y", b.graph().apply("local_response_norm", {x}, attributes, "y")[0]);
  };
  return row;
}

OpWorkload prelu() {
  OpWorkload row;
  row.name = "op/prelu";
  row.description = "x (N, C, H, W) with a slope for each channel. By default 64 channels of 28 x 28";
  row.dimensions = image(64);
  row.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", shape_of(d), "signal");
    const ValueId slope = b.input("slope", {d.at("c")}, "signal");
    b.result("y", b.graph().apply("prelu", {x, slope}, {}, "y")[0]);
  };
  return row;
}

OpWorkload batch_norm() {
  OpWorkload row;
  row.name = "op/batch_norm";
  row.description =
      "x (N, C, H, W), in training with the statistics of the batch, in inference with the running ones. By "
      "default 64 channels of 28 x 28";
  row.dimensions = image(64);
  row.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const Shape channels{d.at("c")};
    const ValueId x = b.input("x", shape_of(d), "signal");
    const ValueId weight = b.input("weight", channels, "positive");
    const ValueId bias = b.input("bias", channels, "signal");
    const ValueId mean = b.state("running_mean", channels, "zeros");
    const ValueId variance = b.state("running_variance", channels, "ones");
    const Attributes attributes{{"epsilon", 1e-5}, {"momentum", 0.9}, {"training", b.training()}};
    const std::vector<ValueId> results =
        b.graph().apply("batch_norm", {x, weight, bias, mean, variance}, attributes, "y");
    b.result("y", results[0]);
    if (!b.training()) return;
    b.graph().graph().add_update(mean, results[3]);
    b.graph().graph().add_update(variance, results[4]);
  };
  return row;
}

}  // namespace

std::vector<OpWorkload> image_op_workloads() {
  return {convolution(), pool("average_pool"), pool("max_pool"), local_response_norm(),
          prelu(),       batch_norm()};
}

}  // namespace assay
