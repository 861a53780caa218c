// Errors of the outside world (files, scheduler, HTTP, user input). Domain outcomes (refused, tie,
// out of memory) are ordinary values, bugs abort (check.h): the three are never mixed.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace attune {

// A code exists only if some caller reacts to it; everything else is in the message.
enum class ErrorCode {
  kInvalidInput,  // the user's or a colleague's text is wrong: exit 2
  kNotFound,
  kUnavailable,  // try again later (lock held, scheduler down): exit 75
  kTimeout,
  kCorrupt,      // a file of ours is not what we wrote
  kNewerFormat,  // written by a newer attune: refused and left untouched
  kDenied,       // secret missing or refused, permission: exit 4
  kFull,         // disk or database full
  kInternal,     // unexpected failure of the system: exit 1
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what, where, why
  std::string help;     // what to do; may be empty
};

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};
using Status = Result<void>;

inline tl::unexpected<Error> Fail(ErrorCode code, std::string message, std::string help = {}) {
  return tl::unexpected<Error>(Error{code, std::move(message), std::move(help)});
}
inline tl::unexpected<Error> Fail(Error error) { return tl::unexpected<Error>(std::move(error)); }
// Adds what this layer was doing: "reading recipe.yaml: permission denied".
inline tl::unexpected<Error> Fail(std::string doing, Error error) {
  error.message = std::move(doing) + ": " + error.message;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace attune

#define ATTUNE_CONCAT_INNER(a, b) a##b
#define ATTUNE_CONCAT(a, b) ATTUNE_CONCAT_INNER(a, b)
// ATTUNE_TRY(auto id, launcher.Submit(spec)): returns early with the error, else declares `id`.
#define ATTUNE_TRY(declaration, expression)                                         \
  auto ATTUNE_CONCAT(attune_try_, __LINE__) = (expression);                         \
  if (!ATTUNE_CONCAT(attune_try_, __LINE__)) {                                      \
    return ::attune::Fail(std::move(ATTUNE_CONCAT(attune_try_, __LINE__).error())); \
  }                                                                                 \
  declaration = std::move(*ATTUNE_CONCAT(attune_try_, __LINE__))
// The same for a Status.
#define ATTUNE_RETURN_IF_ERROR(expression)                   \
  if (auto attune_status = (expression); !attune_status) {   \
    return ::attune::Fail(std::move(attune_status.error())); \
  }
