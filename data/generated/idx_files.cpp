#include "qtape/data/generated/idx_files.h"

#include "qtape/core/error.h"
#include "qtape/io/files.h"

namespace qtape::data {
namespace {

constexpr int64_t images_magic = 0x803;
constexpr int64_t labels_magic = 0x801;

void put_word(std::string& text, int64_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(word >> shift);
}

void write_pair(const Dataset& set, const std::string& images_path,
                const std::string& labels_path) {
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
  write_file(images_path, images);
  write_file(labels_path, labels);
}

}  // namespace

void write_mnist(const std::string& folder, const Split& split) {
  create_folder(folder);
  const std::vector<std::string> files = mnist_files_in(folder);
  write_pair(split.train, files[0], files[1]);
  write_pair(split.test, files[2], files[3]);
}

std::vector<std::string> mnist_files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* part : {"/train", "/t10k"}) {
    for (const char* kind : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
      files.push_back(folder + part + kind);
    }
  }
  return files;
}

}  // namespace qtape::data
