// Ranks that are threads of one process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
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

  /// Calls `body(exchange)` in one thread for each rank and rethrows the first exception.
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
        }
      });
    }
    for (std::thread& each : threads) each.join();
    for (const std::exception_ptr& each : errors) {
      if (each) std::rethrow_exception(each);
    }
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

  /// Returns when all ranks have called it.
  void wait() {
    std::unique_lock lock(mutex_);
    const int64_t round = round_;
    if (++waiting_ == blocks_.size()) {
      waiting_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return round_ != round; });
  }

  std::vector<std::span<const std::byte>> blocks_;  // by rank
  std::vector<One> exchanges_;
  bool delayed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t waiting_ = 0;
  int64_t round_ = 0;
};

}  // namespace qtape::test
