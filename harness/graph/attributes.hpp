// The typed constants of a node: kernel size, stride, epsilon.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace assay {

using Attribute = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

// Ordered by name, so that two equal sets print the same text.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<const std::string, Attribute>> values) : values_(values) {}

  bool has(std::string_view name) const;
  // Throws GraphError naming the attribute if it is absent or of another type. An integer can be read as a
  // double.
  template <typename T>
  const T& get(std::string_view name) const;
  double number(std::string_view name) const;
  template <typename T>
  T get_or(std::string_view name, T fallback) const {
    return has(name) ? get<T>(name) : fallback;
  }
  void set(std::string name, Attribute value);
  void erase(std::string_view name);

  const std::map<std::string, Attribute, std::less<>>& values() const { return values_; }
  bool operator==(const Attributes&) const = default;

 private:
  std::map<std::string, Attribute, std::less<>> values_;
};

}  // namespace assay
