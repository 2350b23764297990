#include "qtape/data/generated/idx_files.h"

#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/io/files.h"

namespace qtape::data {
namespace {

constexpr int64_t images_magic = 0x803;
constexpr int64_t labels_magic = 0x801;

void put_word(std::string& text, int64_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(word >> shift);
}

void write_pair(const Dataset& set, const std::string& stem) {
  const auto pixels = set.values<uint8_t>("x");
  const Shape& image = set.columns()[0].sample.shape;
  std::string images, labels;
  for (int64_t word : {images_magic, set.size(), image[0], image[1]}) put_word(images, word);
  images.append(reinterpret_cast<const char*>(pixels.data()), pixels.size());
  for (int64_t word : {labels_magic, set.size()}) put_word(labels, word);
  for (int64_t i = 0; i < set.size(); ++i) {
    int32_t label = 0;
    set.read(1, i, std::span(&label, 1));
    labels += static_cast<char>(label);
  }
  write_file(stem + "-images-idx3-ubyte", images);
  write_file(stem + "-labels-idx1-ubyte", labels);
}

}  // namespace

void write_mnist(const std::string& folder, const Split& split) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<IoError>(!error, "{}: cannot create this folder: {}", folder, error.message());
  write_pair(split.train, folder + "/train");
  write_pair(split.test, folder + "/t10k");
}

}  // namespace qtape::data
