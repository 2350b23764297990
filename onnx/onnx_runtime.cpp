#include "qtape/onnx/onnx_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "qtape/io/arrays/arrays.h"
#include "qtape/io/files.h"
#include "qtape/onnx/levels.h"
#include "qtape/programs/console/subprocess.h"

// QTAPE_ONNX_RUNTIME is defined where CMake finds the header.
#ifdef QTAPE_ONNX_RUNTIME
#include <dlfcn.h>
#include <onnxruntime_c_api.h>
#endif

namespace qtape {
namespace {

#ifdef QTAPE_ONNX_RUNTIME

constexpr std::array element_types = {
    std::pair{DType::F32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    std::pair{DType::F64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    std::pair{DType::F16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    std::pair{DType::BF16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    std::pair{DType::S32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    std::pair{DType::S16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    std::pair{DType::U16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    std::pair{DType::S8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    std::pair{DType::U8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    std::pair{DType::S64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64}};

ONNXTensorElementDataType element_type_of(DType dtype) {
  return std::ranges::find(element_types, dtype, [](const auto& each) { return each.first; })
      ->second;
}

DType dtype_of_elements(ONNXTensorElementDataType type) {
  const auto found =
      std::ranges::find(element_types, type, &decltype(element_types)::value_type::second);
  require<Error>(found != element_types.end(), "ONNX Runtime gives elements of type {}",
                 static_cast<int>(type));
  return found->first;
}

template <class T>
using Owned = std::unique_ptr<T, void (*)(T*)>;

/// The library, open. It stays loaded when it is closed, as its threads may still end.
struct Library {
  std::unique_ptr<void, int (*)(void*)> handle;
  const OrtApi* api = nullptr;
  std::string version = {};
};

/// Opens a library and asks for the interface of the header. Throws OnnxRuntimeMissing.
Library opened(const std::string& name) {
  Library library{{::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE), ::dlclose}};
  if (!library.handle) throw OnnxRuntimeMissing(::dlerror());
  using BaseFunction = const OrtApiBase*(ORT_API_CALL*)();
  const auto base =
      reinterpret_cast<BaseFunction>(::dlsym(library.handle.get(), "OrtGetApiBase"));
  require<OnnxRuntimeMissing>(base != nullptr, "{}: has no OrtGetApiBase", name);
  library.version = base()->GetVersionString();
  library.api = base()->GetApi(ORT_API_VERSION);
  require<OnnxRuntimeMissing>(library.api != nullptr,
                              "{}: is ONNX Runtime {}, expected at least 1.{}", name,
                              library.version, ORT_API_VERSION);
  return library;
}

/// Opens the first library that can be used. Throws OnnxRuntimeMissing with all reasons.
Library opened(const std::vector<std::string>& names) {
  std::string reasons;
  for (const std::string& name : names) {
    try {
      return opened(name);
    } catch (const OnnxRuntimeMissing& missing) {
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", missing.what());
    }
  }
  throw OnnxRuntimeMissing(reasons);
}

/// Calls of ONNX Runtime, whose failures are thrown.
class Calls {
 public:
  explicit Calls(const OrtApi& api) : api_(&api) {}

  const OrtApi* operator->() const { return api_; }
  void require_ok(OrtStatus* status) const {
    const Owned<OrtStatus> owned(status, api_->ReleaseStatus);
    if (!owned) return;
    std::string message = api_->GetErrorMessage(status);
    std::ranges::replace(message, '\n', ' ');
    fail<Error>("ONNX Runtime failed: {}", message);
  }
  /// Returns the object that `create` stores at its last argument.
  template <class T, class... Parameters, class... Arguments>
  Owned<T> made(OrtStatus* (*create)(Parameters...), void (*release)(T*),
                Arguments... arguments) const {
    T* object = nullptr;
    require_ok(create(arguments..., &object));
    return {object, release};
  }

 private:
  const OrtApi* api_;
};

/// Discards what is written to std::cerr during its life. Debian's library registers the
/// operators of libonnx twice when it makes its first session, and writes a line for each.
class WithoutStandardError {
 public:
  WithoutStandardError() = default;
  WithoutStandardError(const WithoutStandardError&) = delete;
  WithoutStandardError& operator=(const WithoutStandardError&) = delete;
  ~WithoutStandardError() { std::cerr.rdbuf(before_); }

 private:
  std::ostringstream discarded_;
  std::streambuf* before_ = std::cerr.rdbuf(discarded_.rdbuf());
};

class ProcessRuntime : public OnnxRuntime {
 public:
  ProcessRuntime(const std::string& model, int threads, Library library)
      : library_(std::move(library)),
        ort_(*library_.api),
        // Failures are thrown with their message, so they are not logged as well.
        environment_(
            ort_.made(ort_->CreateEnv, ort_->ReleaseEnv, ORT_LOGGING_LEVEL_FATAL, "qtape")),
        session_(session_of(model, threads)),
        memory_(ort_.made(ort_->CreateCpuMemoryInfo, ort_->ReleaseMemoryInfo, OrtArenaAllocator,
                          OrtMemTypeDefault)),
        inputs_(names(ort_->SessionGetInputCount, ort_->SessionGetInputName)),
        outputs_(names(ort_->SessionGetOutputCount, ort_->SessionGetOutputName)) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    require<Error>(inputs.size() == inputs_.size(),
                   "the number of inputs of the model is {}, got {}", inputs_.size(),
                   inputs.size());
    std::vector<Owned<OrtValue>> owned;
    for (const Tensor& each : inputs) owned.push_back(value_of(each));
    std::vector<const OrtValue*> given;
    for (const auto& each : owned) given.push_back(each.get());
    std::vector<OrtValue*> results(outputs_.size());
    std::vector<Owned<OrtValue>> kept;
    kept.reserve(results.size());
    OrtStatus* status =
        ort_->Run(session_.get(), nullptr, pointers(inputs_).data(), given.data(), given.size(),
                  pointers(outputs_).data(), outputs_.size(), results.data());
    for (OrtValue* each : results) kept.emplace_back(each, ort_->ReleaseValue);
    ort_.require_ok(status);
    std::vector<Tensor> outputs;
    for (const auto& each : kept) outputs.push_back(tensor_of(*each));
    return outputs;
  }
  std::string report() const override {
    return fmt::format("ONNX Runtime {} in this process\n", library_.version);
  }

 private:
  Owned<OrtSession> session_of(const std::string& model, int threads) const {
    const auto options = ort_.made(ort_->CreateSessionOptions, ort_->ReleaseSessionOptions);
    ort_.require_ok(ort_->SetIntraOpNumThreads(options.get(), threads));
    const WithoutStandardError quiet;
    return ort_.made(ort_->CreateSessionFromArray, ort_->ReleaseSession, environment_.get(),
                     model.data(), model.size(), options.get());
  }
  template <class Count, class Name>
  std::vector<std::string> names(const Count& count_of, const Name& name_of) const {
    OrtAllocator* allocator = nullptr;
    ort_.require_ok(ort_->GetAllocatorWithDefaultOptions(&allocator));
    size_t count = 0;
    ort_.require_ok(count_of(session_.get(), &count));
    std::vector<std::string> all;
    const auto release = [&](char* name) { (void)allocator->Free(allocator, name); };
    for (size_t i = 0; i < count; ++i) {
      char* name = nullptr;
      ort_.require_ok(name_of(session_.get(), i, allocator, &name));
      all.emplace_back(std::unique_ptr<char, decltype(release)>(name, release).get());
    }
    return all;
  }
  static std::vector<const char*> pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> all;
    for (const std::string& each : texts) all.push_back(each.c_str());
    return all;
  }
  /// Returns a value on the memory of a tensor, which ONNX Runtime only reads.
  Owned<OrtValue> value_of(const Tensor& tensor) const {
    const auto extents = tensor.type.shape.extents();
    return ort_.made(ort_->CreateTensorWithDataAsOrtValue, ort_->ReleaseValue, memory_.get(),
                     const_cast<std::byte*>(tensor.data.data()), tensor.data.size(),
                     extents.data(), extents.size(), element_type_of(tensor.type.dtype));
  }
  Tensor tensor_of(OrtValue& value) const {
    const auto info =
        ort_.made(ort_->GetTensorTypeAndShape, ort_->ReleaseTensorTypeAndShapeInfo, &value);
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    ort_.require_ok(ort_->GetTensorElementType(info.get(), &type));
    size_t rank = 0;
    ort_.require_ok(ort_->GetDimensionsCount(info.get(), &rank));
    std::vector<int64_t> extents(rank);
    ort_.require_ok(ort_->GetDimensions(info.get(), extents.data(), rank));
    Tensor tensor{{dtype_of_elements(type), Shape(extents)}};
    tensor.data.resize(static_cast<size_t>(tensor.type.bytes()));
    void* data = nullptr;
    ort_.require_ok(ort_->GetTensorMutableData(&value, &data));
    std::ranges::copy_n(static_cast<const std::byte*>(data), std::ssize(tensor.data),
                        tensor.data.begin());
    return tensor;
  }

  Library library_;
  Calls ort_;
  Owned<OrtEnv> environment_;
  Owned<OrtSession> session_;
  Owned<OrtMemoryInfo> memory_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
};

#endif

/// Arrays are named by their index. Arguments: the model, the files of inputs and outputs, and
/// the number of threads.
constexpr const char* script = R"(
import sys, numpy, onnxruntime
model, inputs, outputs, threads = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = int(threads)
session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
given = numpy.load(inputs)
feed = {each.name: given[str(i)] for i, each in enumerate(session.get_inputs())}
values = session.run(None, feed)
numpy.savez(outputs, **{str(i): value for i, value in enumerate(values)})
)";

class PythonRuntime : public OnnxRuntime {
 public:
  PythonRuntime(std::string model, int threads, const std::string& reason)
      : model_(std::move(model)), threads_(threads) {
    constexpr const char* version =
        "import numpy, onnxruntime; print('version', onnxruntime.__version__)";
    Finished finished;
    const bool found = has_program("python3");
    if (found) finished = run_program({"python3", "-c", version});
    require<OnnxRuntimeMissing>(found && finished.exit_code == 0,
                                "there is no python3 with onnxruntime and NumPy");
    // Warnings may precede it.
    std::string_view words = finished.output;
    words.remove_prefix(std::min(words.size(), words.rfind("version ") + 8));
    report_ = fmt::format("ONNX Runtime {} of python3{}{}\n", words.substr(0, words.find('\n')),
                          reason.empty() ? "" : ": ", reason);
  }

  std::vector<Tensor> run(std::span<const Tensor> inputs) override {
    NamedTensors given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      given.push_back({fmt::format("{}", i), inputs[i]});
    }
    // The folder exists only during this run: a signal between runs ends the process, and the
    // folder would be left behind.
    const TemporaryFolder folder;
    write_file(folder.file("model.onnx"), model_);
    write_arrays(folder.file("inputs.npz"), given);
    const Finished finished = run_program(
        {"python3", "-c", script, folder.file("model.onnx"), folder.file("inputs.npz"),
         folder.file("outputs.npz"), fmt::format("{}", threads_)});
    require<Error>(finished.exit_code == 0, "ONNX Runtime failed: {}", finished.output);
    std::vector<Tensor> outputs;
    for (NamedTensor& each : read_arrays(folder.file("outputs.npz"))) {
      outputs.push_back(std::move(each.tensor));
    }
    return outputs;
  }
  std::string report() const override { return report_; }

 private:
  std::string model_;
  int threads_;
  std::string report_;
};

}  // namespace

#ifdef QTAPE_ONNX_RUNTIME

std::vector<std::string> onnx_runtime_libraries() {
  return {fmt::format("libonnxruntime.so.1.{}", ORT_API_VERSION), "libonnxruntime.so"};
}

std::unique_ptr<OnnxRuntime> onnx_runtime_in_process(
    const std::string& model, int threads, const std::vector<std::string>& libraries) {
  return std::make_unique<ProcessRuntime>(model, threads, opened(libraries));
}

#else

std::vector<std::string> onnx_runtime_libraries() { return {}; }

std::unique_ptr<OnnxRuntime> onnx_runtime_in_process(const std::string&, int,
                                                     const std::vector<std::string>&) {
  throw OnnxRuntimeMissing("qtape was built without onnxruntime_c_api.h");
}

#endif

std::unique_ptr<OnnxRuntime> onnx_runtime_of_python(const std::string& model, int threads,
                                                    const std::string& reason) {
  return std::make_unique<PythonRuntime>(model, threads, reason);
}

std::unique_ptr<OnnxRuntime> onnx_runtime(const std::string& model, int threads,
                                          const std::vector<std::string>& libraries) {
  std::string reason;
  try {
    return onnx_runtime_in_process(model, threads, libraries);
  } catch (const OnnxRuntimeMissing& missing) {
    reason = missing.what();
  }
  try {
    return onnx_runtime_of_python(model, threads, reason);
  } catch (const OnnxRuntimeMissing&) {
    fail<OnnxRuntimeMissing>(
        "{} needs libonnxruntime (Debian 13: libonnxruntime-dev) or python3 with onnxruntime "
        "and NumPy: {}",
        to_string_view(onnx_runtime_level), reason);
  }
}

}  // namespace qtape
