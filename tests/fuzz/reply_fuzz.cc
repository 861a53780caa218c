// Any bytes as a provider's reply: it is judged, bounded, and an action only when it is one clean
// call. First byte: which interface; second: status and content type; the rest is the body.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attune/base/check.h"
#include "attune/base/json_tree.h"
#include "attune/base/text.h"
#include "judge.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace attune;
  using namespace attune::llm;
  if (size < 2) return 0;
  constexpr std::array<Api, 3> kApis = {Api::kOpenAiChat, Api::kAnthropic, Api::kBedrock};
  constexpr std::array<int, 8> kStatuses = {200, 200, 200, 200, 400, 429, 500, 529};
  constexpr std::array<const char*, 3> kTypes = {"application/json", "text/event-stream",
                                                 "text/html"};
  os::HttpReply reply;
  reply.status = kStatuses[data[1] % kStatuses.size()];
  reply.headers = {{"content-type", kTypes[data[1] / 64 % kTypes.size()]}, {"retry-after", "1"}};
  reply.body.assign(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::vector<std::string> tools = {"propose", "stop"};
  for (const Output output : {Output::kTools, Output::kSchema}) {
    const Judged judged = JudgeTry(kApis[data[0] % kApis.size()], reply, {tools, 1000, output});
    const Turn& turn = judged.turn;
    if (turn.kind == TurnKind::kAction) {
      ATTUNE_CHECK(turn.tool == "propose" || turn.tool == "stop", "an action calls a known tool");
      const JsonReading read = ReadJson(turn.arguments, {});
      ATTUNE_CHECK(read.error.empty() && read.root.IsObject(), "its arguments are one object");
      ATTUNE_CHECK(reply.status == 200, "an error is no action");
      ATTUNE_CHECK(!judged.again, "an action is not asked for again");
    } else {
      ATTUNE_CHECK(turn.tool.empty() && turn.arguments.empty(), "what is no action has none");
      ATTUNE_CHECK(!turn.error.empty(), "what is no action says why");
    }
    ATTUNE_CHECK(turn.text.size() <= 4000, "text is bounded");
    ATTUNE_CHECK(turn.usage.in >= 0 && turn.usage.out >= 0, "tokens are counted from zero");
  }
  return 0;
}
