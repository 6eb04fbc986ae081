#include "tests/workloads/planted/plain_operand.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace assay {

PlainOperand::PlainOperand(const TensorType& type, const Format& format, KernelLibrary& library)
    : type_(type) {
  const Format plain = library.plain(type);
  plain_ = format == plain;
  values_ = Storage(type.bytes(), "a planted operand");
  if (plain_) return;
  to_plain_ = library.reorder(type, format, plain);
  from_plain_ = library.reorder(type, plain, format);
  replacement_ = Storage(format.bytes, "a replaced operand");
}

std::span<float> PlainOperand::values() const {
  if (values_.data() == nullptr || pointer_ == nullptr) return {};
  return {static_cast<float*>(values_.data()), static_cast<std::size_t>(type_.elements())};
}

void PlainOperand::move(Kernel& reorder, void* from, void* to) {
  const std::array in{from}, out{to};
  reorder.bind(in, out, nullptr);
  reorder.run();
}

void PlainOperand::load() {
  const std::span<float> values = this->values();
  if (values.empty()) return;
  if (plain_) {
    std::memcpy(values.data(), pointer_, values.size_bytes());
  } else {
    move(*to_plain_, pointer_, values.data());
  }
}

void PlainOperand::store() {
  const std::span<float> values = this->values();
  if (values.empty()) return;
  if (plain_) {
    std::memcpy(pointer_, values.data(), values.size_bytes());
  } else {
    move(*from_plain_, values.data(), pointer_);
  }
}

void PlainOperand::replace(std::span<const float> values) {
  if (this->values().empty()) return;
  Storage plain(type_.bytes(), "a replacement");
  std::memcpy(plain.data(), values.data(),
              std::min(values.size_bytes(), static_cast<std::size_t>(type_.bytes())));
  if (plain_) {
    replacement_ = std::move(plain);
  } else {
    move(*from_plain_, plain.data(), replacement_.data());
  }
  replaced_ = true;
}

}  // namespace assay
