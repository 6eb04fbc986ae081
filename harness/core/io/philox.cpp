#include "harness/core/io/philox.hpp"

#include <cassert>
#include <cmath>
#include <numbers>

namespace assay {
namespace {

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

Philox::Philox(std::uint64_t seed, std::string_view name) : seed_(seed), stream_(fnv1a(name)) {}

std::uint32_t Philox::next() {
  if (used_ == 4) {
    block_ = philox4x32({low(index_), high(index_), low(stream_), high(stream_)}, {low(seed_), high(seed_)});
    ++index_;
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t Philox::next64() {
  const std::uint64_t first = next();
  return first | (std::uint64_t{next()} << 32);
}

float Philox::uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

double Philox::uniform_double() { return static_cast<double>(next64() >> 11) * 0x1p-53; }

std::uint64_t Philox::below(std::uint64_t bound) {
  assert(bound >= 1);
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{next64()} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t threshold = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < threshold) product = Wide{next64()} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

double Philox::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_double()));  // 1 - u is in (0, 1]
  const double angle = 2.0 * std::numbers::pi * uniform_double();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

}  // namespace assay
