// Ops on images (N, C, H, W).
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

OpWorkload convolution() {
  OpWorkload row;
  row.name = "op/convolution";
  row.description =
      "x (N, C, H, W), weight (K, C, R, S), padding p, stride t; without a bias. By default 64 channels of "
      "28 x 28, 3 x 3, padded by 1";
  row.dimensions = {{.name = "n"},
                    {.name = "c", .fallback = 64},
                    {.name = "h", .fallback = 28},
                    {.name = "w", .like = "h"},
                    {.name = "k", .like = "c"},
                    {.name = "r", .fallback = 3},
                    {.name = "s", .like = "r"},
                    {.name = "p", .fallback = 1, .least = 0},
                    {.name = "t", .fallback = 1}};
  row.sizes = {"n1c1h4", "n1c3k16", "n1", "n8", "n32", "n64h56"};
  row.default_size = "n8";
  row.build = [](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", shape_of(d), "signal");
    const ValueId weight = b.input("weight", {d.at("k"), d.at("c"), d.at("r"), d.at("s")}, "weight");
    const Attributes window{{"stride", d.at("t")}, {"padding", d.at("p")}};
    b.result("y", b.graph().apply("convolution", {x, weight, none}, window, "y")[0]);
  };
  return row;
}

OpWorkload pool(const std::string& op) {
  OpWorkload row;
  row.name = "op/" + op;
  row.description =
      "x (N, C, H, W), window r by r, stride t, no padding. By default 64 channels of 28 x 28, 2 x 2";
  row.dimensions = image(64);
  row.dimensions.push_back({.name = "r", .fallback = 2});
  row.dimensions.push_back({.name = "t", .like = "r"});
  row.sizes = {"n1c1h4", "n1c1", "n1", "n8", "n64", "n256"};
  row.default_size = "n8";
  row.build = [op](OperandBuilder& b, const Dimensions& d) {
    const ValueId x = b.input("x", shape_of(d), "signal");
    const Window window{.kernel = d.at("r"), .stride = d.at("t")};
    b.result("y",
             op == "max_pool" ? b.graph().max_pool(x, window, "y") : b.graph().average_pool(x, window, "y"));
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
  return {convolution(), pool("average_pool"), pool("max_pool"), batch_norm()};
}

}  // namespace assay
