#include "qtape/io/arrays/npy_rows.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace qtape {
namespace {

Descriptor open_to_read(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_io(path, "open", errno);
  return file;
}

/// Reads as many bytes of `to` as the file has from byte `from` on; returns their number.
size_t read_at(const Descriptor& file, const std::string& path, size_t from,
               std::span<std::byte> to) {
  size_t done = 0;
  while (done < to.size()) {
    const ssize_t got = ::pread(file.get(), to.data() + done, to.size() - done,
                                static_cast<off_t>(from + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io(path, "read", errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

size_t bytes_of(const Descriptor& file, const std::string& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_io(path, "read", errno);
  return static_cast<size_t>(status.st_size);
}

NpyHeader header_of(const Descriptor& file, const std::string& path) {
  // Longer headers belong to records, which are not supported.
  std::string start(size_t{1} << 16, '\0');
  start.resize(read_at(file, path, 0, std::as_writable_bytes(std::span(start))));
  return parse_npy_header(start, path);
}

}  // namespace

NpyRows::NpyRows(const std::string& path)
    : path_(path), file_(open_to_read(path)), header_(header_of(file_, path)) {
  const TensorType& type = header_.type;
  require<FormatError>(type.shape.rank() >= 1,
                       "{}: expected samples along the first axis, got a scalar", path);
  require<FormatError>(!header_.columns_first || type.shape.rank() == 1,
                       "{}: rows are not contiguous, because 'fortran_order' is True; save the "
                       "result of numpy.ascontiguousarray",
                       path);
  const int64_t got =
      static_cast<int64_t>(bytes_of(file_, path)) - static_cast<int64_t>(header_.begin);
  require<FormatError>(got == type.bytes(), "{}: expected {} bytes of {}, got {}", path,
                       type.bytes(), to_string(type), got);
}

void NpyRows::read(int64_t first, std::span<std::byte> to) const {
  const int64_t row_bytes = type().bytes() / std::max<int64_t>(1, type().shape[0]);
  const size_t from = header_.begin + static_cast<size_t>(first * row_bytes);
  const size_t got = read_at(file_, path_, from, to);
  require<IoError>(got == to.size(), "{}: expected {} bytes as when it was opened, got {}",
                   path_, header_.begin + static_cast<size_t>(type().bytes()),
                   bytes_of(file_, path_));
  if (header_.booleans) make_booleans(to);
  if (header_.swapped) swap_bytes(to, size_of(type().dtype));
}

}  // namespace qtape
