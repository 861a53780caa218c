#include "sigv4.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "attune/base/text.h"

namespace attune::llm {
namespace {

std::string Sha256Bytes(std::string_view text) {
  const std::string hex = Sha256Hex(text);
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  }
  return bytes;
}

std::string Hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

// "20261130T200000Z" of an RFC 3339 time.
std::string BasicTime(Instant now) {
  std::string out;
  for (const char c : Rfc3339(Instant{now.ms / 1000 * 1000})) {
    if (c != '-' && c != ':') out += c;
  }
  return out;
}

std::string EncodePath(std::string_view path) {
  std::vector<std::string> segments;
  for (const std::string_view segment : Split(path, '/')) segments.push_back(UriEncode(segment));
  return Join(segments, "/");
}

}  // namespace

std::string UriEncode(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string HmacSha256(std::string_view key, std::string_view message) {
  constexpr std::size_t kBlock = 64;
  std::string padded(key.size() > kBlock ? Sha256Bytes(key) : std::string(key));
  padded.resize(kBlock, '\0');
  std::string inner = padded, outer = padded;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return Sha256Bytes(outer + Sha256Bytes(inner + std::string(message)));
}

std::vector<std::pair<std::string, std::string>> Sign(const SignedRequest& request,
                                                      const AwsKey& key, Instant now) {
  const std::string time = BasicTime(now);
  const std::string day = time.substr(0, 8);
  std::vector<std::pair<std::string, std::string>> added = {{"x-amz-date", time}};
  if (!key.session_token.empty()) added.emplace_back("x-amz-security-token", key.session_token);

  std::map<std::string, std::string> canonical = {{"host", request.host}};
  for (const auto& [name, value] : request.headers) canonical[name] = std::string(Trim(value));
  for (const auto& [name, value] : added) canonical[name] = std::string(Trim(value));
  std::string lines, names;
  for (const auto& [name, value] : canonical) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string path = request.encode_path_again ? EncodePath(request.path) : request.path;
  const std::string text = request.method + "\n" + path + "\n" + request.query + "\n" + lines +
                           "\n" + names + "\n" + Sha256Hex(request.body);
  const std::string scope =
      fmt::format("{}/{}/{}/aws4_request", day, request.region, request.service);
  const std::string to_sign = "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + Sha256Hex(text);

  std::string signing = HmacSha256("AWS4" + key.secret, day);
  for (const std::string_view part :
       {std::string_view(request.region), std::string_view(request.service),
        std::string_view("aws4_request")}) {
    signing = HmacSha256(signing, part);
  }
  added.emplace_back("Authorization",
                     fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, "
                                 "Signature={}",
                                 key.access_key, scope, names, Hex(HmacSha256(signing, to_sign))));
  return added;
}

}  // namespace attune::llm
