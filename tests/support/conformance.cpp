#include "qtape/tests/support/conformance.h"

#include <algorithm>

#include "qtape/engine/json_file.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape::test {

using namespace kernels;
namespace {

constexpr std::string_view format = "qtape-conformance";
constexpr int64_t version = 1;

template <class T>
Tensor typed_value(const IntegerSession& session, ProgramNodeId id) {
  return Tensor::of<T>(session.program()[id].value.type.shape, session.value<T>(id));
}

}  // namespace

void feed_inputs(IntegerSession& session, const std::vector<Tensor>& inputs) {
  size_t next = 0;
  for (const ProgramNodeId id : ids(session.program())) {
    if (!std::holds_alternative<integer::Input>(session.program()[id].op)) continue;
    const Tensor& given = inputs.at(next++);
    const auto bytes = given.type.dtype == DType::S32
                           ? std::as_writable_bytes(session.input<int32_t>(id))
                           : std::as_writable_bytes(session.input(id));
    std::ranges::copy(given.data, bytes.begin());
  }
}

Tensor value_of(const IntegerSession& session, ProgramNodeId id) {
  const DType dtype = session.program()[id].value.type.dtype;
  if (dtype == DType::F32) return typed_value<float>(session, id);
  return dispatch_integers(dtype, [&]<class T>() { return typed_value<T>(session, id); });
}

std::string to_text(const ConformanceCase& each) {
  IntegerSession session(each.program, {.reference = true, .threads = 1});
  feed_inputs(session, each.inputs);
  session.run();
  std::string program = to_json(each.program);
  program.pop_back();
  std::string text = fmt::format("{{\n\"format\": \"{}\",\n\"version\": {},\n\"about\": {},\n",
                                 format, version, Json(each.about).dump());
  text += "\"program\": " + program;
  append_lines(text, "values", '[', ']', ids(each.program),
               [&](std::string& to, ProgramNodeId id) {
                 const bool omitted = each.omitted.contains(id.index);
                 to += omitted ? "null" : write_json(value_of(session, id)).dump();
               });
  return text + "\n}\n";
}

ConformanceFile read_conformance(std::string_view text) {
  const Json json = parse_document(text);
  const JsonPlace root{json};
  check_keys(root, {"format", "version", "about", "program", "values"});
  root.member("format").expect(root.member("format").json == format, std::string(format));
  root.member("version").expect(root.member("version").json == version, "1");
  ConformanceFile file{program_from_json(root.member("program").json.dump()), {}, {}};
  const JsonPlace values = root.member("values");
  values.expect(
      values.json.is_array() && static_cast<int64_t>(values.json.size()) == file.program.size(),
      "one value for each node");
  for (size_t i = 0; i < values.json.size(); ++i) {
    Tensor& value = file.values.emplace_back();
    if (values.json[i].is_null()) {
      file.omitted.insert(static_cast<int>(i));
    } else {
      read_json(values.element(i), value);
    }
  }
  return file;
}

std::string first_difference(const ConformanceFile& file, const SessionOptions& options,
                             const SessionHooks& hooks) {
  IntegerSession session(file.program, options, hooks);
  std::vector<Tensor> inputs;
  for (const ProgramNodeId id : ids(file.program)) {
    if (!std::holds_alternative<integer::Input>(file.program[id].op)) continue;
    inputs.push_back(file.values[at(id)]);
  }
  feed_inputs(session, inputs);
  session.run();
  for (const ProgramNodeId id : ids(file.program)) {
    if (file.omitted.contains(id.index) || !session.has_value(id)) continue;
    if (value_of(session, id) != file.values[at(id)]) {
      return file.program.describe(id);
    }
  }
  return "";
}

}  // namespace qtape::test
