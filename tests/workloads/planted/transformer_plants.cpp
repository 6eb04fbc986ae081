#include "tests/workloads/planted/transformer_plants.hpp"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

std::vector<float> copied(std::span<const float> values) { return {values.begin(), values.end()}; }

void use_tanh(PlantedCall& call) {
  const std::vector<float> x = copied(call.in(0));
  call.run();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    call.out(0)[i] =
        static_cast<float>(0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))));
  }
}

// Each key gets the mask of the key before it.
void shift_mask(PlantedCall& call) {
  std::vector<float> mask = copied(call.in(3));
  const auto keys = static_cast<std::ptrdiff_t>(call.in_shape(3).back());
  for (auto row = mask.begin(); row != mask.end(); row += keys) std::rotate(row, row + keys - 1, row + keys);
  call.replace(3, mask);
  call.run();
}

// For a mask that is operand i.
void unmask(PlantedCall& call, std::size_t i) {
  std::vector<float> mask(call.in(i).size(), 0.0f);
  call.replace(i, mask);
  call.run();
}

// y with epsilon added to the deviation, not to the variance.
void move_epsilon(PlantedCall& call) {
  const std::vector<float> x = copied(call.in(0)), scale = copied(call.in(1)), shift = copied(call.in(2));
  call.run();
  const std::size_t width = scale.size();
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < width; ++i) mean += static_cast<double>(x[row + i]);
    mean /= static_cast<double>(width);
    for (std::size_t i = 0; i < width; ++i) variance += std::pow(static_cast<double>(x[row + i]) - mean, 2);
    const double deviation = std::sqrt(variance / static_cast<double>(width)) + trap_epsilon;
    for (std::size_t i = 0; i < width; ++i)
      call.out(0)[row + i] = static_cast<float>((static_cast<double>(x[row + i]) - mean) / deviation *
                                                    static_cast<double>(scale[i]) +
                                                static_cast<double>(shift[i]));
  }
}

void drop(PlantedCall& call, std::size_t operand) {
  std::vector<float> zeros(call.in(operand).size(), 0.0f);
  call.replace(operand, zeros);
  call.run();
}

void couple_decay(PlantedCall& call) {
  const auto decay = static_cast<float>(call.attributes().number("weight_decay"));
  const std::vector<float> old = copied(call.in(1));
  std::vector<float> gradient = copied(call.in(2));
  const float rate = call.in(0)[0];
  for (std::size_t i = 0; i < old.size(); ++i) gradient[i] += decay * old[i];
  call.replace(2, gradient);
  call.run();
  for (std::size_t i = 0; i < old.size(); ++i) call.out(0)[i] += rate * decay * old[i];
}

}  // namespace

const std::vector<Plant>& transformer_plants() {
  static const std::vector<Plant> plants{
      {"gelu_tanh", "the tanh formula of GELU for that with erf", {"gelu"}, use_tanh},
      {"mask_off_by_one", "a mask that is moved by one key", {"attention"}, shift_mask},
      {"unmasked", "padding that attention sees", {"attention"}, [](PlantedCall& call) { unmask(call, 3); }},
      {"padding_counts",
       "a mean that counts padding",
       {"mean_pool"},
       [](PlantedCall& call) { unmask(call, 1); }},
      {"norm_epsilon", "epsilon outside of the root of a layer norm", {"layer_norm"}, move_epsilon},
      {"dropped_shift",
       "a layer norm without its shift",
       {"layer_norm"},
       [](PlantedCall& call) { drop(call, 2); }},
      {"coupled_decay", "the weight decay of AdamW in the gradient", {"adam"}, couple_decay},
      {"unclipped",
       "gradients that are not clipped",
       {"clip"},
       [](PlantedCall& call) {
         const std::vector<float> gradient = copied(call.in(0));
         call.run();
         std::ranges::copy(gradient, call.out(0).begin());
       }},
  };
  return plants;
}

}  // namespace assay
