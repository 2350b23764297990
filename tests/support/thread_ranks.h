// Ranks that are threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/ops/core/shards.h"

namespace qtape::test {

/// Memory in which threads exchange bytes.
class ThreadRanks {
 public:
  /// If `delayed`, ranks start in reverse order and reach each exchange after pauses that
  /// depend on the rank and the exchange.
  explicit ThreadRanks(int ranks, bool delayed = false)
      : blocks_(static_cast<size_t>(ranks)), delayed_(delayed) {
    for (int rank = 0; rank < ranks; ++rank) exchanges_.emplace_back(*this, rank);
  }

  /// Calls `body(exchange)` in one thread for each rank and rethrows the first exception. It
  /// ends the exchanges of all ranks.
  void run(const std::function<void(Exchange&)>& body) {
    std::vector<std::exception_ptr> errors(exchanges_.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < exchanges_.size(); ++i) {
      const size_t rank = delayed_ ? exchanges_.size() - 1 - i : i;
      threads.emplace_back([&, rank] {
        try {
          body(exchanges_[rank]);
        } catch (...) {
          errors[rank] = std::current_exception();
          fail(static_cast<int>(rank));
        }
      });
    }
    for (std::thread& each : threads) each.join();
    if (first_ >= 0) std::rethrow_exception(errors[static_cast<size_t>(first_)]);
  }

 private:
  class One : public Exchange {
   public:
    One(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int ranks() const override { return static_cast<int>(all_.blocks_.size()); }
    void gather(std::span<const std::byte> own, std::span<const int64_t> bytes,
                std::byte* all) override {
      pause();
      all_.blocks_[static_cast<size_t>(rank_)] = own;
      all_.wait();
      pause();
      for (size_t rank = 0; rank < all_.blocks_.size(); ++rank) {
        std::memcpy(all, all_.blocks_[rank].data(), static_cast<size_t>(bytes[rank]));
        all += bytes[rank];
      }
      all_.wait();
    }

   private:
    void pause() {
      if (!all_.delayed_) return;
      const Random random(7, static_cast<uint64_t>(rank_));
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(300, ++pauses_)));
    }

    ThreadRanks& all_;
    int rank_;
    uint64_t pauses_ = 0;
  };

  void fail(int rank) {
    const std::lock_guard lock(mutex_);
    if (first_ < 0) first_ = rank;
    changed_.notify_all();
  }

  /// Returns when all ranks have called it. Throws if one has failed.
  void wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++waiting_ == blocks_.size()) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round || first_ >= 0; });
    if (round_ == round) throw std::runtime_error("another rank failed");
  }

  std::vector<std::span<const std::byte>> blocks_;  // by rank
  std::vector<One> exchanges_;
  bool delayed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int first_ = -1;  // the rank that failed first
  size_t waiting_ = 0;
  int64_t round_ = 0;
};

}  // namespace qtape::test
