// Report of a training run as JSON. Included only by .cpp files.
#pragma once

#include <string>

#include "qtape/examples/classifier/task.h"
#include "qtape/examples/classifier/training.h"
#include "qtape/io/json_fields.h"
#include "qtape/programs/settings_json.h"

namespace qtape::examples {

using namespace programs;

/// Returns `settings`, then loss and accuracy per epoch, median step time and final results.
std::string report_json(Json settings, const RunResult& result);

/// Returns the report with all settings of a program.
template <ClassifierSettings S>
std::string report_json(const S& settings, int threads, const RunResult& result) {
  Json named = write_json(settings);
  named.update(settings_json(settings.recipe, threads));
  named["data"] = data_name(settings);
  return report_json(std::move(named), result);
}

}  // namespace qtape::examples
