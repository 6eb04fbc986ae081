#include "tests/fuzz/bulk.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "harness/core/io/file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace assay::fuzz {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

constexpr std::size_t max_bytes = 16 << 10;

struct Options {
  std::uint64_t inputs = 2000, seed = 1, from = 0;
  double seconds = 0;  // 0: counts inputs
  std::vector<fs::path> corpora{ASSAY_FUZZ_CORPUS};
  std::vector<std::string> names;
};

// splitmix64: a state per input, so that an input can be made without those before it.
class Random {
 public:
  explicit Random(std::uint64_t state) : state_(state) {}

  std::uint64_t next() {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  // 0 for 0.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : static_cast<std::size_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

// Values at the limits of types and of formats, as text.
constexpr std::array<std::string_view, 44> tokens = {"0",
                                                     "-1",
                                                     "1",
                                                     "255",
                                                     "256",
                                                     "65535",
                                                     "65536",
                                                     "2147483647",
                                                     "2147483648",
                                                     "-2147483648",
                                                     "4294967295",
                                                     "4294967296",
                                                     "9223372036854775807",
                                                     "9223372036854775808",
                                                     "-9223372036854775808",
                                                     "18446744073709551615",
                                                     "1e308",
                                                     "1e309",
                                                     "-1e309",
                                                     "5e-324",
                                                     "0.1",
                                                     "1e-400",
                                                     "NaN",
                                                     "Infinity",
                                                     "null",
                                                     "true",
                                                     "{}",
                                                     "[]",
                                                     "\"\"",
                                                     "[[",
                                                     "{\"",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "\\u009b",
                                                     "\x1b[31m",
                                                     "\xc2\x9b",
                                                     "\xff",
                                                     "\n::error::x",
                                                     "../",
                                                     "$(x)",
                                                     "`x`",
                                                     ",",
                                                     ":",
                                                     "\n"};

// Values at the limits of integers, as bytes.
constexpr std::array<std::uint64_t, 12> limits = {0,
                                                  1,
                                                  0x7f,
                                                  0x80,
                                                  0xff,
                                                  0x7fff,
                                                  0xffff,
                                                  0x7fffffff,
                                                  0x80000000,
                                                  0xffffffff,
                                                  0x7fffffffffffffff,
                                                  0xffffffffffffffff};

void insert(Bytes& input, std::size_t at, Input piece) {
  const std::size_t room = max_bytes - std::min(max_bytes, input.size());
  piece = piece.first(std::min(piece.size(), room));
  input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
}

void erase(Bytes& input, std::size_t at, std::size_t count) {
  const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
  input.erase(begin, begin + static_cast<std::ptrdiff_t>(std::min(count, input.size() - at)));
}

void overwrite(Bytes& input, std::size_t at, Input piece) {
  std::copy_n(piece.begin(), std::min(piece.size(), input.size() - at),
              input.begin() + static_cast<std::ptrdiff_t>(at));
}

bool is_of_number(std::byte value) {
  const char c = static_cast<char>(value);
  return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e';
}

// Replaces the number at or after the place by one of the tokens.
void replace_number(Bytes& input, std::size_t at, Input token) {
  while (at < input.size() && !is_of_number(input[at])) ++at;
  std::size_t end = at;
  while (end < input.size() && is_of_number(input[end])) ++end;
  erase(input, at, end - at);
  insert(input, at, token);
}

void change(Bytes& input, const Bytes& other, Random& random) {
  const std::size_t at = random.below(input.size());
  const std::string_view token = tokens[random.below(tokens.size())];
  const Input token_bytes = std::as_bytes(std::span(token));
  const std::size_t length = std::size_t{1} << random.below(8);
  switch (random.below(input.empty() ? 2 : 11)) {
    case 0:
      return insert(input, at, token_bytes);
    case 1: {  // a piece of another file
      const std::size_t from = random.below(other.size());
      return insert(input, at, Input(other).subspan(from, std::min(length, other.size() - from)));
    }
    case 2:
      input[at] ^= std::byte{1} << random.below(8);
      return;
    case 3:
      input[at] = static_cast<std::byte>(random.next());
      return;
    case 4:
      return erase(input, at, length);
    case 5:
      return overwrite(input, at, token_bytes);
    case 6:
      return replace_number(input, at, token_bytes);
    case 7: {  // either byte order
      std::uint64_t value = limits[random.below(limits.size())];
      if (random.below(2) != 0) value = __builtin_bswap64(value) >> (8 * random.below(8));
      const std::size_t bytes = std::size_t{1} << random.below(4);
      return overwrite(input, at, std::as_bytes(std::span(&value, 1)).first(bytes));
    }
    case 8: {  // a piece of itself
      const Bytes piece(input.begin() + static_cast<std::ptrdiff_t>(at),
                        input.begin() + static_cast<std::ptrdiff_t>(std::min(input.size(), at + length)));
      return insert(input, random.below(input.size()), piece);
    }
    case 9:
      std::swap(input[at], input[random.below(input.size())]);
      return;
    default:
      if (random.below(4) == 0) input.resize(at);
  }
}

std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

void make_input(Bytes& input, const std::vector<Bytes>& corpus, std::uint64_t state) {
  Random random(state);
  input = corpus[random.below(corpus.size())];
  for (std::size_t changes = 1 + random.below(std::size_t{1} << random.below(5)); changes > 0; --changes)
    change(input, corpus[random.below(corpus.size())], random);
}

std::vector<Bytes> corpus_of(const Options& options, std::string_view target) {
  std::vector<fs::path> files;
  for (const fs::path& folder : options.corpora)
    if (fs::is_directory(folder / target))
      for (const auto& entry : fs::directory_iterator(folder / target)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Bytes> corpus(1);  // with an empty file
  for (const fs::path& file : files) {
    corpus.push_back(read_file(file));
    corpus.back().resize(std::min(corpus.back().size(), max_bytes));
  }
  return corpus;
}

// What repeats the input that is read now, for the message of a crash.
char again[512];

void tell_crash(int signal) {
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, again, std::strlen(again));
  ::raise(signal);  // the handler is gone: it ends the program
}

// On a separate stack: recursion without end is a crash, too.
void catch_crashes() {
  static std::array<char, 64 << 10> stack;
  const stack_t separate{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&separate, nullptr);
  struct sigaction action{};
  action.sa_handler = tell_crash;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL}) ::sigaction(signal, &action, nullptr);
}

// Returns the number of findings.
int run_target(const Target& target, const Options& options) {
  using Clock = std::chrono::steady_clock;
  constexpr int max_findings = 5;
  const std::vector<Bytes> corpus = corpus_of(options, target.name);
  const Clock::time_point begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  const std::uint64_t key = hash_of(target.name) + options.seed * 0x2545f4914f6cdd1d;
  std::uint64_t count = 0;
  int findings = 0;
  Bytes input;
  for (std::uint64_t number = options.from; findings < max_findings; ++number, ++count) {
    if (options.seconds <= 0 && count == options.inputs) break;
    if (options.seconds > 0 && count % 64 == 0 && spent() >= options.seconds) break;
    // Numbers far apart, so that the states of two inputs are not neighbours.
    make_input(input, corpus, key + number * 0xd1342543de82ef95);
    std::snprintf(again, sizeof again, "again: fuzz_bulk --inputs 1 --seed %llu --from %llu %.*s\n",
                  static_cast<unsigned long long>(options.seed), static_cast<unsigned long long>(number),
                  static_cast<int>(target.name.size()), target.name.data());
    try {
      run(target, input);
    } catch (const std::exception& error) {
      ++findings;
      fmt::print(stderr, "{}: {}\n{}", target.name, error.what(), again);
    }
  }
  fmt::print("{:<12} {:>13} {:>9} {:>9.0f} {:>9}\n", target.name, count, findings, spent(),
             spent() > 0 ? static_cast<std::uint64_t>(static_cast<double>(count) / spent()) : 0);
  std::fflush(stdout);
  return findings;
}

template <typename Number>
Number number_of(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("'{}' is not a number", text));
  return number;
}

Options parse(std::span<char* const> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with("--")) {
      if (std::ranges::none_of(targets(), [&](const Target& one) { return one.name == word; }))
        throw std::invalid_argument(fmt::format("unknown target {}", word));
      options.names.emplace_back(word);
      continue;
    }
    if (i + 1 == words.size()) throw std::invalid_argument(fmt::format("{} needs a value", word));
    const std::string_view value = words[++i];
    if (word == "--inputs")
      options.inputs = number_of<std::uint64_t>(value);
    else if (word == "--seconds")
      options.seconds = number_of<double>(value);
    else if (word == "--seed")
      options.seed = number_of<std::uint64_t>(value);
    else if (word == "--from")
      options.from = number_of<std::uint64_t>(value);
    else if (word == "--corpus")
      options.corpora.emplace_back(value);
    else
      throw std::invalid_argument(fmt::format("unknown option {}", word));
  }
  return options;
}

}  // namespace

int run_bulk(std::span<char* const> words) {
  const Options options = parse(words);
  catch_crashes();
  std::vector<Target> all(targets().begin(), targets().end());
  std::ranges::sort(all, {}, &Target::name);
  int findings = 0;
  fmt::print("{:<12} {:>13} {:>9} {:>9} {:>9}\n", "target", "inputs", "findings", "seconds", "a second");
  for (const Target& target : all)
    if (options.names.empty() || std::ranges::find(options.names, target.name) != options.names.end())
      findings += run_target(target, options);
  return findings == 0 ? 0 : 1;
}

}  // namespace assay::fuzz
