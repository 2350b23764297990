// Model files, which are written back as they were read.
#include "qtape/engine/serialize.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/support/integer_nets.h"

namespace {

using namespace qtape;

void write_again(std::string_view bytes) {
  const SavedModel model = model_from_json(bytes);
  const std::string text = to_json(model.graph, model.parameters);
  const SavedModel again = fuzz::accepted([&] { return model_from_json(text); });
  fuzz::require_equal(to_json(again.graph, again.parameters) == text);
}

std::vector<std::string> models() {
  std::vector<std::string> all = fuzz::files("data", ".json");
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const Graph graph = test::any_net(seed);
    all.push_back(to_json(graph, Parameters(graph, seed)));
  }
  return all;
}

const fuzz::Target target("model", write_again, models);

}  // namespace
