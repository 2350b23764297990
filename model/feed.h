// Feeding of samples to tapes, sessions and verifiers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qtape/calibrate/calibration.h"
#include "qtape/data/batches.h"
#include "qtape/deploy/verify.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/program/session.h"

namespace qtape {

/// An input with memory for a number of samples, f32 or s32.
struct FedInput {
  std::string label = {};
  Shape sample = {};                 ///< extents of one sample
  std::span<float> floats = {};      ///< all samples of an f32 input, otherwise empty
  std::span<int32_t> integers = {};  ///< all samples of an s32 input, otherwise empty
  bool target = false;      ///< only losses depend on it: a column that is a target may fill it
  std::string answer = {};  ///< name of the answer with which a loss compares it; empty: none
  /// False for an input that the pass does not read. Other inputs leave its column to it, so
  /// that each input reads the same column in every pass.
  bool needed = true;

  /// Returns the number of samples that fit.
  int64_t rows() const;
};

/// Returns the inputs of a tape, and those of its graph that it does not need. Throws
/// ArgumentError for an input without batch extent or with a dtype other than f32 and s32.
std::vector<FedInput> inputs_of(Tape& tape);
/// Returns the inputs of a session.
std::vector<FedInput> inputs_of(IntegerSession& session);
/// Returns the inputs of a verifier, and those of its graph that its program does not need.
std::vector<FedInput> inputs_of(Verifier& verifier);

/// True if a column can fill an input. An s32 input takes an integer column with the same
/// extents. An f32 input takes a column that is not labels, with the same extents or, if either
/// has a single axis, with the same number of elements. Extents of 1 are ignored, but not where
/// they would exchange axes: [8, 8, 1] is not [8, 1, 8].
bool fits(const data::Column& column, const FedInput& input);

inline constexpr size_t no_column = SIZE_MAX;

/// Returns the index of the column for each of `inputs`:
///
/// - the column with the input's label;
/// - otherwise, for an input of losses, the target with the name of the answer that the loss
///   compares with it;
/// - otherwise the first unused column with its axes, or else the first that fits; inputs of
///   answers come before those of losses.
///
/// A target fills only an input of losses, which takes another column only if no target fits.
/// `no_column` for an input that is not needed and that no column fits. Throws ArgumentError
/// like Feed.
std::vector<size_t> columns_for(std::span<const FedInput> inputs, const data::Dataset& dataset);

/// Returns the batched inputs of a graph, without memory, for `columns_for`; `needed` are those
/// that `outputs` depend on.
std::vector<FedInput> inputs_for(const Graph& graph, std::span<const NodeId> outputs);
/// Returns the batched inputs of a program, without memory.
std::vector<FedInput> inputs_for(const IntegerProgram& program);

/// Throws the ArgumentError that Feed would throw if the data do not fit the inputs that
/// `outputs` need, before memory for the graph is allocated.
void require_fit(const Graph& graph, std::span<const NodeId> outputs,
                 const data::Dataset& dataset);
/// Checks the data for all inputs of a program.
void require_fit(const IntegerProgram& program, const data::Dataset& dataset);

/// Writes samples of a data set to inputs. Each input is filled from one column, see
/// columns_for.
class Feed {
 public:
  /// Throws ArgumentError, which lists the columns of the data set, for an input that no column
  /// fits, for a column that has an input's label but does not fit it, for an input of answers
  /// that several columns fit equally, none of them by name, and if there are no inputs. The
  /// memory of the inputs must outlive the feed.
  Feed(std::vector<FedInput> inputs, data::Dataset dataset);

  /// Returns the number of samples that the inputs can hold.
  int64_t rows() const { return inputs_[0].rows(); }
  const data::Dataset& dataset() const { return dataset_; }
  /// Writes `samples`, at most rows() of them, followed by zeros.
  void fill(std::span<const int64_t> samples);
  /// Writes samples starting at `first`, as many as exist and fit; returns their number.
  int64_t fill_from(int64_t first);
  /// Writes all samples in order, batch by batch, and calls `body(first, count)` for each
  /// batch.
  template <class Body>
  void for_each_batch(const Body& body) {
    for (int64_t first = 0; first < dataset_.size(); first += rows()) {
      const int64_t count = fill_from(first);
      body(first, count);
    }
  }
  /// Writes the samples of training step `step`, rows() of them, augmented by `augmenter`.
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

/// Returns full batches of a data set in order, of at most `samples` samples, for calibration
/// and reports.
BatchSource batches_of(const data::Dataset& dataset, int64_t samples);

}  // namespace qtape
