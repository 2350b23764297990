// Writes of files that signals do not end halfway.
#pragma once

namespace qtape {

/// In a program that called `end_after_writes`, a signal during the lifetime of such an object
/// ends the program only after its destructor; a second signal ends it immediately.
class WholeWrite {
 public:
  WholeWrite() noexcept;
  WholeWrite(const WholeWrite&) = delete;
  WholeWrite& operator=(const WholeWrite&) = delete;
  ~WholeWrite();
};

/// For the main thread of a program: SIGINT, SIGTERM and SIGHUP end it after the writes under
/// way, so that no temporary file is left. Signals that are ignored or handled are unchanged.
void end_after_writes() noexcept;

}  // namespace qtape
