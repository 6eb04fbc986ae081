#include "harness/launch/messages.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

namespace assay::launch {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_bytes = 128 << 10, max_descriptors = 4;

struct Message {
  Json json;
  std::vector<Descriptor> descriptors;
};

bool send(int socket, const Json& json, std::span<const int> descriptors) try {
  std::string text = json.dump();
  if (text.size() > max_bytes) {
    errno = EMSGSIZE;
    return false;
  }
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  ssize_t sent;
  while ((sent = ::sendmsg(socket, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return sent == static_cast<ssize_t>(text.size());
} catch (const Json::exception&) {  // a path that is not UTF-8
  errno = EILSEQ;
  return false;
}

std::optional<Message> receive(int socket) {
  std::string text(max_bytes, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(max_descriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t count;
  while ((count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (count <= 0) return std::nullopt;
  Message received;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    std::array<int, max_descriptors> found{};
    const std::size_t bytes = header->cmsg_len - CMSG_LEN(0);
    std::memcpy(found.data(), CMSG_DATA(header), bytes);
    // Above the descriptors that a child moves its own to.
    for (std::size_t i = 0; i < bytes / sizeof(int); ++i) {
      const Descriptor low(found[i]);
      received.descriptors.emplace_back(::fcntl(low.get(), F_DUPFD_CLOEXEC, 10));
    }
  }
  text.resize(static_cast<std::size_t>(count));
  received.json = Json::parse(text, nullptr, false);
  if (!received.json.is_object()) return std::nullopt;
  return received;
}

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string text = path.string();
  if (text.size() >= sizeof address.sun_path)
    throw std::system_error(ENAMETOOLONG, std::generic_category(),
                            "[ranks] the socket " + text + "; set TMPDIR to a folder with a shorter path");
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

Descriptor socket_or_throw() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) throw std::system_error(errno, std::generic_category(), "[ranks] socket");
  return socket;
}

Json json_of(const RankHere& report) { return {{"rank", report.rank}, {"host", report.host}}; }
Json json_of(const WorkerStarted& report) { return {{"started", report.process}}; }
Json json_of(const WorkerNotStarted& report) { return {{"failed", report.error}}; }
Json json_of(const WorkerEnded& report) {
  return {{"code", report.exit.code},
          {"signal", report.exit.signal},
          {"peak_rss", report.exit.peak_rss},
          {"cpu_seconds", report.exit.cpu_seconds},
          {"lost", report.exit.is_lost}};
}

}  // namespace

bool send(int socket, const Report& report) {
  return send(socket, std::visit([](const auto& one) { return json_of(one); }, report), {});
}

bool send(int socket, const RankOrders& orders) {
  const Json json = {{"command", orders.command},
                     {"folder", orders.folder},
                     {"cores", orders.cores},
                     {"environment", orders.environment}};
  std::vector<int> descriptors = {orders.commands.get(), orders.events.get(), orders.log.get()};
  if (orders.rules) descriptors.push_back(orders.rules.get());
  return send(socket, json, descriptors);
}

std::optional<Report> receive_report(int socket) try {
  const std::optional<Message> message = receive(socket);
  if (!message) return std::nullopt;
  const Json& json = message->json;
  if (json.contains("rank")) return RankHere{json.at("rank").get<int>(), json.at("host").get<std::string>()};
  if (json.contains("started")) return WorkerStarted{json.at("started").get<int>()};
  if (json.contains("failed")) return WorkerNotStarted{json.at("failed").get<int>()};
  return WorkerEnded{{.code = json.at("code").get<int>(),
                      .signal = json.at("signal").get<int>(),
                      .peak_rss = json.at("peak_rss").get<std::int64_t>(),
                      .cpu_seconds = json.at("cpu_seconds").get<double>(),
                      .is_lost = json.at("lost").get<bool>()}};
} catch (const Json::exception&) {
  return std::nullopt;
}

std::optional<RankOrders> receive_orders(int socket) try {
  std::optional<Message> message = receive(socket);
  if (!message || message->descriptors.size() < 3) return std::nullopt;
  const Json& json = message->json;
  RankOrders orders;
  json.at("command").get_to(orders.command);
  json.at("folder").get_to(orders.folder);
  json.at("cores").get_to(orders.cores);
  json.at("environment").get_to(orders.environment);
  orders.commands = std::move(message->descriptors[0]);
  orders.events = std::move(message->descriptors[1]);
  orders.log = std::move(message->descriptors[2]);
  if (message->descriptors.size() > 3) orders.rules = std::move(message->descriptors[3]);
  return orders;
} catch (const Json::exception&) {
  return std::nullopt;
}

Descriptor listen_at(const std::filesystem::path& path) {
  Descriptor socket = socket_or_throw();
  const sockaddr_un address = address_of(path);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    throw std::system_error(errno, std::generic_category(), path.string());
  return socket;
}

Descriptor connect_to(const std::filesystem::path& path) {
  Descriptor socket = socket_or_throw();
  const sockaddr_un address = address_of(path);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::system_error(errno, std::generic_category(), path.string());
  return socket;
}

}  // namespace assay::launch
