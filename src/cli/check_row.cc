#include "check_row.h"

#include "exit_code.h"
#include "json_out.h"

namespace attune::cli {

CheckRow OkRow(std::string what, std::string text) {
  return {"ok", std::move(what), std::move(text), "", kExitDone, ""};
}

CheckRow WarnRow(std::string what, std::string text, std::string help) {
  return {"warn", std::move(what), std::move(text), std::move(help), kExitDone, ""};
}

CheckRow FailedRow(int code, std::string what, const Error& error) {
  return {"FAIL", std::move(what), error.message, error.help, code, ""};
}

CheckRow SkipRow(std::string what, std::string text) {
  return {"skip", std::move(what), std::move(text), "", kExitDone, ""};
}

CheckRow WithFix(CheckRow row, std::string command) {
  row.fix = std::move(command);
  return row;
}

int WorstCode(const std::vector<CheckRow>& rows) {
  int worst = kExitDone;
  for (const CheckRow& row : rows) {
    const bool worse = worst == kExitDone || row.code == kExitUsage ||
                       (row.code == kExitFailure && worst == kExitNoLaunch);
    if (row.code != kExitDone && worse) worst = row.code;
  }
  return worst;
}

std::string JsonOf(const CheckRow& row) {
  JsonOut check("");
  check.Text("state", row.state == "FAIL" ? "fail" : row.state);
  check.Bool("ok", row.state != "FAIL");
  check.Text("what", row.what);
  check.Text("text", row.text);
  check.Text("help", row.help);
  check.Text("fix", row.fix);
  return check.Take();
}

}  // namespace attune::cli
