// Pages of a program for packages, made from its described command line.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace qtape::programs {

/// Manual page of a program and its commands, in the man macros of troff.
std::string manual_page(const CLI::App& app, const std::string& version);

/// Completion of commands, options and the values of enumerations, for bash.
std::string bash_completion(const CLI::App& app);

/// Adds --manual-page and --bash-completion, which the help does not list: they print these
/// texts and end the program.
void add_pages(CLI::App& app, const std::string& version);

}  // namespace qtape::programs
