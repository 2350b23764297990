#include "qtape/examples/shared/interruption.h"

#include <atomic>

namespace qtape::examples {
namespace {

// A handler can reach nothing else; any thread may run it.
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void keep(int signal) { received = signal; }

void handle(int signal, struct sigaction& before) {
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction handler {};
  handler.sa_handler = keep;
  handler.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  ::sigaction(signal, &handler, nullptr);
}

}  // namespace

Interruption::Interruption() {
  received = 0;
  handle(SIGINT, interrupt_);
  handle(SIGTERM, terminate_);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
}

int Interruption::signal() const { return received; }

const char* signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace qtape::examples
