#include "tests/ops/case_lists.hpp"

namespace assay::ops {
namespace {

constexpr Fill I = Fill::integers, R = Fill::ramp, P = Fill::positive, S = Fill::small, W = Fill::wide;
constexpr OpCase::Operand absent{Fill::absent, {}};

void row_norms(std::vector<OpCase>& rows) {
  struct Form {
    const char* name;
    Shape x;
    double epsilon;
    bool differentiable;
    Fill fill = R;
  };
  const Form forms[] = {{"sequence", {3, 5, 8}, 1e-5, true},
                        {"odd", {7, 37}, 1e-12, true},
                        {"vector", {65}, 1e-5, true},
                        {"large_epsilon", {4, 16}, 0.5, true},
                        {"one_wide", {5, 1}, 1e-5, false},
                        {"bert", {2, 9, 384}, 1e-12, false, P},
                        {"long_row", {3, 4099}, 1e-5, false},
                        {"many_rows", {1031, 6}, 1e-5, false},
                        {"far_from_zero", {5, 64}, 1e-5, false, Fill::far}};
  for (const Form& form : forms) {
    const Shape width{form.x.back()}, leading(form.x.begin(), form.x.end() - 1);
    const Attributes epsilon{{"epsilon", form.epsilon}};
    const OpCase::Operand x{form.fill, form.x};
    rows.push_back({"layer_norm", form.name, {x, {P, width}, {I, width}}, epsilon, 32, form.differentiable});
    rows.push_back({"rms_norm", form.name, {x, {P, width}}, epsilon, 32, form.differentiable});
    // The mean of a row that is far from zero takes all digits; its gradient is as that of any other row.
    if (form.fill == Fill::far) continue;
    rows.push_back(
        {"layer_norm_gradient", form.name, {x, {P, width}, {R, form.x}, {I, leading}, {P, leading}}, {}, 64});
    rows.push_back({"rms_norm_gradient", form.name, {x, {P, width}, {R, form.x}, {P, leading}}, {}, 64});
    const std::string name = std::string(form.name) + "_addend";
    const OpCase::Operand addend{I, form.x};
    rows.push_back({"layer_norm_gradient",
                    name,
                    {x, {P, width}, {R, form.x}, {I, leading}, {P, leading}, addend},
                    {},
                    64});
    rows.push_back({"rms_norm_gradient", name, {x, {P, width}, {R, form.x}, {P, leading}, addend}, {}, 64});
  }
}

// A form of attention; its rows are one of the op and one of its gradient.
struct Form {
  const char* name;
  std::int64_t samples, queries, heads, width, keys, groups;
  bool causal = false;
  Shape mask = {};
  bool differentiable = true;
  double scale = 0;
  Fill mask_fill = R;
};

// Without the ramp: where its period divides a row, all keys would be equal, and the gradients zero.
void attention(std::vector<OpCase>& rows, const Form& f) {
  const Shape q{f.samples, f.queries, f.heads, f.width}, k{f.samples, f.keys, f.groups, f.width};
  const OpCase::Operand mask = f.mask.empty() ? absent : OpCase::Operand{f.mask_fill, f.mask};
  const Attributes attributes{{"causal", f.causal}, {"scale", f.scale}};
  rows.push_back({"attention", f.name, {{I, q}, {S, k}, {I, k}, mask}, attributes, 32, f.differentiable});
  rows.push_back({"attention_gradient",
                  f.name,
                  {{I, q}, {S, k}, {I, k}, mask, {Fill::attended, {}}, {Fill::attended, {}}, {I, q}},
                  attributes,
                  64});
}

// q, k and v as one value.
void joined_attention(std::vector<OpCase>& rows, const Form& f) {
  const Shape all{f.samples, f.queries, f.heads + 2 * f.groups, f.width},
      y{f.samples, f.queries, f.heads, f.width};
  const OpCase::Operand mask = f.mask.empty() ? absent : OpCase::Operand{f.mask_fill, f.mask};
  const OpCase::Operand same{Fill::same, {}}, attended{Fill::attended, {}};
  const Attributes attributes{{"causal", f.causal}, {"scale", f.scale}, {"heads", f.heads}};
  rows.push_back({"attention", f.name, {{I, all}, same, same, mask}, attributes, 32});
  rows.push_back({"attention_gradient",
                  f.name,
                  {{I, all}, same, same, mask, attended, attended, {I, y}},
                  attributes,
                  64});
}

void attentions(std::vector<OpCase>& rows) {
  constexpr bool causal = true, large = false;
  attention(rows, {"heads", 2, 5, 3, 4, 5, 3});
  attention(rows, {"one_head", 1, 7, 1, 8, 7, 1});
  attention(rows, {"width_one", 2, 4, 2, 1, 4, 2});
  attention(rows, {"grouped", 2, 5, 6, 4, 5, 2});
  attention(rows, {"one_group", 1, 5, 4, 8, 6, 1});
  attention(rows, {"fewer_keys", 2, 8, 2, 4, 3, 2});
  attention(rows, {"scaled", 1, 6, 2, 4, 6, 2, false, {}, true, 1.25});
  attention(rows, {"causal", 2, 9, 2, 4, 9, 2, causal});
  attention(rows, {"causal_fewer_queries", 1, 3, 2, 4, 8, 2, causal});
  attention(rows, {"causal_fewer_keys", 1, 7, 2, 4, 4, 2, causal});  // the first queries see none
  attention(rows, {"causal_grouped", 1, 6, 4, 4, 6, 2, causal});
  attention(rows, {"mask_of_keys", 3, 5, 2, 4, 6, 2, false, {3, 1, 1, 6}});
  attention(rows, {"mask_of_all", 2, 5, 2, 4, 6, 2, false, {2, 2, 5, 6}});
  attention(rows, {"mask_of_heads", 2, 5, 2, 4, 6, 2, false, {1, 2, 1, 6}});
  attention(rows, {"mask_of_queries_causal", 2, 6, 2, 4, 6, 1, causal, {1, 1, 6, 6}});
  attention(rows, {"hidden_samples", 3, 5, 2, 4, 6, 2, false, {3, 1, 1, 6}, true, 0, Fill::hiding});
  attention(rows, {"hidden_queries", 2, 7, 2, 4, 6, 2, false, {1, 1, 7, 6}, true, 0, Fill::hiding});
  attention(rows, {"hidden_causal", 2, 7, 2, 4, 7, 2, causal, {1, 2, 7, 7}, true, 0, Fill::hiding});
  attention(rows, {"one_head_hidden", 3, 7, 1, 8, 7, 1, false, {3, 1, 1, 7}, true, 0, Fill::hiding});
  attention(rows, {"width_one_hidden", 3, 5, 2, 1, 6, 2, false, {3, 1, 1, 6}, true, 0, Fill::hiding});
  attention(rows, {"one_query", 3, 1, 4, 16, 33, 4, causal, {}, large});
  attention(rows, {"odd_lengths", 2, 37, 2, 16, 65, 2, false, {}, large});
  attention(rows, {"odd_lengths_causal", 1, 65, 3, 24, 65, 3, causal, {}, large});
  attention(rows, {"odd_lengths_hidden", 3, 65, 2, 16, 37, 2, false, {3, 1, 1, 37}, large, 0, Fill::hiding});
  attention(rows, {"blocks", 1, 130, 2, 64, 257, 1, causal, {}, large});
  attention(rows, {"many_keys", 2, 5, 4, 4, 260, 2, false, {2, 1, 1, 260}, large});
  attention(rows, {"many_keys_causal", 1, 7, 2, 4, 300, 2, causal, {1, 2, 7, 300}, large});
  attention(rows, {"many_keys_hidden", 3, 5, 2, 4, 270, 2, false, {3, 1, 1, 270}, large, 0, Fill::hiding});
  attention(rows, {"minilm", 2, 128, 3, 32, 128, 3, false, {2, 1, 1, 128}, large});
  joined_attention(rows, {"joined", 2, 5, 3, 4, 5, 3});
  joined_attention(rows, {"joined_one_head", 3, 7, 1, 8, 7, 1, causal});
  joined_attention(rows, {"joined_grouped", 2, 6, 4, 4, 6, 2, causal});
  joined_attention(rows, {"joined_hidden", 3, 6, 6, 4, 6, 2, false, {3, 1, 1, 6}, large, 0, Fill::hiding});
  joined_attention(rows, {"joined_many_keys", 2, 270, 2, 8, 270, 1, causal});
  // Their gradients of q and k are zero, or only rounding. Scores up to hundreds, exact in every precision: their
  // exponentials overflow.
  const Attributes plain{{"causal", false}, {"scale", 0.0}}, scaled{{"causal", false}, {"scale", 8.0}};
  rows.push_back(
      {"attention", "one_key", {{R, {2, 3, 2, 4}}, {S, {2, 1, 2, 4}}, {R, {2, 1, 2, 4}}}, plain, 8});
  rows.push_back({"attention",
                  "large_scores",
                  {{I, {1, 9, 2, 16}}, {I, {1, 9, 2, 16}}, {R, {1, 9, 2, 16}}},
                  scaled,
                  16});
}

void sequences(std::vector<OpCase>& rows) {
  for (const bool interleaved : {false, true}) {
    const auto named = [&](const char* name) {
      return std::string(name) + (interleaved ? "_interleaved" : "_halves");
    };
    const Attributes plain{{"base", 10000.0}, {"interleaved", interleaved}};
    Attributes inverse = plain;
    inverse.set("inverse", true);
    rows.push_back({"rotary", named("heads"), {{R, {2, 7, 3, 8}}}, plain, 8, true});
    rows.push_back({"rotary", named("inverse"), {{R, {1, 5, 2, 6}}}, inverse, 8, true});
    rows.push_back({"rotary", named("width_two"), {{R, {2, 9, 1, 2}}}, plain, 8, true});
    rows.push_back({"rotary",
                    named("other_base"),
                    {{R, {1, 6, 2, 4}}},
                    {{"base", 500.0}, {"interleaved", interleaved}},
                    8});
    // The angle of the last position is rounded by f32.
    rows.push_back({"rotary", named("long"), {{R, {1, 513, 2, 64}}}, plain, 1024});
  }
  rows.push_back({"padding_mask", "texts", {{Fill::tokens, {3, 37}}}, {{"padding", std::int64_t{0}}}, 0});
  rows.push_back(
      {"padding_mask", "other_token", {{Fill::tokens, {4, 16}}}, {{"padding", std::int64_t{2}}}, 0});
  rows.push_back({"mean_pool", "all", {{R, {3, 5, 8}}, absent}, {}, 4, true});
  rows.push_back({"mean_pool", "one_step", {{R, {3, 1, 7}}, absent}, {}, 4, true});
  rows.push_back({"mean_pool", "hidden", {{R, {5, 7, 6}}, {Fill::hiding, {5, 1, 1, 7}}}, {}, 4, true});
  rows.push_back({"mean_pool", "bert", {{R, {3, 128, 384}}, {Fill::hiding, {3, 1, 1, 128}}}, {}, 16});
  const auto length = [](std::int64_t steps) { return Attributes{{"length", steps}}; };
  rows.push_back({"mean_pool_gradient", "all", {{R, {3, 8}}, absent}, length(5), 4});
  rows.push_back({"mean_pool_gradient", "hidden", {{R, {5, 6}}, {Fill::hiding, {5, 1, 1, 7}}}, length(7), 4});
  rows.push_back(
      {"mean_pool_gradient", "bert", {{R, {3, 384}}, {Fill::hiding, {3, 1, 1, 128}}}, length(128), 4});
}

// The position is one of the tokens 0 to 3.
void decoding(std::vector<OpCase>& rows) {
  const OpCase::Operand position{Fill::tokens, {1}};
  rows.push_back(
      {"tokens_at", "prompt", {{Fill::tokens, {3, 9}}, position}, {{"length", std::int64_t{5}}}, 0});
  rows.push_back({"tokens_at", "one", {{Fill::tokens, {5, 4}}, position}, {{"length", std::int64_t{1}}}, 0});
  rows.push_back({"cache_write", "prompt", {{R, {3, 9, 2, 5}}, {I, {3, 4, 2, 5}}, position}, {}, 0});
  rows.push_back({"cache_write", "token", {{R, {4, 7, 3, 8}}, {I, {4, 1, 3, 8}}, position}, {}, 0});
  rows.push_back({"cache_write", "wide", {{R, {2, 64, 4, 32}}, {I, {2, 1, 4, 32}}, position}, {}, 0});
  const auto sizes = [](std::int64_t queries, std::int64_t keys) {
    return Attributes{{"queries", queries}, {"keys", keys}};
  };
  rows.push_back({"cache_mask", "token", {position}, sizes(1, 37), 0});
  rows.push_back({"cache_mask", "prompt", {position}, sizes(3, 8), 0});
  rows.push_back({"advance", "token", {position}, {{"by", std::int64_t{1}}}, 0});
  rows.push_back({"advance", "prompt", {position}, {{"by", std::int64_t{32}}}, 0});
}

// The ops of other networks over more dimensions than those have.
void more_dimensions(std::vector<OpCase>& rows) {
  rows.push_back({"linear", "sequence", {{I, {2, 5, 19}}, {I, {10, 19}}, {I, {10}}}, {}, 0, true});
  rows.push_back({"linear", "heads", {{I, {2, 3, 2, 8}}, {I, {5, 8}}, absent}, {}, 0, true});
  rows.push_back({"linear", "residual", {{I, {2, 5, 19}}, {I, {10, 19}}, {I, {10}}, {I, {2, 5, 10}}}, {}, 0});
  rows.push_back({"linear", "residual_wide", {{R, {9, 64}}, {S, {96, 64}}, absent, {R, {9, 96}}}, {}, 16});
  for (const char* gelu : {"gelu", "gelu_tanh"}) {
    const Attributes fused{{"activation", std::string(gelu)}};
    rows.push_back({"linear", gelu, {{R, {2, 5, 19}}, {S, {33, 19}}, {R, {33}}}, fused, 16});
    rows.push_back({"linear", std::string(gelu) + "_wide", {{R, {9, 64}}, {S, {96, 64}}, absent}, fused, 32});
  }
  rows.push_back({"linear_input_gradient", "sequence", {{I, {2, 5, 10}}, {I, {10, 19}}, absent}, {}});
  const OpCase::Operand dy{I, {2, 5, 10}}, weight{I, {10, 19}}, dx{I, {2, 5, 19}};
  rows.push_back({"linear_input_gradient", "addend", {dy, weight, absent, dx}, {}});
  rows.push_back({"linear_input_gradient", "masked_addend", {dy, weight, dx, dx}, {}});
  rows.push_back({"linear_weight_gradient", "sequence", {{I, {2, 5, 19}}, {I, {2, 5, 10}}}, {}});
  const Attributes ignored{{"ignored", std::int64_t{-100}}};
  rows.push_back(
      {"softmax_cross_entropy", "sequence", {{R, {2, 7, 5}}, {Fill::labels, {2, 7}}}, {}, 8, true});
  rows.push_back({"softmax_cross_entropy",
                  "ignored",
                  {{R, {2, 7, 5}}, {Fill::labels_or_ignored, {2, 7}}},
                  ignored,
                  8,
                  true});
  rows.push_back({"softmax_cross_entropy",
                  "ignored_rows",
                  {{R, {33, 10}}, {Fill::labels_or_ignored, {33}}},
                  ignored,
                  8,
                  true});
  rows.push_back({"softmax_cross_entropy_gradient",
                  "sequence",
                  {{Fill::softmax, {2, 7, 5}}, {Fill::labels, {2, 7}}, absent},
                  {},
                  8});
  rows.push_back({"softmax_cross_entropy_gradient",
                  "ignored",
                  {{Fill::softmax, {2, 7, 5}}, {Fill::labels_or_ignored, {2, 7}}, {P, {}}},
                  ignored,
                  8});
}

// With one rank, which changes no bit.
void all_reduce(std::vector<OpCase>& rows) {
  rows.push_back({"all_reduce_start", "one", {{R, {41, 1021}}}});
  rows.push_back({"all_reduce_start", "three", {{I, {5, 3}}, {R, {7}}, {I, {2, 3, 4}}}});
  rows.push_back({"all_reduce_wait", "one", {{Fill::bucket}, {R, {37}}}});
  rows.push_back({"all_reduce_wait", "three", {{Fill::bucket}, {R, {300, 257}}, {I, {1000}}, {P, {}}}});
}

void clipping(std::vector<OpCase>& rows) {
  rows.push_back({"global_norm", "one", {{I, {37}}}, {}, 2});
  rows.push_back({"global_norm", "scalar", {{P, {}}}, {}, 2});
  rows.push_back({"global_norm", "three", {{I, {5, 3}}, {R, {7}}, {I, {2, 3, 4}}}, {}, 8});
  rows.push_back({"global_norm", "many", {{R, {300, 257}}, {I, {1000}}, {P, {3}}}, {}, 64});
  rows.push_back({"global_norm", "not_a_number", {{I, {5, 3}}, {Fill::not_a_number, {7}}}, {}, 0});
  rows.push_back({"clip", "down", {{R, {5, 3, 3}}, {P, {}}}, {{"limit", 0.125}}, 4});
  rows.push_back({"clip", "nothing", {{R, {37}}, {P, {}}}, {{"limit", 100.0}}, 0});
  rows.push_back({"clip", "long", {{R, {41, 1021}}, {P, {}}}, {{"limit", 0.25}}, 4});
  // Half of each gradient: the limit over the epsilon. Without the epsilon it would be all of it, or a NaN.
  rows.push_back({"clip", "norm_zero_down", {{R, {37}}, {Fill::zero, {}}}, {{"limit", 5e-7}}, 4});
  rows.push_back({"clip", "norm_zero", {{R, {37}}, {Fill::zero, {}}}, {{"limit", 1.0}}, 0});
  rows.push_back({"clip", "not_a_number", {{R, {5, 7}}, {Fill::not_a_number, {}}}, {{"limit", 1.0}}, 0});
}

}  // namespace

void add_transformer_cases(std::vector<OpCase>& rows) {
  row_norms(rows);
  attentions(rows);
  sequences(rows);
  decoding(rows);
  more_dimensions(rows);
  clipping(rows);
  all_reduce(rows);
}

}  // namespace assay::ops
