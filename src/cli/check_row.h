// One line of `attune doctor`, or of what a launcher said when it was asked.
#pragma once

#include <string>
#include <vector>

#include "attune/base/result.h"

namespace attune::cli {

struct CheckRow {
  std::string state;  // ok | warn | FAIL | skip
  std::string what, text, help;
  int code = 0;          // of a failure: what the command exits with
  std::string fix = {};  // a shell command that mends it or shows more of it
};
CheckRow OkRow(std::string what, std::string text);
CheckRow WarnRow(std::string what, std::string text, std::string help);
CheckRow FailedRow(int code, std::string what, const Error& error);
CheckRow SkipRow(std::string what, std::string text);
CheckRow WithFix(CheckRow row, std::string command);
// Wrong input before a broken machine before a job that cannot start.
int WorstCode(const std::vector<CheckRow>& rows);
std::string JsonOf(const CheckRow& row);

}  // namespace attune::cli
