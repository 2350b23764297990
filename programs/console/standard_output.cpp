#include "qtape/programs/console/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "qtape/core/error.h"

namespace qtape::console {
namespace {

// errno of the first failed print, since the stream only records that one failed.
int first_error = 0;

void note_error() {
  if (first_error == 0) first_error = errno;
}

}  // namespace

void print_text(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size()) note_error();
}

void flush() {
  if (std::fflush(stdout) != 0) note_error();
}

void fail_standard_output(int error) {
  if (error == 0) fail<IoError>("standard output: cannot write");
  fail<IoError>("standard output: cannot write: {}", std::generic_category().message(error));
}

void require_standard_output() {
  flush();
  if (std::ferror(stdout) != 0 || first_error != 0) fail_standard_output(first_error);
}

void prepare_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) < 0) (void)::open("/dev/null", O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
}

}  // namespace qtape::console
