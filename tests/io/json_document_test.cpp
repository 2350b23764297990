// Parsing of JSON documents: validity, nesting depth and repeated keys.
#include "qtape/io/json_document.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "qtape/engine/serialize.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;

namespace {

std::string error_of(std::string_view text) {
  return test::error_text<FormatError>([&] { (void)parse_document(text); });
}

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

std::string nested(int depth) { return repeated("[", depth) + repeated("]", depth); }

}  // namespace

TEST_CASE("json document: values of every kind come back") {
  const std::string text =
      R"({"a":[null,true,-5,18446744073709551615,0.5,"x\n"],"b":{"c":[],"d":{}},"e":""})";
  CHECK(parse_document(text).dump() == text);
  CHECK(parse_document("7").dump() == "7");
  CHECK(parse_document(" [ ] ").dump() == "[]");
}

TEST_CASE("json document: a key that an object has twice is refused where it is") {
  CHECK(error_of(R"({"a":1,"a":1})") == "/a: the object has this key twice");
  CHECK(error_of(R"({"x":[0,{"b/c":{"k":1,"l":2,"k":3}}]})") ==
        "/x/1/b~1c/k: the object has this key twice");
  CHECK(error_of(R"([{"a":1},{"a":1}])") == "no error");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += fmt::format("\"k{}\":[],", i);
  CHECK(error_of(many + "\"last\":0}") == "no error");
  CHECK(error_of(many + "\"k500\":0}") == "/k500: the object has this key twice");
}

TEST_CASE("json document: a NUL byte and what lies after it are no JSON") {
  CHECK(error_of(std::string_view("[1]\0", 4)) ==
        "/: is not JSON: unexpected or missing text at byte 4");
  CHECK(error_of(std::string_view("[1]\0{\"x\":2}", 11)) ==
        "/: is not JSON: unexpected or missing text at byte 4");
  CHECK(error_of(std::string_view("[\0]", 3)) ==
        "/: is not JSON: unexpected or missing text at byte 2");
  CHECK(error_of("\"\\u0000\"") == "no error");
}

TEST_CASE("json document: 64 levels are read, and no more") {
  CHECK(error_of(nested(64)) == "no error");
  CHECK(error_of(nested(65)) == "/: nested deeper than 64 levels");
  CHECK(error_of(repeated("[", 100000)) == "/: nested deeper than 64 levels");
  CHECK(error_of(repeated("{\"a\":", 65)) == "/: nested deeper than 64 levels");
  CHECK(error_of(repeated("{\"a\":", 63) + "[5]" + repeated("}", 63)) == "no error");
}

TEST_CASE("json document: numbers out of range are named, in few characters") {
  CHECK(error_of("1e999") == "/: is not JSON: number overflow parsing '1e999'");
  const std::string text = error_of("1" + repeated("0", 100000) + ".5");
  CHECK(text.starts_with("/: is not JSON: number overflow parsing '1000"));
  CHECK(text.size() < 120);
}

TEST_CASE("json document: a file of a million small objects is refused at its first") {
  const std::string many = repeated("{\"a\":{}},", 999999) + "{\"a\":{}}";
  CHECK(test::error_text<FormatError>([&] {
          (void)model_from_json("{\"nodes\":[" + many + "]}");
        }) == "/: \"format\" is missing");
  CHECK(test::error_text<FormatError>([&] {
          (void)model_from_json(R"({"format":"qtape","version":2,"nodes":[)" + many + "]}");
        }) == "/nodes/0/a: unknown key; expected one of label, op, operands");
}

TEST_CASE("json document: keys and values of messages are short and printable") {
  const auto model_error = [](const std::string& node) {
    return test::error_text<FormatError>([&] {
      (void)model_from_json(R"({"format":"qtape","version":2,"values":{},"nodes":[)" + node +
                            "]}");
    });
  };
  CHECK(model_error(R"({"a\u001b[2J\nb":1})") ==
        "/nodes/0/a\\u001b[2J\\nb: unknown key; expected one of label, op, operands");
  const std::string x(100, 'x');
  const std::string shown = fmt::format("{}...", x.substr(0, 80));
  CHECK(model_error(fmt::format("{{\"{}\":1}}", x)) ==
        "/nodes/0/" + shown + ": unknown key; expected one of label, op, operands");
  CHECK(model_error(fmt::format("{{\"op\":\"{}\"}}", x))
            .starts_with("/nodes/0/op: unknown value \"" + shown + "\"; expected one of "));
  CHECK(model_error(fmt::format(R"({{"op":{{"Relu":{{"{}":1}}}}}})", x)) ==
        "/nodes/0/op/Relu/" + shown + ": unknown attribute; Relu has none");
  CHECK(model_error(fmt::format(R"({{"label":"{}\n","op":"Relu"}})", "x")) ==
        "/nodes/0: Relu %0 'x\\n': operand 'x' is missing: expected 1 operands, got 0");
  CHECK(model_error(R"({"label":5,"op":"\u009b"})").find('\x9b') == std::string::npos);
}

TEST_CASE("json document: the first of some keys is found without reading further") {
  const auto found = [](std::string_view text) { return first_key(text, {"a", "b"}); };
  CHECK(found(R"({"c":{"a":1},"b":2,"a":3})") == "b");
  CHECK(found(R"({"b":no JSON)") == "b");
  CHECK(found(R"({"c":[{"a":1}]})").empty());
  CHECK(found(R"([{"a":1}])").empty());
  CHECK(found(repeated("[", 1000)).empty());
}

TEST_CASE("json: values are written as nlohmann's library writes them") {
  const Json json{{"text", "a\"\\\x01\x7f\u00e4/"},
                  {"numbers", Json::Array{1e-5, 1.0, 0.1, 1e300, -0.0, -3, UINT64_MAX}},
                  {"none", {}},
                  {"empty", Json::Array{Json::array(), Json::object()}},
                  {"infinite", std::numeric_limits<double>::infinity()}};
  const std::string text =
      "{\"text\":\"a\\\"\\\\\\u0001\x7f\u00e4/\",\"numbers\":[1e-05,1.0,0.1,1e+300,-0.0,-3,18446744073709551615],\"none\":null,\"empty\":[[],{}],\"infinite\":null}";
  CHECK(json.dump() == text);
  CHECK(json.dump() == nlohmann::ordered_json::parse(text).dump());
  CHECK(json.dump(2) == nlohmann::ordered_json::parse(text).dump(2));
  CHECK(parse_document(text).dump() == text);
  CHECK(Json("\u00e4").dump(-1, JsonTexts::Ascii) == R"("\u00e4")");
  CHECK(Json("a\xff").dump(-1, JsonTexts::Replace) == "\"a\ufffd\"");
  CHECK_THROWS_AS((void)Json("a\xff").dump(), NotUtf8);
}

TEST_CASE("json: members and elements are added, replaced and removed") {
  Json json;
  json["a"].push_back(1);
  json["b"] = "x";
  json["a"].push_back(true);
  json.update({{"b", 2}, {"c", -1}});
  CHECK(json.dump() == R"({"a":[1,true],"b":2,"c":-1})");
  json.erase("a");
  CHECK(json == Json{{"b", 2}, {"c", -1}});
  CHECK(json.size() == 2);
  CHECK(json.find("a") == nullptr);
  CHECK(test::error_text<FormatError>([&] { (void)json.at("a"); }) == "\"a\" is missing");
}
