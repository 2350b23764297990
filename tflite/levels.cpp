#include "qtape/tflite/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tflite/micro_program.h"
#include "qtape/tflite/model_tensors.h"

namespace qtape {

using namespace tflite;
namespace {

/// Values of all samples, one after another.
struct Samples {
  int64_t bytes = 0;  ///< of one sample; 0: the model has no such values
  std::vector<std::byte> data = {};
};

void make_signed(std::span<std::byte> codes) {
  for (std::byte& each : codes) each ^= std::byte{128};
}

/// Runs the quantizers of a program, which make the codes of a model's inputs.
class InputCodes {
 public:
  InputCodes(const IntegerProgram& program, const ModelTensors& tensors)
      : quantizers_(of(program, tensors)), session_(quantizers_.program, {.reference = true}) {}

  /// Returns the values of the model's inputs for all samples.
  std::vector<Samples> values(std::span<const Tensor> inputs, int64_t samples) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::ranges::copy(inputs[i].values<float>(),
                        session_.input<float>(quantizers_.inputs[i]).begin());
    }
    session_.run();
    std::vector<Samples> all;
    for (const ProgramNodeId id : quantizers_.values) {
      const auto bytes = session_.bytes(id);
      all.push_back({std::ssize(bytes) / samples, {bytes.begin(), bytes.end()}});
      if (quantizers_.program[id].value.type.dtype == DType::U8) make_signed(all.back().data);
    }
    return all;
  }

 private:
  struct Quantizers {
    IntegerProgram program;
    std::vector<ProgramNodeId> inputs, values;  ///< by input of the model
  };

  static Quantizers of(const IntegerProgram& program, const ModelTensors& tensors) {
    Quantizers made{IntegerProgram(program.requantization()), {}, {}};
    for (const ProgramNodeId id : input_ids(program)) {
      const int32_t tensor = tensors.inputs[made.inputs.size()];
      made.inputs.push_back(made.program.add(program[id].op, {}, program[id].label));
      made.values.push_back(made.inputs.back());
      for (const ProgramNodeId user : ids(program)) {
        if (user == id || tensors.values[user] != tensor) continue;
        made.values.back() = made.program.add(program[user].op, {made.inputs.back()});
      }
    }
    made.program.set_outputs(made.values);
    return made;
  }

  Quantizers quantizers_;
  IntegerSession session_;
};

/// A model of the verified program.
struct VerifiedModel {
  std::string bytes;
  ModelTensors tensors;  // by node of the verified program
};

VerifiedModel model_of(const IntegerProgram& program, const std::string& file) {
  if (file.empty()) {
    WrittenModel made = write_model(program, nullptr);
    return {std::move(made.bytes), std::move(made.tensors)};
  }
  const ReadProgram read = read_program(file, nullptr);
  const IntegerProgram model =
      program.batch() ? read.program.with_batch(*program.batch()) : read.program;
  // The program may have more nodes: dequantizers of its outputs.
  VerifiedModel found{
      file, {NodeMap<std::optional<int32_t>, IntegerProgram>(program), read.tensors.inputs}};
  check(model.size() <= program.size(), "the model has {} nodes, the program {}", model.size(),
        program.size());
  for (const ProgramNodeId id : ids(model)) {
    const TensorType& type = model[id].value.type;
    check(type == program[id].value.type,
          "the model is not that of the program: {} is {}, expected {}", model.name(id),
          to_string(type), to_string(program[id].value.type));
    found.tensors.values[id] = read.tensors.values[id];
  }
  return found;
}

class MicroRunner : public LevelRunner {
 public:
  MicroRunner(const LevelContext& c, const TfliteLevelOptions& options)
      : context_(c),
        model_(naming<GraphError>(tflite_micro_level.name,
                                  [&] { return model_of(program(), options.model); })),
        inputs_(program(), model_.tensors),
        executable_(micro_program(c.threads, options.progress)),
        values_(program()) {
    const IntegerProgram one = program().batch() ? program().with_batch(1) : program();
    for (const ProgramNodeId id : ids(one)) {
      // Neither inputs nor constants are computed.
      if (one[id].operands.empty() || !model_.tensors.values[id]) continue;
      values_[id].bytes = one[id].value.type.bytes();
      values_[id].data.resize(static_cast<size_t>(values_[id].bytes * samples()));
      computed_.push_back(id);
    }
    for (const ProgramNodeId id : program().outputs()) {
      require_computed(id);
      outputs_.emplace_back(static_cast<size_t>(program()[id].value.type.elements()));
    }
  }

  void run(std::span<const Tensor> inputs, int64_t rows) override {
    const std::vector<Samples> given = inputs_.values(inputs, samples());
    run_model(given, program().batch() ? rows : 1);
    for (size_t i = 0; i < outputs_.size(); ++i) {
      set_output(program().outputs()[i], outputs_[i]);
    }
  }
  std::optional<IntegersView> integers(size_t i) const override {
    const ProgramNodeId id = context_.subject.conversion.pairs[i].program;
    if (values_[id].bytes == 0) return std::nullopt;
    const DType dtype = program()[id].value.type.dtype;
    return IntegersView{size_of(dtype) == 1 ? DType::S8 : DType::S16, values_[id].data.data(),
                        signed_offset(dtype)};
  }
  std::span<const float> output(size_t which) const override { return outputs_[which]; }

 private:
  const IntegerProgram& program() const { return context_.subject.conversion.program; }
  int64_t samples() const { return program().batch().value_or(1); }

  /// Runs samples 0 to `rows`, a part of them in each of several processes.
  void run_model(const std::vector<Samples>& given, int64_t rows) {
    // The folder exists only during this run: a signal between runs ends the process, and the
    // folder would be left behind.
    const TemporaryFolder folder;
    const std::string executable = folder.file("run");
    write_file(executable, executable_);
    std::filesystem::permissions(executable, std::filesystem::perms::owner_all);
    write_file(folder.file("model"), model_.bytes);
    write_file(folder.file("tensors"), requests());
    const int64_t parts = std::max<int64_t>(1, std::min<int64_t>(context_.threads, rows));
    std::vector<std::vector<std::string>> commands;
    for (int64_t part = 0; part < parts; ++part) {
      const std::string from = folder.file(fmt::format("inputs.{}", part));
      write_file(from, inputs_of(given, rows * part / parts, rows * (part + 1) / parts));
      commands.push_back({executable, folder.file("model"), from, folder.file("tensors"),
                          folder.file(fmt::format("outputs.{}", part))});
    }
    (void)run_programs(commands, context_.threads, [](size_t, const Finished& finished) {
      require_success("TensorFlow Lite Micro", finished);
    });
    for (int64_t part = 0; part < parts; ++part) {
      keep(folder.file(fmt::format("outputs.{}", part)), rows * part / parts,
           rows * (part + 1) / parts);
    }
  }

  /// Returns index and bytes of each computed tensor.
  std::string requests() const {
    std::vector<int32_t> all;
    for (const ProgramNodeId id : computed_) {
      all.push_back(*model_.tensors.values[id]);
      all.push_back(static_cast<int32_t>(values_[id].bytes));
    }
    return {reinterpret_cast<const char*>(all.data()), all.size() * sizeof(int32_t)};
  }

  static std::string inputs_of(const std::vector<Samples>& given, int64_t begin, int64_t end) {
    std::string text;
    for (int64_t row = begin; row < end; ++row) {
      for (const Samples& each : given) {
        text.append(reinterpret_cast<const char*>(each.data.data()) + row * each.bytes,
                    static_cast<size_t>(each.bytes));
      }
    }
    return text;
  }

  /// Keeps the values in a file of outputs, of samples `begin` to `end`.
  void keep(const std::string& path, int64_t begin, int64_t end) {
    int64_t bytes = 0;
    for (const ProgramNodeId id : computed_) bytes += values_[id].bytes * (end - begin);
    const std::string outputs = read_file(path, bytes);
    require<Error>(std::ssize(outputs) == bytes,
                   "TensorFlow Lite Micro wrote {} bytes, expected {}", outputs.size(), bytes);
    const char* from = outputs.data();
    for (int64_t row = begin; row < end; ++row) {
      for (const ProgramNodeId id : computed_) {
        Samples& to = values_[id];
        std::memcpy(to.data.data() + row * to.bytes, from, static_cast<size_t>(to.bytes));
        from += to.bytes;
      }
    }
  }

  /// Throws GraphError unless an output has values, or dequantizes codes that have.
  void require_computed(ProgramNodeId id) const {
    if (values_[id].bytes > 0) return;
    const std::vector<ProgramNodeId>& operands = program()[id].operands;
    require<GraphError>(!operands.empty() && values_[operands[0]].bytes > 0,
                        "{}: output '{}' is an input or a constant, which {} does not compute",
                        tflite_micro_level.name, program().name(id), tflite_micro_level.name);
  }

  /// The floats of a tensor, or those of the codes that an output dequantizes.
  void set_output(ProgramNodeId id, std::vector<float>& to) const {
    if (values_[id].bytes > 0) {
      std::memcpy(to.data(), values_[id].data.data(), to.size() * sizeof(float));
      return;
    }
    const ProgramNodeId from = program()[id].operands[0];
    const IntegerValue& value = program()[from].value;
    const auto scale = static_cast<float>(value.scales[0]);
    const int64_t zero = value.zero_point - signed_offset(value.type.dtype);
    const auto set = [&]<class Code>(const Code* codes) {
      for (size_t i = 0; i < to.size(); ++i) {
        to[i] = static_cast<float>(codes[i] - zero) * scale;
      }
    };
    const std::byte* codes = values_[from].data.data();
    if (size_of(value.type.dtype) == 1) return set(reinterpret_cast<const int8_t*>(codes));
    set(reinterpret_cast<const int16_t*>(codes));
  }

  LevelContext context_;
  VerifiedModel model_;
  InputCodes inputs_;
  const std::string& executable_;
  NodeMap<Samples, IntegerProgram> values_;
  std::vector<ProgramNodeId> computed_;  // nodes with values
  std::vector<std::vector<float>> outputs_;
};

}  // namespace

RunnerFactories tflite_levels(const TfliteLevelOptions& options) {
  return {
      {tflite_micro_level,
       {[options](const LevelContext& c) { return std::make_unique<MicroRunner>(c, options); },
        [](Requantization each) { return each == Requantization::DoubleRounding; }}}};
}

}  // namespace qtape
