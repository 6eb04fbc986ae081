// With how many threads the next forks run. On a busy machine, threads that spin while they wait keep the processors from the
// threads that they wait for, and a step may take a hundred times as long. Then a cell is timed with as many threads as
// processors are free. These forks have the flag fewer_threads and do not count, so this decides only about forks of which
// no rank can come.
#pragma once

#include <cstddef>
#include <deque>

#include "harness/report/report.hpp"

namespace assay {

class Crowding {
 public:
  // compared: the number of cells that are compared.
  explicit Crowding(std::size_t compared);

  // A fork that is ok.
  void note(const Fork& fork);
  // A fork was given up, because it would have taken too long while its threads waited for a processor.
  void note_starved();

  // How many threads of a cell are to be left out; 0: none. Not 0 after note_starved(), and if every one of the last forks,
  // as many as cells are compared (2 to 8), was disturbed, and the threads of one of them waited for a processor for half of
  // the time or longer (summed over threads). 0 again with the first fork that is not disturbed.
  int threads_left_out() const { return left_out_; }

 private:
  struct Seen {
    bool disturbed = false;
    double waited = 0, taken = 0;  // taken: processors, by others
  };
  int taken_processors() const;

  std::size_t compared_;
  std::deque<Seen> last_;
  int left_out_ = 0;
};

// The time in which the fork's threads were ready and had no processor, over the time in which it was timed; 0 if unknown.
double waited_share(const Fork& fork);

}  // namespace assay
