#include "qtape/deploy/any_file.h"

#include "qtape/engine/json_file.h"

namespace qtape {
namespace {

/// Reads as far as the first member that tells which kind it is.
class KindReader {
 public:
  bool is_program() const { return program_; }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(Json::binary_t&) { return true; }
  bool start_object(size_t) { return open(); }
  bool key(std::string& name) {
    if (depth_ != 1) return true;
    program_ = name == "requantization" || name == "program";
    return !program_ && name != "nodes" && name != "values";
  }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(); }
  bool end_array() { return close(); }
  bool parse_error(size_t, const std::string&, const Json::exception&) { return false; }

 private:
  bool open() { return ++depth_ <= deepest_nesting; }
  bool close() {
    --depth_;
    return true;
  }

  size_t depth_ = 0;
  bool program_ = false;
};

}  // namespace

bool holds_program(std::string_view text) {
  KindReader reader;
  Json::sax_parse(text, &reader);
  return reader.is_program();
}

AnyFile load_any(const std::string& path, NanValues nan) {
  return read_text(path, [nan](std::string_view text) -> AnyFile {
    if (holds_program(text)) return program_from_json(text);
    return model_from_json(text, nan);
  });
}

}  // namespace qtape
