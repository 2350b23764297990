#include "qtape/tests/docs/printed.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/io/files.h"

namespace qtape::docs {

namespace {

void flush() {
  std::cout.flush();
  std::fflush(stdout);
}

}  // namespace

Printed::Printed(std::string path) : path_(std::move(path)), standard_(::dup(STDOUT_FILENO)) {
  flush();
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_EXCL, 0600);
  require<IoError>(file >= 0 && standard_ >= 0, "{}: cannot write", path_);
  ::dup2(file, STDOUT_FILENO);
  ::close(file);
}

Printed::~Printed() {
  flush();
  ::dup2(standard_, STDOUT_FILENO);
  ::close(standard_);
}

void Printed::begin(int line) {
  flush();
  begins_[line] = written();
}

std::map<int, std::string> Printed::take() {
  flush();
  const std::string all = read_file(path_, 1 << 24);
  std::map<int, std::string> by_line;
  for (auto it = begins_.begin(); it != begins_.end(); ++it) {
    const auto next = std::next(it);
    const long end = next == begins_.end() ? written() : next->second;
    by_line[it->first] =
        all.substr(static_cast<size_t>(it->second), static_cast<size_t>(end - it->second));
  }
  return by_line;
}

long Printed::written() const { return ::lseek(STDOUT_FILENO, 0, SEEK_END); }

}  // namespace qtape::docs
