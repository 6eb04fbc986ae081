#include "tests/stand_in/dnn_graph.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

namespace assay::stand_in {
namespace {

using Kind = GraphStep::Kind;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

float to_bf16(float value) {
  std::uint16_t narrow = 0;
  store(&narrow, Number::bf16, 0, static_cast<double>(value));
  return static_cast<float>(load(&narrow, Number::bf16, 0));
}

// The values of a graph's tensors while it is computed: each is read once, in row-major order.
class Values {
 public:
  Values(const Pack& pack, const Engine& engine) : pack_(pack), engine_(engine) {}

  const std::vector<float>& of(const GraphTensor& tensor) {
    const auto [found, added] = values_.try_emplace(tensor.uid);
    if (!added) return found->second;
    if (tensor.is_by_value)
      found->second.assign(at(tensor.shaped.count()), static_cast<float>(pack_.numbers.at(tensor.uid)));
    else
      found->second = tensor.shaped.read(pack_.addresses.at(tensor.uid));
    return found->second;
  }
  // An operand of a convolution, as the engine reads it.
  std::vector<float> operand_of(const GraphTensor& tensor) {
    std::vector<float> values = of(tensor);
    if (tensor.shaped.number == Number::f32 && engine_.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE))
      std::ranges::transform(values, values.begin(), to_tf32);
    if (engine_.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) || engine_.is_wrong)
      std::ranges::transform(values, values.begin(), to_bf16);
    return values;
  }
  bool are_wrong() const { return engine_.is_wrong; }
  void set(const GraphTensor& tensor, const std::vector<double>& values) {
    std::vector<float>& kept = values_[tensor.uid];
    kept.assign(values.begin(), values.end());
    if (tensor.is_virtual && tensor.shaped.number == Number::bf16)
      std::ranges::transform(kept, kept.begin(), to_bf16);
    if (tensor.is_virtual) return;
    void* const base = pack_.addresses.at(tensor.uid);
    std::size_t i = 0;
    tensor.shaped.for_each_offset(
        [&](std::int64_t at) { store(base, tensor.shaped.number, at, values[i++]); });
  }

 private:
  const Pack& pack_;
  const Engine& engine_;
  std::map<std::int64_t, std::vector<float>> values_;
};

// The rows of pixels that a convolution multiplies by one weight: `count` products with places in x and y that are
// `step` and 1 apart.
struct Row {
  std::size_t x, step, weight, y, count;
};

// The first and the last of `outputs` outputs whose input begin + output * stride is one of `inputs` inputs.
std::pair<std::int64_t, std::int64_t> range_of(std::int64_t begin, std::int64_t stride, std::int64_t inputs,
                                               std::int64_t outputs) {
  const std::int64_t first = begin >= 0 ? 0 : (-begin + stride - 1) / stride;
  const std::int64_t last = begin >= inputs ? -1 : (inputs - 1 - begin) / stride;
  return {first, std::min(last, outputs - 1)};
}

// Calls body for each row of a convolution.
template <typename Body>
void for_rows(const GraphStep& step, const std::vector<std::int64_t>& x,
              const std::vector<std::int64_t>& weight, const std::vector<std::int64_t>& y, const Body& body) {
  const std::int64_t channels = x[1], height = x[2], width = x[3], filters = y[1], rows = y[2],
                     columns = y[3];
  const std::int64_t of_group = weight[1], filters_of_group = filters / (channels / of_group);
  for (std::int64_t n = 0; n < x[0]; ++n) {
    for (std::int64_t k = 0; k < filters; ++k) {
      for (std::int64_t c = 0; c < of_group; ++c) {
        const std::int64_t channel = k / filters_of_group * of_group + c;
        for (std::int64_t r = 0; r < weight[2]; ++r) {
          const std::int64_t top = r * step.dilation[0] - step.padding[0];
          const auto [first_row, last_row] = range_of(top, step.stride[0], height, rows);
          for (std::int64_t s = 0; s < weight[3]; ++s) {
            const std::int64_t left = s * step.dilation[1] - step.padding[1];
            const auto [first, last] = range_of(left, step.stride[1], width, columns);
            if (last < first) continue;
            for (std::int64_t p = first_row; p <= last_row; ++p) {
              const std::int64_t h = top + p * step.stride[0], w = left + first * step.stride[1];
              body(Row{.x = at(((n * channels + channel) * height + h) * width + w),
                       .step = at(step.stride[1]),
                       .weight = at(((k * of_group + c) * weight[2] + r) * weight[3] + s),
                       .y = at(((n * filters + k) * rows + p) * columns + first),
                       .count = at(last - first + 1)});
            }
          }
        }
      }
    }
  }
}

// The compiler makes faster loops if it knows that the step is 1.
template <typename Loop>
void with_step(std::size_t step, const Loop& loop) {
  if (step == 1) return loop(std::integral_constant<std::size_t, 1>{});
  loop(step);
}

void convolve(const GraphStep& step, Values& values) {
  const std::vector<float> a = values.operand_of(step.a()), b = values.operand_of(step.b());
  std::vector<double> sums(at(step.result().shaped.count()), 0.0);
  const auto product = [](float left, float right) {
    return static_cast<double>(left) * static_cast<double>(right);
  };
  const auto &first = step.a().shaped.dims, &second = step.b().shaped.dims,
             &result = step.result().shaped.dims;
  switch (step.kind) {
    case Kind::forward:
      for_rows(step, first, second, result, [&](const Row& row) {
        double* const y = sums.data() + row.y;
        const float* const x = a.data() + row.x;
        const float weight = b[row.weight];
        with_step(row.step, [&](auto step_of_x) {
          for (std::size_t i = 0; i < row.count; ++i) y[i] += product(x[i * step_of_x], weight);
        });
      });
      break;
    case Kind::input_gradient:
      for_rows(step, result, second, first, [&](const Row& row) {
        double* const x = sums.data() + row.x;
        const float* const y = a.data() + row.y;
        const float weight = b[row.weight];
        with_step(row.step, [&](auto step_of_x) {
          for (std::size_t i = 0; i < row.count; ++i) x[i * step_of_x] += product(y[i], weight);
        });
      });
      break;
    default:
      for_rows(step, first, result, second, [&](const Row& row) {
        double sum = 0;
        const float *const x = a.data() + row.x, *const y = b.data() + row.y;
        with_step(row.step, [&](auto step_of_x) {
          for (std::size_t i = 0; i < row.count; ++i) sum += product(x[i * step_of_x], y[i]);
        });
        sums[row.weight] += sum;
      });
      break;
  }
  values.set(step.result(), sums);
}

constexpr double too_large = 1.125;  // scores of an engine that is wrong

double applied(const GraphStep& step, double a, double b, bool is_wrong) {
  switch (step.mode) {
    case CUDNN_POINTWISE_ADD:
      return a + b;
    case CUDNN_POINTWISE_SUB:
      return (a - b) * (is_wrong ? too_large : 1);
    case CUDNN_POINTWISE_EXP:
      return std::exp(a);
    case CUDNN_POINTWISE_LOG:
      return std::log(a);
    case CUDNN_POINTWISE_IDENTITY:
      return a;
    case CUDNN_POINTWISE_CMP_GE:
      return a >= b ? 1 : 0;
    case CUDNN_POINTWISE_MUL:
      return a * b;
    case CUDNN_POINTWISE_DIV:
      return a / b;
    case CUDNN_POINTWISE_CMP_GT:
      return (is_wrong ? a >= b : a > b) ? 1 : 0;
    case CUDNN_POINTWISE_ABS:
      return std::abs(a);
    case CUDNN_POINTWISE_RELU_FWD:
      return a < 0 ? 0 : std::min(a, step.upper_clip);
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
      return (std::max(step.softplus_beta * a, 0.0) +
              std::log1p(std::exp(-std::abs(step.softplus_beta * a)))) /
             step.softplus_beta;
    default:  // the gradient of softplus, of dy and x
      return a / (1 + std::exp(-step.softplus_beta * b));
  }
}

void apply(const GraphStep& step, Values& values) {
  const std::vector<std::int64_t>& shape = step.result().shaped.dims;
  struct Operand {
    const std::vector<float>* values;
    Shaped dense;  // they lie in row-major order
    bool is_by_value;
  };
  std::vector<Operand> operands;
  for (const GraphTensor& tensor : step.operands) {
    if (step.mode == CUDNN_POINTWISE_GEN_INDEX) break;  // only its shape matters
    Shaped dense{Number::f32, tensor.shaped.dims, std::vector<std::int64_t>(shape.size(), 1)};
    for (std::size_t d = shape.size() - 1; d > 0; --d)
      dense.strides[d - 1] = dense.strides[d] * dense.dims[d];
    operands.push_back({&values.of(tensor), std::move(dense), tensor.is_by_value});
  }
  const auto read = [&](std::size_t operand, std::int64_t element) {
    const Operand& from = operands[operand];
    const std::int64_t place = from.is_by_value ? 0 : from.dense.offset_in(shape, element);
    return static_cast<double>((*from.values)[at(place)]);
  };
  // The index of an element along the step's axis.
  const auto index = [&](std::int64_t element) {
    for (std::size_t d = shape.size() - 1; d > at(step.axis); --d) element /= shape[d];
    return static_cast<double>(element % shape[at(step.axis)]);
  };
  std::vector<double> results;
  for (std::int64_t i = 0; i < step.result().shaped.count(); ++i) {
    if (step.mode == CUDNN_POINTWISE_GEN_INDEX)
      results.push_back(index(i));
    else if (step.mode == CUDNN_POINTWISE_BINARY_SELECT)
      results.push_back(read(read(2, i) != 0 ? 0 : 1, i));
    else
      results.push_back(applied(step, read(0, i), operands.size() > 1 ? read(1, i) : 0, values.are_wrong()));
  }
  values.set(step.result(), results);
}

void multiply(const GraphStep& step, Values& values) {
  const std::vector<float>&a = values.of(step.a()), &b = values.of(step.b());
  const auto &left = step.a().shaped.dims, &right = step.b().shaped.dims, &to = step.result().shaped.dims;
  const std::int64_t rows = to[2], columns = to[3], terms = left[3];
  std::vector<double> sums;
  for (std::int64_t n = 0; n < to[0]; ++n) {
    for (std::int64_t h = 0; h < to[1]; ++h) {
      const float* const of_a = a.data() + (n * left[1] + h / (to[1] / left[1])) * rows * terms;
      const float* const of_b = b.data() + (n * right[1] + h / (to[1] / right[1])) * terms * columns;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < terms; ++k)
            sum += static_cast<double>(of_a[i * terms + k]) * static_cast<double>(of_b[k * columns + j]);
          sums.push_back(sum);
        }
      }
    }
  }
  values.set(step.result(), sums);
}

// Each dimension of the result divides that of the operand: neighbours are combined.
void reduce(const GraphStep& step, Values& values) {
  const std::vector<float>& x = values.of(step.a());
  const auto &from = step.a().shaped.dims, &to = step.result().shaped.dims;
  std::vector<double> results(at(step.result().shaped.count()), step.is_maximum ? -INFINITY : 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int64_t element = static_cast<std::int64_t>(i), place = 0, stride = 1;
    for (std::size_t d = from.size(); d-- > 0; element /= from[d], stride *= to[d])
      place += element % from[d] / (from[d] / to[d]) * stride;
    double& result = results[at(place)];
    result =
        step.is_maximum ? std::max(result, static_cast<double>(x[i])) : result + static_cast<double>(x[i]);
  }
  values.set(step.result(), results);
}

void transpose(const GraphStep& step, Values& values) {
  const std::vector<float>& x = values.of(step.a());
  const std::size_t rows = at(step.a().shaped.dims[2]), columns = at(step.a().shaped.dims[3]);
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
    y[(matrix * columns + column) * rows + row] = static_cast<double>(x[i]);
  }
  values.set(step.result(), y);
}

void attend(const GraphStep& step, Values& values) {
  const std::vector<float>&q = values.of(step.a()), &k = values.of(step.b()),
        &v = values.of(step.operands[2]);
  const double scale =
      static_cast<double>(values.of(step.operands[3]).front()) * (values.are_wrong() ? too_large : 1);
  const auto &queries = step.a().shaped.dims, &keys = step.b().shaped.dims;
  const std::size_t depth = at(queries[3]), count = at(keys[2]);
  std::vector<double> y, logsumexp, weights(count);
  for (std::int64_t row = 0; row < queries[0] * queries[1] * queries[2]; ++row) {
    const std::int64_t stack = row / queries[2], sample = stack / queries[1], head = stack % queries[1];
    const std::size_t first = at(sample * keys[1] + head / (queries[1] / keys[1])) * count * depth;
    const auto product = [&](std::size_t j) {
      double sum = 0;
      for (std::size_t d = 0; d < depth; ++d)
        sum += static_cast<double>(q[at(row) * depth + d]) * static_cast<double>(k[first + j * depth + d]);
      return scale * sum;
    };
    double largest = -INFINITY, sum = 0;
    for (std::size_t j = 0; j < count; ++j) largest = std::max(largest, weights[j] = product(j));
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    logsumexp.push_back(largest + std::log(sum));
    for (std::size_t d = 0; d < depth; ++d) {
      double weighted = 0;
      for (std::size_t j = 0; j < count; ++j)
        weighted += static_cast<double>(to_bf16(static_cast<float>(weights[j] / sum))) *
                    static_cast<double>(v[first + j * depth + d]);
      y.push_back(weighted);
    }
  }
  values.set(step.results[0], y);
  if (step.results.size() > 1) values.set(step.results[1], logsumexp);
}

// The elements of each channel, in row-major order of (N, C, H, W).
struct Images {
  std::size_t samples, channels, pixels;
  explicit Images(const Shaped& x)
      : samples(at(x.dims[0])), channels(at(x.dims[1])), pixels(at(x.dims[2] * x.dims[3])) {}
  double count() const { return static_cast<double>(samples * pixels); }
  template <typename Body>
  void for_each(std::size_t channel, const Body& body) const {
    for (std::size_t n = 0; n < samples; ++n) {
      const std::size_t first = (n * channels + channel) * pixels;
      for (std::size_t i = first; i < first + pixels; ++i) body(i);
    }
  }
};

void normalise(const GraphStep& step, Values& values) {
  const std::vector<float> x = values.operand_of(step.a()), &scale = values.of(step.b()),
                           &bias = values.of(step.operands[2]);
  const auto epsilon = static_cast<double>(values.of(step.operands[3]).front());
  const Images images(step.a().shaped);
  std::vector<double> y(x.size()), means, inverses;
  for (std::size_t c = 0; c < images.channels; ++c) {
    double mean = 0, variance = 0;
    images.for_each(c, [&](std::size_t i) { mean += static_cast<double>(x[i]) / images.count(); });
    images.for_each(c, [&](std::size_t i) {
      variance += std::pow(static_cast<double>(x[i]) - mean, 2) / images.count();
    });
    const double inverse = 1 / std::sqrt(variance + epsilon);
    images.for_each(c, [&](std::size_t i) {
      y[i] = (static_cast<double>(x[i]) - mean) * inverse * static_cast<double>(scale[c]) +
             static_cast<double>(bias[c]);
    });
    means.push_back(mean);
    inverses.push_back(inverse);
  }
  values.set(step.results[0], y);
  values.set(step.results[1], means);
  values.set(step.results[2], inverses);
}

void differentiate_norm(const GraphStep& step, Values& values) {
  const std::vector<float> dy = values.operand_of(step.a()), &x = values.of(step.b()),
                           &scale = values.of(step.operands[2]), &mean = values.of(step.operands[3]),
                           &inverse = values.of(step.operands[4]);
  const Images images(step.b().shaped);
  std::vector<double> dx(x.size()), dscale, dbias;
  for (std::size_t c = 0; c < images.channels; ++c) {
    const auto h = [&](std::size_t i) {
      return (static_cast<double>(x[i]) - static_cast<double>(mean[c])) * static_cast<double>(inverse[c]);
    };
    double sum = 0, weighted = 0;
    images.for_each(c, [&](std::size_t i) {
      sum += static_cast<double>(dy[i]);
      weighted += static_cast<double>(dy[i]) * h(i);
    });
    images.for_each(c, [&](std::size_t i) {
      dx[i] = static_cast<double>(scale[c]) * static_cast<double>(inverse[c]) *
              (static_cast<double>(dy[i]) - (sum + h(i) * weighted) / images.count());
    });
    dscale.push_back(weighted);
    dbias.push_back(sum);
  }
  values.set(step.results[0], dx);
  values.set(step.results[1], dscale);
  values.set(step.results[2], dbias);
}

bool is_channels_last(const Shaped& image) { return image.dims[1] == 1 || image.strides[1] == 1; }

bool is_norm(const GraphStep& step) { return step.kind == Kind::norm || step.kind == Kind::norm_gradient; }
bool has_norm(const DnnGraph& graph) { return std::ranges::any_of(graph.steps, is_norm); }

// As of cuDNN: only with the channels last, and a mask is of the result of a ReLU.
bool has_engines_for_norm(const DnnGraph& graph) {
  for (std::size_t s = 0; s < graph.steps.size(); ++s) {
    const GraphStep& step = graph.steps[s];
    if (is_norm(step) && !is_channels_last(step.a().shaped)) return false;
    const bool compares = step.kind == Kind::pointwise && step.mode == CUDNN_POINTWISE_CMP_GT;
    if (compares && (s == 0 || graph.steps[s - 1].mode != CUDNN_POINTWISE_RELU_FWD ||
                     graph.steps[s - 1].result().uid != step.a().uid))
      return false;
  }
  return true;
}

bool is_score(const GraphStep& step) { return step.kind == Kind::product || step.kind == Kind::attention; }

// As of cuDNN: in bf16, with heads of a multiple of eight, up to 128. Intermediate results are f32.
bool has_engines_for_attention(const DnnGraph& graph) {
  const GraphStep& first = *std::ranges::find_if(graph.steps, is_score);
  const std::int64_t depth = first.a().shaped.dims[3];
  const auto is_wide = [](const GraphTensor& tensor) {
    return !tensor.is_virtual && !tensor.is_by_value && tensor.shaped.number != Number::bf16;
  };
  const bool narrow = std::ranges::none_of(graph.steps, [&](const GraphStep& step) {
    return is_score(step) && std::ranges::any_of(step.operands, is_wide);
  });
  return narrow && depth % 8 == 0 && depth <= 128;
}

// As of cuDNN: no engine for bf16 operands with a result of another type, none for an epilogue in f32 without tensor
// cores, and none for an epilogue in bf16 unless the channels are last.
bool has_engines(const DnnGraph& graph) {
  if (has_norm(graph)) return has_engines_for_norm(graph);
  if (has_attention(graph)) return has_engines_for_attention(graph);
  const GraphStep& first = graph.steps.front();
  if (first.kind == Kind::pointwise) return true;
  const GraphTensor& result = graph.steps.back().result();
  const Number operands = first.a().shaped.number;
  if (operands != result.shaped.number) return false;
  return graph.steps.size() == 1 || operands == Number::f32 || is_channels_last(first.a().shaped);
}

}  // namespace

bool has_attention(const DnnGraph& graph) { return std::ranges::any_of(graph.steps, is_score); }

bool Engine::has(cudnnBackendNumericalNote_t note) const { return std::ranges::count(numerical, note) > 0; }
bool Engine::is_compiled_at_run_time() const {
  return std::ranges::count(behavior, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) > 0;
}

// Engines that a caller has to refuse are among them: too large, of less precision, or impossible to build. The
// fastest is not the first, and needs a larger workspace; the one after it a larger one still.
std::vector<Engine> engines_of(const DnnGraph& graph, cudnnBackendHeurMode_t mode) {
  if (!has_engines(graph)) return {};
  const std::vector compiled{CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION};
  if (has_norm(graph)) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK) return {};
    std::vector<Engine> norms{
        {.index = 80, .behavior = compiled, .can_be_built = false},
        {.index = 81, .behavior = compiled, .workspace_bytes = 700, .microseconds = 1.5},
        {.index = 82, .behavior = compiled, .workspace_bytes = 5212, .microseconds = 1},
    };
    if (machine().conditions.has_wrong_engines)
      norms.insert(norms.begin(), {.index = 67, .microseconds = 0.5, .is_wrong = true});
    return norms;
  }
  if (has_attention(graph)) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK) return {};
    // Faster than one launch of our own, which a small attention is.
    std::vector<Engine> attentions{
        {.index = 90, .can_be_built = false},
        {.index = 91, .behavior = compiled, .workspace_bytes = 256, .microseconds = -0.2},
        {.index = 92, .workspace_bytes = 4096, .microseconds = -0.5},
    };
    if (machine().conditions.has_wrong_engines)
      attentions.insert(attentions.begin(), {.index = 68, .microseconds = -0.75, .is_wrong = true});
    return attentions;
  }
  if (graph.steps.front().kind == Kind::pointwise) {
    if (mode == CUDNN_HEUR_MODE_FALLBACK) return {};
    return {{.index = 70, .behavior = compiled, .workspace_bytes = 16}};
  }
  std::vector<Engine> all{
      {.index = 47,
       .numerical = {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
       .microseconds = 1},
      {.index = 40, .can_be_built = false},
      {.index = 28,
       .numerical = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE},
       .behavior = compiled,
       .workspace_bytes = 1000,
       .microseconds = 8},
      {.index = 1, .workspace_bytes = 513},
      {.index = 5, .numerical = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, .workspace_bytes = 10000},
      {.index = 34,
       .numerical = {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4},
       .workspace_bytes = 3000},
      {.index = 6, .workspace_bytes = std::int64_t{1} << 31, .microseconds = 1},
      {.index = 2, .workspace_bytes = 20001, .microseconds = 5},
      {.index = 7, .behavior = compiled, .workspace_bytes = 40000},
  };
  if (machine().conditions.has_wrong_engines)
    all.push_back({.index = 66, .microseconds = 2, .is_wrong = true});
  if (mode == CUDNN_HEUR_MODE_FALLBACK) all = {{.index = 0, .workspace_bytes = 60000, .microseconds = 100}};
  if (graph.steps.size() > 1 && graph.steps.front().a().shaped.number == Number::f32)
    std::erase_if(all, [](const Engine& engine) { return !engine.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE); });
  return all;
}

void compute(const Plan& plan, const Pack& pack) {
  machine().microseconds += plan.engine.microseconds;
  constexpr const char* user = "a plan of cuDNN";
  bool is_there = true;
  for (const GraphStep& step : plan.graph->steps) {
    step.for_each_tensor([&](const GraphTensor& tensor) {
      if (tensor.is_virtual || tensor.is_by_value || !is_there) return;
      is_there = check_range(pack.addresses.at(tensor.uid), tensor.shaped.bytes(), user);
    });
  }
  if (!is_there) return;
  spoil_workspace(pack.workspace, plan.engine.workspace_bytes, user);
  Values values(pack, plan.engine);
  for (const GraphStep& step : plan.graph->steps) {
    switch (step.kind) {
      case Kind::pointwise:
        apply(step, values);
        break;
      case Kind::norm:
        normalise(step, values);
        break;
      case Kind::norm_gradient:
        differentiate_norm(step, values);
        break;
      case Kind::product:
        multiply(step, values);
        break;
      case Kind::reduction:
        reduce(step, values);
        break;
      case Kind::transposition:
        transpose(step, values);
        break;
      case Kind::attention:
        attend(step, values);
        break;
      default:
        convolve(step, values);
    }
  }
}

}  // namespace assay::stand_in
