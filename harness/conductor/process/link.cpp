#include "harness/conductor/process/link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <memory>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/core/error.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay {
namespace {

using Json = nlohmann::json;

// Between two looks of Link::watch().
constexpr int look_ms = 200;

int milliseconds_until(std::optional<Link::Clock::time_point> latest) {
  if (!latest) return INT_MAX;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*latest - Link::Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

void set(int socket, int level, int option, int value) {
  ::setsockopt(socket, level, option, &value, sizeof value);
}

void put_number(std::byte* at, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * (bytes - 1 - i)));
}

std::uint64_t number_at(const std::byte* at, std::size_t bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<std::uint64_t>(at[i]);
  return value;
}

std::string text_of(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  return ::inet_ntop(AF_INET, &address, text.data(), text.size()) ? text.data() : "";
}

template <typename Ask>
std::string address_by(int socket, Ask ask) {
  sockaddr_in place{};
  socklen_t size = sizeof place;
  if (ask(socket, reinterpret_cast<sockaddr*>(&place), &size) != 0 || place.sin_family != AF_INET) return "";
  return text_of(place.sin_addr);
}

constexpr std::size_t json_length = 4, bytes_length = 8;

}  // namespace

Link::Link(Descriptor socket) : socket_(std::move(socket)) {
  constexpr int idle_seconds = 5, between_seconds = 3, probes = 3;
  set(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket_.get(), IPPROTO_TCP, TCP_KEEPIDLE, idle_seconds);
  set(socket_.get(), IPPROTO_TCP, TCP_KEEPINTVL, between_seconds);
  set(socket_.get(), IPPROTO_TCP, TCP_KEEPCNT, probes);
  allow_silence(usual_silence);
}

void Link::allow_silence(int seconds) {
  silence_seconds_ = seconds;
  set(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 1000 * seconds);
}

// False: not in time, or poll() failed.
bool Link::is_ready(short what, std::optional<Clock::time_point> latest) const {
  for (;;) {
    pollfd wait{socket_.get(), what, 0};
    const int left = milliseconds_until(latest);
    const int ready = ::poll(&wait, 1, look_ ? std::min(left, look_ms) : latest ? left : -1);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (look_) look_();
    if (left == 0) return false;
  }
}

bool Link::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (!is_ready(POLLOUT, Clock::now() + std::chrono::seconds(2 * silence_seconds_))) return false;
    const ssize_t count = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool Link::take(std::span<std::byte> bytes, std::optional<Clock::time_point> latest) {
  while (!bytes.empty()) {
    if (!is_ready(POLLIN, latest)) return false;
    const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

bool Link::send(const Json& json, std::span<const std::byte> bytes) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_json || bytes.size() > max_bytes)
    throw Error(fmt::format("[ranks] a message to a rank is too long: {} bytes", text.size() + bytes.size()));
  std::array<std::byte, json_length + bytes_length> lengths{};
  put_number(lengths.data(), text.size(), json_length);
  put_number(lengths.data() + json_length, bytes.size(), bytes_length);
  return put(lengths) && put(std::as_bytes(std::span(text))) && put(bytes);
}

std::optional<Link::Message> Link::receive(std::optional<Clock::time_point> latest) {
  std::array<std::byte, json_length + bytes_length> lengths{};
  if (!take(lengths, latest)) return std::nullopt;
  const std::uint64_t text_size = number_at(lengths.data(), json_length);
  const std::uint64_t size = number_at(lengths.data() + json_length, bytes_length);
  if (text_size > (is_trusted_ ? max_json : max_of_stranger) || size > (is_trusted_ ? max_bytes : 0))
    return std::nullopt;
  std::string text(text_size, '\0');
  Message message{.json = {}, .bytes = std::vector<std::byte>(size)};
  if (!take(std::as_writable_bytes(std::span(text)), latest) || !take(message.bytes, latest))
    return std::nullopt;
  message.json = Json::parse(text, nullptr, false);
  if (!message.json.is_object()) return std::nullopt;
  return message;
}

Link::Message Link::answer(Clock::time_point latest, const char* what) {
  std::optional<Message> message = receive(latest);
  if (!message) throw LinkBroken(what);
  if (const auto error = message->json.find("error"); error != message->json.end() && error->is_string())
    throw Error(error->get<std::string>());
  return std::move(*message);
}

void Link::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }

std::string Link::own_address() const { return address_by(socket_.get(), ::getsockname); }
std::string Link::peer_address() const { return address_by(socket_.get(), ::getpeername); }

Listener listen_on_all() {
  Listener made{Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof place;
  auto* any = reinterpret_cast<sockaddr*>(&place);
  if (!made.socket || ::bind(made.socket.get(), any, size) != 0 ||
      ::listen(made.socket.get(), SOMAXCONN) != 0 || ::getsockname(made.socket.get(), any, &size) != 0)
    throw std::system_error(errno, std::generic_category(), "[ranks] a port for the ranks to connect to");
  made.port = ntohs(place.sin_port);
  return made;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> kept(first, ::freeifaddrs);
    for (const ifaddrs* one = first; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
      if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
      found.push_back(text_of(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr));
    }
  }
  found.emplace_back("127.0.0.1");
  return found;
}

Descriptor connect_to(const std::string& address, int port, std::chrono::milliseconds patience) {
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = htons(static_cast<std::uint16_t>(port));
  if (!socket || ::inet_pton(AF_INET, address.c_str(), &place.sin_addr) != 1) return {};
  const int done = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place);
  if (done != 0 && errno != EINPROGRESS) return {};
  pollfd wait{socket.get(), POLLOUT, 0};
  if (done != 0 && ::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) return {};
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) return {};
  ::fcntl(socket.get(), F_SETFL, 0);
  return socket;
}

std::string random_key() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::system_error(errno, std::generic_category(), "[ranks] getrandom");
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string proof_of(std::string_view key, std::string_view challenge, std::string_view role) {
  return sha256(fmt::format("{}\n{}\n{}\n{}", key, challenge, role, key));
}

}  // namespace assay
