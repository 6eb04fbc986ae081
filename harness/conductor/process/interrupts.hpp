// Ctrl-C and SIGTERM as something to poll for, so that the report is finished before the program ends.
#pragma once

namespace assay {

// While one lives, SIGINT, SIGTERM and SIGHUP are remembered instead of ending the program; a third SIGINT
// ends it at once. One that was ignored before stays ignored. At most one at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Readable once a signal has come; never read from it.
  int descriptor() const;
  // The number of the first signal; 0 while none has come.
  int signal() const;
};

}  // namespace assay
