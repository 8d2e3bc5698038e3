#include "trainer/lorsa/tensor_file.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace lorsa::trainer {
namespace {

struct Dtype {
  const char* name;
  at::ScalarType type;
};

constexpr std::array<Dtype, 9> kDtypes = {{{"F64", at::kDouble},
                                           {"F32", at::kFloat},
                                           {"F16", at::kHalf},
                                           {"BF16", at::kBFloat16},
                                           {"I64", at::kLong},
                                           {"I32", at::kInt},
                                           {"I16", at::kShort},
                                           {"U8", at::kByte},
                                           {"BOOL", at::kBool}}};

absl::StatusOr<at::ScalarType> TypeNamed(absl::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (name == dtype.name) return dtype.type;
  }
  return absl::InvalidArgumentError(absl::StrCat("dtype ", name, " is not supported"));
}

std::string NameOf(at::ScalarType type) {
  for (const Dtype& dtype : kDtypes) {
    if (type == dtype.type) return dtype.name;
  }
  return "";  // WriteSafetensors refuses it.
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace

absl::StatusOr<TensorFile> TensorFile::Open(FileSystem& fs, const std::string& path) {
  LORSA_ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(fs, path));
  return TensorFile(path, std::move(reader));
}

absl::StatusOr<at::Tensor> TensorFile::Read(const std::string& name) const {
  LORSA_ASSIGN_OR_RETURN(const SafetensorsEntry entry, reader_.Find(name));
  LORSA_ASSIGN_OR_RETURN(const at::ScalarType type, TypeNamed(entry.dtype));
  at::Tensor tensor = at::empty(entry.shape, at::dtype(type));
  LORSA_RETURN_IF_ERROR(reader_.Read(
      entry, absl::MakeSpan(static_cast<char*>(tensor.mutable_data_ptr()), entry.bytes)));
  return tensor;
}

absl::StatusOr<at::Tensor> TensorFile::Read(const std::string& name, at::ScalarType dtype,
                                            absl::Span<const int64_t> shape) const {
  LORSA_ASSIGN_OR_RETURN(const SafetensorsEntry entry, reader_.Find(name));
  if (entry.dtype != NameOf(dtype) ||
      !std::equal(shape.begin(), shape.end(), entry.shape.begin(), entry.shape.end())) {
    return absl::DataLossError(absl::StrCat(path_, " holds ", name, " as ", entry.dtype,
                                            ShapeText(entry.shape), "; expected ", NameOf(dtype),
                                            ShapeText(shape), "."));
  }
  return Read(name);
}

absl::Status WriteTensorFile(FileSystem& fs, const std::string& path, const NamedTensors& tensors) {
  std::vector<at::Tensor> on_cpu;  // Keeps the bytes alive until they are written.
  std::vector<SafetensorsTensor> items;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor& t = on_cpu.emplace_back(tensor.to(at::kCPU).contiguous());
    items.push_back(
        {.name = name,
         .dtype = NameOf(t.scalar_type()),
         .shape = t.sizes().vec(),
         .data = absl::MakeSpan(static_cast<const char*>(t.const_data_ptr()), t.nbytes())});
  }
  return WriteSafetensors(fs, path, std::move(items));
}

}  // namespace lorsa::trainer
