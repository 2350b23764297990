// Evaluation: a classifier's accuracy on a data set and the exact bits of what it answered.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "qtape/calibrate/calibration.h"
#include "qtape/engine/tape.h"
#include "qtape/examples/data/dataset.h"

namespace qtape::data {

struct Evaluation {
  double accuracy = 0;         ///< percent of the images whose largest output is their label
  std::string outputs_sha256;  ///< of all outputs, f32 little-endian, image after image
  bool operator==(const Evaluation&) const = default;
};

/// The class with the largest score.
int64_t predicted(std::span<const float> scores);

/// What was answered to some images: their scores, f32 [images, classes], and the bytes to
/// hash.
struct Answers {
  std::span<const float> scores;
  std::span<const std::byte> bytes;
};

/// Evaluates what `run` answers to the images that it finds in x [batch, features], `count` of
/// them and zeros after them: all images of the set in order.
Evaluation evaluate(const Dataset& dataset, std::span<float> x,
                    const std::function<Answers(int64_t count)>& run);

/// Runs the first output of a graph, f32 [batch, classes], over data sets. The graph needs just
/// one batched f32 input for it, [batch, features]. Allocates once.
class Evaluator {
 public:
  /// Images per step: results do not depend on how many the caller trains with.
  static constexpr int64_t batch = 250;

  /// Throws GraphError when the graph has no such output or input.
  Evaluator(const Graph& graph, Parameters& parameters, int threads,
            Arithmetic arithmetic = {});
  /// Throws ArgumentError when images have another number of pixels than the graph's input, or
  /// the set more classes than the output.
  Evaluation run(const Dataset& dataset, Mode mode = mode::eval);
  /// What it runs: quantizers can be switched off here.
  Tape& tape() { return tape_; }

 private:
  Tape tape_;
  NodeId input_;
  NodeId output_;
};

/// The first `images` of a data set in order, at least one batch, as full batches for
/// calibration and reports: images for the f32 inputs [batch, features] that a tape needs,
/// labels for its s32 inputs [batch]. `dataset` must outlive it. The function throws
/// ArgumentError for other inputs and images of another size.
BatchSource batch_source(const Dataset& dataset, int64_t images);

}  // namespace qtape::data
