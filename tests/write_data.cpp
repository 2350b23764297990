// write_data FOLDER [MNIST | COUNT]: writes digits as the four MNIST-format files, as x.npy,
// y.npy, x-test.npy and y-test.npy, and as digits.npz with arrays of these names. The digits
// come from a folder of MNIST-format files if given, else COUNT are generated, by default 7000.
#include <algorithm>
#include <iterator>

#include "qtape/data/generated/digits.h"
#include "qtape/data/generated/idx_files.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/qtape.h"

namespace {

using namespace qtape;

/// Writes a set as arrays, and returns them.
NamedTensors write_set(const data::Dataset& set, const std::string& suffix,
                       const std::string& folder) {
  const auto pixels = set.values<uint8_t>("x");
  std::vector<uint8_t> labels;
  for (int64_t i = 0; i < set.size(); ++i) {
    int32_t label = 0;
    set.read(1, i, std::span(&label, 1));
    labels.push_back(static_cast<uint8_t>(label));
  }
  const NamedTensors arrays = {
      {"x" + suffix, Tensor::of<uint8_t>({set.size(), 28, 28}, pixels)},
      {"y" + suffix, Tensor::of<uint8_t>({set.size()}, labels)}};
  for (const NamedTensor& each : arrays) {
    write_arrays(folder + "/" + each.name + ".npy", {each});
  }
  return arrays;
}

}  // namespace

int main(int argc, char** argv) {
  return console::run_program("write_data", [&] {
    require<ArgumentError>(argc == 2 || argc == 3, "usage: write_data FOLDER [MNIST | COUNT]");
    const std::string source = argc == 3 ? argv[2] : "7000";
    const bool generated = source.find_first_not_of("0123456789") == std::string::npos;
    const data::Split digits =
        generated ? data::example_digits(std::stoll(source)) : data::mnist(source);
    data::write_mnist(argv[1], digits);
    NamedTensors arrays = write_set(digits.train, "", argv[1]);
    std::ranges::move(write_set(digits.test, "-test", argv[1]), std::back_inserter(arrays));
    write_arrays(std::string(argv[1]) + "/digits.npz", arrays);
  });
}
