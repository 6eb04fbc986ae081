// Parameters, moments, running statistics and dropout masks: named storage that outlives steps and is shared
// by the executors of a program.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "harness/core/tensor.hpp"
#include "harness/engine/kernel_library.hpp"
#include "harness/engine/memory.hpp"

namespace assay {

class PersistentStore {
 public:
  // Borrows the library, which must outlive it.
  explicit PersistentStore(KernelLibrary& library) : library_(library) {}

  // Makes the storage of a value, or finds it: then the format must be the one that it has.
  void* provide(const Value& value, const Format& format);
  std::map<std::string, Format> formats() const;

  // `tensor` in the contract's layout, of the value's shape; f32 and f64 convert. Throws CellError
  // naming it otherwise.
  void write(const HostTensor& tensor);
  // To the constant of its initializer. Throws CellError when that is none ("glorot_uniform").
  void restart(const std::string& name);
  HostTensor read(const std::string& name);
  // Of parameters and state, and of masks.
  std::vector<std::string> names() const { return names(false); }
  std::vector<std::string> masks() const { return names(true); }
  std::int64_t bytes() const;

 private:
  struct Entry {
    TensorType type;
    std::string initializer;
    bool mask = false;
    Format format;
    Storage storage;
  };
  Entry& find(const std::string& name);
  std::vector<std::string> names(bool mask) const;

  KernelLibrary& library_;
  std::map<std::string, Entry> entries_;
};

}  // namespace assay
