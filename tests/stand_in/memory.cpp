// Memory between walls, which is NaN before it is written and after it is freed.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "tests/stand_in/machine.hpp"

namespace assay::stand_in {
namespace {

constexpr std::size_t wall = 256;
constexpr std::uint8_t brick = 0xa5, nan = 0xff;
// Freed memory that is kept, to see who writes to it.
constexpr std::size_t max_kept = std::size_t{64} << 20;

struct Block {
  std::unique_ptr<std::uint8_t, decltype(&std::free)> bytes{nullptr, &std::free};
  std::size_t size = 0;
  Place place = Place::device;
  bool given_back = false, poisoned = false;
};

struct Store {
  std::map<std::uintptr_t, Block> blocks;  // by the address that the caller has
  std::deque<std::uintptr_t> kept;         // poisoned, the oldest first
  std::size_t kept_bytes = 0;
  std::int64_t device_bytes = 0;  // not given back
};
Store& store() {
  static Store* const only = new Store;
  return *only;
}

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }
std::uint8_t* data_of(std::uintptr_t address) { return reinterpret_cast<std::uint8_t*>(address); }

std::string name_of(const Block& block) {
  return std::to_string(block.size) + " bytes of " +
         (block.place == Place::pinned ? "pinned" : "the device's") + " memory";
}

// The block that has the address; null if none has.
std::pair<const std::uintptr_t, Block>* find(const void* pointer) {
  auto after = store().blocks.upper_bound(address_of(pointer));
  if (after == store().blocks.begin()) return nullptr;
  auto& found = *std::prev(after);
  return address_of(pointer) <= found.first + found.second.size ? &found : nullptr;
}

std::size_t rounded(std::size_t bytes) { return (bytes + wall - 1) / wall * wall; }

// What is found is repaired, so that it is noted once.
void inspect(std::uintptr_t address, const Block& block) {
  std::uint8_t* const first = data_of(address);
  const auto expect = [&](std::uint8_t* from, std::size_t count, std::uint8_t value,
                          const std::string& otherwise) {
    if (std::all_of(from, from + count, [value](std::uint8_t byte) { return byte == value; })) return;
    fault(otherwise);
    std::memset(from, value, count);
  };
  expect(first - wall, wall, brick, "bytes in front of " + name_of(block) + " were written");
  expect(first + block.size, rounded(block.size) + wall - block.size, brick,
         "bytes after " + name_of(block) + " were written");
  if (block.poisoned) expect(first, block.size, nan, name_of(block) + " were written after their release");
}

const char* kind_of(Place place) {
  return place == Place::pinned ? "pieces of pinned memory" : "pieces of memory";
}

}  // namespace

void* allocate(std::size_t bytes, Place place) {
  Store& s = store();
  if (!find_memory()) return nullptr;
  if (place == Place::device && static_cast<std::int64_t>(bytes) > free_bytes()) return nullptr;
  Block block;
  block.size = bytes;
  block.place = place;
  // The first byte is 256 beyond a multiple of 512: nothing is aligned better than it has to be.
  const std::size_t whole = (rounded(bytes) + 2 * wall + 2 * wall - 1) / (2 * wall) * (2 * wall);
  block.bytes.reset(static_cast<std::uint8_t*>(std::aligned_alloc(2 * wall, whole)));
  if (block.bytes == nullptr) return nullptr;
  std::memset(block.bytes.get(), brick, whole);
  std::uint8_t* const first = block.bytes.get() + wall;
  std::memset(first, nan, bytes);
  if (place == Place::device) s.device_bytes += static_cast<std::int64_t>(bytes);
  hold(kind_of(place), 1);
  s.blocks.emplace(address_of(first), std::move(block));
  return first;
}

bool give_back(void* pointer, Place place) {
  const auto found = store().blocks.find(address_of(pointer));
  if (found == store().blocks.end() || found->second.place != place || found->second.given_back) {
    fault("memory was freed that was not allocated, or was freed before");
    return false;
  }
  Block& block = found->second;
  block.given_back = true;
  if (place == Place::device) store().device_bytes -= static_cast<std::int64_t>(block.size);
  hold(kind_of(place), -1);
  return true;
}

void poison(void* pointer) {
  Store& s = store();
  const std::uintptr_t address = address_of(pointer);
  Block& block = s.blocks.at(address);
  inspect(address, block);
  std::memset(pointer, nan, block.size);
  block.poisoned = true;
  s.kept.push_back(address);
  s.kept_bytes += block.size;
  while (s.kept_bytes > max_kept) {
    const auto oldest = s.blocks.find(s.kept.front());
    inspect(oldest->first, oldest->second);
    s.kept_bytes -= oldest->second.size;
    s.blocks.erase(oldest);
    s.kept.pop_front();
  }
}

void make_fresh(void* pointer) { std::memset(pointer, nan, store().blocks.at(address_of(pointer)).size); }

bool check_range(const void* pointer, std::int64_t bytes, const char* user, Place place) {
  const auto* const found = find(pointer);
  if (bytes == 0) return true;
  if (found == nullptr || found->second.place != place) {
    fault(std::string(user) + " got an address that is not allocated");
    return false;
  }
  const auto& [address, block] = *found;
  if (block.poisoned) {
    fault(std::string(user) + " uses memory that was freed");
    return false;
  }
  if (address_of(pointer) + static_cast<std::uintptr_t>(bytes) > address + block.size) {
    fault(std::string(user) + " goes beyond the end of " + name_of(block));
    return false;
  }
  return true;
}

bool is_pinned(const void* pointer) {
  const auto* const found = find(pointer);
  return found != nullptr && found->second.place == Place::pinned;
}

void spoil_workspace(void* workspace, std::int64_t bytes, const char* user) {
  if (bytes == 0) return;
  const auto* const found = find(workspace);
  if (found == nullptr) return fault(std::string(user) + " got a workspace that is not allocated");
  // As a GPU would: it writes on. Here only as far as the wall.
  const std::uintptr_t end = found->first + rounded(found->second.size) + wall;
  const auto room = static_cast<std::int64_t>(end - address_of(workspace));
  std::memset(workspace, nan, static_cast<std::size_t>(std::min(bytes, room)));
}

bool is_aligned(const void* pointer, std::uint64_t bytes) { return address_of(pointer) % bytes == 0; }

std::int64_t free_bytes() { return machine().conditions.device_bytes - store().device_bytes; }

void inspect_memory() {
  for (const auto& [address, block] : store().blocks) inspect(address, block);
}

}  // namespace assay::stand_in
