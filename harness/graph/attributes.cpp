#include "harness/graph/attributes.hpp"

#include <fmt/format.h>

#include <array>

#include "harness/core/error.hpp"

namespace assay {
namespace {

constexpr std::array<std::string_view, 5> type_names{"a boolean", "an integer", "a number", "a string",
                                                     "a list of integers"};

const Attribute& lookup(const std::map<std::string, Attribute, std::less<>>& values, std::string_view name) {
  const auto found = values.find(name);
  if (found == values.end()) throw GraphError(fmt::format("attribute '{}' is missing", name));
  return found->second;
}

}  // namespace

bool Attributes::has(std::string_view name) const { return values_.find(name) != values_.end(); }

template <typename T>
const T& Attributes::get(std::string_view name) const {
  const Attribute& value = lookup(values_, name);
  if (const T* typed = std::get_if<T>(&value)) return *typed;
  throw GraphError(fmt::format("attribute '{}' is {}, not {}", name, type_names.at(value.index()),
                               type_names.at(Attribute(T{}).index())));
}

template const bool& Attributes::get(std::string_view) const;
template const std::int64_t& Attributes::get(std::string_view) const;
template const double& Attributes::get(std::string_view) const;
template const std::string& Attributes::get(std::string_view) const;
template const std::vector<std::int64_t>& Attributes::get(std::string_view) const;

double Attributes::number(std::string_view name) const {
  if (const auto* integer = std::get_if<std::int64_t>(&lookup(values_, name)))
    return static_cast<double>(*integer);
  return get<double>(name);
}

void Attributes::set(std::string name, Attribute value) { values_[std::move(name)] = std::move(value); }

void Attributes::erase(std::string_view name) {
  if (const auto found = values_.find(name); found != values_.end()) values_.erase(found);
}

}  // namespace assay
