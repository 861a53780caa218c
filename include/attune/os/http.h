// One HTTP exchange at a time, with every bound that an unattended program needs: no redirect, a
// cap on the body, time limits, a stop in the middle. Waiting and trying again are the caller's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "attune/base/result.h"
#include "attune/base/units.h"

namespace attune::os {

struct HttpRequest {
  std::string method = "POST";  // POST or GET
  std::string url;              // http or https
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  std::string ca_file;  // empty: the system's authorities
  Millis connect_timeout{10'000};
  Millis stall_timeout{600'000};  // no byte for so long; a model may think for minutes
  Millis timeout{900'000};        // all of it
  std::int64_t max_body = 8 << 20;
  bool compressed = true;         // ask for gzip and unpack it; false: "identity"
  std::function<bool()> go_on{};  // called about once a second; false ends it. May be empty
};

struct HttpReply {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;                                          // unpacked
  Millis elapsed{0};

  std::optional<std::string> Header(std::string_view lower_name) const;  // the last one of a name
};

enum class HttpTrouble {
  kConnect,      // name not found, refused, unreachable: nothing was sent
  kTls,          // handshake failed
  kCertificate,  // the other side is not who it should be
  kTimeout,      // connect, stall or total
  kReset,        // closed or garbled before the reply was whole
  kTooLarge,     // body or headers above their caps
  kEncoding,     // says it is compressed and is not
  kUrl,          // not a URL of ours
  kStopped,      // go_on said so
  kInternal,     // out of memory, the library
};
struct HttpFailure {
  HttpTrouble trouble = HttpTrouble::kInternal;
  std::string detail;  // one line
  bool sent = true;    // the request may have reached the server
};
using HttpOutcome = std::variant<HttpReply, HttpFailure>;

class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  virtual HttpOutcome Perform(const HttpRequest& request) = 0;
};

// libcurl. Proxies come from https_proxy, http_proxy and no_proxy as libcurl reads them; none is
// asked for this machine itself.
std::unique_ptr<HttpTransport> MakeHttpTransport();

// Where a request goes and whom a key is meant for. Host in lower case, port filled in.
struct Origin {
  std::string scheme, host;
  int port = 0;
  bool operator==(const Origin&) const = default;
  std::string Text() const;  // "https://host:443"
  bool IsLoopback() const;   // localhost, 127.0.0.0/8, ::1
};
// kInvalidInput: no http or https URL, a user or password in it, a fragment or control character.
Result<Origin> OriginOf(const std::string& url);

}  // namespace attune::os
