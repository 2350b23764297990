#include "qtape/onnx/import/data_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/printable.h"
#include "qtape/io/descriptor.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {
namespace {

std::string place_of(const std::string& location) {
  return fmt::format("data file '{}'", printable(location));
}

/// Returns the parts of a relative path that stays in its folder.
std::vector<std::string> parts_of(const std::string& location) {
  const std::string place = place_of(location);
  require<FormatError>(!location.empty() && location.find('\0') == std::string::npos,
                       "{}: expected the name of a file", place);
  require<FormatError>(location[0] != '/',
                       "{}: expected a path relative to the folder of the model", place);
  std::vector<std::string> parts;
  std::string part;
  for (const char c : location + "/") {
    if (c != '/') {
      part += c;
      continue;
    }
    require<FormatError>(part != "..", "{} would leave the folder of the model", place);
    if (!part.empty() && part != ".") parts.push_back(part);
    part.clear();
  }
  require<FormatError>(!parts.empty() && location.back() != '/',
                       "{}: expected the name of a file", place);
  return parts;
}

/// Opens a file below `folder`, each part of its path without following links.
Descriptor open_below(const std::string& folder, const std::string& location) {
  const std::vector<std::string> parts = parts_of(location);
  const std::string place = place_of(location);
  const auto opened = [&](int fd) {
    const int error = errno;
    require<FormatError>(fd >= 0 || (error != ELOOP && error != EMLINK),
                         "{} is a link: copy the file itself into the folder of the model",
                         place);
    require<FormatError>(fd >= 0, "{}: cannot open: {}", place,
                         std::generic_category().message(error));
    return Descriptor(fd);
  };
  std::optional<Descriptor> file(opened(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  for (const std::string& part : parts) {
    struct stat status {};
    const bool link = ::fstatat(file->get(), part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                      S_ISLNK(status.st_mode);
    if (link) errno = ELOOP;
    const int next = link ? -1
                          : ::openat(file->get(), part.c_str(),
                                     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    Descriptor below = opened(next);
    file.emplace(std::move(below));
  }
  return std::move(*file);
}

std::string value_of(const onnx::TensorProto& tensor, const char* key) {
  for (const auto& each : tensor.external_data()) {
    if (each.key() == key) return each.value();
  }
  return {};
}

/// Returns the entry `key` of the place of a tensor's data; `fallback` if absent.
int64_t number_of(const onnx::TensorProto& tensor, const char* key, int64_t fallback) {
  const std::string text = value_of(tensor, key);
  if (text.empty()) return fallback;
  int64_t number = -1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  require<FormatError>(error == std::errc() && stop == end && number >= 0,
                       "{}: {} must be a number of bytes, got '{}'",
                       place_of(value_of(tensor, "location")), key, printable(text));
  return number;
}

}  // namespace

void OnnxDataFiles::claim(const File& file, const std::string& place, int64_t begin,
                          int64_t end) {
  if (begin == end) return;
  auto& taken = ranges_[file];
  auto next = taken.lower_bound(begin);
  const bool same = next != taken.end() && next->first == begin && next->second == end;
  if (same) return;  // tensors that are equal may share their data
  const auto other =
      next != taken.begin() && std::prev(next)->second > begin ? std::prev(next) : next;
  require<FormatError>(other == taken.end() || other->first >= end || other->second <= begin,
                       "{}: bytes {} to {} overlap bytes {} to {} of another tensor", place,
                       begin, end, other->first, other->second);
  taken.emplace_hint(next, begin, end);
  bytes_ += end - begin;
}

std::string OnnxDataFiles::read(const std::string& location, int64_t offset, int64_t bytes) {
  const std::string place = place_of(location);
  const Descriptor file = open_below(*folder_, location);
  struct stat status {};
  require<FormatError>(::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode),
                       "{} is not a regular file", place);
  require<FormatError>(bytes <= status.st_size && offset <= status.st_size - bytes,
                       "{} has {} bytes, expected {} from byte {} on", place, status.st_size,
                       bytes, offset);
  if (paths_ != nullptr && !ranges_.contains({status.st_dev, status.st_ino})) {
    paths_->push_back(std::filesystem::path(*folder_) / location);
  }
  claim({status.st_dev, status.st_ino}, place, offset, offset + bytes);
  std::string data(static_cast<size_t>(bytes), '\0');
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t got = ::pread(file.get(), data.data() + done, data.size() - done,
                                offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    require<FormatError>(got > 0, "{}: cannot read: {}", place,
                         got == 0 ? "it ends early" : std::generic_category().message(errno));
    done += static_cast<size_t>(got);
  }
  return data;
}

onnx::TensorProto OnnxDataFiles::with_data(const onnx::TensorProto& tensor) {
  const std::string location = value_of(tensor, "location");
  require<FormatError>(folder_.has_value(),
                       "its data are in another file, and only its bytes were given");
  const int64_t bytes = data_bytes(tensor);
  const int64_t offset = number_of(tensor, "offset", 0);
  const int64_t length = number_of(tensor, "length", bytes);
  require<FormatError>(length == bytes, "{}: expected {} bytes for the shape, got {}",
                       place_of(location), bytes, length);
  onnx::TensorProto inside;
  inside.set_name(tensor.name());
  inside.set_data_type(tensor.data_type());
  *inside.mutable_dims() = tensor.dims();
  inside.set_raw_data(read(location, offset, bytes));
  return inside;
}

}  // namespace qtape
