// An ONNX model in an arena of protobuf.
#pragma once

#include <google/protobuf/arena.h>
#include <onnx/onnx_pb.h>

namespace qtape {

/// Owns a model. Messages in an arena also survive allocations that fail; destructors of those
/// on their own free memory that was never allocated.
class ArenaModel {
 public:
  ArenaModel() : model_(*google::protobuf::Arena::CreateMessage<onnx::ModelProto>(&arena_)) {}

  onnx::ModelProto& operator*() { return model_; }
  onnx::ModelProto* operator->() { return &model_; }
  const onnx::ModelProto* operator->() const { return &model_; }

 private:
  google::protobuf::Arena arena_;
  onnx::ModelProto& model_;
};

}  // namespace qtape
