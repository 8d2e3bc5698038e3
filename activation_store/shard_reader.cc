#include "activation_store/shard_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "activation_store/hdf5_library.h"
#include "base/status_macros.h"

namespace lorsa::store {
namespace {

std::optional<ElementType> ElementTypeOf(DataType type) {
  switch (type) {
    case DataType::kBFloat16:
      return ElementType::kBFloat16;
    case DataType::kFloat16:
      return ElementType::kFloat16;
    case DataType::kFloat32:
      return ElementType::kFloat32;
    default:
      return std::nullopt;
  }
}

// OK if the dataset called `name` has this type and these dims.
absl::Status Expect(const std::string& path, absl::string_view name, const DatasetReader& dataset,
                    DataType type, const std::vector<uint64_t>& dims) {
  const DatasetLayout& layout = dataset.layout();
  if (layout.type != type) {
    return DamagedFile(path, absl::StrCat("dataset '", name, "' is ", DataTypeName(layout.type),
                                          " instead of ", DataTypeName(type)));
  }
  if (layout.dims != dims) {
    return DamagedFile(
        path, absl::StrCat("dataset '", name, "' has the shape [", absl::StrJoin(layout.dims, ", "),
                           "] instead of [", absl::StrJoin(dims, ", "), "]"));
  }
  return absl::OkStatus();
}

}  // namespace

DataType DataTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kBFloat16:
      return DataType::kBFloat16;
    case ElementType::kFloat16:
      return DataType::kFloat16;
    case ElementType::kFloat32:
      return DataType::kFloat32;
  }
  return DataType::kFloat32;
}

absl::Status ShardShape::CheckFits(absl::string_view path, const ShardShape& set) const {
  if (context == set.context && d_model == set.d_model && element_type == set.element_type) {
    return absl::OkStatus();
  }
  return DamagedFile(
      path, absl::StrCat("holds ", ElementTypeName(element_type), " [", context, ", ", d_model,
                         "] sequences, but the set ", ElementTypeName(set.element_type), " [",
                         set.context, ", ", set.d_model, "]"));
}

ShardReader::ShardReader(std::string path, Hdf5Contents& contents)
    : path_(std::move(path)),
      set_attribute_(std::move(contents.string_attribute)),
      input_(std::move(contents.datasets["mhsa_input"])),
      output_(std::move(contents.datasets["mhsa_output"])),
      tokens_(std::move(contents.datasets["tokens"])),
      mask_(std::move(contents.datasets["mask"])) {}

absl::StatusOr<ShardReader::Opened> ShardReader::Open(FileSystem& fs, const std::string& path) {
  const Hdf5Request request = {.datasets = {"mhsa_input", "mhsa_output", "tokens", "mask"},
                               .string_attribute = kSetAttribute};
  LORSA_ASSIGN_OR_RETURN(Hdf5Contents contents, ReadHdf5Layout(fs, path, request));
  std::unique_ptr<ShardReader> shard(new ShardReader(path, contents));
  LORSA_RETURN_IF_ERROR(shard->CheckLayouts());
  return Opened{.shard = std::move(shard), .file = std::move(contents.file)};
}

absl::Status ShardReader::CheckLayouts() {
  const DatasetLayout& input = input_.layout();
  const std::optional<ElementType> type = ElementTypeOf(input.type);
  if (!type.has_value() || input.dims.size() != 3) {
    return DamagedFile(path_,
                       "dataset 'mhsa_input' is not bf16, fp16 or fp32 [sequences, context, "
                       "d_model]");
  }
  // Each dimension is below 2^62, so it fits an int64_t.
  shape_ = {.sequences = static_cast<int64_t>(input.dims[0]),
            .context = static_cast<int64_t>(input.dims[1]),
            .d_model = static_cast<int64_t>(input.dims[2]),
            .element_type = *type};
  if (shape_.sequences > kMaxShardSequences || shape_.context > kMaxContext ||
      shape_.d_model > kMaxDModel) {
    return DamagedFile(
        path_, absl::StrCat("dataset 'mhsa_input' has the shape [", absl::StrJoin(input.dims, ", "),
                            "], which is beyond the bounds of the format"));
  }
  const absl::Status bounds = CheckSequenceShape(shape_.context, shape_.d_model, *type);
  if (!bounds.ok()) return DamagedFile(path_, bounds.message());
  LORSA_RETURN_IF_ERROR(Expect(path_, "mhsa_output", output_, input.type, input.dims));
  const std::vector<uint64_t> positions = {input.dims[0], input.dims[1]};
  LORSA_RETURN_IF_ERROR(Expect(path_, "tokens", tokens_, DataType::kInt32, positions));
  return Expect(path_, "mask", mask_, DataType::kUInt8, positions);
}

uint64_t ShardReader::chunks() const {
  return input_.layout().chunks.size() + output_.layout().chunks.size() +
         tokens_.layout().chunks.size() + mask_.layout().chunks.size();
}

absl::Status ShardReader::Read(const ReadableFile& file, int64_t row, Sequence& out) const {
  const auto read = [&](absl::string_view name, const DatasetReader& dataset,
                        std::string& bytes) -> absl::Status {
    bytes.resize(dataset.row_bytes());
    const absl::Status status =
        dataset.ReadRow(file, static_cast<uint64_t>(row), absl::MakeSpan(bytes));
    if (status.ok() || !absl::IsDataLoss(status)) return status;
    return DamagedFile(path_, absl::StrCat("sequence ", row, " of '", name,
                                           "' cannot be read: ", status.message()));
  };
  LORSA_RETURN_IF_ERROR(read("mhsa_input", input_, out.mhsa_input));
  LORSA_RETURN_IF_ERROR(read("mhsa_output", output_, out.mhsa_output));
  LORSA_RETURN_IF_ERROR(read("tokens", tokens_, out.tokens));
  return read("mask", mask_, out.mask);
}

}  // namespace lorsa::store
