#include <fmt/core.h>

#include <algorithm>

#include "attune/base/text.h"
#include "attune/os/http.h"

namespace attune::os {
namespace {

std::string Lower(std::string_view s) {
  std::string out(s);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return out;
}

tl::unexpected<Error> Bad(std::string_view why) {
  return Fail(ErrorCode::kInvalidInput, fmt::format("not a usable endpoint: {}", why),
              "for example https://api.example.org/v1, without user, password or fragment");
}

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
}

}  // namespace

std::string Origin::Text() const { return fmt::format("{}://{}:{}", scheme, host, port); }

bool Origin::IsLoopback() const {
  if (host == "localhost" || host == "[::1]") return true;
  // Four numbers, the first 127: a name that only begins like that is somebody else's.
  const std::vector<std::string_view> parts = Split(host, '.');
  return parts.size() == 4 && parts.front() == "127" &&
         std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           const auto number = ParseInt(part);
           return number && *number >= 0 && *number <= 255;
         });
}

Result<Origin> OriginOf(const std::string& url) {
  if (!IsPrintableAscii(url) || url.find(' ') != std::string::npos || url.size() > 2000) {
    return Bad("it holds spaces or characters outside ASCII, or is too long");
  }
  const std::size_t colon = url.find("://");
  if (colon == std::string::npos) return Bad("no http:// or https:// in front");
  Origin origin;
  origin.scheme = Lower(url.substr(0, colon));
  if (origin.scheme != "http" && origin.scheme != "https") {
    return Bad(fmt::format("scheme '{}'", origin.scheme));
  }
  if (url.find_first_of("#\\") != std::string::npos) return Bad("a fragment or a backslash");
  std::string_view authority = std::string_view(url).substr(colon + 3);
  authority = authority.substr(0, authority.find_first_of("/?"));
  if (authority.find('@') != std::string_view::npos) return Bad("a user or password in it");
  origin.port = origin.scheme == "https" ? 443 : 80;
  std::string_view host = authority;
  std::size_t port_at = authority.rfind(':');
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) return Bad("an unclosed [");
    host = authority.substr(0, close + 1);
    port_at = close + 1 < authority.size() ? close + 1 : std::string_view::npos;
    if (port_at != std::string_view::npos && authority[port_at] != ':') return Bad("text after ]");
  } else if (port_at != std::string_view::npos) {
    host = authority.substr(0, port_at);
  }
  if (port_at != std::string_view::npos) {
    const std::optional<std::int64_t> port = ParseInt(authority.substr(port_at + 1));
    if (!port || *port < 1 || *port > 65535) return Bad("its port is no number from 1 to 65535");
    origin.port = static_cast<int>(*port);
  }
  origin.host = Lower(host);
  const std::string_view inner = std::string_view(origin.host);
  const bool fine =
      origin.host.starts_with('[')
          ? std::all_of(inner.begin() + 1, inner.end() - 1,
                        [](char c) {
                          return (c >= 'a' && c <= 'f') || (c >= '0' && c <= '9') || c == ':' ||
                                 c == '.';
                        })
          : !inner.empty() && std::all_of(inner.begin(), inner.end(), IsHostCharacter);
  if (!fine) return Bad("its host is empty or holds strange characters");
  return origin;
}

std::optional<std::string> HttpReply::Header(std::string_view lower_name) const {
  for (auto it = headers.rbegin(); it != headers.rend(); ++it) {
    if (it->first == lower_name) return it->second;
  }
  return std::nullopt;
}

}  // namespace attune::os
