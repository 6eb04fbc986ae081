// What a person sees while a run goes on: a line that renews itself on a terminal, plain lines elsewhere.
// Always on stderr.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace assay {

class Progress {
 public:
  // `terminal`: the line renews itself. quiet(): says nothing.
  Progress(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  static Progress on_stderr();
  static Progress quiet() { return {nullptr, false}; }

  void plan(int forks) { planned_ = forks; }
  // A fork or a check begins: "lenet5/onednn/graph round 2 of 6".
  void begin(std::string what);
  void phase(std::string_view phase);
  void steps(std::int64_t done, std::int64_t planned);
  // It ended: "ok, 2.13 ms a step". `counts`: it was one of the planned forks.
  void end(std::string_view result, bool counts);
  void note(std::string_view line);
  // Wipes the renewed line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(bool now);
  std::string time_left() const;

  std::FILE* out_;
  bool terminal_;
  int planned_ = 0, done_ = 0;
  std::string what_, phase_;
  double share_ = 0;  // of the fork in hand
  Clock::time_point start_ = Clock::now(), begun_{}, drawn_{};
  double spent_ = 0;  // seconds in forks that count
};

// "2.13 ms", "41 s", "3 min 20 s"
std::string duration_text(double seconds);

}  // namespace assay
