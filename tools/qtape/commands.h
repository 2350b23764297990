// The commands of the qtape tool.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_kernels.h"
#include "qtape/core/enum_names.h"
#include "qtape/deploy/level.h"
#include "qtape/kernels/quantize/requantize.h"
#include "qtape/onnx/export.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

using namespace kernels;

// For all commands, `json` is the file to which the printed information is written as JSON; "-"
// is standard output, empty is none.

/// Prints nodes, shapes, quantizers with their scales, and parameter and activation bytes; for
/// an integer program its nodes, certificates and weight bytes.
void inspect(const std::string& path, const std::string& json);

struct ReplayOptions {
  std::string model;  ///< or integer program
  DataOptions data;
  int threads = 1;
  bool quantize = true;  ///< false: quantizers are off; only for models
  std::string answers;   ///< file of arrays for all answers, f32; empty: none
  std::string json = {};
};

/// Runs a saved model or integer program on the test samples of a data set; prints the
/// score and a SHA-256 of all answers in their dtypes.
void replay(const ReplayOptions& options);

struct CalibrateOptions {
  std::string model;
  DataOptions data;
  std::string save;       ///< file for the calibrated model; empty: none
  int64_t images = 1000;  ///< number of training images for calibration
  int weight_bits = 8;    ///< of quantizers that are added to a model without any
  int activation_bits = 8;
  bool float_parts = false;       ///< allows parts without an integer form
  std::string weight_codes = {};  ///< name of a CodeRange; empty: not given
  /// The name of a method, `usual` for `usual_method` of each quantizer, `search` for the
  /// method with the least output error for each quantizer, or `all` for a table of all
  /// methods.
  std::string observer = "usual";
  std::string weight_observer = "usual";
  int threads = 1;
  std::string json = {};
};

/// Calibrates a model's quantizers, adding them if there are none, and prints the remaining
/// accuracy on the test images.
void calibrate(const CalibrateOptions& options);

struct QuantizersOptions {
  std::string model;
  DataOptions data;
  std::string json = {};
  int64_t images = 1000;    ///< number of test images for the report
  bool sensitivity = true;  ///< also score each quantizer alone
  int threads = 1;
};

/// Reports the effect of each quantizer on the test images, and its cost alone.
void report_quantizers(const QuantizersOptions& options);

struct ConvertCommand {
  std::string model;
  std::string output;  ///< file for the integer program; "-": standard output
  Requantization requantization = Requantization::FloatMultiply;
  bool integer_outputs = false;
  bool verbose = false;  ///< print all nodes with their certificates
  std::string json = {};
};

/// Writes a model's integer program; prints the number of nodes, the largest certificate and
/// the reduction in text size.
void convert(const ConvertCommand& command);

struct ExportCCommand {
  std::string file;  ///< integer program, or model
  DataOptions data;  ///< source of the samples for the self-test
  std::string folder;
  std::string name;  ///< prefix of all names; empty: derived from the file name
  std::optional<Requantization> requantization = std::nullopt;  ///< for models
  bool integer_outputs = false;                                 ///< for models
  int64_t test_inputs = 128;                                    ///< number of inputs that the
                                                                ///< self-test generates
  /// Number of samples stored in the self-test; if empty, a default if data are given, else
  /// none.
  std::optional<int64_t> golden = std::nullopt;
  std::optional<int64_t> ram = std::nullopt;  ///< maximum bytes of the arena
  CKernels kernels = CKernels::Portable;
  bool check = false;  ///< compile and run the self-test
  std::string json = {};
};

/// Writes a program as C99 with a self-test; prints its memory requirements. Returns false if
/// the self-test was run and failed.
bool export_c(const ExportCCommand& command);

struct ExportOnnxCommand {
  std::string file;    ///< integer program with OnnxQdq, or model
  DataOptions data;    ///< for counting the codes that products in float change; only for
                       ///< models
  std::string output;  ///< file to write
  OnnxForm form = OnnxForm::Qdq;
  int64_t opset = first_onnx_opset;
  bool integer_outputs = false;  ///< for models
  int threads = 1;
  std::string json = {};
};

/// Writes a program as an ONNX model; for a model file and products in float also prints how
/// many codes change.
void export_onnx(const ExportOnnxCommand& command);

struct VerifyCommand {
  std::string model;
  DataOptions data;
  /// Integer program, with float or integer outputs, that the converted model must equal;
  /// empty: no comparison.
  std::string program;
  std::vector<Requantization> requantizations = {Requantization::FloatMultiply};
  /// Number of additional random inputs; empty: none, which requires data.
  std::optional<int64_t> random = std::nullopt;
  uint64_t seed = 1;  ///< of the random inputs
  std::vector<Level> levels = {usual_levels.begin(), usual_levels.end()};
  int threads = 1;
  std::string json = {};
};

/// Runs levels of arithmetic on all test samples and on random inputs, and prints the
/// differences. Returns false if values differ that must be equal.
bool verify(const VerifyCommand& command);

/// Arithmetic of a step.
enum class StepArithmetic : uint8_t {
  Float,   ///< quantizers are off
  Values,  ///< fake quantization
  Codes,   ///< fake quantization with products of codes
  Exact    ///< the integer ops that are deployed
};

struct ProfileOptions {
  std::string model;
  std::optional<int64_t> batch = std::nullopt;  ///< empty: as stored
  int64_t steps = 50;
  StepArithmetic arithmetic = StepArithmetic::Codes;
  Requantization requantization = Requantization::FloatMultiply;  ///< for Exact
  int threads = 1;
  std::string json = {};
};

/// Runs training steps of a saved model, or inference if it has no loss, on synthetic inputs,
/// and prints time and memory of each node. The file is not changed.
void profile(const ProfileOptions& options);

struct TrainCommand {
  std::string model;
  std::string output;  ///< file for the trained model; empty: none
  DataOptions data;
  int64_t epochs = 10;
  int64_t batch = 64;
  /// If empty, 0.003 if quantizers have 3 bits or fewer, else 0.001.
  std::optional<double> learning_rate = std::nullopt;
  uint64_t seed = 1;
  std::optional<int> weight_bits = std::nullopt;
  std::optional<int> activation_bits = std::nullopt;
  std::optional<int> ends_bits = std::nullopt;
  std::string scales = {};        ///< name of a RecipeScales; empty: not given
  std::string weight_codes = {};  ///< name of a CodeRange; empty: not given
  bool in_float = false;          ///< without quantizers
  bool float_parts = false;       ///< allows parts without an integer form
  std::string teacher = {};       ///< teacher model for distillation; empty: none
  double temperature = 2;
  double teacher_share = 0.5;
  double damping = 0;
  std::optional<double> freeze_above = std::nullopt;  ///< see Oscillations
  double scales_rate = 1;  ///< factor on the learning rate of learned scales
  bool norms = false;      ///< freezes no batch norms, and re-estimates their statistics at the
                           ///< end
  std::string checkpoint = {};
  bool resume = false;      ///< the model is a checkpoint from which to continue
  std::string report = {};  ///< folder for the record of the run; empty: none
  int threads = 1;
  std::string json = {};
};

/// Fine-tunes a saved model, with its own quantizers or with new ones that are calibrated
/// first, and prints the score on the test data.
void train(const TrainCommand& command);

struct SearchCommand {
  std::string model;
  DataOptions data;
  int64_t budget = 0;  ///< bytes of weights
  int activation_bits = 8;
  std::string scales = {};        ///< name of a RecipeScales; empty: not given
  std::string weight_codes = {};  ///< name of a CodeRange; empty: not given
  int64_t samples = 1000;
  bool float_parts = false;  ///< allows parts without an integer form
  std::string output;        ///< file for the model with the bits that were found; empty: none
  int threads = 1;
  std::string json = {};
};

/// Finds the bits of each layer within a budget; prints their cost.
void search(const SearchCommand& command);

struct WeightsCommand {
  std::string model;
  std::string from;    ///< file of arrays with new values; empty: none
  std::string output;  ///< file to write: of arrays, else the model with the new values
  std::string json = {};
};

/// Writes all parameters and states of a model by name, or a model with values replaced by
/// name, without the other parts of a checkpoint; prints their number.
void weights(const WeightsCommand& command);

/// Draws a model's graph as SVG by Graphviz, or writes it as DOT, depending on the file
/// extension.
void draw_graph(const std::string& model, const std::string& output, const std::string& json);

/// Writes a page that shows the runs with records in the folders `runs`.
void draw_runs(const std::vector<std::string>& runs, const std::string& output,
               const std::string& json);

struct ImportCommand {
  std::string model;         ///< ONNX file
  std::string output;        ///< file to write
  bool float_parts = false;  ///< allows parts without an integer form
  std::string json = {};
};

/// Converts an ONNX model to a model file, with batch norms folded; prints its inputs and
/// sizes.
void import_model(const ImportCommand& command);

/// Writes a model with its batch norms folded into the preceding layers, quantized or not;
/// prints which norms are folded and which are not.
void fold(const std::string& path, const std::string& output, const std::string& json);

/// Prints possible problems of a model or an integer program, one finding with its remedy per
/// line, or `ok`. Returns the number of errors and warnings; notes are printed if `notes`, but
/// not counted.
int64_t lint(const std::string& path, bool notes, const std::string& json);

}  // namespace qtape::tool

namespace qtape {
template <>
inline constexpr auto enum_names<tool::StepArithmetic> =
    std::array<std::string_view, 4>{"Float", "Values", "Codes", "Exact"};
}  // namespace qtape
