// What is kept of every exchange: two files a call in the campaign's folder (docs/formats/llm.md).
// The request is written before the intent is committed, the reply when the tries are over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "attune/llm/client.h"
#include "attune/llm/profile.h"

namespace attune::llm {

// How a body was rendered, so that a recording can render the next one alike.
struct WireForm {
  Api api = Api::kOpenAiChat;
  Output output = Output::kTools;
  std::string cap_field = "max_tokens";
  bool strict = true;
};

class Exchanges {
 public:
  // An empty folder keeps nothing.
  explicit Exchanges(std::string folder) : folder_(std::move(folder)) {}

  // Again with the same bytes is fine; with others it is kCorrupt.
  Status KeepRequest(const std::string& call, const Prepared& prepared, const WireForm& form);
  Result<Prepared> Request(const std::string& call) const;
  Result<WireForm> Form(const std::string& call) const;
  Status KeepReply(const std::string& call, const std::vector<Exchange::Try>& tries,
                   const Turn& turn);
  // nullopt: none was kept.
  Result<std::optional<Exchange>> Reply(const std::string& call) const;
  // Calls whose request is kept, and of them those with a reply, in the order of their numbers.
  Result<std::vector<std::string>> Calls(bool answered) const;

 private:
  std::string Path(const std::string& call, std::string_view what) const;
  std::string folder_;
};

// "q001": a letter and digits, so that no name leaves the folder.
bool IsCallId(std::string_view call);

}  // namespace attune::llm
