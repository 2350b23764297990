// Settings in reports. Included only by .cpp files.
#pragma once

#include "qtape/core/isa.h"
#include "qtape/io/json_fields.h"

namespace qtape::programs {

/// Returns the settings, the number of threads and the instruction set in use.
template <Described T>
Json settings_json(const T& settings, int threads) {
  Json json = write_json(settings);
  json["threads"] = threads;
  json["isa"] = write_json(isa());
  return json;
}

}  // namespace qtape::programs
