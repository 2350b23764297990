// Attributes of new ONNX nodes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace qtape {

/// Adds an attribute to a node that has none of that name.
void set_attribute(onnx::NodeProto& node, std::string_view name, int64_t value);
void set_attribute(onnx::NodeProto& node, std::string_view name,
                   const std::vector<int64_t>& values);
void set_attribute(onnx::NodeProto& node, std::string_view name, const char* value);
void set_real_attribute(onnx::NodeProto& node, std::string_view name, float value);

}  // namespace qtape
