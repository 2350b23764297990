#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/data/files.h"

namespace qtape::data {
namespace {

constexpr uint32_t images_magic = 0x00000803;
constexpr uint32_t labels_magic = 0x00000801;
constexpr int64_t max_side = 4096;
constexpr int64_t max_count = 100'000'000;
// The largest pixel count, 1.7e15, fits int64_t, so products of checked extents do not
// overflow.
static_assert(max_count <= INT64_MAX / (max_side * max_side));

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};

/// A plain or gzip file, read once from start to end.
class IdxFile {
 public:
  explicit IdxFile(const std::string& path) : path_(path) {
    errno = 0;
    file_.reset(gzopen(path.c_str(), "rb"));
    if (file_ == nullptr && errno == ENOMEM) throw std::bad_alloc();
    require<IoError>(file_ != nullptr, "{}: cannot open: {}", path_, std::strerror(errno));
    gzbuffer(file_.get(), 1 << 17);
  }

  const std::string& path() const { return path_; }

  /// Checks the magic number and returns the big-endian words after it.
  std::vector<int64_t> read_header(uint32_t magic, size_t words, const char* content) {
    std::vector<std::byte> bytes(4 * (1 + words));
    const size_t got = read(bytes);
    // Before the length, so that a short file of another kind is reported as such.
    if (got >= 4) {
      require<FormatError>(
          word(bytes, 0) == magic,
          "{}: wrong magic 0x{:08x}, expected 0x{:08x} (IDX {} of unsigned bytes)", path_,
          word(bytes, 0), magic, content);
    }
    if (got < bytes.size()) fail_truncated(bytes.size(), "header", got);
    std::vector<int64_t> extents;
    for (size_t i = 1; i <= words; ++i) extents.push_back(word(bytes, i));
    return extents;
  }

  /// Reads exactly `count` bytes, then the end of the file.
  std::vector<std::byte> read_rest(size_t count, const char* content) {
    constexpr size_t chunk = size_t{1} << 20;
    std::vector<std::byte> bytes;
    while (bytes.size() < count) {
      const size_t have = bytes.size();
      const size_t want = std::min(chunk, count - have);
      // Memory is reserved by the bytes read, because the header may be wrong.
      if (have + want > bytes.capacity()) bytes.reserve(std::min(count, 2 * have + chunk));
      bytes.resize(have + want);
      const size_t got = read(std::span(bytes).subspan(have));
      if (got < want) fail_truncated(count, content, have + got);
    }
    expect_end();
    return bytes;
  }

 private:
  static uint32_t word(std::span<const std::byte> bytes, size_t index) {
    uint32_t value = 0;
    for (const std::byte each : bytes.subspan(4 * index, 4)) {
      value = value << 8 | std::to_integer<uint32_t>(each);
    }
    return value;
  }

  /// Fills `bytes` and returns the number of bytes read, which is smaller only at the end of
  /// the file.
  size_t read(std::span<std::byte> bytes) {
    errno = 0;
    const int got = gzread(file_.get(), bytes.data(), static_cast<unsigned>(bytes.size()));
    const int reason = errno;
    const int status = gz_status();
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    require<IoError>(status != Z_ERRNO, "{}: cannot read: {}", path_, std::strerror(reason));
    require<FormatError>(got >= 0 && status != Z_DATA_ERROR,
                         "{}: corrupt gzip stream: wrong data or checksum", path_);
    position_ += static_cast<size_t>(got);
    return static_cast<size_t>(got);
  }

  int gz_status() const {
    int status = Z_OK;
    gzerror(file_.get(), &status);
    return status;
  }

  /// True if a gzip member is truncated by the end of the file; zlib reports it by this status.
  bool gzip_is_cut() const { return gz_status() == Z_BUF_ERROR; }

  void expect_end() {
    std::byte surplus{};
    const size_t end = position_;
    const size_t got = read(std::span(&surplus, 1));
    require<FormatError>(
        got == 0, "{}: surplus bytes: expected the end after {} bytes, got more", path_, end);
    require<FormatError>(
        !gzip_is_cut(),
        "{}: truncated gzip stream: expected a checksum after {} bytes, got none", path_, end);
  }

  [[noreturn]] void fail_truncated(size_t expected, const char* content, size_t got) const {
    fail<FormatError>("{}: truncated{}: expected {} bytes of {}, got {}", path_,
                      gzip_is_cut() ? " gzip stream" : "", expected, content, got);
  }

  std::string path_;
  std::unique_ptr<gzFile_s, CloseGz> file_;
  size_t position_ = 0;
};

void check_extent(const std::string& path, const char* name, int64_t value, int64_t limit) {
  require<FormatError>(value >= 1 && value <= limit, "{}: {} {} is outside 1..{}", path, name,
                       value, limit);
}

void check_labels(const std::string& path, std::span<const std::byte> bytes, int64_t classes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto label = std::to_integer<int64_t>(bytes[i]);
    require<FormatError>(label < classes, "{}: label {} at index {} is outside 0..{}", path,
                         label, i, classes - 1);
  }
}

std::string path_in(const std::string& directory, std::string_view name) {
  return (std::filesystem::path(directory) / name).string();
}

/// Returns `plain` or the same path with .gz, whichever exists.
std::optional<std::string> existing(const std::string& plain) {
  for (const std::string& path : {plain, plain + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return std::nullopt;
}

std::string find_file(const std::string& plain) {
  const auto path = existing(plain);
  require<IoError>(path.has_value(), "{}: not found, neither plain nor with .gz", plain);
  return *path;
}

/// Names of images and labels.
struct Pair {
  std::string_view images;
  std::string_view labels;
};
constexpr Pair train_files = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
constexpr Pair test_files = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

Dataset read_pair(const std::string& directory, const Pair& names, int64_t classes) {
  const std::string images = find_file(path_in(directory, names.images));
  return idx(images, find_file(path_in(directory, names.labels)), classes);
}

Dataset read_idx(const std::string& images_path, const std::string& labels_path,
                 int64_t classes) {
  require<ArgumentError>(classes >= 0 && classes <= 256,
                         "idx: expected classes within 0..256, got {}", classes);
  IdxFile images(images_path);
  IdxFile labels(labels_path);
  const std::vector<int64_t> extents = images.read_header(images_magic, 3, "images");
  check_extent(images.path(), "image count", extents[0], max_count);
  check_extent(images.path(), "row count", extents[1], max_side);
  check_extent(images.path(), "column count", extents[2], max_side);
  const int64_t label_count = labels.read_header(labels_magic, 1, "labels")[0];
  check_extent(labels.path(), "label count", label_count, max_count);
  require<FormatError>(label_count == extents[0],
                       "{}: expected {} labels, one for each image in {}, got {}", labels_path,
                       extents[0], images_path, label_count);
  std::vector<std::byte> bytes =
      images.read_rest(static_cast<size_t>(extents[0] * extents[1] * extents[2]), "pixels");
  Tensor pixels{{DType::U8, {extents[0], extents[1], extents[2]}}, std::move(bytes)};
  Tensor numbers{{DType::U8, {label_count}},
                 labels.read_rest(static_cast<size_t>(label_count), "labels")};
  check_labels(labels_path, numbers.data, classes > 0 ? classes : 256);
  Dataset set;
  set.add("x", std::move(pixels)).add_target("labels", std::move(numbers), classes);
  return set;
}

}  // namespace

Dataset idx(const std::string& images_path, const std::string& labels_path, int64_t classes) {
  return during("reading", images_path,
                [&] { return read_idx(images_path, labels_path, classes); });
}

Split mnist(const std::string& directory, int64_t classes) {
  Split split = {read_pair(directory, train_files, classes),
                 read_pair(directory, test_files, classes)};
  const Shape train = split.train.columns()[0].sample.shape;
  const Shape test = split.test.columns()[0].sample.shape;
  require<FormatError>(train == test,
                       "{}: expected t10k images of {}x{} as in train, got {}x{}", directory,
                       train[0], train[1], test[0], test[1]);
  return split;
}

std::vector<std::string> mnist_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const Pair& names : {train_files, test_files}) {
    for (const std::string_view name : {names.images, names.labels}) {
      if (auto path = existing(path_in(directory, name))) files.push_back(*std::move(path));
    }
  }
  return files;
}

}  // namespace qtape::data
