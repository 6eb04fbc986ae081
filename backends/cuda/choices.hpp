// What runs for the products of a program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace assay::cuda {

// The vendor's engines by spec, those that a search refused, and our own slow kernels where the vendor has none.
// Used from one thread.
class Choices {
 public:
  Choices() = default;
  // Knows what the file says that earlier searches chose and refused, if they were by the same rules, on the same device,
  // with the same libraries; `where` names the latter. Keeps there what was measured when it is destroyed. Neither fails:
  // without the file, searches are made. plans: a folder for the plans of engines; empty: none are kept. Those of another file are
  // removed.
  Choices(std::filesystem::path file, std::string where, std::filesystem::path plans = {});
  ~Choices();
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;

  // The name of the engine that an earlier search chose for a spec; empty without one.
  std::string given(const std::string& spec) const;
  // It is taken again, and nothing searched.
  void reuse() { ++reused_; }
  // The bytes of the engine's plan, with its compiled code, which an earlier search kept; empty without them.
  std::vector<std::uint8_t> plan(const std::string& spec, const std::string& engine) const;
  // Keeps them. Does not fail.
  void keep_plan(const std::string& spec, const std::string& engine, const std::vector<std::uint8_t>& bytes);
  void take(const std::string& spec, const std::string& engine);
  // The search found that its result for a spec is wrong, and says so in the worker's log. The errors are relative.
  void refuse(const std::string& engine, const std::string& spec, double error, double allowed);
  void fall_back(const std::string& kind) { ++fallbacks_[kind]; }
  // What was taken so far, and what fell back. After a trial that is not taken, forget_since() brings it back; what the trial
  // measured stays known.
  struct Taken {
    std::map<std::string, std::string> engines;
    std::map<std::string, int> fallbacks;
  };
  Taken taken() const { return {engines_, fallbacks_}; }
  void forget_since(Taken before) {
    engines_ = std::move(before.engines);
    fallbacks_ = std::move(before.fallbacks);
  }
  // Writes the file now.
  void keep();

  // The beginning of a digest of all engines, and their number: two programs with the same text run the same engines.
  // "none" without any.
  std::string engines() const;
  std::string reused() const;     // how many of them an earlier search chose: "57"; "none"
  std::string refused() const;    // their names; "none"
  std::string fallbacks() const;  // "lstm 1, matmul 2"; "none"

 private:
  using Engines = std::map<std::string, std::string>;  // by spec
  std::filesystem::path path_of_plan(const std::string& spec, const std::string& engine) const;

  std::filesystem::path file_, plans_;
  std::string where_;
  Engines given_, engines_;
  int reused_ = 0;
  bool is_kept_ = true;
  std::set<std::string> refused_;
  std::map<std::string, int> fallbacks_;
};

}  // namespace assay::cuda
