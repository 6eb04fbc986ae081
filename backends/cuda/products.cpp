#include "backends/cuda/products.hpp"

#include <fmt/format.h>

namespace assay::cuda {
namespace {

std::string axis_text(const ConvolutionAxis& axis) {
  return fmt::format("{}+{}/{}*{}", axis.before, axis.after, axis.stride, axis.dilation);
}

// The flags that are set: " bias relu".
std::string flags(std::initializer_list<std::pair<bool, const char*>> named) {
  std::string text;
  for (const auto& [set, name] : named)
    if (set) (text += " ") += name;
  return text;
}

}  // namespace

std::string text_of(const MatmulSpec& spec) {
  return fmt::format("product {}({}{}, {}) x ({}{}, {}), rows {} {} {}, strides {} {} {}, {} to {}{}",
                     spec.batch > 1 ? fmt::format("{} of ", spec.batch) : "", spec.m, spec.ta ? "'" : "",
                     spec.k, spec.k, spec.tb ? "'" : "", spec.n, spec.lda, spec.ldb, spec.ldc, spec.stride_a,
                     spec.stride_b, spec.stride_c, to_string(spec.operands), to_string(spec.result),
                     flags({{spec.accumulate, "accumulated"},
                            {spec.added, "added"},
                            {spec.bias, "bias"},
                            {spec.relu, "relu"},
                            {spec.tf32, "tf32"},
                            {spec.bare, "bare"}}));
}

std::string text_of(const ConvolutionSpec& spec) {
  using Kind = ConvolutionSpec::Kind;
  return fmt::format("{} x ({}, {}, {}, {}), weight ({}, {}, {}, {}), y ({}, {}), {} {}, {} to {}{}",
                     spec.kind == Kind::forward          ? "convolution"
                     : spec.kind == Kind::input_gradient ? "convolution_input_gradient"
                                                         : "convolution_weight_gradient",
                     spec.n, spec.c, spec.h, spec.w, spec.k, spec.c / spec.groups, spec.r, spec.s, spec.p,
                     spec.q, axis_text(spec.rows), axis_text(spec.columns), to_string(spec.operands),
                     to_string(spec.result),
                     flags({{spec.channels_last, "channels_last"},
                            {spec.bias, "bias"},
                            {spec.relu, "relu"},
                            {spec.tf32, "tf32"},
                            {spec.deterministic, "deterministic"},
                            {spec.bare, "bare"}}));
}

std::string text_of(const NormSpec& spec) {
  using Kind = NormSpec::Kind;
  using Gate = NormSpec::Gate;
  return fmt::format("{} ({}, {}, {}, {}) {}{}{}",
                     spec.kind == Kind::gradient  ? "batch_norm_gradient"
                     : spec.kind == Kind::forward ? "batch_norm"
                                                  : "batch_norm in inference",
                     spec.n, spec.c, spec.h, spec.w, to_string(spec.operands),
                     spec.kind == Kind::gradient ? "" : fmt::format(", epsilon {}", spec.epsilon),
                     flags({{spec.channels_last, "channels_last"},
                            {spec.added, "added"},
                            {spec.relu, "relu"},
                            {spec.mask || spec.gate == Gate::mask, "mask"},
                            {spec.gate == Gate::activated, "activated"},
                            {spec.gate == Gate::recomputed, "recomputed"},
                            {spec.total, "total"},
                            {spec.deterministic, "deterministic"}}));
}

void find_parts(const AttentionSpec& spec, AttentionOperands& operands) {
  const std::int64_t of_q = spec.heads * spec.depth * size_of(spec.operands),
                     of_k = spec.groups * spec.depth * size_of(spec.operands);
  const auto* const q = static_cast<const std::byte*>(operands.q);
  operands.k = q + of_q;
  operands.v = q + of_q + of_k;
  if (operands.dq == nullptr) return;
  auto* const dq = static_cast<std::byte*>(operands.dq);
  operands.dk = dq + of_q;
  operands.dv = dq + of_q + of_k;
}

std::string text_of(const AttentionSpec& spec) {
  const std::string mask = spec.has_mask() ? fmt::format(", mask ({}, {}, {})", spec.mask_samples,
                                                         spec.mask_heads, spec.mask_queries)
                                           : "";
  return fmt::format("{} ({}, {}, {}, {}) on ({}, {}) {}, scale {}{}{}",
                     spec.kind == AttentionSpec::Kind::gradient ? "attention_gradient" : "attention",
                     spec.samples, spec.queries, spec.heads, spec.depth, spec.keys, spec.groups,
                     to_string(spec.operands), spec.scale, mask,
                     flags({{spec.causal, "causal"},
                            {spec.joined, "joined"},
                            {spec.saved, "saved"},
                            {spec.tf32, "tf32"},
                            {spec.deterministic, "deterministic"},
                            {spec.bare, "bare"}}));
}

std::string text_of(const LstmSpec& spec) {
  return fmt::format("lstm {} x {}, {} to {}, {}{}", spec.samples, spec.steps, spec.features, spec.units,
                     to_string(spec.operands),
                     flags({{spec.last, "last"},
                            {spec.training, "training"},
                            {spec.tf32, "tf32"},
                            {spec.deterministic, "deterministic"},
                            {spec.bare, "bare"}}));
}

}  // namespace assay::cuda
