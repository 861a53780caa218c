#include "attune/base/redact.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace attune {
namespace {

constexpr std::size_t kShortestSecret = 6;

bool IsKeyCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

// How the keys of well-known services begin, and how many key characters follow at least.
struct KeyForm {
  std::string_view prefix;
  std::size_t more;
};
constexpr std::array<KeyForm, 18> kKeyForms = {{{"sk-", 20},
                                                {"hf_", 20},
                                                {"ghp_", 20},
                                                {"gho_", 20},
                                                {"ghs_", 20},
                                                {"github_pat_", 20},
                                                {"glpat-", 16},
                                                {"AKIA", 16},
                                                {"ASIA", 16},
                                                {"AIza", 30},
                                                {"xoxb-", 10},
                                                {"xoxp-", 10},
                                                {"xoxa-", 10},
                                                {"ya29.", 20},
                                                {"nvapi-", 20},
                                                {"wandb_v1_", 20},
                                                {"gsk_", 20},
                                                {"Bearer ", 16}}};

struct Span {
  std::size_t begin = 0, end = 0;
};

std::optional<Span> KnownKey(std::string_view text, std::size_t from) {
  std::optional<Span> first;
  for (const KeyForm& form : kKeyForms) {
    for (std::size_t at = text.find(form.prefix, from); at != std::string_view::npos;
         at = text.find(form.prefix, at + 1)) {
      if (first && at >= first->begin) break;
      if (at > 0 && IsKeyCharacter(text[at - 1])) continue;  // "task-..." is no "sk-..."
      const std::string_view rest = text.substr(at + form.prefix.size());
      const auto end = std::find_if_not(rest.begin(), rest.end(), IsKeyCharacter);
      const std::string_view body = rest.substr(0, static_cast<std::size_t>(end - rest.begin()));
      const bool has_digit =
          std::any_of(body.begin(), body.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (body.size() < form.more || !has_digit) continue;
      first = Span{at, at + form.prefix.size() + body.size()};
      break;
    }
  }
  return first;
}

// scheme://user:password@host; the span is what stands before the '@'.
std::optional<Span> UrlPassword(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find("://", from); at != std::string_view::npos;
       at = text.find("://", at + 1)) {
    std::string_view authority = text.substr(at + 3);
    authority = authority.substr(0, authority.find_first_of("/?# \t\r\n\"'"));
    const std::size_t host = authority.rfind('@');
    if (host == std::string_view::npos) continue;
    const std::size_t colon = authority.substr(0, host).find(':');
    if (colon == std::string_view::npos || colon + 1 >= host) continue;
    return Span{at + 3, at + 3 + host};
  }
  return std::nullopt;
}

// From its first line to its last; what is cut at either end counts to that end of the text.
std::optional<Span> PrivateKey(std::string_view text, std::size_t from) {
  const std::string_view mark = "PRIVATE KEY-----";
  const std::size_t begin = text.find("-----BEGIN ", from);
  const std::size_t close = text.find("-----END ", from);
  if (close < begin) {
    const std::size_t last = text.substr(0, close + 40).find(mark, close);
    if (last != std::string_view::npos) return Span{from, last + mark.size()};
  }
  if (begin == std::string_view::npos) return std::nullopt;
  const std::size_t head = text.find(mark, begin);
  if (head == std::string_view::npos) return std::nullopt;
  const std::size_t tail = text.find(mark, head + mark.size());
  return Span{begin, tail == std::string_view::npos ? text.size() : tail + mark.size()};
}

// A JSON web token: three parts, the first two of them objects.
std::optional<Span> WebToken(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find("eyJ", from); at != std::string_view::npos;
       at = text.find("eyJ", at + 1)) {
    if (at > 0 && IsKeyCharacter(text[at - 1])) continue;
    std::size_t end = at;
    while (end < text.size() && (IsKeyCharacter(text[end]) || text[end] == '.')) ++end;
    if (text.substr(at, end - at).find(".eyJ") != std::string_view::npos) return Span{at, end};
  }
  return std::nullopt;
}

std::optional<Span> NextSecret(std::string_view text, std::size_t from) {
  std::optional<Span> first;
  for (const auto& found : {KnownKey(text, from), UrlPassword(text, from), PrivateKey(text, from),
                            WebToken(text, from)}) {
    if (found && (!first || found->begin < first->begin)) first = found;
  }
  return first;
}

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      word = word << 8U | (k < have ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= have ? kDigits[word >> (18U - 6U * k) & 63U] : '=';
    }
  }
  return out;
}

std::string PercentEncoded(std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (IsKeyCharacter(c) || c == '.' || c == '~') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4U];
      out += kHex[byte & 15U];
    }
  }
  return out;
}

void ReplaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

void Redactor::Know(std::string_view name, std::string_view value) {
  if (value.size() < kShortestSecret) return;
  const std::string mark = "[redacted:" + std::string(name) + "]";
  // Whole, without its padding, and the digits that do not depend on what follows the value.
  std::string whole = Base64(value);
  std::string bare = whole.substr(0, whole.find('='));
  std::string inner = Base64(value.substr(0, value.size() / 3 * 3));
  for (std::string form : {std::string(value), std::move(whole), std::move(bare), std::move(inner),
                           PercentEncoded(value)}) {
    const auto same = [&](const auto& pair) { return pair.first == form; };
    if (std::none_of(known_.begin(), known_.end(), same)) known_.emplace_back(form, mark);
  }
  // A longer value that holds a shorter one goes first.
  std::stable_sort(known_.begin(), known_.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

std::string Redactor::operator()(std::string_view text) const {
  std::string out(text);
  for (const auto& [value, mark] : known_) ReplaceAll(out, value, mark);
  constexpr std::string_view kMark = "[redacted]";
  std::size_t from = 0;
  while (const std::optional<Span> secret = NextSecret(out, from)) {
    out.replace(secret->begin, secret->end - secret->begin, kMark);
    from = secret->begin + kMark.size();
  }
  return out;
}

bool LooksLikeSecret(std::string_view value) { return NextSecret(value, 0).has_value(); }

}  // namespace attune
