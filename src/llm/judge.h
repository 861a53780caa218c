// What one try came to: the answer, or whether and when to try again. Pure.
#pragma once

#include <optional>
#include <variant>

#include "attune/base/random.h"
#include "attune/llm/profile.h"
#include "wire.h"

namespace attune::llm {

struct Judged {
  Turn turn;           // what it is if no further try is made
  bool again = false;  // the same bytes may be sent again
  // How many tries may end like this one; 0: as many as there are.
  int most = 0;
  std::optional<Millis> wait{};  // what the server asks for
  bool plain = false;            // next time without compression
  // The provider may have billed a try of which no token count came.
  bool may_be_billed = false;
  bool has_usage = false;
};
Judged JudgeTry(Api api, const os::HttpOutcome& outcome, const Expected& expected);

// How long to wait after the `n`th try (from 1): the server's wish within its cap, else a doubling
// back-off with full jitter; never less than Patience::least_wait.
Millis WaitAfter(int n, std::optional<Millis> asked, const Patience& patience, Random& random);

// What `usage` costs at `price`, in whole micro-dollars, rounded up.
std::int64_t CostOf(const Usage& usage, const Price& price);
// The most that a body of so many bytes with so long an answer can cost.
std::int64_t BoundOf(std::size_t body_bytes, int max_tokens, const Price& price);

// The server saw far fewer tokens than were sent: it cut the prompt and said nothing.
bool LooksCut(std::int64_t prompt_bytes, std::int64_t prompt_tokens);

}  // namespace attune::llm
