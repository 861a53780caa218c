// Takes secrets out of text before it reaches a sink: a log, a prompt, a stored exchange, an error.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune {

class Redactor {
 public:
  // `value`, its base64 form and its percent-encoded form become "[redacted:name]" wherever they
  // stand. Values shorter than 6 bytes are no secrets and are left out: they would eat words.
  void Know(std::string_view name, std::string_view value);
  // Known values, then what has the form of a key: "sk-...", "hf_...", "AKIA...", "Bearer ...",
  // "user:password@" in a URL, a private key block. Words of the trade ("use_cls_token",
  // "task-...") stay.
  std::string operator()(std::string_view text) const;

 private:
  std::vector<std::pair<std::string, std::string>> known_;  // what to replace, with what
};

// A value in the form of a well-known kind of secret; the forms above, without a Redactor.
bool LooksLikeSecret(std::string_view value);

}  // namespace attune
