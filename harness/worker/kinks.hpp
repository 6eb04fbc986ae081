// The kinks of a network, by the contracts of its ops: on which side of 0 each element of a ReLU is, and which element
// of its window each maximum is. Within rounding of a kink two correct backends may be on different sides, and then their
// gradients differ by more than rounding; the oracle counts how often that can happen.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/core/tensor.hpp"
#include "harness/graph/program.hpp"

namespace assay {

class Kinks {
 public:
  // Only a network's `training` has kinks; a single op has none. nudged: with nudges().
  explicit Kinks(const Program& program, bool nudged = false);

  // The program with one more output of `training` for each kink, so that it can be observed, and with the nudges.
  const Program& watched() const { return watched_; }

  // "nudge/<node>", F32 zeros: one more state of watched() for each node that chooses, which is added to what the node
  // reads. Two neighbours of a window have the same parameters and nearly the same inputs. So moving these moves both
  // alike, but the errors of their sums are not alike.
  std::vector<HostTensor> nudges() const;
  // The same, each element with the largest error that a pass has had so far in its channel.
  std::vector<HostTensor> reach() const;

  // Takes those outputs out of the answers of one pass. The first pass must be the exact one; later passes
  // are compared with it. `ordered` brings the rows of a pass back into the order of the first.
  using Order = std::function<std::vector<double>(const std::vector<double>& rows)>;
  void take(std::vector<HostTensor>& answers, const Order& ordered = {});

  // Takes them and the nudges out without comparing.
  void leave_out(std::vector<HostTensor>& answers) const;

  bool any() const { return !kinks_.empty(); }
  // The number of elements that are observed in a pass, known after the first.
  std::int64_t elements() const;

  // Whether an element was on another side in one of the passes.
  bool any_tipped() const;

  // "ties/<op>", F64 (2): the number of elements that were on another side in at least one of the passes, and
  // the number of all elements. One tensor for each op of the program that has a kink.
  std::vector<HostTensor> counts() const;

 private:
  struct Watched {
    NodeId node = none;
    std::vector<std::int32_t> side{};  // of each element in the first pass
    std::vector<bool> tipped{};
    std::vector<double> exact{};  // with nudges: what a node that chooses reads
    std::vector<double> reach{};  // by channel
  };

  std::vector<std::int32_t> sides(NodeId node, const std::vector<double>& values) const;
  bool is_nudged(const Watched& kink) const;
  const Shape& read_by(const Watched& kink) const;
  void widen_reach(Watched& kink, std::vector<double> values) const;

  Program watched_;
  bool nudged_;
  std::map<std::string, Watched> kinks_{};  // by the name of the output
};

// Where the oracle looks for ties that are near, by runs of its own.
struct NearTies {
  bool in_all_steps = false, in_the_first = false;
};
// elements: that have a kink, in all steps of an exam. With many of them runs are long, and the perturbed ones show whether
// any is near a tie (`tipped`), but not of two neighbours in an op that `chooses`: those runs move both alike.
NearTies near_ties(std::int64_t elements, bool tipped, bool chooses);

}  // namespace assay
