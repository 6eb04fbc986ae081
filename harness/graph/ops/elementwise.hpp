// The shape rule of elementwise ops: operands and result have one shape and one type.
#pragma once

#include <string>
#include <vector>

#include "harness/graph/ops/rules.hpp"

namespace assay {

// An activation's gradient uses this class directly; an op that has a gradient derives from it.
class Elementwise : public Op {
 public:
  // A multiplication, a division, a comparison and a function such as exp count one operation each.
  Elementwise(std::string name, std::string contract, std::vector<std::string> operands, std::string result,
              double flops_per_element, std::vector<InPlace> in_place)
      : name_(std::move(name)),
        contract_(std::move(contract)),
        operands_(std::move(operands)),
        result_(std::move(result)),
        flops_per_element_(flops_per_element),
        in_place_(std::move(in_place)) {}

  std::string_view name() const override { return name_; }
  std::string_view contract() const override { return contract_; }
  std::vector<Operand> operands() const override {
    std::vector<Operand> all;
    for (const std::string& operand : operands_) all.push_back({operand, false, Kind::any});
    return all;
  }
  std::vector<Result> results() const override { return {{result_}}; }
  std::vector<TensorType> infer(const Attributes&, std::span<const TensorType> inputs,
                                const std::vector<bool>& present) const override {
    const Operands in(*this, inputs, present);
    in.floating(0);
    for (std::size_t i = 1; i < inputs.size(); ++i) in.same_type(i, 0);
    return {inputs[0]};
  }
  double flops(const Attributes&, std::span<const TensorType> inputs,
               std::span<const TensorType>) const override {
    return flops_per_element_ * static_cast<double>(inputs[0].elements());
  }
  std::vector<InPlace> in_place() const override { return in_place_; }

 private:
  std::string name_, contract_;
  std::vector<std::string> operands_;
  std::string result_;
  double flops_per_element_;
  std::vector<InPlace> in_place_;
};

}  // namespace assay
