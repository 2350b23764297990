// The commands of the qtape tool.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/deploy/level.h"
#include "qtape/c99/c_kernels.h"
#include "qtape/kernels/quantize/requantize.h"
#include "qtape/onnx/export.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

using namespace kernels;

// `json` of each command is the file that gets what is printed as JSON; "-": standard output,
// empty: none.

/// Prints nodes, shapes, quantizers with their scales, and parameter and activation bytes; of
/// an integer program its nodes, certificates and the bytes of its weights.
void inspect(const std::string& path, const std::string& json);

struct ReplayOptions {
  std::string model;  ///< or integer program
  DataOptions data;
  int threads = 1;
  bool quantize = true;  ///< false: quantizers are off; only of models
  std::string answers;   ///< file of arrays for all answers, f32; empty: none
  std::string json = {};
};

/// Runs a saved model or integer program over a data set's test images; prints accuracy and a
/// SHA-256 of the first output in its dtype.
void replay(const ReplayOptions& options);

struct CalibrateOptions {
  std::string model;
  DataOptions data;
  std::string save;       ///< file to write the calibrated model to; empty: none
  int64_t images = 1000;  ///< training images to calibrate with
  int weight_bits = 8;    ///< of quantizers added to a model without any
  int activation_bits = 8;
  bool float_parts = false;       ///< allows what has no integers
  std::string weight_codes = {};  ///< name of a CodeRange; empty: not said
  /// A method's name, `usual` for `usual_method` of each quantizer, `search` for the best by
  /// the outputs' error for each, or `all` for a table of all of them.
  std::string observer = "usual";
  std::string weight_observer = "usual";
  int threads = 1;
  std::string json = {};
};

/// Calibrates a model's quantizers, adding them where there are none, and prints what accuracy
/// is left on the test images.
void calibrate(const CalibrateOptions& options);

struct QuantizersOptions {
  std::string model;
  DataOptions data;
  std::string json = {};
  int64_t images = 1000;    ///< test images to report on
  bool sensitivity = true;  ///< also score each quantizer alone
  int threads = 1;
};

/// Reports what each quantizer does to the test images and what it costs alone.
void report_quantizers(const QuantizersOptions& options);

struct ConvertCommand {
  std::string model;
  std::string output;  ///< file to write the integer program to; "-": standard output
  Requantization requantization = Requantization::FloatMultiply;
  bool integer_outputs = false;
  bool verbose = false;  ///< print all nodes with their certificates
  std::string json = {};
};

/// Writes a model's integer program; prints how many nodes it has, the largest certificate and
/// how much smaller its text is.
void convert(const ConvertCommand& command);

struct ExportCCommand {
  std::string file;  ///< integer program, or model
  DataOptions data;  ///< where the samples of the self-test come from
  std::string folder;
  std::string name;  ///< prefix of all names; empty: from the file's
  std::optional<Requantization> requantization = std::nullopt;  ///< of models
  bool integer_outputs = false;                                 ///< of models
  int64_t test_inputs = 128;                                    ///< that the self-test makes
  /// Samples that are stored in it; those of data that are given, else none.
  std::optional<int64_t> golden = std::nullopt;
  std::optional<int64_t> ram = std::nullopt;  ///< bytes that the arena may take
  CKernels kernels = CKernels::Portable;
  bool check = false;  ///< compile and run the self-test
  std::string json = {};
};

/// Writes a program as C99 with a self-test; prints what it takes. False where the self-test
/// was run and failed.
bool export_c(const ExportCCommand& command);

struct ExportOnnxCommand {
  std::string file;    ///< integer program of OnnxQdq, or model
  DataOptions data;    ///< to count on what products in float change of a model
  std::string output;  ///< file to write
  OnnxForm form = OnnxForm::Qdq;
  int64_t opset = first_onnx_opset;
  bool integer_outputs = false;  ///< of models
  int threads = 1;
  std::string json = {};
};

/// Writes a program as an ONNX model; with products in float tells how many codes these change
/// where the file is a model.
void export_onnx(const ExportOnnxCommand& command);

struct VerifyCommand {
  std::string model;
  DataOptions data;
  /// Integer program, with outputs in floats or integers, that the model must give; empty: not
  /// compared.
  std::string program;
  std::vector<Requantization> requantizations = {Requantization::FloatMultiply};
  /// Random inputs to compare as well; empty: none, which needs data.
  std::optional<int64_t> random = std::nullopt;
  uint64_t seed = 1;  ///< of these
  std::vector<Level> levels = {usual_levels.begin(), usual_levels.end()};
  int threads = 1;
  std::string json = {};
};

/// Runs levels of arithmetic on all test samples and on random inputs, and prints what differs.
/// False when anything does that must not.
bool verify(const VerifyCommand& command);

/// What a step computes with.
enum class StepArithmetic : uint8_t {
  Float,   ///< quantizers are off
  Values,  ///< fake quantization
  Codes,   ///< the same with products of codes
  Exact    ///< the integers that ship
};

struct ProfileOptions {
  std::string model;
  std::optional<int64_t> batch = std::nullopt;  ///< empty: as stored
  int64_t steps = 50;
  StepArithmetic arithmetic = StepArithmetic::Codes;
  Requantization requantization = Requantization::FloatMultiply;  ///< of Exact
  int threads = 1;
  std::string json = {};
};

/// Runs training steps of a saved model, inference where it has no loss, on made-up inputs, and
/// prints what each node takes of time and memory. The file stays as it is.
void profile(const ProfileOptions& options);

struct TrainCommand {
  std::string model;
  std::string output;  ///< file to write the trained model to; empty: none
  DataOptions data;
  int64_t epochs = 10;
  int64_t batch = 64;
  /// Without one, 0.003 where quantizers have 3 bits or fewer, else 0.001.
  std::optional<double> learning_rate = std::nullopt;
  uint64_t seed = 1;
  std::optional<int> weight_bits = std::nullopt;
  std::optional<int> activation_bits = std::nullopt;
  std::optional<int> ends_bits = std::nullopt;
  std::string scales = {};        ///< name of a RecipeScales; empty: not said
  std::string weight_codes = {};  ///< name of a CodeRange; empty: not said
  bool in_float = false;          ///< without quantizers
  bool float_parts = false;       ///< allows what has no integers
  std::string teacher = {};       ///< model whose answers are learned as well; empty: none
  double temperature = 2;
  double teacher_share = 0.5;
  double damping = 0;
  std::optional<double> freeze_above = std::nullopt;  ///< see Oscillations
  double scales_rate = 1;  ///< factor on the learning rate of learned scales
  bool norms = false;      ///< freeze no batch norms, measure their statistics again in the end
  std::string checkpoint = {};
  bool resume = false;      ///< the model is a checkpoint to go on from
  std::string report = {};  ///< folder to keep the record of the run in; empty: none
  int threads = 1;
  std::string json = {};
};

/// Fine-tunes a saved model, with its quantizers or with new ones that are calibrated first,
/// and prints what it reaches on the test data.
void train(const TrainCommand& command);

struct SearchCommand {
  std::string model;
  DataOptions data;
  int64_t budget = 0;  ///< bytes of weights
  int activation_bits = 8;
  std::string scales = {};        ///< name of a RecipeScales; empty: not said
  std::string weight_codes = {};  ///< name of a CodeRange; empty: not said
  int64_t samples = 1000;
  bool float_parts = false;  ///< allows what has no integers
  std::string
      output;  ///< file to write the model with the bits that were found to; empty: none
  int threads = 1;
  std::string json = {};
};

/// Finds bits for each layer within a budget; prints what they cost.
void search(const SearchCommand& command);

struct WeightsCommand {
  std::string model;
  std::string from;    ///< file of arrays to take values from; empty: none
  std::string output;  ///< file to write: of arrays, else the model with these values
  std::string json = {};
};

/// Writes all parameters and states of a model by name, or a model with values that are taken
/// over by name, without what a checkpoint has beside it; prints how many.
void weights(const WeightsCommand& command);

/// Draws a model's graph as SVG, by Graphviz, or writes it as DOT, by the end of the name.
void draw_graph(const std::string& model, const std::string& output, const std::string& json);

/// Writes a page that shows the runs whose records are in the folders `runs`.
void draw_runs(const std::vector<std::string>& runs, const std::string& output,
               const std::string& json);

struct ImportCommand {
  std::string model;         ///< ONNX file
  std::string output;        ///< file to write
  bool float_parts = false;  ///< allows what has no integers
  std::string json = {};
};

/// Writes an ONNX model as a model of ours, batch norms folded; prints its inputs and sizes.
void import_model(const ImportCommand& command);

/// Writes a model with its batch norms folded into the layers before them, quantized or not;
/// prints which are and which are not.
void fold(const std::string& path, const std::string& output, const std::string& json);

/// Prints what may go wrong with a model or an integer program, a finding and its remedy a
/// line, or `ok`. The number of errors and warnings; notes, printed if wanted, do not count.
int64_t lint(const std::string& path, bool notes, const std::string& json);

}  // namespace qtape::tool

namespace qtape {
template <>
inline constexpr auto enum_names<tool::StepArithmetic> =
    std::array<std::string_view, 4>{"Float", "Values", "Codes", "Exact"};
}  // namespace qtape
