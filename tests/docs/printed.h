// What code blocks print: standard output goes to a file, block by block.
#pragma once

#include <map>
#include <string>

namespace qtape::docs {

class Printed {
 public:
  /// Standard output goes to the new file `path` as long as this lives. Throws IoError.
  explicit Printed(std::string path);
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  ~Printed();

  /// From here on it is that of the block at `line`.
  void begin(int line);
  /// What every block printed since, by line.
  std::map<int, std::string> take();

 private:
  long written() const;

  std::string path_;
  int standard_;
  std::map<int, long> begins_;
};

}  // namespace qtape::docs
