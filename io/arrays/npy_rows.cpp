#include "qtape/io/arrays/npy_rows.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "qtape/core/byte_order.h"

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
  constexpr size_t most = size_t{1} << 20;  // far more than NumPy writes for its dtypes
  std::string start(std::min(bytes_of(file, path), most), '\0');
  start.resize(read_at(file, path, 0, std::as_writable_bytes(std::span(start))));
  return parse_npy_header(start, path);
}

bool is_contiguous(const NpyHeader& header) {
  return !header.columns_first || header.type.shape.rank() == 1;
}

}  // namespace

NpyRows::NpyRows(const std::string& path, bool keep_open)
    : path_(path), file_(open_to_read(path)), header_(header_of(file_, path)) {
  const TensorType& type = header_.type;
  require<FormatError>(type.shape.rank() >= 1,
                       "{}: expected samples along the first axis, got a scalar", path);
  require<FormatError>(is_contiguous(header_),
                       "{}: rows are not contiguous, because 'fortran_order' is True; save the "
                       "result of numpy.ascontiguousarray",
                       path);
  const int64_t got =
      static_cast<int64_t>(bytes_of(file_, path)) - static_cast<int64_t>(header_.begin);
  require<FormatError>(got == type.bytes(), "{}: expected {} bytes of {}, got {}", path,
                       type.bytes(), to_string(type), got);
  if (!keep_open) file_.close();
}

void NpyRows::read(int64_t first, std::span<std::byte> to) const {
  const int64_t rows = type().shape[0];
  const int64_t row_bytes = type().bytes() / std::max<int64_t>(1, rows);
  const auto bytes = static_cast<int64_t>(to.size());
  require<ArgumentError>(first >= 0 && first <= rows && bytes <= (rows - first) * row_bytes,
                         "{}: expected at most {} bytes from row {} on, got {}", path_,
                         std::max<int64_t>(0, rows - first) * row_bytes, first, bytes);
  if (file_.get() < 0) return read_from(open_to_read(path_), first * row_bytes, to);
  read_from(file_, first * row_bytes, to);
}

void NpyRows::read_from(const Descriptor& file, int64_t begin, std::span<std::byte> to) const {
  const size_t got = read_at(file, path_, header_.begin + static_cast<size_t>(begin), to);
  require<IoError>(got == to.size(), "{}: expected {} bytes as when it was opened, got {}",
                   path_, header_.begin + static_cast<size_t>(type().bytes()),
                   bytes_of(file, path_));
  if (header_.booleans) make_booleans(to);
  if (header_.swapped) swap_bytes(to, size_of(type().dtype));
}

bool has_contiguous_rows(const std::string& path) {
  const Descriptor file = open_to_read(path);
  try {
    return is_contiguous(header_of(file, path));
  } catch (const FormatError&) {
    return false;
  }
}

}  // namespace qtape
