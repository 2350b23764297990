#include "qtape/core/printable.h"

#include <doctest/doctest.h>

using namespace qtape;

TEST_CASE("printable: ordinary names stay as they are") {
  CHECK(printable("") == "");
  CHECK(printable("fc1.weight") == "fc1.weight");
  CHECK(printable("a b~c/d\\e\"") == "a b~c/d\\e\"");
  CHECK(printable("Gewicht größer, 重み, 😀") == "Gewicht größer, 重み, 😀");
}

TEST_CASE("printable: control characters, breaks and turns are escaped") {
  CHECK(printable("a\nb\rc\td") == "a\\nb\\rc\\td");
  CHECK(printable(std::string_view("\0\x1b[31m\x7f", 7)) == "\\u0000\\u001b[31m\\u007f");
  // C1 controls, LINE SEPARATOR, RIGHT-TO-LEFT OVERRIDE and ISOLATE.
  CHECK(printable("\xc2\x9b"
                  "1m\xe2\x80\xa8\xe2\x80\xae\xe2\x81\xa7") ==
        "\\u009b1m\\u2028\\u202e\\u2067");
}

TEST_CASE("printable: bytes that are not UTF-8 are shown as bytes") {
  CHECK(printable("\xff") == "\\xff");
  CHECK(printable("a\xc3") == "a\\xc3");                           // truncated
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");                    // overlong
  CHECK(printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");           // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(printable("\xc3"
                  "a") == "\\xc3a");
}

TEST_CASE("printable: 80 characters are shown, however many bytes they have") {
  CHECK(printable(std::string(80, 'x')) == std::string(80, 'x'));
  std::string cut(80, 'x');
  cut += "...";
  CHECK(printable(std::string(81, 'x')) == cut);
  CHECK(printable(std::string(1000000, 'x')) == cut);
  std::string umlauts;
  for (int i = 0; i < 81; ++i) umlauts += "ä";
  CHECK(printable(umlauts) == umlauts.substr(0, 160) + "...");
}
