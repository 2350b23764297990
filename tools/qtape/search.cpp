#include <fmt/format.h>

#include "qtape/console/terminal.h"
#include "qtape/core/printable.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/bit_search.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

void search(const SearchCommand& command) {
  examples::OutputFiles files;
  files.expect("--output", command.output);
  Model model = Model::load(command.model);
  const data::Split data = load_data(command.data, features_of(model.graph()), command.samples);
  model = with_loss(std::move(model), data.train);
  const BitSearchOptions options{.budget = command.budget,
                                 .activation_bits = command.activation_bits,
                                 .samples = command.samples,
                                 .threads = command.threads,
                                 .on_trial = [](int64_t done, int64_t all) {
                                   console::redraw(fmt::format("{} of {} trials", done, all));
                                 }};
  const BitSearch found = search_bits(model, data.train, options);
  console::clear_line();
  fmt::print("{:<28} {:>10}", "loss that so few bits add", "weights");
  for (const int bits : options.candidates) fmt::print(" {:>9}", fmt::format("{} bits", bits));
  fmt::print(" {:>8}\n", "chosen");
  for (const LayerSearch& layer : found.layers) {
    fmt::print("{:<28} {:>10}", printable(layer.weight), layer.elements);
    for (const double loss : layer.losses) fmt::print(" {:>9.4f}", loss);
    fmt::print(" {:>8}\n", options.candidates[layer.chosen]);
  }
  fmt::print("{} bytes of weights within {}\n", found.bytes, command.budget);
  if (command.output.empty()) return;
  const Model chosen =
      quantized(model, found.recipe, data.train, command.samples, command.threads);
  files.save(command.output, [&](const std::string& path) { chosen.save(path); });
  files.require_written();
}

}  // namespace qtape::tool
