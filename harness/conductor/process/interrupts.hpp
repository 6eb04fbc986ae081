// Makes Ctrl-C and SIGTERM pollable, so that the report is finished before the program ends.
#pragma once

namespace assay {

// While an object exists, SIGINT, SIGTERM and SIGHUP are remembered and do not end the program; a third
// one ends it at once, with exit code 128 + its number. A signal that was ignored before stays ignored.
// Once a signal has come, this holds until the program ends. At most one object at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Readable once a signal has come; never read from it.
  int descriptor() const;
  // The number of the first signal; 0 before the first.
  int signal() const;
};

}  // namespace assay
