#include "qtape/programs/console/interruption.h"

#include <atomic>
#include <mutex>

#include "qtape/core/signal_stack.h"

namespace qtape::console {
namespace {

// A handler cannot access anything else; any thread may run it.
std::atomic<int> received = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void keep(int signal) { received = signal; }

/// Handlers from before the first object, which the last one restores.
struct Handlers {
  std::mutex mutex;
  int users = 0;
  struct sigaction interrupt {};
  struct sigaction terminate {};
} handlers;

void handle(int signal, struct sigaction& before) {
  ::sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction handler {};
  handler.sa_handler = keep;
  handler.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND | SA_ONSTACK);
  ::sigaction(signal, &handler, nullptr);
}

}  // namespace

Interruption::Interruption() : stack_(signal_stack_bytes) {
  stack_t stack{};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  ::sigaltstack(&stack, &stack_before_);
  const std::lock_guard lock(handlers.mutex);
  if (handlers.users++ > 0) return;
  received = 0;
  handle(SIGINT, handlers.interrupt);
  handle(SIGTERM, handlers.terminate);
}

Interruption::~Interruption() {
  {
    const std::lock_guard lock(handlers.mutex);
    if (--handlers.users == 0) {
      ::sigaction(SIGINT, &handlers.interrupt, nullptr);
      ::sigaction(SIGTERM, &handlers.terminate, nullptr);
    }
  }
  ::sigaltstack(&stack_before_, nullptr);
}

int Interruption::signal() const { return received; }

const char* signal_name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace qtape::console
