#include "qtape/tools/docs/observers_table.h"

#include <fmt/format.h>

#include "qtape/calibrate/observer_method.h"

namespace qtape {

std::string observers_table() {
  std::string text = "\n| method | range |\n| --- | --- |\n";
  for_each_alternative<ObserverMethod>([&]<class Method>() {
    text +=
        fmt::format("| `{}` | {} |\n", to_string(ObserverMethod(Method{})), Method::summary);
  });
  return text + "\n";
}

}  // namespace qtape
