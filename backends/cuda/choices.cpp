#include "backends/cuda/choices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/core/io/atomic_file.hpp"
#include "harness/core/io/sha256.hpp"

namespace assay::cuda {
namespace {

// Rises when another engine may be chosen or refused.
constexpr int search_rules = 3;

// The plans of another device, of other libraries or by other rules: nothing reads them any more.
void remove_plans(const std::filesystem::path& folder) {
  const std::size_t digest = sha256("").size();
  std::error_code failed;
  std::filesystem::directory_iterator at(folder, failed);
  for (; !failed && at != std::filesystem::directory_iterator(); at.increment(failed)) {
    const std::string name = at->path().filename();
    const bool ours = name.size() == digest && name.find_first_not_of("0123456789abcdef") == name.npos;
    std::error_code ignored;
    if (ours) std::filesystem::remove(at->path(), ignored);
  }
}

// Others were taken without a search, which a later fork may have memory for.
bool is_measured(std::string_view engine) { return engine.ends_with(":measured"); }

}  // namespace

Choices::Choices(std::filesystem::path file, std::string where, std::filesystem::path plans)
    : file_(std::move(file)),
      plans_(std::move(plans)),
      where_(fmt::format("search {}, {}", search_rules, where)) {
  std::ifstream stream(file_);
  if (!stream) return;
  try {
    const auto json = nlohmann::json::parse(stream);
    if (json.at("where").get<std::string>() != where_) {
      remove_plans(plans_);
      return;
    }
    json.at("engines").get_to(given_);
    json.at("refused").get_to(refused_);
  } catch (const nlohmann::json::exception& error) {
    fmt::print(stderr, "{} is left out, and engines are searched again: {}\n", file_.string(), error.what());
  }
}

Choices::~Choices() { keep(); }

std::string Choices::given(const std::string& spec) const {
  const auto found = given_.find(spec);
  return found == given_.end() ? "" : found->second;
}

void Choices::take(const std::string& spec, const std::string& engine) {
  engines_[spec] = engine;
  if (!is_measured(engine) || given(spec) == engine) return;
  given_[spec] = engine;
  is_kept_ = false;
}

std::filesystem::path Choices::path_of_plan(const std::string& spec, const std::string& engine) const {
  return plans_ / sha256(fmt::format("{}\n{}\n{}", where_, spec, engine));
}

// A plan is code: it follows the digest of its bytes, so that none is run that was damaged.
std::vector<std::uint8_t> Choices::plan(const std::string& spec, const std::string& engine) const {
  if (plans_.empty()) return {};
  std::ifstream stream(path_of_plan(spec, engine), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const std::size_t digest = sha256("").size();
  if (text.size() <= digest || sha256(std::string_view(text).substr(digest)) != text.substr(0, digest))
    return {};
  return {text.begin() + static_cast<std::ptrdiff_t>(digest), text.end()};
}

void Choices::keep_plan(const std::string& spec, const std::string& engine,
                        const std::vector<std::uint8_t>& bytes) {
  if (plans_.empty()) return;
  try {
    const std::filesystem::path path = path_of_plan(spec, engine);
    std::filesystem::create_directories(path.parent_path());
    const std::string text(bytes.begin(), bytes.end());
    write_atomically(path, sha256(text) + text, false);
  } catch (const std::exception& error) {
    fmt::print(stderr, "the plan of an engine is not kept: {}\n", error.what());
  }
}

void Choices::keep() {
  if (file_.empty() || is_kept_) return;
  is_kept_ = true;
  try {
    const nlohmann::json kept{{"where", where_}, {"engines", given_}, {"refused", refused_}};
    write_atomically(file_, kept.dump() + "\n", false);
  } catch (const std::exception& error) {
    fmt::print(stderr, "the choices of engines are not kept: {}\n", error.what());
  }
}

std::string Choices::engines() const {
  if (engines_.empty()) return "none";
  std::string all;
  for (const auto& [spec, engine] : engines_) all += fmt::format("{}: {}\n", spec, engine);
  return fmt::format("{} of {}", sha256(all).substr(0, 12), engines_.size());
}

void Choices::refuse(const std::string& engine, const std::string& spec, double error, double allowed) {
  refused_.insert(engine);
  fmt::print(stderr, "{} is left out: its result is off by {:.1e}, and rounding explains {:.1e}: {}\n",
             engine, error, allowed, spec);
}

std::string Choices::reused() const { return reused_ == 0 ? "none" : std::to_string(reused_); }

std::string Choices::refused() const {
  return refused_.empty() ? "none" : fmt::format("{}", fmt::join(refused_, ", "));
}

std::string Choices::fallbacks() const {
  std::vector<std::string> parts;
  for (const auto& [kind, count] : fallbacks_) parts.push_back(fmt::format("{} {}", kind, count));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace assay::cuda
