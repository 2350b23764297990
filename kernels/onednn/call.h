// Calls of oneDNN's primitives that allocate nothing.
#pragma once

#include <utility>
#include <vector>

#include "qtape/kernels/onednn/onednn.h"

namespace qtape::kernels {

/// A primitive with its memories and its argument list.
class Call {
 public:
  using Argument = std::pair<int, dnnl::memory>;

  Call(const dnnl::engine& engine, dnnl::primitive primitive, std::vector<Argument> arguments)
      : stream_(engine), primitive_(std::move(primitive)), memories_(std::move(arguments)) {
    for (const auto& [name, each] : memories_) arguments_.push_back({name, each.get()});
  }

  /// Uses the C API, which takes a plain array; the C++ API would build a map in every step.
  void run() const {
    dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
  }

 private:
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<Argument> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

inline Call make_reorder(const dnnl::engine& engine, const dnnl::memory& from,
                         const dnnl::memory& to) {
  dnnl::reorder reorder(from, to);
  return {engine, reorder, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

}  // namespace qtape::kernels
