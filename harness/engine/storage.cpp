#include "harness/engine/storage.hpp"

#include "harness/engine/memory.hpp"

namespace assay {

Storage::Storage(std::int64_t bytes, const char* purpose) : Storage(host_memory(), bytes, purpose) {}

Storage::Storage(Memory& memory, std::int64_t bytes, const char* purpose)
    : data_(memory.allocate(bytes, purpose), Free{&memory}), bytes_(bytes) {}

void Storage::clear() { data_.get_deleter().memory->clear(data_.get(), bytes_); }

void Storage::Free::operator()(void* pointer) const { memory->release(pointer); }

}  // namespace assay
