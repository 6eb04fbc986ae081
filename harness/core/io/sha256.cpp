#include "harness/core/io/sha256.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <array>
#include <stdexcept>

#include <fmt/format.h>

#include "harness/core/io/file.hpp"

namespace assay {
namespace {

void require(int status, const char* call) {
  if (status != 1) throw std::runtime_error(fmt::format("[sha256] {} failed in libcrypto", call));
}

// Of a library context of our own: the caller's configuration of OpenSSL may switch providers off (OPENSSL_CONF, FIPS).
const EVP_MD* algorithm() {
  static const EVP_MD* const found = [] {
    OSSL_LIB_CTX* const own = OSSL_LIB_CTX_new();
    return own == nullptr ? nullptr : EVP_MD_fetch(own, "SHA256", nullptr);
  }();
  return found;
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* value = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(value); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(EVP_DigestInit_ex(context_->value, algorithm(), nullptr), "EVP_DigestInit_ex");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->value, bytes.data(), bytes.size()), "EVP_DigestUpdate");
}

std::string Sha256::finish() {
  std::array<unsigned char, 32> digest = {};
  require(EVP_DigestFinal_ex(context_->value, digest.data(), nullptr), "EVP_DigestFinal_ex");
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

std::string sha256(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.finish();
}

std::string sha256(std::string_view text) { return sha256(std::as_bytes(std::span(text))); }

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 digest;
  read_parts(path, [&](std::span<const std::byte> part) { digest.add(part); });
  return digest.finish();
}

}  // namespace assay
