#include "harness/core/json/type.hpp"

#include <cstring>
#include <utility>

namespace assay {

Integer integer_at(const IntegerType& type, const void* value) {
  const auto read = [&]<typename T>(T number) {
    std::memcpy(&number, value, sizeof(T));
    return number;
  };
  if (type.bytes == 4)
    return type.is_signed ? Integer(std::int64_t{read(std::int32_t{})})
                          : Integer(std::uint64_t{read(std::uint32_t{})});
  return type.is_signed ? Integer(read(std::int64_t{})) : Integer(read(std::uint64_t{}));
}

bool set_integer(const IntegerType& type, Integer number, void* value) {
  const auto write = [&]<typename T>(T) {
    const bool fits = std::visit([](auto from) { return std::in_range<T>(from); }, number);
    const T written = std::visit([](auto from) { return static_cast<T>(from); }, number);
    if (fits) std::memcpy(value, &written, sizeof(T));
    return fits;
  };
  if (type.bytes == 4) return type.is_signed ? write(std::int32_t{}) : write(std::uint32_t{});
  return type.is_signed ? write(std::int64_t{}) : write(std::uint64_t{});
}

bool Type::is_double() const {
  const auto* optional = as<OptionalType>();
  return (optional ? optional->inner : this)->as<DoubleType>() != nullptr;
}

}  // namespace assay
