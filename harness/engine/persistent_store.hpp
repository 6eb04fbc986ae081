// Parameters, moments, running statistics, dropout masks and the caches of task decode: named storage that
// outlives steps and is shared by the executors of a program.
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
  std::vector<std::string> names() const;
  std::vector<std::string> masks() const;
  // Sets positions to 0: the next prompt begins.
  void rewind();
  // Sets caches and positions to 0.
  void clear_caches();
  std::int64_t bytes() const;
  std::int64_t cache_bytes() const;

 private:
  struct Entry {
    TensorType type;
    std::string initializer;
    Role role = Role::parameter;
    Format format;
    Storage storage;
  };
  Entry& find(const std::string& name);

  KernelLibrary& library_;
  std::map<std::string, Entry> entries_;
};

}  // namespace assay
