#include "client/cli/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lorsa::cli {
namespace {

TEST(TableTest, ColumnsAreAlignedAndLinesHaveNoSpacesAtTheEnd) {
  Table table({"NAME", ">SIZE", "NOTE"});
  table.AddRow({"a", "1,000", ""});
  table.AddRow({"größer", "2", "last"});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(),
            "NAME     SIZE  NOTE\n"
            "a       1,000\n"
            "größer      2  last\n");
}

TEST(TableTest, WithoutHeadersThereIsNoHeaderLineAndCellsArePrintable) {
  Table table;
  table.AddRow({"state", "RUN\x1b[2J"});
  table.AddRow({"loss"});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(), "state  RUN?[2J\nloss\n");
}

}  // namespace
}  // namespace lorsa::cli
