// Mistakes in an update, in running statistics and in constants: those of tests/mutants/wrong_updates.py.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/mutants/wrong.hpp"

namespace assay::mutants {

class HasNoEpsilon : public Wrong {
  Program changed(const Program& given) const override {
    Program other = given;
    other.optimizer.epsilon = 1e-15;
    return other;
  }
};

class HasAnotherBeta2 : public Wrong {
  Program changed(const Program& given) const override {
    Program other = given;
    other.optimizer.beta2 = 0.99;
    return other;
  }
};

class DecouplesItsDecay : public Wrong {
  Program changed(const Program& given) const override {
    Program other = given;
    other.optimizer.kind = "adamw";
    return other;
  }
};

class DoesNotDecay : public Wrong {
  Program changed(const Program& given) const override {
    Program other = given;
    other.optimizer.weight_decay = 0;
    return other;
  }
};

class DecaysBiases : public Rewritten {
  void rewrite(State& after) override {
    for (const std::string& name : parameters()) {
      if (!is_bias(name)) continue;
      const std::vector<double> g = gradient(name, after);
      const std::span<const float> p = elements(before_, name);
      adam(after, name, [&](std::size_t i) { return std::optional(g[i] + rule().weight_decay * p[i]); });
    }
  }
};

class KeepsTheRateOfTheThirdStep : public SinceTheState {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    if (++since_ <= 3) kept_ = rate;
    right->step(slot, kept_, number);
  }
  double kept_ = 0;
};

class NeverCorrectsItsBias : public Wrong {
  void step(std::int64_t slot, double rate, std::int64_t number) override {
    right->step(slot, rate, number + 1'000'000);
  }
};

class KeepsSquaresInBf16 : public Rewritten {
  void rewrite(State& after) override {
    for (HostTensor& tensor : after) {
      if (!tensor.name.ends_with(".v")) continue;
      for (float& x : tensor.as<float>()) x = rounded(x, 7);
    }
  }
};

class DividesByTheLargestSquare : public Rewritten {
  void set_state(std::span<const HostTensor> tensors) override {
    largest_.clear();
    Rewritten::set_state(tensors);
  }
  void rewrite(State& after) override {
    for (const std::string& name : parameters()) {
      const std::span<const float> m = elements(after, name + ".m"), v = elements(after, name + ".v"),
                                   old = elements(before_, name);
      const std::span<float> p = elements(after, name);
      std::vector<float>& largest = largest_[name];
      largest.resize(v.size());
      for (std::size_t i = 0; i < v.size(); ++i) {
        largest[i] = std::max(largest[i], v[i]);
        p[i] = static_cast<float>(old[i] - moved(m[i], largest[i]));
      }
    }
  }
  std::map<std::string, std::vector<float>> largest_;
};

class RoundsGradients : public Rewritten {
 public:
  explicit RoundsGradients(int bits = 7) : bits_(bits) {}

 private:
  void rewrite(State& after) override {
    for (const std::string& name : parameters()) {
      const std::vector<double> g = gradient(name, after);
      adam(after, name,
           [&](std::size_t i) { return std::optional<double>(rounded(static_cast<float>(g[i]), bits_)); });
    }
  }
  int bits_;
};

class RoundsGradientsLess : public RoundsGradients {
 public:
  RoundsGradientsLess() : RoundsGradients(10) {}
};

class ZeroesFaintGradients : public Rewritten {
  void rewrite(State& after) override {
    for (const std::string& name : parameters()) {
      const std::vector<double> g = gradient(name, after);
      double largest = 0;
      for (const double x : g) largest = std::max(largest, std::abs(x));
      adam(after, name, [&](std::size_t i) {
        return std::abs(g[i]) < 1e-4 * largest ? std::optional(0.0) : std::nullopt;
      });
    }
  }
};

class DropsTheGradientOfABias : public Rewritten {
  void rewrite(State& after) override {
    std::string last;
    for (const std::string& name : parameters())
      if (is_bias(name)) last = name;
    adam(after, last, [](std::size_t) { return std::optional(0.0); });
  }
};

class FreezesItsFirstLayer : public Rewritten {
  void rewrite(State& after) override {
    if (since_ <= 3) return;
    const std::vector<std::string> all = parameters();
    for (HostTensor& tensor : after) {
      if (tensor.name.starts_with(all.at(0)) || tensor.name.starts_with(all.at(1)))
        std::ranges::copy(elements(before_, tensor.name), tensor.as<float>().begin());
    }
  }
};

// The program with another number as attribute of its batch norms.
template <typename F>
Program with_norms(const Program& given, const char* attribute, F change) {
  nlohmann::json json = to_json(given);
  for (const char* graph : {"training", "inference"}) {
    for (nlohmann::json& node : json[graph]["nodes"]) {
      if (node["op"] != "batch_norm") continue;
      nlohmann::json& number = node["attributes"][attribute];
      number = change(number.get<double>());
    }
  }
  return program_from_json(json);
}

class RaisesTheEpsilonOfNorms : public Wrong {
  Program changed(const Program& given) const override {
    return with_norms(given, "epsilon", [](double known) { return 10 * known; });
  }
};

class ReversesTheMomentumOfNorms : public Wrong {
  Program changed(const Program& given) const override {
    return with_norms(given, "momentum", [](double known) { return 1 - known; });
  }
};

class KeepsRunningStatistics : public Rewritten {
  void rewrite(State& after) override {
    if (steps_ <= 3) return;
    for (const std::string& name : names(Role::state))
      std::ranges::copy(elements(before_, name), elements(after, name).begin());
  }
};

}  // namespace assay::mutants
