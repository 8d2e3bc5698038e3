// Tensors to and from safetensors files.
#ifndef LORSA_TRAINER_LORSA_TENSOR_FILE_H_
#define LORSA_TRAINER_LORSA_TENSOR_FILE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/file_system.h"
#include "base/safetensors.h"

namespace lorsa::trainer {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A file opened for reading; errors are those of SafetensorsReader.
class TensorFile {
 public:
  static absl::StatusOr<TensorFile> Open(FileSystem& fs, const std::string& path);

  const std::map<std::string, SafetensorsEntry>& entries() const { return reader_.entries(); }
  bool Has(const std::string& name) const { return entries().contains(name); }

  // A tensor on the CPU, in its own dtype. Takes no more memory than the file has bytes.
  absl::StatusOr<at::Tensor> Read(const std::string& name) const;
  // The same, or DATA_LOSS, before memory is taken, unless it has this dtype and shape.
  absl::StatusOr<at::Tensor> Read(const std::string& name, at::ScalarType dtype,
                                  absl::Span<const int64_t> shape) const;

 private:
  TensorFile(std::string path, SafetensorsReader reader)
      : path_(std::move(path)), reader_(std::move(reader)) {}

  std::string path_;
  SafetensorsReader reader_;
};

// Writes `path` and fsyncs it; see WriteSafetensors.
absl::Status WriteTensorFile(FileSystem& fs, const std::string& path, const NamedTensors& tensors);

}  // namespace lorsa::trainer

#endif  // LORSA_TRAINER_LORSA_TENSOR_FILE_H_
