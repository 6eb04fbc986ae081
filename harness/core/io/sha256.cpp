#include "harness/core/io/sha256.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>

#include "harness/core/error.hpp"
#include "harness/core/io/file.hpp"

namespace assay {
namespace {

void require(int status, const char* call) {
  if (status != 1) throw std::runtime_error(fmt::format("[sha256] {} failed in libcrypto", call));
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
  require(EVP_DigestInit_ex(context_->value, EVP_sha256(), nullptr), "EVP_DigestInit_ex");
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
  const Descriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe would wait for a writer
  if (!file) throw IoError("read", path, "cannot be opened", errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    throw IoError("read", path, "is not a regular file");
  Sha256 digest;
  std::vector<std::byte> part(std::size_t{1} << 18);
  for (;;) {
    const ssize_t got = ::read(file.get(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw IoError("read", path, "cannot be read", errno);
    if (got == 0) return digest.finish();
    digest.add(std::span(part).first(static_cast<std::size_t>(got)));
  }
}

}  // namespace assay
