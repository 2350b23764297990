// Samples on their way into whatever computes: tapes, sessions and verification.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qtape/calibrate/calibration.h"
#include "qtape/data/batches.h"
#include "qtape/deploy/verify.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/session.h"

namespace qtape {

/// An input with room for some samples: f32 or s32.
struct FedInput {
  std::string label = {};
  Shape sample = {};                 ///< extents of one sample
  std::span<float> floats = {};      ///< all samples of an f32 input, else empty
  std::span<int32_t> integers = {};  ///< all samples of an s32 input, else empty

  /// Samples that there is room for.
  int64_t rows() const;
};

/// The inputs that a run needs. Throws ArgumentError for one without a batch extent and for
/// other dtypes than f32 and s32.
std::vector<FedInput> inputs_of(Tape& tape);
/// The same of a session.
std::vector<FedInput> inputs_of(IntegerSession& session);
/// The same of a verifier.
std::vector<FedInput> inputs_of(Verifier& verifier);

/// Whether a column may fill an input: labels s32 inputs of one number, all others what has the
/// same extents, those of 1 aside, or as many elements where either has one axis alone.
bool fits(const data::Column& column, const FedInput& input);

/// The column for each of `inputs`: the one of its label, else the first that fits and that no
/// input took. Throws ArgumentError as Feed does.
std::vector<size_t> columns_for(std::span<const FedInput> inputs, const data::Dataset& dataset);

/// Throws the ArgumentError that Feed throws for data that do not fit the inputs which
/// `outputs` need, before anything takes memory to run the graph.
void require_fit(const Graph& graph, std::span<const NodeId> outputs,
                 const data::Dataset& dataset);
/// The same of all inputs of a program.
void require_fit(const IntegerProgram& program, const data::Dataset& dataset);

/// Writes samples of a data set to inputs, each from one column: the one of its label, else the
/// first that fits and that no input took.
class Feed {
 public:
  /// Throws ArgumentError, which tells what the data set has, for an input that no column fits,
  /// for a column of the input's label that does not, and for no inputs. The inputs' memory
  /// must outlive it.
  Feed(std::vector<FedInput> inputs, data::Dataset dataset);

  /// Samples that the inputs have room for.
  int64_t rows() const { return inputs_[0].rows(); }
  const data::Dataset& dataset() const { return dataset_; }
  /// Writes `samples`, at most rows(), and 0 after the last.
  void fill(std::span<const int64_t> samples);
  /// Writes samples from `first` on, as many as there are and fit; how many.
  int64_t fill_from(int64_t first);
  /// Writes all samples in order and calls `body(first, count)` after each batch.
  template <class Body>
  void for_each_batch(const Body& body) {
    for (int64_t first = 0; first < dataset_.size(); first += rows()) {
      const int64_t count = fill_from(first);
      body(first, count);
    }
  }
  /// Writes the samples of training step `step`, rows() of them, as `augmenter` changes them.
  void fill(std::span<const int64_t> samples, int64_t step, data::Augmenter& augmenter);

 private:
  using ReadFloats = std::function<void(size_t column, size_t row, std::span<float> to)>;
  void fill_rows(std::span<const int64_t> samples, const ReadFloats& read,
                 const data::Draw& draw);

  std::vector<FedInput> inputs_;
  std::vector<size_t> columns_;  // by input
  data::Dataset dataset_;
  std::vector<int64_t> order_;
};

/// Full batches of a data set in order, at most `samples` of it, for calibration and reports.
BatchSource batches_of(const data::Dataset& dataset, int64_t samples);

}  // namespace qtape
