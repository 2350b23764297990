// Options that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/core/requantization.h"
#include "qtape/core/thread_count.h"
#include "qtape/programs/command_line.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

using examples::range;

void add_model(CLI::App& command, std::string& model);
void add_file(CLI::App& command, std::string& file);
void add_data_files(CLI::App& command, DataOptions& data);
void add_data(CLI::App& command, DataOptions& data, int& threads);
/// Adds --json, which every command has.
void add_json(CLI::App& command, std::string& json);
void add_weight_codes(CLI::App& command, std::string& codes);
void add_float_parts(CLI::App& command, bool& float_parts);
void add_scales(CLI::App& command, std::string& scales);
/// Adds `--requantization`: a requantization by name, in any letter case, or one of `more`.
void add_requantization(CLI::App& command, std::string& name,
                        const std::vector<std::string>& more);
/// Accepts any non-empty text.
CLI::Validator not_empty();

}  // namespace qtape::tool
