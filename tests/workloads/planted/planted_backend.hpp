// The reference with one mistake planted into it, to prove that the check catches such mistakes. For tests
// alone: no backend that is installed links it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/exec/kernel_library.hpp"
#include "harness/worker/backend.hpp"

namespace assay {

// One run of a kernel of the wronged op, in fp32. The mistake calls run() itself, and spoils what goes in or
// comes out.
class PlantedCall {
 public:
  PlantedCall(const Graph& graph, const Node& node, Kernel& kernel);

  // Operands and results as arrays of floats; empty where one is absent.
  std::span<float> in(std::size_t i) const { return values(inputs_, input_types_, i); }
  std::span<float> out(std::size_t i) const { return values(outputs_, output_types_, i); }
  const Shape& in_shape(std::size_t i) const { return input_types_[i].shape; }
  const Attributes& attributes() const { return attributes_; }
  // The kernel reads this instead, in the next run() alone. Borrowed until then.
  void replace(std::size_t i, std::vector<float>& values);
  void run();
  // Kept from run to run of this kernel.
  std::vector<float>& memory() { return memory_; }

  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch);

 private:
  static std::span<float> values(const std::vector<void*>& pointers, const std::vector<TensorType>& types,
                                 std::size_t i) {
    if (i >= pointers.size() || pointers[i] == nullptr) return {};
    return {static_cast<float*>(pointers[i]), static_cast<std::size_t>(types[i].elements())};
  }

  Attributes attributes_;
  std::vector<TensorType> input_types_, output_types_;
  Kernel& kernel_;
  std::vector<void*> inputs_, outputs_, read_;
  void* scratch_ = nullptr;
  std::vector<float> memory_;
};

struct Plant {
  std::string_view name;  // "pool_divisor"
  std::string_view what;  // in words
  std::vector<std::string_view> ops;
  std::function<void(PlantedCall&)> act;
  bool timed_only = false;              // right in the check, wrong in what is timed
  std::string_view optimizer = "adam";  // of a program on which it shows
  double weight_decay = 0;
};

// Every mistake there is.
const std::vector<Plant>& all_plants();
// Throws std::invalid_argument naming those there are.
const Plant& find_plant(std::string_view name);

class PlantedBackend final : public Backend {
 public:
  explicit PlantedBackend(const Plant& plant) : plant_(plant) {}
  BackendInfo info() const override;
  std::string unsupported(const Program& program, const CompileOptions& options) const override;
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override;

 private:
  const Plant& plant_;
};

}  // namespace assay
