// Options that several commands have.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "qtape/core/described_settings.h"
#include "qtape/core/thread_count.h"
#include "qtape/programs/command_line.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

using programs::add_option;
using programs::add_settings;
using settings::setting;

void add_model(CLI::App& command, std::string& model);
void add_file(CLI::App& command, std::string& file);
/// Adds --data, --holdout, --input, --labels and --threads.
void add_data(CLI::App& command, DataOptions& data, int& threads);
/// Adds --output, which is required.
void add_output(CLI::App& command, std::string& output, const std::string& doc);
/// Adds --json, which every command has.
void add_json(CLI::App& command, std::string& json);
void add_float_parts(CLI::App& command, bool& float_parts);

}  // namespace qtape::tool
