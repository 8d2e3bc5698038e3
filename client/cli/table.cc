#include "client/cli/table.h"

#include <algorithm>
#include <utility>

#include "client/cli/format.h"

namespace lorsa::cli {
namespace {

constexpr char kGap[] = "  ";

// Columns that UTF-8 text takes, counted as code points.
size_t Columns(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

Table::Table(std::vector<std::string> headers) {
  for (std::string& header : headers) {
    right_.push_back(header.starts_with('>'));
    if (right_.back()) header.erase(0, 1);
  }
  if (!headers.empty()) rows_.push_back(std::move(headers));
}

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

void Table::Print(std::ostream& out) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Columns(row[i]));
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - Columns(row[i]), ' ');
      const bool right = i < right_.size() && right_[i];
      line += (i > 0 ? kGap : "") + (right ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  }
}

}  // namespace lorsa::cli
