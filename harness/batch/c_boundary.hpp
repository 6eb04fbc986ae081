// The C boundary of the batch library: it stops every exception and every invalid pointer from the caller.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

#include "harness/batch/supply.hpp"

namespace assay::boundary {

// Keeps the text of assay_last_error().
void remember(const char* text) noexcept;
const char* remembered() noexcept;

// Runs `action`; returns -1 and keeps a message if it throws.
template <typename Action>
std::int64_t guarded(Action action) noexcept {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    remember("[batch] out of memory: choose a smaller batch, fewer resident batches or less prefetch");
  } catch (const std::runtime_error& error) {
    remember(error.what());
  } catch (const std::exception& error) {
    remember(internal_error(error).c_str());
  } catch (...) {
    remember("[batch] unknown error");
  }
  return -1;
}

// The open objects of one type, so that calls with a closed one are detected. Has no locks, because every step reads it.
template <typename Object>
class OpenObjects {
 public:
  bool has(const Object* object) const noexcept {
    for (const auto& entry : entries_)
      if (entry.load(std::memory_order_relaxed) == object) return true;
    return false;
  }
  // False if too many are open.
  bool add(Object* object) noexcept {
    for (auto& entry : entries_) {
      Object* free = nullptr;
      if (entry.compare_exchange_strong(free, object)) return true;
    }
    return false;
  }
  bool remove(Object* object) noexcept {
    for (auto& entry : entries_) {
      Object* expected = object;
      if (entry.compare_exchange_strong(expected, nullptr)) return true;
    }
    return false;
  }

 private:
  std::array<std::atomic<Object*>, 64> entries_ = {};
};

// As guarded(), for a call with an object that must be open. noun: "supply".
template <typename Object, typename Action>
std::int64_t with(const OpenObjects<Object>& open, const char* noun, const char* call, Object* object,
                  bool arguments, Action action) noexcept {
  if (object != nullptr && arguments && open.has(object))
    return guarded([&]() -> std::int64_t { return action(*object); });
  return guarded([&]() -> std::int64_t {
    const std::string what = object == nullptr ? std::string("got a null ") + noun
                             : !arguments      ? std::string("got a null pointer")
                                               : std::string("got a ") + noun + " that is not open";
    throw CallError(std::string("[") + call + "] " + what);
  });
}

}  // namespace assay::boundary
