#include "qtape/deploy/verify.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "qtape/engine/serialize.h"
#include "qtape/examples/data/batches.h"
#include "qtape/ops/core/printable.h"
#include "qtape/ops/core/random.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {
namespace {

constexpr int64_t batch = 250;
constexpr auto levels = {Level::Float, Level::Exact, Level::Reference, Level::Backend};

void show(std::string_view what, int64_t done, int64_t all) {
  if (isatty(STDOUT_FILENO) == 0) return;
  fmt::print("\r{}: {} of {}\033[K{}", what, done, all, done == all ? "\r\033[K" : "");
  std::fflush(stdout);
}

int64_t predicted(std::span<const float> scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

/// Images whose label each level finds.
struct Right {
  std::array<int64_t, 4> images{};
  int64_t float_differs = 0;  ///< images that L0 and L1 see differently
};

void count_right(const Verifier& verifier, const data::Dataset& images, int64_t first,
                 int64_t count, Right& right) {
  const auto classes = verifier.output(Level::Float).size() / static_cast<size_t>(batch);
  for (int64_t row = 0; row < count; ++row) {
    std::array<int64_t, 4> found{};
    for (Level level : levels) {
      const auto scores =
          verifier.output(level).subspan(static_cast<size_t>(row) * classes, classes);
      const auto at = static_cast<size_t>(level);
      found[at] = predicted(scores);
      right.images[at] += found[at] == images.labels[static_cast<size_t>(first + row)] ? 1 : 0;
    }
    right.float_differs += found[0] != found[1] ? 1 : 0;
  }
}

Right run_images(Verifier& verifier, const data::Dataset& images) {
  const auto features = static_cast<size_t>(images.features());
  require<ArgumentError>(verifier.input().size() == features * static_cast<size_t>(batch),
                         "images have {} pixels, the model takes {}", features,
                         verifier.input().size() / static_cast<size_t>(batch));
  Right right;
  for (int64_t first = 0; first < images.size(); first += batch) {
    const int64_t count = std::min(batch, images.size() - first);
    std::ranges::fill(verifier.input(), 0.0f);
    for (int64_t row = 0; row < count; ++row) {
      data::copy_pixels(
          images, first + row,
          verifier.input().subspan(static_cast<size_t>(row) * features, features));
    }
    verifier.run(count);
    count_right(verifier, images, first, count, right);
    show("images", first + count, images.size());
  }
  return right;
}

/// Inputs from -0.5 to 1.5, so that some lie outside of what pixels are, each in its own
/// density: from nearly black to nearly full.
void run_random(Verifier& verifier, int64_t samples, uint64_t seed) {
  const auto width = verifier.input().size() / static_cast<size_t>(batch);
  for (int64_t first = 0; first < samples; first += batch) {
    const int64_t count = std::min(batch, samples - first);
    for (int64_t row = 0; row < count; ++row) {
      const Random random(seed, static_cast<uint64_t>(first + row));
      const double density = random.uniform(0);
      for (size_t i = 0; i < width; ++i) {
        const double value = 2 * random.uniform(2 * i + 1) - 0.5;
        const bool drawn = random.uniform(2 * i + 2) < density;
        verifier.input()[static_cast<size_t>(row) * width + i] =
            drawn ? static_cast<float>(value) : 0.0f;
      }
    }
    verifier.run(count);
    show("random inputs", first + count, samples);
  }
}

void print_layers(const Verifier& verifier) {
  fmt::print("{:<28} {:>12} {:>12} {:>12} {:>12}\n", "mismatching integers", "compared",
             "L0 and L1", "L1 and L2", "L2 and L3");
  for (const LayerComparison& layer : verifier.layers()) {
    const bool sums = layer.sums;
    fmt::print("{:<28} {:>12} {:>12} {:>12} {:>12}\n",
               printable(layer.label) + (sums ? " (sums)" : ""), layer.compared,
               sums ? "" : fmt::format("{}", layer.float_exact), layer.exact_reference,
               sums ? "" : fmt::format("{}", layer.reference_backend));
  }
  fmt::print("{:<28} {:>12} {:>12} {:>12}\n", "outputs, f32", "",
             verifier.float_output_mismatches(), verifier.output_mismatches());
}

void print_certificates(const Verifier& verifier) {
  for (const IntegerNode& node : verifier.program().nodes()) {
    const auto* linear = std::get_if<integer::Linear>(&node.op);
    if (linear == nullptr) continue;
    fmt::print("certificate of {}: {}\n", printable(node.label),
               to_string(linear->certificate));
  }
  fmt::print("L3 runs\n{}", verifier.report());
}

/// The attributes that differ; empty for equal ops.
template <class T>
std::string differing(const T& a, const IntegerOp& other) {
  const T* b = std::get_if<T>(&other);
  if (b == nullptr) return " op";
  std::string names;
  for_each_field<T>([&](const auto& each) {
    if (!(a.*each.member == b->*each.member))
      names += fmt::format("{}{}", names.empty() ? " " : ", ", each.key);
  });
  return names;
}

/// `%6 'fc3' and %2`, or `none`.
std::string names_of(const IntegerProgram& program, std::span<const NodeId> ids) {
  std::string text;
  for (NodeId id : ids) {
    text += fmt::format("{}%{}", text.empty() ? "" : " and ", id.index);
    if (!program[id].label.empty()) text += fmt::format(" '{}'", printable(program[id].label));
  }
  return text.empty() ? "none" : text;
}

/// Where two programs differ first.
std::string difference(const IntegerProgram& saved, const IntegerProgram& converted) {
  for (int32_t i = 0; i < std::min(saved.size(), converted.size()); ++i) {
    const NodeId id{i};
    if (saved[id] == converted[id]) continue;
    const std::string names = std::visit(
        [&](const auto& op) { return differing(op, converted[id].op); }, saved[id].op);
    return fmt::format("{} differs in{}", saved.describe(id),
                       names.empty() ? " label or operands" : names);
  }
  if (saved.size() != converted.size())
    return fmt::format("it has {} nodes, expected {}", saved.size(), converted.size());
  return fmt::format("its outputs are {}, expected {}", names_of(saved, saved.outputs()),
                     names_of(converted, converted.outputs()));
}

bool has_integer_outputs(const IntegerProgram& program) {
  return std::ranges::any_of(
      program.outputs(), [&](NodeId id) { return program[id].value.type.dtype != DType::F32; });
}

void compare_program(const Verifier& verifier, Model& model, const std::string& path) {
  const IntegerProgram saved = load_program(path);
  if (saved.profile() != verifier.program().profile()) {
    fail<GraphError>("{}: is of profile {}, verified is {}", path,
                     to_string_view(saved.profile()),
                     to_string_view(verifier.program().profile()));
  }
  const IntegerProgram batched = saved.with_batch(batch);
  const IntegerProgram converted =
      has_integer_outputs(saved)
          ? convert(model.graph.with_batch(batch), model.parameters,
                    {.profile = saved.profile(), .integer_outputs = true})
          : verifier.program();
  if (batched != converted) {
    fail<GraphError>("{}: is not what the model converts to: {}", path,
                     difference(batched, converted));
  }
  fmt::print("{} is what the model converts to\n", path);
}

bool verify_profile(Model& model, const data::Dataset& images, const VerifyCommand& command,
                    Profile profile) {
  Verifier verifier(
      model.graph, model.parameters,
      {.convert = {.profile = profile}, .batch = batch, .threads = command.threads});
  fmt::print("profile {}, {} thread{}\n", to_string_view(profile), command.threads,
             command.threads == 1 ? "" : "s");
  if (!command.program.empty()) compare_program(verifier, model, command.program);
  print_certificates(verifier);
  const Right right = run_images(verifier, images);
  run_random(verifier, command.random, command.seed);
  print_layers(verifier);
  for (Level level : levels) {
    fmt::print("{}: accuracy {:.2f} %\n", to_string_view(level),
               100.0 * static_cast<double>(right.images[static_cast<size_t>(level)]) /
                   static_cast<double>(std::max<int64_t>(1, images.size())));
  }
  fmt::print(
      "{} images and {} random inputs: {} mismatches between L1, L2 and L3; L0 and L1 "
      "see {} images differently\n\n",
      images.size(), command.random, verifier.mismatches(), right.float_differs);
  if (verifier.mismatches() == 0) return true;
  if (verifier.first_mismatch()) {
    fmt::print(stderr, "qtape: mismatch: {}\n", to_string(*verifier.first_mismatch()));
  } else {
    fmt::print(stderr, "qtape: mismatch: outputs differ in their bits\n");
  }
  return false;
}

}  // namespace

bool verify(const VerifyCommand& command) {
  Model model = load_model(command.model);
  const data::Dataset images = load_data(command.data).test;
  bool equal = true;
  for (Profile profile : command.profiles) {
    equal = verify_profile(model, images, command, profile) && equal;
  }
  return equal;
}

}  // namespace qtape::tool
