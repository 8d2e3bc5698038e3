// A table of text in aligned columns.
#ifndef LORSA_CLIENT_CLI_TABLE_H_
#define LORSA_CLIENT_CLI_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

namespace lorsa::cli {

class Table {
 public:
  // A header that begins with '>' heads a column aligned to the right. No headers: no header line.
  explicit Table(std::vector<std::string> headers = {});

  // Rows may be shorter than others. Cells are made printable (format.h) and should have one line.
  void AddRow(std::vector<std::string> cells);
  void Print(std::ostream& out) const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;  // the headers first, if any
};

}  // namespace lorsa::cli

#endif  // LORSA_CLIENT_CLI_TABLE_H_
