// Where a host has put the processors of this machine. A virtual machine does not show it, and its host may change it
// from one second to the next: two processors on one physical core, or on cores without a common cache.
#pragma once

#include <optional>
#include <vector>

namespace assay {

struct CoreReading {
  // How many times as long the same loop takes on the slowest of the processors while all of them run it as while only
  // that one runs it. About 1 if each has a core of its own (up to 1.4 where clocks fall with the number of busy
  // cores), about 2 if two share a core.
  double slowdown = 0;
  // Time from a processor's write to the next one's read of it, in a ring of all of them: about 20 ns within a core, 50
  // ns within a shared cache, 250 ns without. Every barrier of a program's threads waits for it.
  double hop_ns = 0;
  bool operator==(const CoreReading&) const = default;
};

// Takes about 15 ms and keeps all of these logical processors busy. Absent if there are fewer than two, if a thread
// could not be placed on one of them, or if other work kept them too busy to measure.
std::optional<CoreReading> read_cores(const std::vector<int>& processors);

// Time of a fixed chain of dependent multiplications on this thread's processor, the shortest of several: the speed of a
// core, which two processors that give themselves one name do not share. Other work on the machine hardly changes it,
// because a hardware thread next to it leaves most of a dependent chain's time unused. It repeats until the three
// shortest are within 1 %: about 4 ms, at most 100 ms on a busy machine.
double loop_seconds();

}  // namespace assay
