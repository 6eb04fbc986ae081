// The mistakes: each is one that a backend has made or could make, and that times would never show.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "tests/workloads/planted/planted_backend.hpp"
#include "tests/workloads/planted/transformer_program.hpp"

namespace assay {
namespace {

using Values = std::vector<float>;
using Act = std::function<void(PlantedCall&)>;

Values copied(std::span<const float> values) { return {values.begin(), values.end()}; }

void scale(std::span<float> values, double factor) {
  for (float& value : values) value *= static_cast<float>(factor);
}

// ---- mistakes of any kernel ----

// The kernel reads other values as operand i, if there are any.
void run_with(PlantedCall& call, std::size_t i, Values values) {
  call.replace(i, values);
  call.run();
}

// A change of operand i, of which the kernel reads the result.
Act reads(std::size_t i, void (*change)(PlantedCall&, Values&)) {
  return [=](PlantedCall& call) {
    Values values = copied(call.in(i));
    change(call, values);
    run_with(call, i, std::move(values));
  };
}

Act reads_zeros(std::size_t i) {
  return reads(i, [](PlantedCall&, Values& values) { std::ranges::fill(values, 0.0f); });
}

// A change of result 0, which is of the operand given as well.
Act writes(std::size_t operand,
           void (*change)(PlantedCall&, std::span<const float> old, std::span<float> now)) {
  return [=](PlantedCall& call) {
    const Values old = copied(call.in(operand));
    call.run();
    change(call, old, call.out(0));
  };
}

// Result 0 is an operand.
Act passes(std::size_t operand) {
  return writes(operand, [](PlantedCall&, std::span<const float> old, std::span<float> now) {
    std::ranges::copy(old, now.begin());
  });
}

Act scales(std::size_t result, double factor) {
  return [=](PlantedCall& call) {
    call.run();
    scale(call.out(result), factor);
  };
}

// ---- forward ----

// x moved by one row and one column, as if the padding were (0, 1) instead of (1, 1): what "SAME" means at
// stride 2.
void pad_after_only(PlantedCall& call, Values& x) {
  if (call.attributes().get<std::int64_t>("padding") == 0) return;
  const Shape& shape = call.in_shape(0);
  const auto rows = static_cast<std::size_t>(shape[2]), columns = static_cast<std::size_t>(shape[3]);
  for (auto plane = x.begin(); plane != x.end(); plane += static_cast<std::ptrdiff_t>(rows * columns)) {
    const std::span image(plane, rows * columns);
    for (std::size_t i = 0; i < image.size(); ++i) {
      const bool last = i / columns == rows - 1 || i % columns == columns - 1;
      image[i] = last ? 0 : image[i + columns + 1];
    }
  }
}

void forget_divisor(PlantedCall& call) {
  call.run();
  scale(call.out(0), std::pow(call.attributes().number("kernel"), 2));
}

// A max pool that reads only the first column of each window.
void pool_one_column(PlantedCall& call, std::span<const float> x, std::span<float> y) {
  const auto columns = static_cast<std::size_t>(call.in_shape(0)[3]);
  const auto height = static_cast<std::size_t>(call.in_shape(0)[2]);
  for (std::size_t i = 0, o = 0; i < x.size(); ++i) {
    if (i / columns % height == height - 1 || i % columns == columns - 1) continue;
    y[o++] = std::max(x[i], x[i + columns]);
  }
}

void round_to_tf32(PlantedCall&, Values& weights) {
  for (float& value : weights)
    value = std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & 0xffffe000u);
}

void sum_loss(PlantedCall& call) {
  call.run();
  scale(call.out(0), static_cast<double>(call.in_shape(0)[0]));
}

void skip_last_of_24(PlantedCall& call) {
  call.run();
  if (call.in_shape(0)[0] != 24) return;
  std::ranges::fill(call.out(0).last(call.out(0).size() / 24), 0.0f);
}

void leak(PlantedCall&, std::span<const float> x, std::span<float> y) {
  std::ranges::transform(x, y.begin(), [](float value) { return value < 0 ? 0.01f * value : value; });
}

void use_tanh(PlantedCall&, std::span<const float> x, std::span<float> y) {
  std::ranges::transform(x, y.begin(), [](double v) {
    return static_cast<float>(0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))));
  });
}

// Each key gets the mask of the key before it.
void move_mask(PlantedCall& call, Values& mask) {
  const auto keys = static_cast<std::ptrdiff_t>(call.in_shape(3).back());
  for (auto row = mask.begin(); row != mask.end(); row += keys) std::rotate(row, row + keys - 1, row + keys);
}

// ---- norms ----

bool training(const PlantedCall& call) { return call.attributes().get<bool>("training"); }

// A running statistic after the step, from its old value and that of the batch.
using Recount = double (*)(double old, double batch, double momentum, double count);

Act recounts(std::size_t i, Recount count_again) {
  return [=](PlantedCall& call) {
    const Values old = copied(call.in(i));
    call.run();
    if (!training(call)) return;
    const Shape& shape = call.in_shape(0);
    const double count = static_cast<double>(shape[0] * shape[2] * shape[3]);
    const double momentum = call.attributes().number("momentum");
    const std::span<float> now = call.out(i);
    for (std::size_t c = 0; c < now.size(); ++c) {
      const double batch = (now[c] - momentum * old[c]) / (1 - momentum);
      now[c] = static_cast<float>(count_again(old[c], batch, momentum, count));
    }
  };
}

double kept(double old, double, double, double) { return old; }
double unbiased(double old, double batch, double momentum, double count) {
  return momentum * old + (1 - momentum) * batch * count / (count - 1);
}
double reversed(double old, double batch, double momentum, double) {
  return (1 - momentum) * old + momentum * batch;
}

void raise_epsilon(PlantedCall& call, Values& variance) {
  if (training(call)) return;
  for (float& value : variance) value += 1e-3f - 1e-5f;
}

// y with epsilon added to the deviation, not to the variance.
void move_epsilon(PlantedCall& call, std::span<const float> x, std::span<float> y) {
  const std::span<const float> factor = call.in(1), shift = call.in(2);
  const auto width = static_cast<double>(factor.size());
  for (std::size_t row = 0; row < x.size(); row += factor.size()) {
    const std::span<const float> of_row = x.subspan(row, factor.size());
    const double mean = std::accumulate(of_row.begin(), of_row.end(), 0.0) / width;
    double squares = 0;
    for (const double value : of_row) squares += std::pow(value - mean, 2);
    const double deviation = std::sqrt(squares / width) + trap_epsilon;
    for (std::size_t i = 0; i < of_row.size(); ++i)
      y[row + i] = static_cast<float>((of_row[i] - mean) / deviation * factor[i] + shift[i]);
  }
}

// ---- gradients of weights ----

// The element in the middle by size is a hundredth too large.
void raise_one_element(PlantedCall& call) {
  call.run();
  const std::span<float> values = call.out(0);
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2);
  std::ranges::nth_element(order, middle, {}, [&](std::size_t i) { return std::abs(values[i]); });
  values[*middle] *= 1.01f;
}

// So are the weights of the unit or the filter whose gradient is the smallest that is not zero.
void raise_one_row(PlantedCall& call) {
  call.run();
  const std::span<float> values = call.out(0);
  const std::size_t row = values.size() / static_cast<std::size_t>(call.out_shape(0).front());
  std::span<float> found;
  double least = INFINITY;
  for (std::size_t at = 0; at < values.size(); at += row) {
    double squares = 0;
    for (const double value : values.subspan(at, row)) squares += value * value;
    if (squares > 0 && squares < least) least = squares, found = values.subspan(at, row);
  }
  scale(found, 1.01);
}

// ---- optimizers: operands schedule, parameter, gradient, moments; results parameter, moments ----

void move_twice(PlantedCall&, std::span<const float> old, std::span<float> now) {
  for (std::size_t i = 0; i < now.size(); ++i) now[i] += now[i] - old[i];
}
void move_twice_later(PlantedCall& call, std::span<const float> old, std::span<float> now) {
  if (call.in(0)[1] >= 1.5f) move_twice(call, old, now);
}

void swap_with_memory(PlantedCall& call, Values& gradient) {
  call.memory().resize(gradient.size());
  std::swap(call.memory(), gradient);
}

// The kernel reads this number of a step.
Act counts(float step) {
  return [=](PlantedCall& call) { run_with(call, 0, {call.in(0)[0], step}); };
}

void move_epsilon_inside(PlantedCall& call, std::span<const float> old, std::span<float> now) {
  const double rate = call.in(0)[0], t = call.in(0)[1], epsilon = call.attributes().number("epsilon");
  const double m_share = 1 - std::pow(call.attributes().number("beta1"), t);
  const double v_share = 1 - std::pow(call.attributes().number("beta2"), t);
  for (std::size_t i = 0; i < old.size(); ++i) {
    const double m = call.out(1)[i] / m_share, v = call.out(2)[i] / v_share;
    now[i] = static_cast<float>(old[i] - rate * m / std::sqrt(v + epsilon));
  }
}

// The decay moves from the gradient (by 1) to the update, or from there to the gradient (by -1).
Act moves_decay(float by) {
  return [=](PlantedCall& call) {
    const float decay = by * static_cast<float>(call.attributes().number("weight_decay"));
    const float rate = call.in(0)[0];
    const Values old = copied(call.in(1));
    Values gradient = copied(call.in(2));
    for (std::size_t i = 0; i < old.size(); ++i) gradient[i] -= decay * old[i];
    run_with(call, 2, std::move(gradient));
    for (std::size_t i = 0; i < old.size(); ++i) call.out(0)[i] -= rate * decay * old[i];
  };
}

void decay_biases(PlantedCall& call, Values& gradient) {
  if (call.attributes().number("weight_decay") != 0) return;
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += 0.1f * call.in(1)[i];
}

// v = momentum v + lr g; p -= v
void rate_in_velocity(PlantedCall& call) {
  Values gradient = copied(call.in(2)), schedule{1.0f, call.in(0)[1]};
  scale(gradient, call.in(0)[0]);
  call.replace(0, schedule);
  run_with(call, 2, std::move(gradient));
}

void decay_slowly(PlantedCall& call) {
  const Values old = copied(call.in(3));
  call.run();
  const std::span<float> now = call.out(1);
  for (std::size_t i = 0; i < old.size(); ++i)
    now[i] = 0.99f * old[i] + 0.01f * (now[i] - 0.9f * old[i]) / 0.1f;
}

// ---- caches of task decode ----

// What is written goes to the place after its own.
void write_late(PlantedCall& call, std::span<const float> old, std::span<float> now) {
  const Shape& cache = call.in_shape(0);  // (N, T, G, D)
  const auto width = static_cast<std::size_t>(cache[2] * cache[3]);
  const std::size_t sample = static_cast<std::size_t>(cache[1]) * width;
  const Values written = copied(now);
  const auto is_written = [&](std::size_t at) {
    return !std::ranges::equal(old.subspan(at, width), std::span(written).subspan(at, width));
  };
  for (std::size_t at = 0; at < now.size(); at += width) {
    const bool late = at % sample != 0 && is_written(at - width);
    std::ranges::copy(late ? std::span(written).subspan(at - width, width) : old.subspan(at, width),
                      now.subspan(at, width).begin());
  }
}

void write_token_late(PlantedCall& call, std::span<const float> old, std::span<float> now) {
  if (call.in_shape(1)[1] == 1) write_late(call, old, now);
}

void write_no_token(PlantedCall& call, std::span<const float> old, std::span<float> now) {
  if (call.in_shape(1)[1] == 1) std::ranges::copy(old, now.begin());
}

// Each key gets the mask of the key before it (by 1) or after it (by -1).
Act shifts_mask(int by) {
  return [=](PlantedCall& call) {
    call.run();
    const Values mask = copied(call.out(0));
    const auto last = static_cast<int>(mask.size()) - 1;
    for (int key = 0; key <= last; ++key)
      call.out(0)[static_cast<std::size_t>(key)] =
          mask[static_cast<std::size_t>(std::clamp(key - by, 0, last))];
  };
}

}  // namespace

const std::vector<Plant>& all_plants() {
  using enum PlantedNetwork;
  static const std::vector<std::string_view> optimizers{"adam", "sgd", "rmsprop"},
      weights{"linear_weight_gradient", "convolution_weight_gradient"};
  // clang-format off
  static const std::vector<Plant> plants{
      {"padding", "padding only after the image, like SAME at stride 2", {"convolution"}, reads(0, pad_after_only)},
      {"pool_divisor", "an average pool that does not divide", {"average_pool"}, forget_divisor},
      {"pool_divisor_of_gradient", "the gradient of an average pool that does not divide", {"average_pool_gradient"}, forget_divisor},
      {"max_pool_rounding", "a max pool that reads only the first column of each window", {"max_pool"}, writes(0, pool_one_column)},
      {"tf32", "weights rounded to 10 bits of mantissa under strict fp32", {"linear", "convolution"}, reads(1, round_to_tf32)},
      {"loss_summed", "the loss summed over the batch, not averaged", {"softmax_cross_entropy", "softmax_cross_entropy_gradient"}, sum_loss},
      {"batch_size", "a linear layer that skips the last sample, only at a batch of 24", {"linear"}, skip_last_of_24},
      {"fused_path", "a ReLU that leaks", {"relu"}, writes(0, leak)},
      {"fused_relu", "an op with a ReLU inside that is a hundredth too large", {"convolution", "linear", "add"}, scales(0, 1.01), {.fused_only = true}},

      {"running_statistics", "running statistics that are not updated", {"batch_norm"}, recounts(3, kept)},
      {"unbiased_variance", "the unbiased variance in the running variance", {"batch_norm"}, recounts(4, unbiased)},
      {"momentum_convention", "batch-norm momentum read as the share of the new batch", {"batch_norm"}, recounts(3, reversed)},
      {"batch_norm_epsilon", "epsilon 1e-3 instead of 1e-5 when evaluating", {"batch_norm"}, reads(4, raise_epsilon)},

      {"bias_gradient", "no gradient for a bias", weights, scales(1, 0)},
      {"one_element", "one element of the gradient of each weight, the middle one by size, a hundredth too large", weights, raise_one_element},
      {"one_row", "the gradient of one unit or filter, the smallest, a hundredth too large", weights, raise_one_row},
      {"relu_gradient", "a ReLU that lets every gradient pass", {"relu_gradient"}, passes(1)},
      {"double_gradient", "gradients twice as large, which Adam hides in the update", {"softmax_cross_entropy_gradient"}, scales(0, 2)},

      {"no_update", "parameters that stay", optimizers, passes(1)},
      {"double_update", "an update twice as large", optimizers, writes(1, move_twice)},
      {"stale_gradient", "the gradient of the step before", optimizers, reads(2, swap_with_memory)},
      {"later_steps", "an update twice as large from the second step on", optimizers, writes(1, move_twice_later)},
      {"adam_bias_correction", "Adam without bias correction", {"adam"}, counts(1e9f)},
      {"adam_step_count", "Adam that counts its steps from 0 and never on", {"adam"}, counts(1.0f)},
      {"adam_epsilon", "Adam's epsilon inside the root", {"adam"}, writes(1, move_epsilon_inside)},
      {"decoupled_decay", "weight decay outside of the gradient", {"adam"}, moves_decay(1), {.weight_decay = 0.1}},
      {"bias_decay", "weight decay on biases as well", {"sgd"}, reads(2, decay_biases), {.optimizer = "sgd", .weight_decay = 0.1}},
      {"rate_in_velocity", "the learning rate inside the velocity", {"sgd"}, rate_in_velocity, {.optimizer = "sgd"}},
      {"rmsprop_decay", "a moment of RMSprop that decays as 0.99", {"rmsprop"}, decay_slowly, {.optimizer = "rmsprop"}},

      {"gelu_tanh", "the tanh formula of GELU for that with erf", {"gelu"}, writes(0, use_tanh), {transformer}},
      {"mask_off_by_one", "a mask that is moved by one key", {"attention"}, reads(3, move_mask), {transformer}},
      {"unmasked", "padding that attention sees", {"attention"}, reads_zeros(3), {transformer}},
      {"padding_counts", "a mean that counts padding", {"mean_pool"}, reads_zeros(1), {transformer}},
      {"norm_epsilon", "epsilon outside of the root of a layer norm", {"layer_norm"}, writes(0, move_epsilon), {transformer}},
      {"dropped_shift", "a layer norm without its shift", {"layer_norm"}, reads_zeros(2), {transformer}},
      {"coupled_decay", "the weight decay of AdamW in the gradient", {"adam"}, moves_decay(-1), {transformer}},
      {"unclipped", "gradients that are not clipped", {"clip"}, passes(0), {transformer}},

      {"cache_late", "keys and values that are written one place late", {"cache_write"}, writes(0, write_late), {decoder}},
      {"token_late", "the same of new tokens only", {"cache_write"}, writes(0, write_token_late), {decoder}},
      {"cache_not_written", "new tokens that no later token sees", {"cache_write"}, writes(0, write_no_token), {decoder}},
      {"sees_next_place", "a mask that shows the place after the token", {"cache_mask"}, shifts_mask(1), {decoder}},
      {"hides_itself", "a mask that hides the token from itself", {"cache_mask"}, shifts_mask(-1), {decoder}},
  };
  // clang-format on
  return plants;
}

}  // namespace assay
