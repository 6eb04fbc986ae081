// SHA-256 (FIPS 180-4), by OpenSSL's libcrypto.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace assay {

// Digest of the bytes that were added, in order.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  // 64 lower-case hexadecimal digits. Ends the digest.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256(std::span<const std::byte> bytes);
std::string sha256(std::string_view text);
// Reads it part by part, so a file of any size may change meanwhile. Throws IoError.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace assay
