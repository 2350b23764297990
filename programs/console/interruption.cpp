#include "qtape/programs/console/interruption.h"

#include <atomic>

namespace qtape::console {
namespace {

// A handler cannot access anything else; any thread may run it.
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void keep(int signal) { received = signal; }

// Larger than any signal frame with vector registers.
constexpr size_t stack_bytes = size_t{64} << 10;

void handle(int signal, struct sigaction& before) {
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction handler {};
  handler.sa_handler = keep;
  handler.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND | SA_ONSTACK);
  ::sigaction(signal, &handler, nullptr);
}

}  // namespace

Interruption::Interruption() : stack_(stack_bytes) {
  received = 0;
  stack_t stack{};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  ::sigaltstack(&stack, &stack_before_);
  handle(SIGINT, interrupt_);
  handle(SIGTERM, terminate_);
}

Interruption::~Interruption() {
  ::sigaction(SIGINT, &interrupt_, nullptr);
  ::sigaction(SIGTERM, &terminate_, nullptr);
  ::sigaltstack(&stack_before_, nullptr);
}

int Interruption::signal() const { return received; }

const char* signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace qtape::console
