// NumPy's .npy files (reads format 1.0, 2.0 and 3.0; writes 1.0): little-endian, C order, f64, f32, i32 and
// u8.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "harness/core/io/file.hpp"
#include "harness/core/tensor.hpp"

namespace assay {

// The first bytes of every .npy file.
inline constexpr std::string_view npy_magic("\x93NUMPY", 6);

struct NpyHeader {
  std::string descr;  // "<f4", "|O"
  bool fortran_order = false;
  Shape shape;
  std::size_t offset = 0;  // of the data
};

// Describes the elements of a descr: "'<i2' (16-bit whole numbers)".
std::string npy_type_text(std::string_view descr);

// Reads only the header: the caller compares the type, the order and the bytes that follow. Throws IoError
// naming `path`.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::filesystem::path& path);

// Atomic. bytes: type.bytes() of them, row-major. The data begins at a multiple of 64 bytes. `durable` as in
// AtomicFile::commit.
void write_npy(const std::filesystem::path& path, const TensorType& type, std::span<const std::byte> bytes,
               bool durable = false);
template <typename T>
void write_npy(const std::filesystem::path& path, const TensorType& type, std::span<const T> values,
               bool durable = false) {
  write_npy(path, type, std::as_bytes(values), durable);
}

inline void write_npy(const std::filesystem::path& path, const HostTensor& tensor, bool durable = false) {
  write_npy(path, tensor.type, std::span<const std::byte>(tensor.bytes), durable);
}

// The tensor's name is empty. Throws IoError if the file does not match its header exactly.
HostTensor read_npy(const std::filesystem::path& path);

// Mapped read-only; the data is aligned for its type. Makes the same checks as read_npy.
class MappedNpy {
 public:
  MappedNpy() = default;
  explicit MappedNpy(const std::filesystem::path& path);

  const TensorType& type() const { return type_; }
  std::span<const std::byte> bytes() const { return file_.bytes().subspan(offset_); }
  // T must be the C++ type of type().dtype; asserted by size.
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes().data()), bytes().size() / sizeof(T)};
  }
  void will_need() const { file_.will_need(); }

 private:
  MappedFile file_;
  TensorType type_;
  std::size_t offset_ = 0;
};

}  // namespace assay
