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
  /// Reads samples of `dataset` in `order`, augmented by `augmenter`, for `inputs`, whose
  /// memory must outlive the prefetcher, up to step `steps`. Throws like Feed.
  Prefetcher(std::vector<FedInput> inputs, const data::Dataset& dataset, data::EpochOrder order,
             data::Augmenter augmenter, int64_t steps);
  ~Prefetcher();

  /// Writes the batch of `step` to the inputs, waiting for it if necessary, and starts to read
  /// the next one. The first call may have any step; each further call must have the following
  /// step. Rethrows exceptions of the reading thread.
  void fill(int64_t step);

 private:
  /// Private memory for the contents of one input.
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
  Feed feed_;                    // writes to the buffers
  data::EpochOrder order_;
  data::Augmenter augmenter_;
  int64_t steps_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t requested_ = nothing;  // step that the thread reads or will read
  int64_t ready_ = nothing;      // step in the buffers
  std::exception_ptr error_;     // set if reading failed
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace qtape
