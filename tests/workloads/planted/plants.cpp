// The mistakes: each is one that a backend has made or could make, and that times would never show.
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/workloads/planted/planted_backend.hpp"

namespace assay {
namespace {

// ---- forward ----

// x moved by one row and one column, as if the padding were (0, 1) instead of (1, 1): what "SAME" means at
// stride 2.
void pad_after_only(PlantedCall& call) {
  if (call.attributes().get<std::int64_t>("padding") == 0) return call.run();
  const Shape& shape = call.in_shape(0);
  const std::span<float> x = call.in(0);
  std::vector<float> moved(x.size(), 0.0f);
  const auto rows = static_cast<std::size_t>(shape[2]), columns = static_cast<std::size_t>(shape[3]);
  for (std::size_t plane = 0; plane < x.size() / (rows * columns); ++plane) {
    for (std::size_t r = 0; r + 1 < rows; ++r) {
      for (std::size_t c = 0; c + 1 < columns; ++c) {
        moved[(plane * rows + r) * columns + c] = x[(plane * rows + r + 1) * columns + c + 1];
      }
    }
  }
  call.replace(0, moved);
  call.run();
}

void scale(std::span<float> values, float factor) {
  for (float& value : values) value *= factor;
}

void leak(PlantedCall& call) {
  const std::vector<float> x(call.in(0).begin(), call.in(0).end());
  call.run();
  for (std::size_t i = 0; i < x.size(); ++i) call.out(0)[i] = x[i] < 0 ? 0.01f * x[i] : x[i];
}

void round_to_tf32(PlantedCall& call) {
  std::vector<float> rounded(call.in(1).begin(), call.in(1).end());
  for (float& value : rounded) {
    value = std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & 0xffffe000u);
  }
  call.replace(1, rounded);
  call.run();
}

// ---- batch norm ----

bool training(const PlantedCall& call) { return call.attributes().get<bool>("training"); }

// The running statistic after the step, from its old value and that of the batch.
using Recount = double (*)(double old, double batch, double momentum, double count);

void recount(PlantedCall& call, std::size_t operand, std::size_t result, Recount count_again) {
  const std::vector<float> old(call.in(operand).begin(), call.in(operand).end());
  call.run();
  const Shape& shape = call.in_shape(0);
  const double count = static_cast<double>(shape[0] * shape[2] * shape[3]);
  const double momentum = call.attributes().number("momentum");
  const std::span<float> now = call.out(result);
  for (std::size_t c = 0; c < now.size(); ++c) {
    const double batch = (now[c] - momentum * old[c]) / (1 - momentum);
    now[c] = static_cast<float>(count_again(old[c], batch, momentum, count));
  }
}

// ---- optimizers: operands schedule, parameter, gradient, moments; results parameter, moments ----

void move_twice(PlantedCall& call) {
  const std::vector<float> old(call.in(1).begin(), call.in(1).end());
  call.run();
  const std::span<float> now = call.out(0);
  for (std::size_t i = 0; i < now.size(); ++i) now[i] += now[i] - old[i];
}

// The kernel runs with a gradient of the mistake's making.
void with_gradient(PlantedCall& call, std::vector<float> gradient) {
  call.replace(2, gradient);
  call.run();
}

void with_step(PlantedCall& call, float step) {
  std::vector<float> schedule{call.in(0)[0], step};
  call.replace(0, schedule);
  call.run();
}

void epsilon_inside_root(PlantedCall& call) {
  const std::vector<float> old(call.in(1).begin(), call.in(1).end());
  call.run();
  const double rate = call.in(0)[0], t = call.in(0)[1];
  const double m_share = 1 - std::pow(call.attributes().number("beta1"), t);
  const double v_share = 1 - std::pow(call.attributes().number("beta2"), t);
  const double epsilon = call.attributes().number("epsilon");
  for (std::size_t i = 0; i < old.size(); ++i) {
    const double m = call.out(1)[i] / m_share, v = call.out(2)[i] / v_share;
    call.out(0)[i] = static_cast<float>(old[i] - rate * m / std::sqrt(v + epsilon));
  }
}

void decouple_decay(PlantedCall& call) {
  const auto decay = static_cast<float>(call.attributes().number("weight_decay"));
  const std::vector<float> old(call.in(1).begin(), call.in(1).end());
  std::vector<float> gradient(call.in(2).begin(), call.in(2).end());
  const float rate = call.in(0)[0];
  for (std::size_t i = 0; i < old.size(); ++i) gradient[i] -= decay * old[i];
  with_gradient(call, gradient);
  for (std::size_t i = 0; i < old.size(); ++i) call.out(0)[i] -= rate * decay * old[i];
}

void decay_biases(PlantedCall& call) {
  if (call.attributes().number("weight_decay") != 0) return;
  std::vector<float> gradient(call.in(2).begin(), call.in(2).end());
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += 0.1f * call.in(1)[i];
  with_gradient(call, gradient);
}

// v = momentum v + lr g; p -= v
void rate_in_velocity(PlantedCall& call) {
  std::vector<float> gradient(call.in(2).begin(), call.in(2).end());
  const float rate = call.in(0)[0];
  scale(gradient, rate);
  std::vector<float> schedule{1.0f, call.in(0)[1]};
  call.replace(0, schedule);
  with_gradient(call, gradient);
}

}  // namespace

const std::vector<Plant>& all_plants() {
  static const std::vector<Plant> plants{
      {"padding", "padding only after the image, like SAME at stride 2", {"convolution"}, pad_after_only},
      {"pool_divisor",
       "an average pool that does not divide",
       {"average_pool"},
       [](PlantedCall& call) {
         call.run();
         const double kernel = call.attributes().number("kernel");
         scale(call.out(0), static_cast<float>(kernel * kernel));
       }},
      {"pool_divisor_of_gradient",
       "the gradient of an average pool that does not divide",
       {"average_pool_gradient"},
       [](PlantedCall& call) {
         call.run();
         const double kernel = call.attributes().number("kernel");
         scale(call.out(0), static_cast<float>(kernel * kernel));
       }},
      {"max_pool_rounding",
       "a max pool that reads only the first column of each window",
       {"max_pool"},
       [](PlantedCall& call) {
         call.run();
         const std::span<float> x = call.in(0), y = call.out(0);
         const auto columns = static_cast<std::size_t>(call.in_shape(0)[3]);
         const std::size_t rows = x.size() / columns, out_columns = columns - 1;
         const auto height = static_cast<std::size_t>(call.in_shape(0)[2]);
         for (std::size_t r = 0, o = 0; r < rows; ++r) {
           if (r % height == height - 1) continue;
           for (std::size_t c = 0; c < out_columns; ++c) {
             y[o++] = std::max(x[r * columns + c], x[(r + 1) * columns + c]);
           }
         }
       }},
      {"tf32",
       "weights rounded to 10 bits of mantissa under strict fp32",
       {"linear", "convolution"},
       round_to_tf32},
      {"loss_summed",
       "the loss summed over the batch, not averaged",
       {"softmax_cross_entropy", "softmax_cross_entropy_gradient"},
       [](PlantedCall& call) {
         call.run();
         scale(call.out(0), static_cast<float>(call.in_shape(0)[0]));
       }},
      {"batch_size",
       "a linear layer that skips the last sample, only at a batch of 24",
       {"linear"},
       [](PlantedCall& call) {
         call.run();
         if (call.in_shape(0)[0] != 24) return;
         const auto row = static_cast<std::ptrdiff_t>(call.out(0).size() / 24);
         std::fill(call.out(0).end() - row, call.out(0).end(), 0.0f);
       }},
      {"fused_path", "a ReLU that leaks", {"relu"}, leak},
      {"fused_relu",
       "an op with a ReLU inside that is a hundredth too large",
       {"convolution", "linear", "add"},
       [](PlantedCall& call) {
         call.run();
         scale(call.out(0), 1.01f);
       },
       "adam",
       0,
       true},

      {"running_statistics",
       "running statistics that are not updated",
       {"batch_norm"},
       [](PlantedCall& call) {
         if (!training(call)) return call.run();
         recount(call, 3, 3, [](double old, double, double, double) { return old; });
       }},
      {"unbiased_variance",
       "the unbiased variance in the running variance",
       {"batch_norm"},
       [](PlantedCall& call) {
         if (!training(call)) return call.run();
         recount(call, 4, 4, [](double old, double batch, double momentum, double count) {
           return momentum * old + (1 - momentum) * batch * count / (count - 1);
         });
       }},
      {"momentum_convention",
       "batch-norm momentum read as the share of the new batch",
       {"batch_norm"},
       [](PlantedCall& call) {
         if (!training(call)) return call.run();
         recount(call, 3, 3, [](double old, double batch, double momentum, double) {
           return (1 - momentum) * old + momentum * batch;
         });
       }},
      {"batch_norm_epsilon",
       "epsilon 1e-3 instead of 1e-5 when evaluating",
       {"batch_norm"},
       [](PlantedCall& call) {
         if (training(call)) return call.run();
         std::vector<float> variance(call.in(4).begin(), call.in(4).end());
         for (float& value : variance) value += 1e-3f - 1e-5f;
         call.replace(4, variance);
         call.run();
       }},

      {"bias_gradient",
       "no gradient for a bias",
       {"linear_weight_gradient", "convolution_weight_gradient"},
       [](PlantedCall& call) {
         call.run();
         scale(call.out(1), 0);
       }},
      {"relu_gradient",
       "a ReLU that lets every gradient pass",
       {"relu_gradient"},
       [](PlantedCall& call) {
         const std::vector<float> dy(call.in(1).begin(), call.in(1).end());
         call.run();
         std::copy(dy.begin(), dy.end(), call.out(0).begin());
       }},
      {"double_gradient",
       "gradients twice as large, which Adam hides in the update",
       {"softmax_cross_entropy_gradient"},
       [](PlantedCall& call) {
         call.run();
         scale(call.out(0), 2);
       }},

      {"no_update",
       "parameters that stay",
       {"adam", "sgd", "rmsprop"},
       [](PlantedCall& call) {
         const std::vector<float> old(call.in(1).begin(), call.in(1).end());
         call.run();
         std::copy(old.begin(), old.end(), call.out(0).begin());
       }},
      {"double_update", "an update twice as large", {"adam", "sgd", "rmsprop"}, move_twice},
      {"stale_gradient",
       "the gradient of the step before",
       {"adam", "sgd", "rmsprop"},
       [](PlantedCall& call) {
         std::vector<float> now(call.in(2).begin(), call.in(2).end());
         call.memory().resize(now.size());
         std::swap(call.memory(), now);
         with_gradient(call, now);
       }},
      {"later_steps",
       "an update twice as large from the second step on",
       {"adam", "sgd", "rmsprop"},
       [](PlantedCall& call) { call.in(0)[1] < 1.5f ? call.run() : move_twice(call); }},
      {"adam_bias_correction",
       "Adam without bias correction",
       {"adam"},
       [](PlantedCall& call) { with_step(call, 1e9f); }},
      {"adam_step_count",
       "Adam that counts its steps from 0 and never on",
       {"adam"},
       [](PlantedCall& call) { with_step(call, 1.0f); }},
      {"adam_epsilon", "Adam's epsilon inside the root", {"adam"}, epsilon_inside_root},
      {"decoupled_decay", "weight decay outside of the gradient", {"adam"}, decouple_decay, "adam", 0.1},
      {"bias_decay", "weight decay on biases as well", {"sgd"}, decay_biases, "sgd", 0.1},
      {"rate_in_velocity", "the learning rate inside the velocity", {"sgd"}, rate_in_velocity, "sgd"},
      {"rmsprop_decay",
       "a moment of RMSprop that decays as 0.99",
       {"rmsprop"},
       [](PlantedCall& call) {
         const std::vector<float> old(call.in(3).begin(), call.in(3).end());
         call.run();
         for (std::size_t i = 0; i < old.size(); ++i) {
           const float squared = (call.out(1)[i] - 0.9f * old[i]) / 0.1f;
           call.out(1)[i] = 0.99f * old[i] + 0.01f * squared;
         }
       },
       "rmsprop"},
  };
  return plants;
}

}  // namespace assay
