#include "qtape/io/arrays/arrays.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "qtape/core/out_of_memory.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/io/arrays/npz.h"
#include "qtape/io/arrays/safetensors.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

enum class Format { Npy, Npz, Safetensors };

std::optional<Format> format_of_name(std::string_view path) {
  if (path.ends_with(".npy")) return Format::Npy;
  if (path.ends_with(".npz")) return Format::Npz;
  if (path.ends_with(".safetensors")) return Format::Safetensors;
  return std::nullopt;
}

std::optional<Format> format_of(std::string_view path, std::string_view bytes) {
  if (is_npz(bytes)) return Format::Npz;
  if (bytes.starts_with(npy_magic)) return Format::Npy;
  return format_of_name(path);
}

/// Splits a place into the file and, after a colon, a name.
std::pair<std::string, std::optional<std::string>> split(const std::string& place) {
  std::error_code ignored;
  for (size_t at = place.size(); at != std::string::npos && at > 0;
       at = place.rfind(':', at - 1)) {
    const std::string path = place.substr(0, at);
    if (!std::filesystem::exists(path, ignored)) continue;
    if (at == place.size()) break;
    return {path, place.substr(at + 1)};
  }
  return {place, std::nullopt};
}

NamedTensors read_all(const std::string& path) {
  const std::string bytes = read_file(path, largest_array_file);
  const auto format = format_of(path, bytes);
  require<FormatError>(format.has_value(), "{}: expected a .npy, .npz or .safetensors file",
                       path);
  if (format == Format::Npz) return parse_npz(bytes, path);
  if (format == Format::Safetensors) return parse_safetensors(bytes, path);
  return {{"", parse_npy(bytes, path)}};
}

}  // namespace

NamedTensors read_arrays(const std::string& path) {
  return during("reading", path, [&] { return read_all(path); });
}

std::string array_file_of(const std::string& place) { return split(place).first; }

Tensor read_array(const std::string& place) {
  const auto [path, name] = split(place);
  NamedTensors tensors = read_arrays(path);
  if (!name) return single_array(path, std::move(tensors));
  return naming<ArgumentError>(path,
                               [&, &wanted = *name] { return tensor_named(tensors, wanted); });
}

Tensor single_array(const std::string& path, NamedTensors all) {
  require<ArgumentError>(all.size() == 1,
                         "{}: expected one array, or FILE:NAME to select one; got {}: {}", path,
                         all.size(), names_of(all));
  return std::move(all[0].tensor);
}

bool names_array_file(std::string_view path) { return format_of_name(path).has_value(); }

void require_array_file(const std::string& path) {
  require<ArgumentError>(names_array_file(path),
                         "{}: expected a name that ends in .npy, .npz or .safetensors", path);
}

std::string to_array_file(const std::string& path, const NamedTensors& tensors) {
  require_array_file(path);
  const auto bytes = [&] {
    const auto format = format_of_name(path);
    if (format == Format::Npz) return to_npz(tensors);
    if (format == Format::Safetensors) return to_safetensors(tensors);
    require<ArgumentError>(tensors.size() == 1, "a .npy file holds one array, got {}",
                           tensors.size());
    return to_npy(tensors[0].tensor);
  };
  return during("writing", path, [&] { return naming<ArgumentError>(path, bytes); });
}

void write_arrays(const std::string& path, const NamedTensors& tensors) {
  write_file(path, to_array_file(path, tensors));
}

}  // namespace qtape
