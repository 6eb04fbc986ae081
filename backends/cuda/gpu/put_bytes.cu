#include <cstring>

#include "backends/cuda/gpu/device_memory.hpp"
#include "backends/cuda/kernels/launch.hpp"

namespace assay::cuda {
namespace {

struct PutBytes {
  unsigned char bytes[16];
  unsigned char* to;
  __device__ void operator()(std::int64_t i) const { to[i] = bytes[i]; }
};

}  // namespace

void put_bytes(cudaStream_t stream, void* to, const void* host, std::int64_t bytes) {
  PutBytes put{};
  std::memcpy(put.bytes, host, static_cast<std::size_t>(smaller(bytes, 16)));
  put.to = static_cast<unsigned char*>(to);
  for_each(Stream{stream}, smaller(bytes, 16), put);
}

}  // namespace assay::cuda
