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

  // Makes the storage of a value, or returns the existing one, whose format must then be the same.
  void* provide(const Value& value, const Format& format);
  std::map<std::string, Format> formats() const;

  // `tensor` in the contract's layout, with the value's shape; f32 and f64 are converted. Otherwise throws
  // CellError naming the tensor.
  void write(const HostTensor& tensor);
  // Sets the value to the constant of its initializer. Throws CellError if the initializer is not a constant
  // ("glorot_uniform").
  void restart(const std::string& name);
  HostTensor read(const std::string& name);
  // names() returns those of parameters and state, masks() those of masks.
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
