// Settings in reports. Included by .cpp files only.
#pragma once

#include "qtape/core/isa.h"
#include "qtape/engine/json_fields.h"

namespace qtape::examples {

/// The settings, the threads that ran and the instruction set that they used.
template <Described T>
Json settings_json(const T& settings, int threads) {
  Json json = write_json(settings);
  json["threads"] = threads;
  json["isa"] = write_json(isa());
  return json;
}

}  // namespace qtape::examples
