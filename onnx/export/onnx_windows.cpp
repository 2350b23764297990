#include "qtape/onnx/export/onnx_windows.h"

#include <algorithm>
#include <vector>

namespace qtape {

int64_t end_padding(const WindowAxis& a) {
  return std::max<int64_t>(0, (a.out - 1) * a.stride + a.span() - a.in - a.begin);
}

void set_window(onnx::NodeProto& node, const Window& window, bool one, bool dilations) {
  const auto& [h, w] = window;
  const auto both = [&](int64_t a, int64_t b) {
    return one ? std::vector{b} : std::vector{a, b};
  };
  set_attribute(node, "kernel_shape", both(h.kernel, w.kernel));
  set_attribute(node, "strides", both(h.stride, w.stride));
  if (dilations) set_attribute(node, "dilations", both(h.dilation, w.dilation));
  std::vector<int64_t> pads = both(h.begin, w.begin);
  for (int64_t each : both(end_padding(h), end_padding(w))) pads.push_back(each);
  set_attribute(node, "pads", pads);
}

std::string conv_integer(OnnxProgram& p, const std::string& x, const std::string& x_zero,
                         const std::string& w, const std::string& w_zero, const Window& window,
                         bool one, int64_t groups) {
  onnx::NodeProto& node = p.to.node("ConvInteger", {x, w, x_zero, w_zero}, p.named("products"));
  set_window(node, window, one, true);
  set_attribute(node, "group", groups);
  return node.output(0);
}

}  // namespace qtape
