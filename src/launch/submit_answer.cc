#include "submit_answer.h"

#include "attune/base/text.h"

namespace attune::launch {

Result<SubmitAnswer> ReadSubmitAnswer(const os::CommandResult& answer, const Token& token) {
  const std::string why = EscapeForDisplay(Trim(answer.err), 1000);
  SubmitAnswer out;
  switch (answer.exit_code) {
    case 0:
      out.start = DecodeStart(answer.out);
      if (out.start && out.start->token != token.value) {
        out.start.reset();
      }
      out.otherwise = SubmitUnknown{"the wrapper's answer is no start record"};
      return out;
    case 10:
      out.otherwise = SubmitRefused{why};
      return out;
    case 11:
      return Fail(ErrorCode::kFull, why, "make room, then resume");
    case 12:
      return Fail(ErrorCode::kDenied, why);
    default:
      out.otherwise = SubmitUnknown{"the wrapper ended with code " +
                                    std::to_string(answer.exit_code) + ": " + why};
      return out;
  }
}

}  // namespace attune::launch
