#include "qtape/core/whole_write.h"

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

#include "qtape/core/signal_stack.h"

namespace qtape {
namespace {

// A handler cannot access anything else; any thread may run it.
std::atomic<int> writes = 0;
std::atomic<int> pending = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void end_by(int signal) {
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

void handle(int signal) {
  if (pending.exchange(signal) != 0 || writes == 0) end_by(signal);
}

std::array<std::byte, signal_stack_bytes> stack;

}  // namespace

WholeWrite::WholeWrite() noexcept { ++writes; }

WholeWrite::~WholeWrite() {
  if (--writes > 0) return;
  if (const int signal = pending.exchange(0)) end_by(signal);
}

void end_after_writes() noexcept {
  stack_t own{};
  own.ss_sp = stack.data();
  own.ss_size = stack.size();
  ::sigaltstack(&own, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction handler {};
    handler.sa_handler = handle;
    handler.sa_flags = static_cast<int>(SA_RESTART | SA_ONSTACK);
    ::sigaction(signal, &handler, nullptr);
  }
}

}  // namespace qtape
