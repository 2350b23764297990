#include "qtape/model/training/prefetcher.h"

#include <algorithm>
#include <utility>

namespace qtape {

Prefetcher::Prefetcher(std::vector<FedInput> inputs, const data::Dataset& dataset,
                       data::EpochOrder order, data::Augmenter augmenter, int64_t steps)
    : inputs_(std::move(inputs)),
      buffers_(inputs_.size()),
      feed_(buffered(), dataset),
      order_(std::move(order)),
      augmenter_(std::move(augmenter)),
      steps_(steps),
      thread_([this] { work(); }) {}

Prefetcher::~Prefetcher() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::vector<FedInput> Prefetcher::buffered() {
  std::vector<FedInput> result = inputs_;
  for (size_t i = 0; i < result.size(); ++i) {
    if (!inputs_[i].needed) continue;
    buffers_[i].floats.resize(inputs_[i].floats.size());
    buffers_[i].integers.resize(inputs_[i].integers.size());
    result[i].floats = buffers_[i].floats;
    result[i].integers = buffers_[i].integers;
  }
  return result;
}

void Prefetcher::fill(int64_t step) {
  std::unique_lock lock(mutex_);
  if (requested_ == nothing && ready_ != step) request(step);
  changed_.wait(lock, [&] { return ready_ == step || error_ != nullptr; });
  if (error_ != nullptr) std::rethrow_exception(error_);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::ranges::copy(buffers_[i].floats, inputs_[i].floats.begin());
    std::ranges::copy(buffers_[i].integers, inputs_[i].integers.begin());
  }
  if (step + 1 < steps_) request(step + 1);
}

void Prefetcher::request(int64_t step) {
  requested_ = step;
  ready_ = nothing;
  changed_.notify_all();
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || requested_ != nothing; });
    if (ends_) return;
    const int64_t step = requested_;
    lock.unlock();
    std::exception_ptr error;
    try {
      feed_.fill(order_.at(step), step, augmenter_);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    requested_ = nothing;
    ready_ = step;
    error_ = error;
    changed_.notify_all();
  }
}

}  // namespace qtape
