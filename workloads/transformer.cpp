#include "workloads/transformer.hpp"

#include <fmt/format.h>

#include "harness/core/error.hpp"

namespace assay::transformer {
namespace {

// (N, T, width) -> (N, T, heads, width / heads)
ValueId split_heads(GraphBuilder& b, const Form& form, ValueId x) {
  const std::int64_t length = b.graph().value(x).type.shape[1];
  return b.reshape(x, {-1, length, form.heads, form.width / form.heads}, b.graph().value(x).name + ".heads");
}

ValueId attention(GraphBuilder& b, const Form& form, const LayerNames& names, ValueId x, ValueId mask) {
  const ValueId q = split_heads(b, form, linear(b, form, names.query, x, form.width));
  const ValueId k = split_heads(b, form, linear(b, form, names.key, x, form.width));
  const ValueId v = split_heads(b, form, linear(b, form, names.value, x, form.width));
  const std::string name = names.output + ".attention";
  const ValueId y = b.attention(q, k, v, {.causal = form.causal, .mask = mask}, name);
  const std::int64_t length = b.graph().value(x).type.shape[1];
  return linear(b, form, names.output, b.reshape(y, {-1, length, form.width}, name + ".joined"), form.width,
                true);
}

ValueId mlp(GraphBuilder& b, const Form& form, const LayerNames& names, ValueId x) {
  const ValueId up = linear(b, form, names.up, x, form.hidden);
  const ValueId y = b.gelu(up, names.up + ".gelu", form.gelu);
  return linear(b, form, names.down, y, form.width, true);
}

}  // namespace

ValueId linear(GraphBuilder& b, const Form& form, const std::string& name, ValueId x, std::int64_t features,
               bool adds) {
  return b.linear(name, x, features, form.bias, adds ? form.last_initializer : form.initializer);
}

ValueId positions(GraphBuilder& b, const Form& form, const std::string& name, std::int64_t length,
                  std::int64_t rows) {
  if (length > rows)
    throw GraphError(
        fmt::format("[{}] got sequences of {}: it has {} positions; use a shorter "
                    "--sequence-length",
                    b.graph().name(), length, rows));
  const ValueId table = b.parameter(name + ".weight", {rows, form.width}, form.initializer);
  if (b.decoding() && b.decoding()->step)
    return b.apply("embedding", {b.decoding()->position, table}, {}, name).front();
  if (length == rows) return table;
  return b.slice(table, 0, 0, length, name);
}

ValueId pre_norm_layer(GraphBuilder& b, const Form& form, const LayerNames& names, ValueId x) {
  const ValueId mixed = attention(b, form, names, b.layer_norm(names.norm1, x, form.epsilon), none);
  x = b.add(x, mixed, names.output + ".sum");
  return b.add(x, mlp(b, form, names, b.layer_norm(names.norm2, x, form.epsilon)), names.down + ".sum");
}

ValueId post_norm_layer(GraphBuilder& b, const Form& form, const LayerNames& names, ValueId x, ValueId mask) {
  const ValueId mixed = attention(b, form, names, x, mask);
  x = b.layer_norm(names.norm1, b.add(x, mixed, names.output + ".sum"), form.epsilon);
  return b.layer_norm(names.norm2, b.add(x, mlp(b, form, names, x), names.down + ".sum"), form.epsilon);
}

}  // namespace assay::transformer
