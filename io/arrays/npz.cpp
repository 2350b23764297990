#include "qtape/io/arrays/npz.h"

#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/io/arrays/npy.h"

namespace qtape {
namespace {

constexpr std::string_view suffix = ".npy";
constexpr uint64_t min_read = 1 << 12;
constexpr uint64_t max_read = 1 << 20;
// 1980-01-01 00:00, the earliest date of the zip format, which NumPy also writes.
constexpr zip_uint16_t first_date = 1 << 5 | 1;
/// An archive without members, which libzip does not write.
constexpr std::string_view no_members("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);

/// Throws std::bad_alloc if memory ran out since errno was set to 0. In some of these cases
/// libzip reports no error, and in others that the file is not an archive.
void fail_without_memory(zip_error_t* error) {
  constexpr int zlib_out_of_memory = -4;
  const bool of_zlib = zip_error_system_type(error) == ZIP_ET_ZLIB;
  const int code = zip_error_code_zip(error);
  if (errno == ENOMEM || code == ZIP_ER_MEMORY || code == ZIP_ER_OK ||
      (of_zlib && zip_error_code_system(error) == zlib_out_of_memory)) {
    throw std::bad_alloc();
  }
}

class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  ~ZipError() { zip_error_fini(&error_); }
  zip_error_t* get() { return &error_; }
  std::string text() { return zip_error_strerror(&error_); }

 private:
  zip_error_t error_;
};

struct Release {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { (void)zip_fclose(file); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Archive = std::unique_ptr<zip_t, Release>;
using File = std::unique_ptr<zip_file_t, Release>;
using Source = std::unique_ptr<zip_source_t, Release>;

Archive open(std::string_view bytes, std::string_view name) {
  require<FormatError>(is_npz(bytes),
                       "{}: expected a .npz file, a zip archive, which begins "
                       "with PK",
                       name);
  errno = 0;
  ZipError error;
  Source source(zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get()));
  if (source == nullptr) fail_without_memory(error.get());
  require<Error>(source != nullptr, "{}: {}", name, error.text());
  Archive archive(zip_open_from_source(source.get(), ZIP_RDONLY, error.get()));
  if (archive == nullptr) fail_without_memory(error.get());
  require<FormatError>(archive != nullptr, "{}: is not a complete zip archive: {}", name,
                       error.text());
  (void)source.release();  // now owned by the archive
  return archive;
}

/// Reads the members of one archive.
class Reader {
 public:
  Reader(std::string_view bytes, std::string_view name, int64_t inflation)
      : name_(name),
        archive_(open(bytes, name)),
        most_(static_cast<int64_t>(bytes.size()) + inflation),
        left_(most_) {}

  NamedTensors read() {
    NamedTensors tensors;
    std::set<std::string> names;
    const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(archive_.get(), 0));
    for (zip_uint64_t i = 0; i < count; ++i) {
      zip_stat_t status;
      zip_stat_init(&status);
      const bool found = zip_stat_index(archive_.get(), i, 0, &status) == 0;
      if (!found) fail_without_memory(zip_get_error(archive_.get()));
      const bool known = found && (status.valid & ZIP_STAT_NAME) != 0 && status.name != nullptr;
      require<FormatError>(known, "{}: member {} has no name", name_, i);
      const std::string_view member = status.name;
      const std::string place = fmt::format("{}: member '{}'", name_, printable(member));
      require<FormatError>(member.ends_with(suffix),
                           "{}: expected only arrays, whose names end in .npy", place);
      require<FormatError>(names.emplace(member).second, "{}: appears twice", place);
      check_method(status, place);
      const std::string content = inflate(i, status, place);
      tensors.push_back({std::string(member.substr(0, member.size() - suffix.size())),
                         parse_npy(content, place)});
    }
    return tensors;
  }

 private:
  static void check_method(const zip_stat_t& status, const std::string& place) {
    require<FormatError>((status.valid & ZIP_STAT_ENCRYPTION_METHOD) == 0 ||
                             status.encryption_method == ZIP_EM_NONE,
                         "{}: is encrypted", place);
    require<FormatError>(
        status.comp_method == ZIP_CM_STORE || status.comp_method == ZIP_CM_DEFLATE,
        "{}: expected to be stored or deflated, got compression method {}", place,
        status.comp_method);
  }

  std::string inflate(zip_uint64_t index, const zip_stat_t& status, const std::string& place) {
    const auto reason = [](zip_error_t* error) { return zip_error_strerror(error); };
    const File file(zip_fopen_index(archive_.get(), index, 0));
    if (file == nullptr) fail_without_memory(zip_get_error(archive_.get()));
    require<FormatError>(file != nullptr, "{}: cannot be read: {}", place,
                         reason(zip_get_error(archive_.get())));
    std::string content;
    // The size may be wrong: memory doubles as bytes arrive. One byte more detects the end.
    const uint64_t claim = status.size;
    for (;;) {
      const uint64_t have = content.size();
      const uint64_t want = std::clamp(std::max(claim, have) - have + 1, min_read, max_read);
      content.resize(have + want);
      const zip_int64_t got = zip_fread(file.get(), content.data() + have, want);
      if (got < 0) fail_without_memory(zip_file_get_error(file.get()));
      require<FormatError>(got >= 0, "{}: cannot be read: {}", place,
                           reason(zip_file_get_error(file.get())));
      content.resize(have + static_cast<size_t>(got));
      left_ -= got;
      require<FormatError>(left_ >= 0, "{}: the arrays have more than {} bytes", name_, most_);
      if (got == 0) return content;
    }
  }

  std::string_view name_;
  Archive archive_;
  int64_t most_;
  int64_t left_;
};

void add_member(zip_t* archive, const std::string& name, std::string_view content) {
  const auto wanted = [&](bool done) {
    if (!done) fail_without_memory(zip_get_error(archive));
    require<ArgumentError>(done, "array '{}' cannot be a member of a .npz file: {}",
                           printable(name), zip_strerror(archive));
  };
  Source source(zip_source_buffer(archive, content.data(), content.size(), 0));
  wanted(source != nullptr);
  const zip_int64_t added = zip_file_add(archive, (name + std::string(suffix)).c_str(),
                                         source.get(), ZIP_FL_ENC_UTF_8);
  // Now owned by the archive, maybe also if memory ran out; a member that is refused is not.
  const bool without_memory = zip_error_code_zip(zip_get_error(archive)) == ZIP_ER_MEMORY;
  if (added >= 0 || without_memory) (void)source.release();
  wanted(added >= 0);
  const auto index = static_cast<zip_uint64_t>(added);
  wanted(zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) == 0);
  wanted(zip_file_set_dostime(archive, index, 0, first_date, 0) == 0);
}

std::string content_of(zip_source_t* source) {
  const auto wanted = [&](bool done) {
    if (!done) fail_without_memory(zip_source_error(source));
    require<Error>(done, "cannot create a .npz file: {}",
                   zip_error_strerror(zip_source_error(source)));
  };
  zip_stat_t status;
  zip_stat_init(&status);
  wanted(zip_source_stat(source, &status) == 0 && zip_source_open(source) == 0);
  std::string bytes(status.size, '\0');
  const zip_int64_t got = zip_source_read(source, bytes.data(), bytes.size());
  (void)zip_source_close(source);
  wanted(got >= 0 && static_cast<size_t>(got) == bytes.size());
  return bytes;
}

}  // namespace

bool is_npz(std::string_view bytes) {
  return bytes.starts_with("PK\3\4") || bytes.starts_with("PK\5\6");
}

NamedTensors parse_npz(std::string_view bytes, std::string_view name, int64_t inflation) {
  return Reader(bytes, name, inflation).read();
}

std::string to_npz(const NamedTensors& tensors) {
  check_tensors(tensors);
  if (tensors.empty()) return std::string(no_members);
  std::vector<std::string> members;  // data that the archive reads when it is closed
  for (const auto& [name, tensor] : tensors) {
    const std::string place = fmt::format("array '{}'", printable(name));
    require<ArgumentError>(name.find('\0') == std::string::npos,
                           "{}: expected a name without NUL bytes", place);
    members.push_back(
        naming<ArgumentError>(place, [&, &each = tensor] { return to_npy(each); }));
  }
  errno = 0;
  ZipError error;
  const Source target(zip_source_buffer_create(nullptr, 0, 0, error.get()));
  if (target == nullptr) fail_without_memory(error.get());
  require<Error>(target != nullptr, "cannot create a .npz file: {}", error.text());
  zip_source_keep(target.get());
  Archive archive(zip_open_from_source(target.get(), ZIP_CREATE | ZIP_TRUNCATE, error.get()));
  if (archive == nullptr) zip_source_free(target.get());
  if (archive == nullptr) fail_without_memory(error.get());
  require<Error>(archive != nullptr, "cannot create a .npz file: {}", error.text());
  for (size_t i = 0; i < tensors.size(); ++i) {
    add_member(archive.get(), tensors[i].name, members[i]);
  }
  // Closing frees the archive if it succeeds, and only then.
  if (zip_close(archive.get()) != 0) {
    fail_without_memory(zip_get_error(archive.get()));
    fail<Error>("cannot create a .npz file: {}", zip_strerror(archive.get()));
  }
  (void)archive.release();
  return content_of(target.get());
}

}  // namespace qtape
