// Prefetcher: reads the batch of the next training step while a step computes.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "qtape/data/batches.h"
#include "qtape/model/feed.h"

namespace qtape {

class Prefetcher {
 public:
  /// Reads samples of `dataset` in `order`, changed by `augmenter`, for `inputs`, whose memory
  /// must outlive it, up to step `steps`. Throws as Feed does.
  Prefetcher(std::vector<FedInput> inputs, const data::Dataset& dataset, data::EpochOrder order,
             data::Augmenter augmenter, int64_t steps);
  ~Prefetcher();

  /// Writes the batch of `step` to the inputs, waiting for it where needed, and begins to read
  /// that of the next step. The first call may have any step, each other the one after it.
  /// Throws what reading threw.
  void fill(int64_t step);

 private:
  /// What `inputs_` get, in memory of its own.
  struct Buffer {
    std::vector<float> floats = {};
    std::vector<int32_t> integers = {};
  };

  std::vector<FedInput> buffered();
  void work();
  void request(int64_t step);

  static constexpr int64_t nothing = -1;

  std::vector<FedInput> inputs_;
  std::vector<Buffer> buffers_;  // by input
  Feed feed_;                    // into them
  data::EpochOrder order_;
  data::Augmenter augmenter_;
  int64_t steps_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t requested_ = nothing;  // what the thread reads or is to read
  int64_t ready_ = nothing;      // what the buffers hold
  std::exception_ptr error_;     // instead
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace qtape
