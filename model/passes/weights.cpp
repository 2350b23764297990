#include "qtape/model/passes/weights.h"

#include <set>

#include "qtape/core/printable.h"

namespace qtape {

NamedTensors named_values(const Parameters& parameters) {
  NamedTensors values;
  for (const ParameterEntry& each : parameters.entries()) {
    values.push_back({each.name, parameters.get(each.name)});
  }
  return values;
}

int64_t set_values(Parameters& parameters, const NamedTensors& values) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : values) {
    check(names.insert(name).second, "'{}' appears twice", printable(name));
    parameters.check_value(name, tensor);
  }
  for (const auto& [name, tensor] : values) parameters.set(name, tensor);
  return static_cast<int64_t>(values.size());
}

}  // namespace qtape
