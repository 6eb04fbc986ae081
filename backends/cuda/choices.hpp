// What runs for the products of a program.
#pragma once

#include <map>
#include <set>
#include <string>

namespace assay::cuda {

// The vendor's engines by spec, those that a search refused, and our own slow kernels where the vendor has none.
// Used from one thread.
class Choices {
 public:
  void take(const std::string& spec, const std::string& engine) { engines_[spec] = engine; }
  // The search found that its result for a spec is wrong, and says so in the worker's log. The errors are relative.
  void refuse(const std::string& engine, const std::string& spec, double error, double allowed);
  void fall_back(const std::string& kind) { ++fallbacks_[kind]; }

  // The beginning of a digest of all engines, and their number: two programs with the same text run the same engines.
  // "none" without any.
  std::string engines() const;
  std::string refused() const;    // their names; "none"
  std::string fallbacks() const;  // "lstm 1, matmul 2"; "none"

 private:
  std::map<std::string, std::string> engines_;
  std::set<std::string> refused_;
  std::map<std::string, int> fallbacks_;
};

}  // namespace assay::cuda
