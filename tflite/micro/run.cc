// Runs a model by the reference kernels of TensorFlow Lite Micro: MODEL INPUTS TENSORS OUTPUTS
//   INPUTS   the values of all inputs, sample by sample
//   TENSORS  for each tensor two int32: its index and its number of bytes
//   OUTPUTS  file to write: the values of these tensors, sample by sample
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tensorflow/lite/micro/memory_helpers.h"
#include "tensorflow/lite/micro/micro_interpreter.h"
#include "tensorflow/lite/micro/micro_mutable_op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace {

struct Tensor {
  int32_t index;
  int32_t bytes;
};

[[noreturn]] void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::exit(1);
}

/// Memory for tensors and models.
uint8_t* allocate(size_t bytes) {
  constexpr size_t alignment = 64;
  return static_cast<uint8_t*>(
      std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment));
}

struct File {
  uint8_t* data = nullptr;
  size_t size = 0;
};

File read(const char* path) {
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) fail("%s: cannot be opened", path);
  std::fseek(file, 0, SEEK_END);
  File content;
  content.size = static_cast<size_t>(std::ftell(file));
  content.data = allocate(content.size);
  std::rewind(file);
  if (content.data == nullptr ||
      std::fread(content.data, 1, content.size, file) != content.size) {
    fail("%s: cannot be read", path);
  }
  std::fclose(file);
  return content;
}

using Resolver = tflite::MicroMutableOpResolver<64>;

void add_operators(Resolver& resolver) {
#define ADD(name) \
  if (resolver.Add##name() != kTfLiteOk) fail("the operator " #name " cannot be added");
#include "operators.inc"
#undef ADD
}

/// Memory for all tensors at once; the system provides the part that is used.
struct Arena {
  uint8_t* data = nullptr;
  size_t size = size_t{1} << 30;

  Arena() {
    while ((data = allocate(size)) == nullptr) {
      size /= 2;
      if (size < 1024) fail("no memory for tensors");
    }
  }
};

void run(tflite::MicroInterpreter& interpreter, const File& inputs,
         const std::vector<Tensor>& tensors, std::FILE* outputs) {
  for (size_t at = 0; at < inputs.size;) {
    for (size_t i = 0; i < interpreter.inputs_size(); ++i) {
      TfLiteTensor* input = interpreter.input(i);
      if (inputs.size - at < input->bytes) fail("the inputs are no whole samples");
      std::memcpy(input->data.raw, inputs.data + at, input->bytes);
      at += input->bytes;
    }
    if (interpreter.Invoke() != kTfLiteOk) fail("a sample cannot be run");
    for (const Tensor& each : tensors) {
      const void* values = interpreter.GetTensor(each.index)->data.raw;
      const auto bytes = static_cast<size_t>(each.bytes);
      if (std::fwrite(values, 1, bytes, outputs) != bytes) fail("outputs cannot be written");
    }
  }
}

/// Returns the tensors to write or read. Throws unless each has the stated size.
std::vector<Tensor> checked_tensors(tflite::MicroInterpreter& interpreter, const File& file) {
  std::vector<Tensor> tensors(file.size / sizeof(Tensor));
  std::memcpy(tensors.data(), file.data, tensors.size() * sizeof(Tensor));
  for (const Tensor& each : tensors) {
    TfLiteEvalTensor* tensor = interpreter.GetTensor(each.index);
    size_t bytes = 0;
    if (tensor == nullptr || tensor->data.raw == nullptr ||
        tflite::TfLiteEvalTensorByteLength(tensor, &bytes) != kTfLiteOk) {
      fail("tensor %d has no values", static_cast<int>(each.index));
    }
    if (bytes != static_cast<size_t>(each.bytes)) {
      fail("tensor %d has %zu bytes, expected %d", static_cast<int>(each.index), bytes,
           static_cast<int>(each.bytes));
    }
  }
  return tensors;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) fail("expected MODEL INPUTS TENSORS OUTPUTS");
  const File file = read(arguments[1]);
  flatbuffers::Verifier verifier(file.data, file.size);
  if (!tflite::VerifyModelBuffer(verifier)) fail("the model is damaged");
  static Resolver resolver;
  add_operators(resolver);
  const Arena arena;
  constexpr bool preserve_all_tensors = true;
  tflite::MicroInterpreter interpreter(tflite::GetModel(file.data), resolver, arena.data,
                                       arena.size, nullptr, nullptr, preserve_all_tensors);
  if (interpreter.initialization_status() != kTfLiteOk ||
      interpreter.AllocateTensors() != kTfLiteOk) {
    fail("the model cannot be prepared");
  }
  const std::vector<Tensor> tensors = checked_tensors(interpreter, read(arguments[3]));
  const File inputs = read(arguments[2]);
  std::FILE* outputs = std::fopen(arguments[4], "wb");
  if (outputs == nullptr) fail("%s: cannot be written", arguments[4]);
  run(interpreter, inputs, tensors, outputs);
  if (std::fclose(outputs) != 0) fail("%s: cannot be written", arguments[4]);
  return 0;
}
