#include "tests/ops/case_lists.hpp"

#include <tuple>

namespace assay::ops {
namespace {

using Sizes = std::vector<std::int64_t>;

Attributes window(std::int64_t stride, std::int64_t padding) {
  return {{"stride", stride}, {"padding", padding}};
}
Attributes sized(Attributes attributes, const char* name, Sizes sizes) {
  attributes.set(name, std::move(sizes));
  return attributes;
}
Attributes with(Attributes attributes, const char* name, Attribute value) {
  attributes.set(name, std::move(value));
  return attributes;
}
Attributes pooling(std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return {{"kernel", kernel}, {"stride", stride}, {"padding", padding}};
}
Attributes unequal_pooling() {
  return {{"kernel", Sizes{3, 2}}, {"stride", Sizes{1, 2}}, {"padding", Sizes{0, 1, 2, 1}}};
}
Attributes relu(Attributes attributes) {
  attributes.set("activation", std::string("relu"));
  return attributes;
}

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive;
constexpr Fill K = Fill::kept;
constexpr OpCase::Operand absent{Fill::absent, {}};

void convolutions(std::vector<OpCase>& rows) {
  rows.push_back(
      {"convolution", "valid", {{I, {2, 3, 9, 7}}, {I, {5, 3, 3, 3}}, {I, {5}}}, window(1, 0), 0, true});
  rows.push_back({"convolution",
                  "one_channel",
                  {{I, {3, 1, 12, 12}}, {I, {6, 1, 5, 5}}, {I, {6}}},
                  window(1, 0),
                  0,
                  true});
  rows.push_back({"convolution",
                  "one_channel_relu",
                  {{I, {3, 1, 13, 9}}, {I, {8, 1, 3, 3}}, absent},
                  relu(window(1, 0))});
  rows.push_back({"convolution",
                  "same_padding",
                  {{I, {2, 4, 6, 6}}, {I, {8, 4, 3, 3}}, {I, {8}}},
                  window(1, 1),
                  0,
                  true});
  rows.push_back({"convolution",
                  "stride_2_padded",
                  {{I, {2, 3, 8, 9}}, {I, {4, 3, 3, 3}}, absent},
                  window(2, 1),
                  0,
                  true});
  rows.push_back({"convolution",
                  "stride_2_drops_the_last",
                  {{I, {1, 2, 8, 8}}, {I, {3, 2, 3, 3}}, {I, {3}}},
                  window(2, 0),
                  0,
                  true});
  rows.push_back({"convolution",
                  "pointwise",
                  {{I, {2, 16, 4, 4}}, {I, {16, 16, 1, 1}}, {I, {16}}},
                  window(1, 0),
                  0,
                  true});
  rows.push_back(
      {"convolution", "wide", {{I, {1, 32, 10, 10}}, {I, {32, 32, 3, 3}}, {I, {32}}}, window(1, 0)});
  rows.push_back(
      {"convolution", "oblong", {{I, {2, 2, 7, 8}}, {I, {3, 2, 2, 4}}, {I, {3}}}, window(1, 1), 0, true});
  rows.push_back(
      {"convolution", "relu", {{I, {2, 3, 9, 7}}, {I, {5, 3, 3, 3}}, {I, {5}}}, relu(window(1, 0))});
  // Windows that reach past the image on both sides.
  const OpCase::Operand pixel{I, {1, 1, 1, 1}}, four{I, {2, 3, 2, 2}}, tall{I, {1, 2, 3, 1}};
  rows.push_back({"convolution", "one_pixel", {pixel, {I, {1, 1, 5, 5}}, absent}, window(1, 2), 0, true});
  rows.push_back({"convolution", "four_pixels", {four, {I, {4, 3, 7, 7}}, {I, {4}}}, window(1, 3), 0, true});
  rows.push_back(
      {"convolution", "stride_past_the_image", {tall, {I, {3, 2, 9, 9}}, absent}, window(2, 5), 0, true});
  rows.push_back({"convolution",
                  "grouped",
                  {{I, {2, 8, 6, 6}}, {I, {4, 4, 3, 3}}, {I, {4}}},
                  with(window(1, 1), "groups", std::int64_t{2}),
                  0,
                  true});
  rows.push_back({"convolution",
                  "grouped_blocks",
                  {{I, {2, 64, 5, 5}}, {I, {32, 32, 3, 3}}, absent},
                  with(window(1, 1), "groups", std::int64_t{2}),
                  0,
                  true});
  rows.push_back({"convolution",
                  "depthwise",
                  {{I, {2, 32, 7, 7}}, {I, {32, 1, 3, 3}}, {I, {32}}},
                  with(window(2, 1), "groups", std::int64_t{32}),
                  0,
                  true});
  rows.push_back({"convolution",
                  "depthwise_relu",
                  {{I, {1, 3, 7, 6}}, {I, {6, 1, 3, 3}}, {I, {6}}},
                  relu(with(window(1, 0), "groups", std::int64_t{3}))});
  rows.push_back({"convolution",
                  "dilated",
                  {{I, {2, 3, 9, 8}}, {I, {4, 3, 3, 3}}, {I, {4}}},
                  with(window(1, 2), "dilation", std::int64_t{2}),
                  0,
                  true});
  rows.push_back({"convolution",
                  "unequal_sides",
                  {{I, {2, 3, 8, 9}}, {I, {4, 3, 3, 2}}, absent},
                  {{"stride", Sizes{2, 1}}, {"padding", Sizes{1, 0, 2, 1}}, {"dilation", Sizes{1, 3}}},
                  0,
                  true});
  rows.push_back({"convolution_input_gradient",
                  "masked_depthwise",
                  {{I, {2, 16, 6, 6}}, {I, {16, 1, 3, 3}}, {I, {2, 16, 8, 8}}},
                  with(sized(window(1, 0), "size", {8, 8}), "groups", std::int64_t{16})});
  rows.push_back({"convolution_input_gradient",
                  "one_pixel",
                  {pixel, {I, {1, 1, 5, 5}}, absent},
                  sized(window(1, 2), "size", {1, 1})});
  rows.push_back({"convolution_input_gradient",
                  "four_pixels",
                  {{I, {2, 4, 2, 2}}, {I, {4, 3, 7, 7}}, absent},
                  sized(window(1, 3), "size", {2, 2})});
  rows.push_back({"convolution_weight_gradient",
                  "four_pixels",
                  {four, {I, {2, 4, 2, 2}}},
                  sized(window(1, 3), "kernel", {7, 7})});
  rows.push_back({"convolution_input_gradient",
                  "valid",
                  {{I, {2, 5, 7, 5}}, {I, {5, 3, 3, 3}}, absent},
                  sized(window(1, 0), "size", {9, 7})});
  rows.push_back({"convolution_input_gradient",
                  "stride_2_padded",
                  {{I, {2, 4, 4, 5}}, {I, {4, 3, 3, 3}}, absent},
                  sized(window(2, 1), "size", {8, 9})});
  rows.push_back({"convolution_input_gradient",
                  "masked",
                  {{I, {2, 8, 6, 6}}, {I, {8, 16, 3, 3}}, {I, {2, 16, 8, 8}}},
                  sized(window(1, 0), "size", {8, 8})});
  rows.push_back({"convolution_weight_gradient",
                  "valid",
                  {{I, {2, 3, 9, 7}}, {I, {2, 5, 7, 5}}},
                  sized(window(1, 0), "kernel", {3, 3})});
  rows.push_back({"convolution_weight_gradient",
                  "one_channel",
                  {{I, {3, 1, 12, 12}}, {I, {3, 6, 8, 8}}},
                  sized(window(1, 0), "kernel", {5, 5})});
  rows.push_back({"convolution_weight_gradient",
                  "one_channel_3x3",
                  {{I, {3, 1, 13, 9}}, {I, {3, 8, 11, 7}}},
                  sized(window(1, 0), "kernel", {3, 3})});
  rows.push_back({"convolution_weight_gradient",
                  "stride_2_padded",
                  {{I, {2, 3, 8, 9}}, {I, {2, 4, 4, 5}}},
                  sized(window(2, 1), "kernel", {3, 3})});
}

void local_response_norms(std::vector<OpCase>& rows) {
  const auto of = [](std::int64_t size, double alpha) -> Attributes {
    return {{"size", size}, {"alpha", alpha}, {"beta", 0.75}, {"bias", 2.0}};
  };
  rows.push_back({"local_response_norm", "three", {{I, {2, 7, 3, 4}}}, of(3, 0.5), 16, true});
  rows.push_back({"local_response_norm", "more_than_there_are", {{I, {1, 2, 3, 3}}}, of(5, 0.5), 16, true});
  rows.push_back({"local_response_norm", "blocks", {{I, {2, 32, 2, 2}}}, of(5, 1e-2), 16, true});
  rows.push_back({"local_response_norm", "one", {{I, {2, 16, 3, 3}}}, of(1, 0.25), 16, true});
  const char* gradient = "local_response_norm_gradient";
  rows.push_back({gradient, "three", {{I, {2, 7, 3, 4}}, {R, {2, 7, 3, 4}}}, of(3, 0.5), 16});
  rows.push_back({gradient, "more_than_there_are", {{I, {1, 2, 3, 3}}, {R, {1, 2, 3, 3}}}, of(5, 0.5), 16});
  rows.push_back({gradient, "blocks", {{I, {2, 32, 2, 2}}, {R, {2, 32, 2, 2}}}, of(5, 1e-2), 16});
}

void prelus(std::vector<OpCase>& rows) {
  const auto add = [&](const char* name, const Shape& x, std::int64_t slopes) {
    rows.push_back({"prelu", name, {{R, x}, {R, {slopes}}}, {}, 4, true});
    rows.push_back({"prelu_gradient", name, {{I, x}, {R, {slopes}}, {I, x}}, {}, 4});
  };
  add("images", {2, 7, 3, 4}, 7);
  add("blocks", {2, 32, 5, 2}, 32);
  add("one_slope", {3, 5, 2, 2}, 1);
  add("one_channel", {2, 1, 3, 3}, 1);
  add("rows", {6, 19}, 19);
  add("sequences", {2, 3, 11}, 3);
  add("volumes", {2, 3, 2, 3, 2}, 3);
}

void linears(std::vector<OpCase>& rows) {
  rows.push_back({"linear", "bias", {{I, {7, 19}}, {I, {10, 19}}, {I, {10}}}, {}, 0, true});
  rows.push_back({"linear", "no_bias", {{I, {4, 32}}, {I, {16, 32}}, absent}, {}, 0, true});
  rows.push_back({"linear", "one_sample", {{I, {1, 40}}, {I, {3, 40}}, {I, {3}}}, {}, 0, true});
  rows.push_back({"linear", "relu", {{I, {7, 19}}, {I, {10, 19}}, {I, {10}}}, relu({})});
  rows.push_back({"linear", "wide", {{I, {32, 784}}, {I, {128, 784}}, {I, {128}}}, {}});
  rows.push_back({"linear_input_gradient", "plain", {{I, {7, 10}}, {I, {10, 19}}, absent}, {}});
  rows.push_back({"linear_input_gradient", "masked", {{I, {7, 10}}, {I, {10, 19}}, {I, {7, 19}}}, {}});
  rows.push_back({"linear_weight_gradient", "plain", {{I, {7, 19}}, {I, {7, 10}}}, {}});
  rows.push_back({"linear_weight_gradient", "many_rows", {{I, {1500, 5}}, {I, {1500, 3}}}, {}});
  // Enough rows that a backend may lower the gradient to another product than that of a few rows.
  rows.push_back({"linear_input_gradient", "many_rows", {{I, {1100, 10}}, {I, {10, 19}}, absent}, {}});
  rows.push_back(
      {"linear_input_gradient", "many_masked", {{I, {1100, 10}}, {I, {10, 19}}, {I, {1100, 19}}}, {}});
  // An operand of 8 MiB and more.
  rows.push_back({"linear_weight_gradient", "large", {{I, {1024, 2304}}, {I, {1024, 5}}}, {}});
  rows.push_back({"linear_weight_gradient", "wide", {{I, {32, 784}}, {I, {32, 128}}}, {}});
}

void pools(std::vector<OpCase>& rows) {
  rows.push_back({"average_pool", "halves", {{I, {2, 6, 8, 8}}}, pooling(2, 2, 0), 0, true});
  rows.push_back({"average_pool", "drops_the_last", {{I, {2, 3, 7, 9}}}, pooling(2, 2, 0), 0, true});
  rows.push_back({"average_pool", "padding_counts", {{I, {1, 2, 6, 6}}}, pooling(4, 2, 1), 0, true});
  rows.push_back({"average_pool", "overlaps", {{R, {1, 2, 7, 7}}}, pooling(3, 2, 1), 2, true});
  rows.push_back({"average_pool", "past_the_image", {{I, {2, 3, 2, 1}}}, pooling(5, 1, 2), 2, true});
  rows.push_back({"average_pool",
                  "padding_does_not_count",
                  {{R, {1, 2, 7, 7}}},
                  with(pooling(3, 2, 1), "count_padding", false),
                  2,
                  true});
  rows.push_back({"average_pool", "unequal_sides", {{I, {2, 3, 5, 6}}}, unequal_pooling(), 4, true});
  rows.push_back({"average_pool",
                  "unequal_sides_inside",
                  {{I, {2, 16, 5, 6}}},
                  with(unequal_pooling(), "count_padding", false),
                  4,
                  true});
  rows.push_back({"max_pool", "unequal_sides", {{R, {2, 3, 5, 6}}}, unequal_pooling(), 0, true});
  rows.push_back({"average_pool_gradient",
                  "past_the_image",
                  {{I, {2, 3, 2, 1}}, absent},
                  sized(pooling(5, 1, 2), "size", {2, 1}),
                  2});
  rows.push_back({"average_pool_gradient",
                  "halves",
                  {{I, {2, 6, 4, 4}}, absent},
                  sized(pooling(2, 2, 0), "size", {8, 8})});
  rows.push_back({"average_pool_gradient",
                  "drops_the_last",
                  {{I, {2, 3, 3, 4}}, absent},
                  sized(pooling(2, 2, 0), "size", {7, 9})});
  rows.push_back({"average_pool_gradient",
                  "padding_counts",
                  {{I, {1, 2, 3, 3}}, absent},
                  sized(pooling(4, 2, 1), "size", {6, 6})});
  rows.push_back({"average_pool_gradient",
                  "masked",
                  {{I, {2, 16, 4, 4}}, {I, {2, 16, 8, 8}}},
                  sized(pooling(2, 2, 0), "size", {8, 8})});
  rows.push_back({"max_pool", "halves", {{R, {2, 6, 8, 8}}}, pooling(2, 2, 0), 0, true});
  rows.push_back({"max_pool", "overlaps_padded", {{R, {1, 3, 7, 7}}}, pooling(3, 2, 1), 0, true});
  rows.push_back({"max_pool", "past_the_image", {{R, {2, 3, 2, 1}}}, pooling(5, 1, 2), 0, true});
  rows.push_back({"max_pool", "ties", {{I, {2, 3, 8, 8}}}, pooling(2, 2, 0)});
  rows.push_back({"max_pool_gradient",
                  "halves",
                  {{I, {2, 6, 4, 4}}, {Fill::argmax, {2, 6, 8, 8}}, absent},
                  sized(pooling(2, 2, 0), "size", {8, 8})});
  rows.push_back({"max_pool_gradient",
                  "overlaps_padded",
                  {{I, {1, 3, 4, 4}}, {Fill::argmax, {1, 3, 7, 7}}, absent},
                  sized(pooling(3, 2, 1), "size", {7, 7})});
  rows.push_back({"max_pool_gradient",
                  "past_the_image",
                  {{I, {2, 3, 2, 1}}, {Fill::argmax, {2, 3, 2, 1}}, absent},
                  sized(pooling(5, 1, 2), "size", {2, 1})});
  rows.push_back({"max_pool_gradient",
                  "masked",
                  {{I, {2, 6, 4, 4}}, {Fill::argmax, {2, 6, 8, 8}}, {I, {2, 6, 8, 8}}},
                  sized(pooling(2, 2, 0), "size", {8, 8})});
}

void pointwise(std::vector<OpCase>& rows) {
  rows.push_back({"flatten", "images", {{I, {2, 6, 5, 4}}}, {}, 0, true});
  rows.push_back({"reshape", "back", {{I, {2, 120}}}, {{"shape", Sizes{2, 6, 5, 4}}}, 0, true});
  rows.push_back({"cast", "f32", {{I, {3, 70}}}, {{"dtype", std::string("f32")}}, 0});
  rows.push_back({"from_array", "image", {{I, {2, 3, 5, 5}}}});
  rows.push_back({"from_array", "beyond_a_grain", {{I, {40000}}}});
  rows.push_back({"from_array", "row_in_a_list", {{I, {1, 70}}}, {{"in_list", true}}});
  rows.push_back({"from_list", "short", {{I, {7, 2}}}});
  rows.push_back({"from_list", "beyond_a_grain", {{I, {20000, 2}}}});
  rows.push_back(
      {"constant", "ones", {}, {{"shape", Sizes{}}, {"dtype", std::string("f32")}, {"value", 1.0}}});
}

void losses(std::vector<OpCase>& rows) {
  rows.push_back({"softmax_cross_entropy", "ten_classes", {{R, {8, 10}}, {Fill::labels, {8}}}, {}, 8, true});
  rows.push_back({"softmax_cross_entropy", "one_sample", {{R, {1, 3}}, {Fill::labels, {1}}}, {}, 8, true});
  rows.push_back({"softmax_cross_entropy_gradient",
                  "ten_classes",
                  {{Fill::softmax, {8, 10}}, {Fill::labels, {8}}, absent},
                  {},
                  4});
  rows.push_back({"softmax_cross_entropy_gradient",
                  "scaled",
                  {{Fill::softmax, {8, 10}}, {Fill::labels, {8}}, {P, {}}},
                  {},
                  4});
}

void norms(std::vector<OpCase>& rows) {
  const Attributes training{{"training", true}, {"epsilon", 1e-3}, {"momentum", 0.9}};
  const Attributes inference{{"training", false}, {"epsilon", 1e-3}, {"momentum", 0.9}};
  const std::vector<OpCase::Operand> operands{{R, {4, 6, 5, 5}}, {P, {6}}, {I, {6}}, {I, {6}}, {P, {6}}};
  rows.push_back({"batch_norm", "training", operands, training, 64, true});
  rows.push_back({"batch_norm", "inference", operands, inference, 16});
  rows.push_back({"batch_norm", "training_relu", operands, relu(training), 64});
  // Many pixels: the sums of a channel are in several parts, in each layout, and are added up by a team.
  for (const std::int64_t c : {6, 16}) {
    const Shape image{64, c, 12, 12}, channel{c};
    const std::string name = "many_parts_" + std::to_string(c);
    rows.push_back({"batch_norm",
                    name,
                    {{R, image}, {P, channel}, {I, channel}, {I, channel}, {P, channel}},
                    training,
                    64});
    rows.push_back(
        {"batch_norm_gradient",
         name,
         {{R, image}, {P, channel}, {I, channel}, {P, channel}, {I, image}, absent, absent, absent},
         {},
         64});
  }
  // The nodes that fusion writes, and 32 channels for kernels that work in blocks of channels.
  for (const std::int64_t c : {6, 32}) {
    const Shape image{4, c, 5, 5}, channel{c};
    const auto named = [c](const char* name) { return std::string(name) + "_" + std::to_string(c); };
    std::vector<OpCase::Operand> forward{{R, image},   {P, channel}, {I, channel},
                                         {I, channel}, {P, channel}, absent};
    rows.push_back({"batch_norm", named("relu_channels"), forward, relu(training), 64});
    forward[5] = {I, image};
    rows.push_back({"batch_norm", named("residual"), forward, training, 64});
    rows.push_back({"batch_norm", named("residual_relu"), forward, relu(training), 64});
    rows.push_back({"batch_norm", named("inference_residual_relu"), forward, relu(inference), 16});
    const OpCase::Operand x{R, image}, dy{I, image}, per_channel{P, channel}, mean{I, channel};
    const std::vector<OpCase::Operand> plain{x, per_channel, mean, per_channel, dy, absent, absent, absent};
    for (const auto& [name, operand, fill] : {std::tuple{"gradient", 0, R}, std::tuple{"bias", 5, I},
                                              std::tuple{"activated", 6, I}, std::tuple{"addend", 7, R}}) {
      std::vector<OpCase::Operand> given = plain;
      if (operand > 0) given[static_cast<std::size_t>(operand)] = {fill, operand == 5 ? channel : image};
      if (operand == 5) given[0].fill = I;  // what a ReLU sees must not tip over when x is rounded
      rows.push_back({"batch_norm_gradient", named(name), given, {}, 64});
    }
    std::vector<OpCase::Operand> all = plain;
    all[6] = {I, image};
    all[7] = {R, image};
    rows.push_back({"batch_norm_gradient", named("activated_addend"), all, {}, 64});
    all[6] = absent;
    all.push_back({Fill::above, image});
    rows.push_back({"batch_norm_gradient", named("mask_addend"), all, {}, 64});
    all[7] = absent;
    rows.push_back({"batch_norm_gradient", named("mask"), all, {}, 64});
    all.pop_back();
    all[0].fill = I;
    all[5] = {I, channel};
    all[7] = {R, image};
    rows.push_back({"batch_norm_gradient", named("bias_addend"), all, {}, 64});
  }
  std::vector<OpCase::Operand> statistics{{I, {6}}, {P, {6}}, {I, {6}}, {P, {6}}};
  const Attributes update{{"epsilon", 1e-3}, {"momentum", 0.9}};
  rows.push_back({"running_statistics", "one", statistics, update, 64});
  statistics.insert(statistics.end(), {{R, {40}}, {P, {40}}, {R, {40}}, {P, {40}}});
  rows.push_back({"running_statistics", "several", statistics, update, 64});
}

void embeddings(std::vector<OpCase>& rows) {
  const OpCase::Operand few{Fill::indices, {3, 7}}, many{Fill::indices, {4, 50}};
  rows.push_back({"embedding", "texts", {few, {I, {11, 5}}}, {}, 0, true});
  rows.push_back({"embedding", "wide", {many, {R, {60, 128}}}, {}, 0});
  rows.push_back({"embedding_gradient", "rows_twice", {few, {I, {3, 7, 5}}}, {{"rows", 11}}});
  rows.push_back({"embedding_gradient", "wide", {many, {I, {4, 50, 128}}}, {{"rows", 60}}});
  rows.push_back(
      {"embedding_row_gradient", "fewer_rows_than_indices", {few, {I, {3, 7, 5}}}, {{"rows", 11}}});
  rows.push_back(
      {"embedding_row_gradient", "fewer_indices_than_rows", {few, {I, {3, 7, 5}}}, {{"rows", 40}}});
  // Fewer rows than positions in a run: most sums are long.
  const OpCase::Operand often{Fill::indices, {40, 50}};
  rows.push_back({"embedding_gradient", "long_runs", {often, {I, {40, 50, 6}}}, {{"rows", 3}}});
  const OpCase::Operand long_texts{Fill::indices, {45, 50}};
  rows.push_back({"embedding_gradient", "many_positions", {long_texts, {I, {45, 50, 6}}}, {{"rows", 3}}});
  rows.push_back({"embedding_gradient", "large_table", {often, {I, {40, 50, 6}}}, {{"rows", 1030}}});
  rows.push_back({"embedding_row_gradient", "long_runs", {often, {I, {40, 50, 6}}}, {{"rows", 3}}});
  rows.push_back({"dense_rows", "few", {{I, {9, 5}}, {Fill::touched, {9}}}, {{"rows", 13}}});
  rows.push_back({"embedding_row_gradient", "wide", {many, {I, {4, 50, 128}}}, {{"rows", 60}}});
}

// Sums over a long sequence lose some places: the tolerance is in units of the result's epsilon.
void recurrent(std::vector<OpCase>& rows) {
  const auto layer = [&](const char* name, std::int64_t n, std::int64_t t, std::int64_t in, std::int64_t h,
                         bool last, bool differentiable) {
    const OpCase::Operand x{R, {n, t, in}}, weight{Fill::small, {4 * h, in}},
        recurrent_weight{Fill::small, {4 * h, h}};
    const Attributes attributes{{"last", last}};
    const Shape y = last ? Shape{n, h} : Shape{n, t, h};
    rows.push_back({"lstm",
                    name,
                    {x, weight, recurrent_weight, {Fill::small, {4 * h}}},
                    attributes,
                    16,
                    differentiable});
    rows.push_back({"lstm_gradient",
                    name,
                    {x, weight, recurrent_weight, {Fill::reserve, {4 * h}}, {R, y}},
                    attributes,
                    64});
  };
  layer("sequence", 3, 5, 4, 6, false, true);
  layer("last_step", 3, 5, 4, 6, true, true);
  layer("two_steps", 2, 2, 3, 4, true, true);
  layer("vectors", 5, 9, 32, 16, false, false);
  // Backend cuda has all steps of these in one launch, whose last block is not full.
  layer("narrow", 11, 4, 6, 64, false, false);
  layer("narrow_two_steps", 3, 2, 6, 64, true, false);
  layer("wide_sequence", 9, 3, 16, 128, false, false);
  layer("wide", 17, 12, 128, 128, true, false);
}

void dropouts(std::vector<OpCase>& rows) {
  const auto rate = [](double value) { return Attributes{{"rate", value}}; };
  rows.push_back({"dropout", "half", {{I, {3, 7}}, {K, {3, 7}}}, rate(0.5), 0, true});
  rows.push_back(
      {"dropout", "quarter_of_images", {{R, {2, 16, 5, 5}}, {K, {2, 16, 5, 5}}}, rate(0.25), 2, true});
  rows.push_back({"dropout", "odd_channels", {{R, {2, 3, 5, 7}}, {K, {2, 3, 5, 7}}}, rate(0.1), 2});
  rows.push_back({"dropout", "many", {{I, {64, 513}}, {K, {64, 513}}}, rate(0.75), 0});
  rows.push_back({"dropout", "none_dropped", {{I, {5, 4}}, {K, {5, 4}}}, rate(0.0), 0});
  rows.push_back({"dropout_mask",
                  "supplied",
                  {{K, {9, 33}}, {Fill::schedule, {2}}, {Fill::no_seed, {2}}},
                  rate(0.25),
                  0});
}

void optimizers(std::vector<OpCase>& rows) {
  const Attributes adam{{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.0}};
  const OpCase::Operand schedule{Fill::schedule, {2}};
  const Shape a{5, 3, 3, 3}, b{37};
  Attributes decayed = adam;
  decayed.set("weight_decay", 0.01);
  // The division by a root leaves a few units in the last place of a step that is itself small next to the
  // parameter.
  rows.push_back({"adam", "one_tensor", {schedule, {R, a}, {I, a}, {R, a}, {P, a}}, adam, 16});
  rows.push_back({"adam", "weight_decay", {schedule, {R, a}, {I, a}, {R, a}, {P, a}}, decayed, 16});
  Attributes decoupled = decayed;
  decoupled.set("decoupled", true);
  rows.push_back({"adam", "decoupled", {schedule, {R, a}, {I, a}, {R, a}, {P, a}}, decoupled, 16});
  rows.push_back({"adam",
                  "two_tensors",
                  {schedule, {R, a}, {I, a}, {R, a}, {P, a}, {R, b}, {I, b}, {R, b}, {P, b}},
                  adam,
                  16});
  const Shape table{9, 5}, few{4, 5};
  const OpCase::Operand touched{Fill::touched, {4}};
  rows.push_back({"lazy_adam",
                  "every_other_row",
                  {schedule, {R, table}, {I, few}, touched, {R, table}, {P, table}},
                  decayed,
                  16});
  rows.push_back(
      {"lazy_adam",
       "wide",
       {schedule, {R, {60, 128}}, {I, {40, 128}}, {Fill::touched, {40}}, {R, {60, 128}}, {P, {60, 128}}},
       adam,
       16});
  rows.push_back({"sgd",
                  "momentum",
                  {schedule, {R, a}, {I, a}, {R, a}},
                  {{"momentum", 0.9}, {"weight_decay", 0.01}},
                  8});
  rows.push_back(
      {"sgd", "plain", {schedule, {R, a}, {I, a}, absent}, {{"momentum", 0.0}, {"weight_decay", 0.0}}, 8});
  rows.push_back({"rmsprop",
                  "one_tensor",
                  {schedule, {R, a}, {I, a}, {P, a}},
                  {{"decay", 0.9}, {"epsilon", 1e-8}, {"weight_decay", 0.01}},
                  16});
}

}  // namespace

std::span<const OpCase> all_cases() {
  static const std::vector<OpCase> rows = [] {
    std::vector<OpCase> all;
    convolutions(all);
    local_response_norms(all);
    prelus(all);
    linears(all);
    pools(all);
    pointwise(all);
    losses(all);
    norms(all);
    embeddings(all);
    recurrent(all);
    dropouts(all);
    optimizers(all);
    add_activation_cases(all);
    add_binary_cases(all);
    add_product_cases(all);
    add_reduce_cases(all);
    add_move_cases(all);
    add_transformer_cases(all);
    return all;
  }();
  return rows;
}

}  // namespace assay::ops
