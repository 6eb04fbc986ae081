#include "harness/engine/persistent_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/core/error.hpp"
#include "harness/engine/transfer.hpp"

namespace assay {

void* PersistentStore::provide(const Value& value, const Format& format) {
  const auto [place, fresh] = entries_.try_emplace(value.name);
  Entry& entry = place->second;
  if (fresh) {
    entry = {value.type, value.initializer, value.role, format,
             Storage(library_.memory(), format.bytes, value.name.c_str())};
    entry.storage.clear();
  } else if (entry.format != format) {
    throw std::logic_error(fmt::format("[executor] {} is stored as '{}' but was requested as '{}'",
                                       value.name, entry.format.key, format.key));
  }
  return entry.storage.data();
}

std::map<std::string, Format> PersistentStore::formats() const {
  std::map<std::string, Format> formats;
  for (const auto& [name, entry] : entries_) formats[name] = entry.format;
  return formats;
}

PersistentStore::Entry& PersistentStore::find(const std::string& name) {
  const auto place = entries_.find(name);
  if (place == entries_.end())
    throw CellError(fmt::format("[state] the program has no parameter or state '{}'", name));
  return place->second;
}

void PersistentStore::write(const HostTensor& tensor) {
  Entry& entry = find(tensor.name);
  if (tensor.type.shape != entry.type.shape) {
    throw CellError(fmt::format("[state] got {} of shape {}, but the program has {}", tensor.name,
                                to_string(tensor.type.shape), to_string(entry.type.shape)));
  }
  if (tensor.bytes.size() != static_cast<std::size_t>(tensor.type.bytes())) {
    throw CellError(fmt::format("[state] got {} bytes for {}, but its type {} has {}", tensor.bytes.size(),
                                tensor.name, to_string(tensor.type), tensor.type.bytes()));
  }
  Inlet(library_, entry.type, entry.format, tensor.type.dtype)
      .push(tensor.bytes.data(), entry.storage.data());
  library_.synchronize();
}

void PersistentStore::restart(const std::string& name) {
  const Entry& entry = find(name);
  if (entry.initializer != "zeros" && entry.initializer != "ones") {
    throw CellError(fmt::format("[state] {} is not given, and its initializer '{}' is not a constant", name,
                                entry.initializer));
  }
  HostTensor tensor{name, {DType::f32, entry.type.shape}, {}};
  tensor.bytes.resize(static_cast<std::size_t>(tensor.type.bytes()));
  std::ranges::fill(tensor.as<float>(), entry.initializer == "ones" ? 1.0F : 0.0F);
  write(tensor);
}

HostTensor PersistentStore::read(const std::string& name) {
  const Entry& entry = find(name);
  return fetch(library_, name, entry.type, entry.format, entry.storage.data());
}

std::vector<std::string> PersistentStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (entry.role == Role::parameter || entry.role == Role::state) names.push_back(name);
  }
  return names;
}

std::vector<std::string> PersistentStore::masks() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) {
    if (entry.role == Role::mask) names.push_back(name);
  }
  return names;
}

void PersistentStore::rewind() {
  for (auto& [name, entry] : entries_) {
    if (entry.role == Role::position) entry.storage.clear();
  }
}

void PersistentStore::clear_caches() {
  for (auto& [name, entry] : entries_) {
    if (entry.role == Role::cache) entry.storage.clear();
  }
  rewind();
}

std::int64_t PersistentStore::bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.storage.bytes();
  return bytes;
}

std::int64_t PersistentStore::cache_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) {
    if (entry.role == Role::cache) bytes += entry.storage.bytes();
  }
  return bytes;
}

}  // namespace assay
