// Output of code blocks: redirects standard output to a file, block by block.
#pragma once

#include <map>
#include <string>

namespace qtape::docs {

class Printed {
 public:
  /// Redirects standard output to the new file `path` during its lifetime. Throws IoError.
  explicit Printed(std::string path);
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  ~Printed();

  /// Assigns the following output to the block at `line`.
  void begin(int line);
  /// Returns the output of every block since the last call, by line.
  std::map<int, std::string> take();

 private:
  long written() const;

  std::string path_;
  int standard_;
  std::map<int, long> begins_;
};

}  // namespace qtape::docs
